/* Place your bets (Section 6.2). Which rows of Table 3 are better than base? The reader bets
   first; then a slider goes to earlier steps, and the order of the rows changes. */

import { make } from "../../transformer_lite/page/dom.js";
import { t } from "../../transformer_lite/page/messages.js";
import { Figure, format, grouped } from "./live.js";

const LAST = 14; // the last stored step
const FOLLOWED = "D1"; // the row without dropout
const BETS = [[t`better`, -1], [t`same`, 0], [t`worse`, 1]];
const COLORS = { "-1": "var(--value)", 0: "var(--muted)", 1: "var(--query)" };

export const START = { at: LAST, bets: {} };

/* Everything that the figure shows.
   data  steps  at which the validation perplexities are stored
         luck   how far a row's logarithm can be from base's by luck, at each step
         rows   for each its name, label, and at each step the logarithm of its
                perplexity divided by base's (`logs`)
         bets   names of the rows that the reader bets on */
export function compute({ at, bets }, { steps, luck, rows }) {
  const shown = rows.map(({ name, label, logs }) => {
    const log = logs[at];
    const verdict = Math.abs(log) <= luck[at] ? 0 : Math.sign(log);
    const bet = bets[name] ?? null;
    return { name, label, log, verdict, bet, percent: 100 * Math.expm1(log) };
  });
  shown.sort((one, other) => one.log - other.log);
  const made = shown.filter(({ bet }) => bet !== null);
  const right = made.filter(({ bet, verdict }) => bet === verdict).length;
  return { step: steps[at], rows: shown, made: made.length, right, luck: luck[at] };
}

const signed = (number) => (number > 0.5 ? "+" : "") + `${format(number, 0)}\u00a0%`;

export function build(root, data) {
  const figure = new Figure(root, START);
  const now = () => compute(figure.state, data);

  make(root, "p", {}, t`Each row changes one setting of base. At step 7,500, is it better, the same but for luck, or worse?`);
  for (const name of data.bets) {
    const { label } = data.rows.find((row) => row.name === name);
    const line = make(root, "div", { class: "controls", role: "group", "aria-label": label });
    make(line, "span", { style: "flex: 1; min-width: 8em" }, label);
    const buttons = make(line, "span", { style: "display: flex; gap: 4px; margin-bottom: 4px" });
    for (const [title, bet] of BETS) {
      const node = make(buttons, "button", { type: "button" }, title);
      node.addEventListener("click", () => figure.set({ bets: { ...figure.state.bets, [name]: bet } }));
      figure.onChange(({ bets }) => node.setAttribute("aria-pressed", bets[name] === bet));
    }
  }
  const reveal = make(root, "button", { type: "button" }, t`Show the results`);
  reveal.addEventListener("click", () => {
    reveal.hidden = true;
    panel.hidden = false;
  });
  const panel = make(root, "div", { hidden: "" });
  const controls = make(panel, "div", { class: "controls wide" });
  figure.slider(controls, t`step`, {
    min: 0, max: LAST,
    get: ({ at }) => at,
    set: (at) => ({ at }),
    shown: (at) => grouped(data.steps[at]),
  });
  figure.reset(controls);
  figure.say(panel, () => {
    const { step, rows, made, right } = now();
    const [first, last] = [rows[0], rows.at(-1)];
    const best = t`At step ${grouped(step)}, “${first.label}” is best (${signed(first.percent)}) and “${last.label}” is last (${signed(last.percent)}).`;
    if (!made) return best;
    const yours = right === 1 ? t`${right} of your ${made} bets is right.` : t`${right} of your ${made} bets are right.`;
    return `${best} ${yours}`;
  });
  const table = make(panel, "table");
  figure.onChange(() => {
    table.textContent = "";
    const { rows, luck } = now();
    for (const row of rows) draw(table, row, luck);
  });
  make(panel, "p", { class: "axis" },
    t`Bars go from base to the row, to the left if it is better, on a logarithmic scale. Grey bars lie inside what luck can do at this step. A ✓ or ✗ marks your bet at this step. Move the slider to the left and follow “no dropout”.`);
  figure.show();
}

const place = (log) => Math.min(Math.max(100 * (log + 0.4) / 1.1, 0), 100);

/* A row: its name, a bar from base, the difference, and the reader's bet. */
function draw(table, { name, label, log, verdict, bet, percent }, luck) {
  const line = make(table, "tr");
  const weight = bet === null && name !== FOLLOWED ? "400" : "700";
  make(line, "th", { scope: "row", style: `font-weight: ${weight}` }, label);
  const cell = make(line, "td", { style: "width: 50%", "aria-hidden": "true" });
  const track = make(cell, "div", { style: "position: relative; height: 14px" });
  const box = (from, to, style) => make(track, "i", {
    style: `position: absolute; left: ${from}%; width: ${to - from}%; ${style}`,
  });
  const strip = "top: -4px; height: 22px; background: color-mix(in srgb, var(--edge) 25%, transparent)";
  box(place(-luck), place(luck), strip);
  const [from, to] = [place(Math.min(log, 0)), place(Math.max(log, 0))];
  box(from, to, `top: 2px; height: 10px; background: ${COLORS[verdict]}`);
  const won = bet === null ? "" : bet === verdict ? " ✓" : " ✗";
  make(line, "td", { style: "text-align: right" }, signed(percent) + won);
}
