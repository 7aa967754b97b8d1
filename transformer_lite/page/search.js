/* The search: its settings, the tree of its steps, and the outputs that it finished. */

import { button, checkbox, make } from "./dom.js";
import { t } from "./messages.js";
import { TYPING, readable } from "./sentence.js";

const COLUMN = 100; // of the tree, in pixels
const ROW = 26;
const GAP = 3; // between a text and the lines to it and from it
const LONGEST = 9; // letters that are shown of a piece
const FINISHED = 5; // finished outputs that are listed

export function search(root, store, change) {
  make(root, "h2", {}, t`The search`);
  const controls = make(root, "div", { class: "controls" });
  for (const [title, name, min, max, step] of [
    [t`Beam size`, "beamSize", 1, 8, 1],
    [t`Length penalty α`, "alpha", 0, 2, 0.1],
    [t`Temperature`, "temperature", 0.1, 2, 0.1],
  ]) {
    const show = slider(controls, title, { min, max, step }, (value) => change({ [name]: value }, TYPING));
    store.watch(["settings"], ({ settings }) =>
      show(settings[name], settings.seed !== null && name !== "temperature"));
  }
  const isDrawn = checkbox(controls, t`Draw each piece at random instead`, (on) =>
    change({ seed: on ? 1 : null }));
  const again = button(controls, t`Draw again`, () =>
    change({ seed: store.state.settings.seed + 1 }));
  const tree = make(root, "div", {
    class: "tree", tabindex: 0, role: "region", "aria-label": t`Search tree`,
  });
  make(root, "p", { class: "hint" },
    t`Finished outputs, with the logarithm of their probability over the length penalty:`);
  const finished = make(root, "ol", { class: "finished", "aria-label": t`Finished outputs` });

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

/* Calls `act` with the number that is chosen; returns what shows a number. */
export function slider(parent, title, attributes, act) {
  const label = make(parent, "label", { class: "slider" }, `${title} `);
  const value = make(label, "span", { "aria-hidden": "true" });
  const input = make(label, "input", { type: "range", ...attributes });
  input.addEventListener("input", () => act(Number(input.value)));
  return (number, disabled = false) => {
    input.value = value.textContent = number;
    input.disabled = disabled;
  };
}

/* Draws a column for each step, and in it a row for each output. `best` are the ids of
   the search's result; while it goes on there are none. */
function drawTree(tree, steps, best) {
  const columns = [[{ piece: "BEGIN", path: [] }], ...steps.map(({ goingOn, ended }) =>
    [...goingOn, ...ended.map((output) => ({ ...output, piece: "END", kind: "ended" }))])];
  const rows = Math.max(...columns.map(({ length }) => length));
  const [width, height] = [columns.length * COLUMN, rows * ROW];
  const picture = make(tree, "svg", {
    width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": t`${steps.length} steps, at most ${rows} outputs in each`,
  });
  const kindOf = ({ kind = "", path }) =>
    best.length && path.every(({ id }, i) => id === best[i]) ? `${kind} best` : kind;
  const texts = columns.map((outputs, column) => outputs.map((output, row) => {
    const { piece } = output;
    const shown = piece.length > LONGEST ? `${piece.slice(0, LONGEST - 1)}…` : piece;
    const place = { x: column * COLUMN + GAP, y: (row + 0.5) * ROW + 4 };
    return make(picture, "text", { class: kindOf(output), ...place }, shown);
  }));
  const widths = texts.map((column) => column.map((text) => text.getComputedTextLength()));
  columns.slice(1).forEach((outputs, step) => outputs.forEach((output, row) => {
    const left = step * COLUMN + widths[step][output.parent] + 2 * GAP;
    const right = (step + 1) * COLUMN;
    const [from, to, middle] = [(output.parent + 0.5) * ROW, (row + 0.5) * ROW, (left + right) / 2];
    const d = `M${left} ${from}C${middle} ${from} ${middle} ${to} ${right} ${to}`;
    picture.prepend(make(null, "path", { class: kindOf(output), d })); // below the texts
  }));
  tree.scrollLeft = best.length ? 0 : width;
}
