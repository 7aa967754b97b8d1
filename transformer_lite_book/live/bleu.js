/* Score yourself (Section 6.1). BLEU of one translation, while the reader writes it. */

import { make } from "../../transformer_lite/page/dom.js";
import { t } from "../../transformer_lite/page/messages.js";
import { Figure, format, predict } from "./live.js";

export const START = { translation: "", reference: "" };

/* The words of a text, as sacrebleu's rule 13a cuts them. */
export function cut(text) {
  const entities = { "&quot;": '"', "&amp;": "&", "&lt;": "<", "&gt;": ">" };
  let line = text;
  for (const [entity, sign] of Object.entries(entities)) line = line.replaceAll(entity, sign);
  return ` ${line} `
    .replace(/([{-~[-` -&(-+:-@/])/g, " $1 ")
    .replace(/([^0-9])([.,])/g, "$1 $2 ")
    .replace(/([.,])([^0-9])/g, " $1 $2")
    .replace(/([0-9])(-)/g, "$1 $2 ")
    .split(/\s+/)
    .filter((word) => word);
}

const grams = (words, n) =>
  Array.from({ length: Math.max(words.length - n + 1, 0) }, (_, i) => words.slice(i, i + n).join(" "));

const root = (precisions) => precisions.reduce((a, b) => a * b, 1) ** (1 / 4);

/* Everything that the figure shows: for each n the n-grams that are right, clipped, and how
   many there are; the brevity penalty; BLEU by the formula and by sacrebleu, which lets a
   precision of 0 out of k count as 1/2k, the next one as 1/4k, and so on. */
export function compute({ translation, reference }) {
  const [words, wanted] = [cut(translation), cut(reference)];
  const rows = [1, 2, 3, 4].map((n) => {
    const left = grams(wanted, n);
    const right = grams(words, n).filter((gram) => {
      const at = left.indexOf(gram);
      if (at >= 0) left.splice(at, 1); // an n-gram of the reference is used up
      return at >= 0;
    });
    return { n, right, total: Math.max(words.length - n + 1, 0) };
  });
  const brevity = words.length ? Math.min(1, Math.exp(1 - wanted.length / words.length)) : 0;
  const exact = rows.map(({ right, total }) => right.length / Math.max(total, 1));
  let half = 1;
  const smooth = rows.map(({ right, total }) =>
    !total ? 0 : right.length ? right.length / total : 1 / ((half *= 2) * total)
  );
  const none = rows.every(({ right }) => !right.length);
  return {
    rows,
    brevity,
    formula: 100 * brevity * root(exact),
    sacrebleu: none ? 0 : 100 * brevity * root(smooth),
  };
}

/* data  reference, and presets: of each its text, what it means in English, and a title */
export function build(root, { reference, meaning, presets }) {
  const start = { translation: presets[0].text, reference };
  const figure = new Figure(root, start);
  const of = (text) => compute({ translation: text, reference }).formula;
  const best = presets.reduce((a, b) => (of(b.text) > of(a.text) ? b : a));
  const bleus = presets.map(({ text }) => format(of(text), 1)).join(", ");

  make(root, "p", {}, `${t`A human translated “${meaning}”:`} `).append(make(null, "b", { lang: "de" }, reference));
  const panel = predict(root, {
    question: t`Which of these translations gets the highest BLEU?`,
    options: presets.map(({ text, english }) => `${text} (${english})`),
    answer: `${best.text} (${best.english})`,
    because: t`In this order: ${bleus}. A worse translation gets more. The rows below show why; then write your own.`,
  });

  const field = (title, name) => {
    const label = make(panel, "label", { style: "display: flex" });
    make(label, "span", { style: "min-width: 5.6em" }, title);
    const look = "background: inherit; border: 1px solid var(--edge); color: inherit; flex: 1; font: inherit; min-width: 0; padding: 0.2em 0.4em";
    const input = make(label, "input", { type: "text", lang: "de", spellcheck: "false", style: look });
    input.addEventListener("input", () => figure.set({ [name]: input.value }));
    figure.onChange((state) => {
      if (input.value !== state[name]) input.value = state[name];
    });
  };
  field(t`translation`, "translation");
  field(t`reference`, "reference");
  const controls = make(panel, "div", { class: "controls", style: "margin: 0.5em 0" });
  for (const { text, title } of presets) {
    const node = make(controls, "button", { type: "button" }, title);
    node.addEventListener("click", () => figure.set({ translation: text, reference }));
  }
  figure.reset(controls);

  const table = make(panel, "table");
  figure.onChange((state) => {
    table.textContent = "";
    const head = make(table, "tr");
    for (const title of ["n", t`right`, t`n-grams that are also in the reference`]) make(head, "th", { style: "white-space: normal" }, title);
    for (const { n, right, total } of compute(state).rows) {
      const row = make(table, "tr");
      make(row, "td", {}, n);
      make(row, "td", {}, t`${right.length} of ${total}`);
      make(row, "td", { style: "white-space: normal" }, right.join(" · ") || t`none`);
    }
  });
  figure.say(panel, (state) => {
    const { brevity, formula, sacrebleu } = compute(state);
    const score = t`BLEU ${format(formula, 1)}, with a brevity penalty of ${format(brevity, 3)}.`;
    return formula || !sacrebleu ? score : `${score} ${t`Sacrebleu, which smooths zeros, gives ${format(sacrebleu, 1)}.`}`;
  });
  figure.show();
}
