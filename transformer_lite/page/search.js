/* The search: its settings, the tree of its steps, and the outputs that it finished. */

import { button, checkbox, make } from "./dom.js";
import { TYPING, readable } from "./sentence.js";

const COLUMN = 100; // of the tree, in pixels
const ROW = 26;
const LONGEST = 9; // letters that are shown of a piece
const FINISHED = 5; // finished outputs that are listed

export function search(root, store, change) {
  make(root, "h3", {}, "The search");
  const controls = make(root, "div", { class: "controls" });
  slider("Beam size", "beamSize", 1, 8, 1);
  slider("Length penalty α", "alpha", 0, 2, 0.1);
  slider("Temperature", "temperature", 0.1, 2, 0.1);
  const isDrawn = checkbox(controls, "Draw each piece at random instead", (on) =>
    change({ seed: on ? 1 : null }));
  const again = button(controls, "Draw again", () =>
    change({ seed: store.state.settings.seed + 1 }));
  const tree = make(root, "div", {
    class: "tree", tabindex: 0, role: "region", "aria-label": "Search tree",
  });
  make(root, "p", { class: "hint" },
    "Finished outputs, with the logarithm of their probability over the length penalty:");
  const finished = make(root, "ol", { class: "finished", "aria-label": "Finished outputs" });

  function slider(title, name, min, max, step) {
    const label = make(controls, "label", { class: "slider" }, `${title} `);
    const value = make(label, "span", { "aria-hidden": "true" });
    const input = make(label, "input", { type: "range", min, max, step });
    input.addEventListener("input", () => change({ [name]: Number(input.value) }, TYPING));
    store.watch(["settings"], ({ settings }) => {
      input.value = settings[name];
      value.textContent = settings[name];
      input.disabled = settings.seed !== null && name !== "temperature";
    });
  }

  store.watch(["settings"], ({ settings }) => {
    isDrawn.checked = settings.seed !== null;
    again.hidden = settings.seed === null;
  });
  store.watch(["answer"], ({ answer }) => {
    const { done, search: steps, result } = answer;
    if (!done && !steps.length) return; // the tree before stays
    tree.textContent = "";
    if (steps.length) drawTree(tree, steps, result?.steps.map(({ id }) => id) ?? []);
    if (steps.length && !result) return;
    finished.textContent = "";
    const outputs = steps.flatMap(({ ended }) => ended)
      .sort((one, other) => other.score - one.score);
    for (const { score, path } of outputs.slice(0, FINISHED)) {
      const words = readable(path.slice(0, -1).map(({ piece }) => piece));
      make(finished, "li", {}, `${score.toFixed(2).replace("-", "\u2212")}  ${words}`);
    }
  });
}

/* Draws a column for each step, and in it a row for each output. `best` are the ids of
   the search's result; while it goes on there are none. */
function drawTree(tree, steps, best) {
  const rows = Math.max(...steps.map(({ goingOn, ended }) => goingOn.length + ended.length));
  const [width, height] = [(steps.length + 1) * COLUMN, rows * ROW];
  const picture = make(tree, "svg", {
    width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `${steps.length} steps, at most ${rows} outputs in each`,
  });
  const write = (column, row, kind, piece) => {
    const shown = piece.length > LONGEST ? `${piece.slice(0, LONGEST - 1)}…` : piece;
    const place = { x: column * COLUMN + 3, y: (row + 0.5) * ROW + 4 };
    return make(picture, "text", { class: kind, ...place }, shown);
  };
  let ends = [write(0, 0, best.length ? "best" : "", "BEGIN")].map(rightEnd);
  steps.forEach(({ goingOn, ended }, step) => {
    const texts = [...goingOn, ...ended].map(({ piece, parent, path }, row) => {
      const isBest = path.every(({ id }, i) => id === best[i]);
      const kind = `${row < goingOn.length ? "" : "ended"} ${isBest ? "best" : ""}`;
      const [x, y] = [(step + 1) * COLUMN, (row + 0.5) * ROW];
      const [from, middle] = [(parent + 0.5) * ROW, (ends[parent] + x) / 2];
      const d = `M${ends[parent]} ${from}C${middle} ${from} ${middle} ${y} ${x} ${y}`;
      picture.prepend(make(null, "path", { class: kind, d })); // below all texts
      return write(step + 1, row, kind, kind.startsWith("ended") ? "END" : piece);
    });
    ends = texts.map(rightEnd);
  });
  tree.scrollLeft = best.length ? 0 : width;
}

const rightEnd = (text) => Number(text.getAttribute("x")) + text.getComputedTextLength() + 4;
