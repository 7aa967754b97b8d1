/* Where does it break? (Section 1). Translations of test sentences in order of length, by
   a recurrent model with one vector, by one with attention, and by the Transformer. */

import { make } from "../../transformer_lite/page/dom.js";
import { t } from "../../transformer_lite/page/messages.js";
import { changedWords, writeWords } from "../../transformer_lite/page/words.js";
import { Figure, predict } from "./live.js";

export const START = { sentence: 0 };

/* Everything that the figure shows.
   data  sentences  each with its English `source`, the `right` German, what each model
                    wrote, `one`, `attention` and `transformer`, and an English `gloss`
                    of `one` */
export function compute({ sentence }, { sentences }) {
  const { source, right, one, attention, transformer, gloss } = sentences[sentence];
  const compare = (old, now) => changedWords(old.split(" "), now.split(" "));
  return {
    source,
    length: source.split(" ").length,
    one: compare(right, one),
    gloss: compare(source, gloss),
    attention: compare(right, attention),
    transformer: compare(right, transformer),
  };
}

export function build(root, data) {
  const figure = new Figure(root, START);
  const total = data.sentences.length;
  const panel = predict(root, {
    question: t`A translator keeps each sentence in one vector. Our test sentences get longer. What does its German lose first?`,
    options: [t`the grammar`, t`the end of the sentence`, t`which things are meant`],
    answer: t`which things are meant`,
    because: t`In this run, its German stays fluent, but it says something else. Move the slider.`,
  });
  const controls = make(panel, "div", { class: "controls wide" });
  figure.slider(controls, t`sentence`, {
    min: 1, max: total,
    get: ({ sentence }) => sentence + 1,
    set: (number) => ({ sentence: number - 1 }),
    shown: (number) => t`${number} of ${total}`,
  });
  figure.reset(controls);

  const lines = [
    [t`English`, "source"],
    [t`one vector`, "one", "de"],
    [t`which means`, "gloss"],
    [t`with attention`, "attention", "de"],
    [t`Transformer`, "transformer", "de"],
  ].map(([title, key, lang = "en"]) => {
    make(panel, "p", { class: "axis", style: "margin: 0.5em 0 0" }, title);
    return [key, make(panel, "p", { lang, style: "margin: 0; min-height: 1.5em" })];
  });
  figure.onChange((state) => {
    const shown = compute(state, data);
    for (const [key, line] of lines) {
      if (key === "source") line.textContent = shown.source;
      else writeWords(line, shown[key]);
    }
  });
  figure.say(panel, (state) => {
    const { length, ...shown } = compute(state, data);
    const wrong = (key) => shown[key].filter(({ isNew }) => isNew).length;
    return t`Wrong words in a sentence of ${length} tokens: ${wrong("one")} with one vector, ${wrong("attention")} with attention, ${wrong("transformer")} by the Transformer.`;
  });
  make(panel, "p", { class: "axis" }, t`Underlined: not in the right translation, or not in the English sentence.`);
  figure.show();
}
