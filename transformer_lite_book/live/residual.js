/* Fade the residual (Section 3.1). The encoder of a trained translator adds only a part r
   of x to each sub-layer's output: what becomes of its translation? */

import { make } from "../../transformer_lite/page/dom.js";
import { t } from "../../transformer_lite/page/messages.js";
import { changedWords, writeWords } from "../../transformer_lite/page/words.js";
import { Figure, format, predict } from "./live.js";

export const START = { sentence: 0, part: 20 };

/* Everything that the figure shows.
   data  for each sentence its tokens, the outputs that occur, and for each of 21 values
         of r, from 0 to 1, the output, the cosines of all tokens and their own share */
export function compute({ sentence, part }, { sentences }) {
  const { source, tokens, outputs, steps } = sentences[sentence];
  const { output, cosines, share } = steps[part];
  const trained = outputs[steps.at(-1).output];
  return {
    r: part / 20,
    source,
    tokens,
    words: changedWords(trained.text.split(" "), outputs[output].text.split(" ")),
    gloss: outputs[output].gloss,
    cosines,
    share,
  };
}

export function build(root, data) {
  const figure = new Figure(root, START);
  const now = () => compute(figure.state, data);

  const panel = predict(root, {
    question: t`The encoder normalizes r · x + Sublayer(x), with r = 1. You lower r. At which r does the German sentence first change?`,
    options: [t`At once, at 0.95`, t`Near 0.75`, t`Not before 0.5`],
    answer: t`Not before 0.5`,
    because: t`Move the slider and see how the sentence ends.`,
  });

  figure.choice(panel, t`sentence`, data.sentences.map(({ source }) => source), "sentence");
  const controls = make(panel, "div", { class: "controls wide" });
  figure.slider(controls, "r", {
    min: 0, max: 20,
    get: ({ part }) => part,
    set: (part) => ({ part }),
    shown: (part) => format(part / 20, 2),
  });
  figure.reset(controls);

  const text = make(panel, "p", { class: "output", lang: "de" });
  const gloss = make(panel, "p", { class: "axis" });
  const views = make(panel, "div", { class: "views" });
  const map = make(views, "div", { class: "map", "aria-hidden": "true" });
  const note = make(views, "div");
  figure.onChange(({ sentence }) => {
    const shown = now();
    writeWords(text, shown.words);
    gloss.textContent = t`In English: ${shown.gloss}`;
    drawMap(map, shown);
  });
  figure.say(note, () => {
    const { r, share, words } = now();
    const changed = words.filter(({ isNew }) => isNew).length;
    return changed
      ? t`With r = ${format(r, 2)}, the tokens' own share at the top is ${format(share, 2)}, and ${changed} of ${words.length} words are new.`
      : t`With r = ${format(r, 2)}, the tokens' own share at the top is ${format(share, 2)}, and no word has changed.`;
  });
  make(note, "p", {},
    t`Each square compares two tokens of the English sentence after the last encoder layer: the fuller, the more alike (empty: a cosine of 0 or less). The more alike all are, the less the decoder can tell them apart. Being alike is not the only damage: try the girl at r = 0.05.`);
  make(note, "p", { class: "axis" }, t`The model was trained with r = 1 and has never seen another.`);
  figure.show();
}

/* The cosines of all pairs of tokens, in percent, as squares. */
function drawMap(parent, { tokens, cosines }) {
  parent.textContent = "";
  parent.style.gridTemplateColumns = `max-content repeat(${tokens.length}, 1fr)`;
  tokens.forEach((token, row) => {
    make(parent, "span", { class: "token" }, token);
    tokens.forEach((_, column) => {
      const cosine = cosines[row * tokens.length + column];
      make(parent, "i", { style: `opacity: ${Math.max(cosine, 0) / 100}` });
    });
  });
}
