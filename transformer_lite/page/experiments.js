/* What the reader can take away from the model. */

import { headName } from "./attention.js";
import { button, checkbox, make } from "./dom.js";
import { unchanged } from "./state.js";

export function experiments(root, store, change) {
  make(root, "h2", {}, "Take a part away");
  const controls = make(root, "div", { class: "controls" });
  const positions = checkbox(controls, "without the positional encoding (Section 3.5)", (on) =>
    change({ positions: !on }));
  const scaled = checkbox(controls, "without the division by √dₖ (Section 3.2.1)", (on) =>
    change({ scaled: !on }));
  const heads = make(controls, "ul", { class: "off", "aria-label": "Heads that are switched off" });
  button(controls, "Put everything back", () => {
    const { model, settings } = store.state;
    change({ ...unchanged(model), text: settings.text });
  });

  store.watch(["settings"], ({ settings }) => {
    positions.checked = !settings.positions;
    scaled.checked = !settings.scaled;
    heads.textContent = "";
    for (const place of settings.off) {
      const item = make(heads, "li", {}, `without ${headName(place)} `);
      button(item, "Switch on", () =>
        change({ off: settings.off.filter((other) => other !== place) }),
        { "aria-label": `Switch on ${headName(place)}` });
    }
  });
}
