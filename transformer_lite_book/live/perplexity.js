/* Who is better? (Section 5.4). Two models, four tokens: each slider is the probability of
   the right word, and one rival gets the rest. */

import { make } from "../../transformer_lite/page/dom.js";
import { t } from "../../transformer_lite/page/messages.js";
import { Figure, format, predict } from "./live.js";

const NAMES = { sure: t`the sure model`, unsure: t`the unsure model` };
const GIVES = {
  sure: t`the sure model gives the right word`,
  unsure: t`the unsure model gives the right word`,
};

export const START = { sure: [0.99, 0.99, 0.99, 0.3], unsure: [0.6, 0.6, 0.6, 0.6] };

/* A model's perplexity, and at how many tokens the right word gets most. */
export function compute(right) {
  const mean = right.reduce((sum, p) => sum - Math.log(p), 0) / right.length;
  return { perplexity: Math.exp(mean), correct: right.filter((p) => p > 0.5).length };
}

export function build(root) {
  const figure = new Figure(root, START);
  const results = [];
  const models = make(root, "fieldset", { class: "predict views", disabled: "" });
  for (const model of Object.keys(START)) {
    const part = make(models, "div");
    make(part, "p", {}, GIVES[model]);
    START[model].forEach((_, token) => {
      figure.slider(make(part, "div", { class: "controls wide" }), t`token ${token + 1}`, {
        min: 0.01, max: 0.99, step: 0.01,
        get: (state) => state[model][token],
        set: (value) => ({ [model]: figure.state[model].with(token, value) }),
        shown: (value) => (value > 0.5 ? t`${format(value, 2)} right` : t`${format(value, 2)} wrong`),
      });
    });
    const result = make(part, "p", { hidden: "" });
    results.push(result);
    figure.onChange((state) => {
      const { perplexity, correct } = compute(state[model]);
      result.textContent = t`perplexity ${format(perplexity, 2)}, ${correct} of 4 right`;
    });
  }
  const panel = predict(root, {
    question: t`Perplexity is e raised to the mean of −ln p, where p is the probability of the right word. The lower, the better. Which model has the better one?`,
    options: Object.values(NAMES),
    answer: NAMES[compute(START.sure).perplexity < compute(START.unsure).perplexity ? "sure" : "unsure"],
    because: t`It makes the only mistake, but the three sure tokens cost almost nothing. Now move a probability. One rival gets the rest, so the right word is chosen above 0.50.`,
  }, () => {
    models.disabled = false;
    for (const result of results) result.hidden = false;
  });
  figure.reset(make(panel, "div", { class: "controls" }));
  make(panel, "p", { class: "tasks" },
    t`Try: let the sure model’s token 4 fall to 0.01, and guess its perplexity before. Then give the better perplexity to the model with fewer right tokens, by as many tokens as you can.`);
  figure.say(panel, (state) => {
    const [sure, unsure] = [compute(state.sure), compute(state.unsure)];
    const apart = sure.correct - unsure.correct;
    if (apart === 0) return t`Both are right at as many tokens.`;
    const [more, fewer] = apart > 0 ? [sure, unsure] : [unsure, sure];
    const name = apart > 0 ? t`The sure model` : t`The unsure model`;
    const by = Math.abs(apart);
    if (more.perplexity > fewer.perplexity) {
      return by === 1
        ? t`${name} is right at ${by} more token and has the worse perplexity.`
        : t`${name} is right at ${by} more tokens and has the worse perplexity.`;
    }
    return by === 1
      ? t`${name} is right at ${by} more token and has the better perplexity, too.`
      : t`${name} is right at ${by} more tokens and has the better perplexity, too.`;
  });
  figure.show();
}
