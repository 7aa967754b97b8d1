/* Find the vocabulary (Section 3). A row of Table 3 is lit where a model of its settings,
   with the chosen vocabulary, has as many million parameters as the paper prints. */

import { make } from "../../transformer_lite/page/dom.js";
import { listed, t } from "../../transformer_lite/page/messages.js";
import { Figure, format, grouped, predict } from "./live.js";

export const START = { vocabulary: 37000 };

/* A row's parameters are `fixed`, and `width` for each entry of the vocabulary. */
export function compute({ vocabulary }, { rows }) {
  const counted = rows.map(({ name, printed, fixed, width }) => {
    const count = (fixed + width * vocabulary) / 1e6;
    return { name, printed, count, isLit: Math.round(count) === printed };
  });
  return { rows: counted, lit: counted.filter(({ isLit }) => isLit).length };
}

export function build(root, data) {
  const figure = new Figure(root, START);
  const now = () => compute(figure.state, data);

  const panel = predict(root, {
    question: t`The paper says that the English–German vocabulary has about 37,000 tokens, and it prints eleven parameter counts. We count the same eleven models with 37,000 tokens. How many counts, rounded to millions, are as printed?`,
    options: [t`All eleven`, t`Most of them`, t`None`],
    answer: t`None`,
    because: t`Each row lights up where its count is as printed. Move the vocabulary, and try to light all eleven.`,
  });

  const controls = make(panel, "div", { class: "controls wide" });
  figure.slider(controls, t`vocabulary`, {
    min: 33000, max: 45000, step: 100,
    get: ({ vocabulary }) => vocabulary,
    set: (vocabulary) => ({ vocabulary }),
    shown: grouped,
  });
  figure.reset(controls);

  const table = make(panel, "table");
  const head = make(make(table, "thead"), "tr");
  for (const title of [t`row`, t`printed`, t`counted`, t`equal`]) make(head, "th", { scope: "col" }, title);
  const body = make(table, "tbody");
  figure.onChange(() => {
    body.textContent = "";
    for (const { name, printed, count, isLit } of now().rows) {
      const line = make(body, "tr", isLit ? { style: "font-weight: 600; background: var(--weight); color: var(--ground)" } : {});
      make(line, "th", { scope: "row" }, name);
      make(line, "td", {}, `${printed}\u00a0M`);
      make(line, "td", {}, `${format(count, 2)}\u00a0M`);
      make(line, "td", {}, isLit ? t`yes` : t`no`);
    }
  });
  figure.say(panel, ({ vocabulary }) => {
    const { lit, rows } = now();
    const dark = rows.filter(({ isLit }) => !isLit).map(({ name }) => name);
    const tokens = grouped(vocabulary);
    return dark.length && dark.length < 4
      ? t`With ${tokens} tokens, ${lit} of ${rows.length} counts are as printed; not ${listed(dark)}.`
      : t`With ${tokens} tokens, ${lit} of ${rows.length} counts are as printed.`;
  });
  make(panel, "p", { class: "axis" },
    t`Counted as in this chapter: one shared matrix, no biases in attention. No vocabulary lights all eleven rows.`);
  figure.show();
}
