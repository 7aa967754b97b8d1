/* Starts the explorers that stand in a notebook's outputs. */

import { explore } from "./explorer.js";

for (const root of document.querySelectorAll(".attention-explorer:not([data-ready])")) {
  root.querySelector(".fallback")?.remove();
  explore(root, JSON.parse(root.querySelector(".attention-data").textContent));
}
