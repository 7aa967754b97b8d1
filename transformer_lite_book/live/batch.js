/* A batch, whole (Section 5.1). Four pairs in two batches: the ids of source, decoder
   input and labels, and the cells that have a loss. */

import { make } from "../../transformer_lite/page/dom.js";
import { t } from "../../transformer_lite/page/messages.js";
import { Figure, predict } from "./live.js";

const [PAD, BOS, EOS] = [0, 1, 2];
export const START = { sorted: false, batch: 0, row: 0, column: 1 };

const filled = (rows) => {
  const width = Math.max(...rows.map((row) => row.length));
  return rows.map((row) => [...row, ...Array(width - row.length).fill(PAD)]);
};

/* Everything that the figure shows.
   data  pairs   the ids of each pair, source and target, without BOS and EOS
         orders  the numbers of the pairs in each batch: as given, then by length
         pieces  what each id stands for */
export function compute({ sorted, batch, row, column }, { pairs, orders, pieces }) {
  const batches = orders[sorted ? 1 : 0].map((numbers) => {
    const side = (i) => filled(numbers.map((number) => [...pairs[number][i], EOS]));
    const labels = side(1);
    return { source: side(0), input: labels.map((ids) => [BOS, ...ids.slice(0, -1)]), labels };
  });
  const cells = batches.flatMap(({ source, labels }) => [...source, ...labels].flat());
  const { input, labels } = batches[batch];
  const place = Math.min(column, labels[row].length - 1);
  return {
    batches,
    cells: cells.length,
    padding: cells.filter((id) => id === PAD).length,
    counted: batches.flatMap((one) => one.labels.flat()).filter((id) => id !== PAD).length,
    place,
    read: input[row].slice(0, place + 1).map((id) => pieces[id]),
    label: labels[row][place],
  };
}

export function build(root, data) {
  const figure = new Figure(root, START);
  const { cells, padding, counted } = compute(START, data);
  const options = [
    t`all ${cells}`,
    t`${cells - padding}: all but PAD`,
    t`${counted}: the labels but PAD`,
    t`${counted - data.pairs.length}: the labels but PAD and EOS`,
  ];
  const panel = predict(root, {
    question: t`Four pairs make two batches. Their source and labels together have ${cells} cells. How many of them have a loss?`,
    options,
    answer: options[2],
    because: t`Only labels have a loss, EOS too. Touch a label to see which input predicts it.`,
  });
  const controls = make(panel, "div", { class: "controls" });
  figure.toggle(controls, t`pairs by length`, "sorted");
  figure.reset(controls);

  figure.say(panel, (state) => {
    const { read, label, cells: all, padding: empty, counted: losses } = compute(state, data);
    const verdict = label === PAD ? t`Its label is PAD: no loss.`
      : label === EOS ? t`Its label is EOS: this loss teaches the model to stop.`
      : t`Its label is ${data.pieces[label]}: this cell has a loss.`;
    return t`This row reads the whole source and ${read.join(" ")}. ${verdict} Of ${all} cells, ${empty} are PAD, and ${losses} have a loss.`;
  });

  const views = make(panel, "div", { class: "views", style: "align-items: start" });
  let drawn = null, nodes = [];
  figure.onChange((state) => {
    const { batches, place } = compute(state, data);
    if (drawn !== state.sorted) {
      views.textContent = "";
      nodes = batches.map(({ source, input, labels }) => {
        const box = make(views, "div");
        rectangle(box, t`source`, source, data.pieces, "var(--weight)");
        return {
          input: rectangle(box, t`decoder input`, input, data.pieces, "var(--key)"),
          labels: rectangle(box, t`labels: touch one`, labels, data.pieces, "var(--key)", "button"),
          loss: rectangle(box, t`loss`, labels.map((ids) => ids.map((id) => (id === PAD ? "" : "✓"))), data.pieces, "var(--value)"),
        };
      });
      nodes.forEach((one, batch) => one.labels.forEach((line, row) => line.forEach((node, column) =>
        node.addEventListener("click", () => figure.set({ batch, row, column })))));
      drawn = state.sorted;
    }
    nodes.forEach((one, batch) => Object.values(one).forEach((lines) => lines.forEach((line, row) =>
      line.forEach((node, column) => {
        const isOn = batch === state.batch && row === state.row && column === place;
        node.style.outline = isOn ? "3px solid var(--query)" : "";
        if (node.type === "button") node.setAttribute("aria-pressed", isOn);
      }))));
  });
  figure.show();
}

/* A grid with one cell for each id; returns its cells, row by row. */
function rectangle(parent, title, rows, pieces, color, tag = "span") {
  make(parent, "p", { class: "axis", style: "margin: 0.5em 0 0.1em" }, title);
  const grid = make(parent, "div", {
    style: `display: grid; gap: 2px; grid-template-columns: repeat(${rows[0].length}, minmax(0, 26px))`,
  });
  return rows.map((ids, row) => ids.map((id, column) => {
    const isEmpty = id === PAD || id === "";
    const node = make(grid, tag, {
      style: `border: 1px solid ${isEmpty ? "var(--edge)" : color}; border-radius: 2px; display: grid; font-size: 12px; min-height: 28px; min-width: 0; padding: 0; place-items: center; ` +
        (isEmpty ? "border-style: dashed" : `background: color-mix(in srgb, ${color} 18%, transparent)`),
    }, `${id}`);
    if (pieces[id]) node.title = pieces[id];
    if (tag === "button") {
      node.type = "button";
      node.setAttribute("aria-label", t`row ${row + 1}, label ${column + 1}: ${pieces[id]}, ${id}`);
    }
    return node;
  }));
}
