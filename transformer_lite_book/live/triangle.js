/* Write under the triangle (Section 3.2.3). A trained translator's rows of one pass: what
   they predict with the causal mask and without it, and which of them a changed token
   moves. */

import { make } from "../../transformer_lite/page/dom.js";
import { listed, t } from "../../transformer_lite/page/messages.js";
import { Figure, format, predict } from "./live.js";

export const START = { step: 3, masked: true, changed: 0 };

/* Everything that the figure shows.
   data  reads    the tokens that the rows read, and `answers`, the tokens after them
         others   for each place the token that may stand there instead; none at the first
         tables   with the mask, then without: for each place that is changed (at 0,
                  none), each row's best next token, its percent, and how far its logits
                  are from those of the unchanged pass */
export function compute({ masked, changed }, { reads, answers, others, tables }) {
  const rows = tables[masked ? 0 : 1][changed].map(([best, percent, moved], row) => ({
    reads: changed && row === changed ? others[row] : reads[row],
    best,
    percent,
    moved,
    isRight: best === answers[row],
  }));
  return {
    rows,
    right: rows.filter(({ isRight }) => isRight).length,
    moved: rows.flatMap(({ moved }, row) => (moved > 0.0005 ? [row + 1] : [])),
  };
}

export function build(root, data) {
  const figure = new Figure(root, START);
  const now = () => compute(figure.state, data);
  const total = data.reads.length;
  const { right } = compute({ masked: false, changed: 0 }, data);

  const panel = predict(root, {
    question: t`Under the triangle, all ${total} rows predict the right next token. We let them read all tokens, the answers, too. How many are right now?`,
    options: [`${total}`, "5", "3"],
    answer: `${right}`,
    because: t`The answer of each row but the last stands in the input, but this model was trained under the triangle and has never learned to read it. Now change a token, with the triangle and without it.`,
  });

  const controls = make(panel, "div", { class: "controls" });
  figure.slider(controls, t`step`, {
    min: 1, max: total,
    get: ({ step }) => step,
    set: (step) => ({ step }),
    shown: (step) => `${step}`,
  });
  const options = data.reads.map((token, place) =>
    place ? `${token} → ${data.others[place]}` : t`nothing`);
  figure.choice(controls, t`change`, options, "changed");
  figure.toggle(controls, t`triangle`, "masked");
  figure.reset(controls);

  const table = make(panel, "table", { class: "triangle" });
  const head = make(make(table, "thead"), "tr");
  for (const [title, span] of [[t`reads`, 1], [t`keys`, total], [t`next`, 1], [t`moved by`, 1]]) {
    make(head, "th", { scope: "col", colspan: span }, title);
  }
  const body = make(table, "tbody");
  figure.onChange(({ step, masked, changed }) => {
    body.textContent = "";
    now().rows.forEach(({ reads, best, percent, moved, isRight }, row) => {
      const line = make(body, "tr", row === step - 1 ? { "aria-current": "step" } : {});
      make(make(line, "th", { scope: "row" }), changed && row === changed ? "mark" : "span", {}, reads);
      for (let key = 0; key < total; key++) {
        make(line, "td", { class: masked && key > row ? "hidden-key" : "read-key" });
      }
      make(make(line, "td"), isRight || changed ? "span" : "mark", {}, `${best} ${percent}\u00a0%`);
      make(line, "td", {}, format(moved, 3));
    });
  });
  figure.say(panel, ({ step, masked, changed }) => {
    const { rows, right: count, moved } = now();
    const { best } = rows[step - 1];
    return `${saidOfPass(step, total, best, masked)} ${changed ? saidOfChange(changed, total, moved) : saidOfRows(total, count)}`;
  });
  figure.show();
}

function saidOfPass(step, total, best, masked) {
  if (masked) {
    return step === 1
      ? t`Step ${step} sends 1 query to ${step} key and writes “${best}”; row ${step} of the one pass does the same.`
      : t`Step ${step} sends 1 query to ${step} keys and writes “${best}”; row ${step} of the one pass does the same.`;
  }
  return step < total
    ? t`Row ${step} reads all ${total} keys and predicts “${best}”; no step of writing can do that.`
    : t`Row ${step} reads all ${total} keys and predicts “${best}”; step ${step} has as many, but here the earlier rows have read later tokens.`;
}

function saidOfChange(changed, total, moved) {
  const token = changed + 1;
  if (moved.length === total) return t`The change of token ${token} moves all rows.`;
  return moved.length === 1
    ? t`The change of token ${token} moves row ${moved[0]}.`
    : t`The change of token ${token} moves rows ${listed(moved)}.`;
}

function saidOfRows(total, count) {
  return count === 1
    ? t`Of ${total} rows, ${count} is right.`
    : t`Of ${total} rows, ${count} are right.`;
}
