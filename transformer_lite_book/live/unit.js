/* Turn up a unit (Section 3.3). One unit in the last decoder layer of a trained translator
   gets a value at all positions: what does it ask, what does it answer, and what becomes
   of the translation? */

import { make } from "../../transformer_lite/page/dom.js";
import { changedWords, Figure, format, predict } from "./live.js";

const NOTHING = "It stays as it is";

/* The value is the number of a stored one; -1 leaves the unit as it is. */
export const START = { card: 0, sentence: 0, value: -1 };

/* Everything that the figure shows.
   data  values     that a unit is set to, and `shuffles`, how many shuffled answers
         cards      for each unit its number, where it fires most, and what it raises
         sentences  for each its outputs, the first as trained; which of them each card
                    and value gives (`set`), and how many shuffled answers give it, too */
export function compute({ card, sentence, value }, { values, shuffles, probes, cards, sentences }) {
  const { unit, fires, largest, answers, asks } = cards[card];
  const { source, outputs, set, alike } = sentences[sentence];
  const output = value < 0 ? 0 : set[card][value];
  const words = ({ text }) => text.split(" ").filter(Boolean);
  return {
    unit,
    fires,
    largest,
    answers,
    asks: asks.map(([probe, before, next, by]) => ({ source: probes[probe][0], before, next, by })),
    source,
    set: value < 0 ? null : values[value],
    words: changedWords(words(outputs[0]), words(outputs[output])),
    gloss: outputs[output].gloss,
    isTrained: output === 0,
    alike: value < 0 ? null : alike[card][value],
    shuffles,
  };
}

export function build(root, data) {
  const figure = new Figure(root, START);
  const now = () => compute(figure.state, data);
  const keys = data.sentences.findIndex(({ source }) => source.includes("keys"));

  predict(root, {
    question: `One of the ${data.units} units in the last network raises the words “hat, habe, haben” (has, have). It is switched off: its value is 0 at every position. What happens to “${data.sentences[keys].outputs[0].text}”?`,
    options: [NOTHING, "“habe” disappears", "It becomes nonsense"],
    answer: NOTHING,
    because: "No word changes. Now turn the unit up, on another sentence.",
  }, () => (panel.hidden = false));
  const panel = make(root, "div", { hidden: "" });

  const cards = make(panel, "div", { class: "options", role: "group", "aria-label": "unit" });
  const chosen = data.cards.map(({ unit, answers }, card) => {
    const name = `${unit}: ${answers.slice(0, 3).map(([piece]) => shown(piece)).join(", ")}`;
    const node = make(cards, "button", { type: "button" }, name);
    node.addEventListener("click", () => figure.set({ card }));
    return node;
  });
  const views = make(panel, "div", { class: "views" });
  const asks = make(make(views, "div"), "table");
  const answers = make(make(views, "div"), "table");

  const chooser = make(make(panel, "label", { class: "choice" }, "sentence "), "select");
  data.sentences.forEach(({ source }, i) => make(chooser, "option", { value: i }, source));
  chooser.addEventListener("change", () => figure.set({ sentence: Number(chooser.value) }));
  const controls = make(panel, "div", { class: "controls wide" });
  figure.slider(controls, "value", {
    min: -1, max: data.values.length - 1,
    get: ({ value }) => value,
    set: (value) => ({ value }),
    shown: (value) => (value < 0 ? "as trained" : value ? format(data.values[value], 0) : "0 (off)"),
  });
  figure.reset(controls);

  const text = make(panel, "p", { class: "output", lang: "de" });
  const gloss = make(panel, "p", { class: "axis" });
  figure.onChange(({ card, sentence }) => {
    const state = now();
    chosen.forEach((node, i) => node.setAttribute("aria-pressed", i === card));
    chooser.value = sentence;
    drawAsks(asks, state);
    drawAnswers(answers, state);
    text.textContent = "";
    for (const { word, isNew } of state.words) {
      make(text, isNew ? "mark" : "span", {}, word);
      text.append(" ");
    }
    gloss.textContent = `In English: ${state.gloss}`;
  });
  figure.say(panel, () => {
    const { unit, set, isTrained, alike, shuffles } = now();
    if (set === null) return `Unit ${unit} is as the network computes it.`;
    const value = set ? `has the value ${set} everywhere` : "is off";
    return `Unit ${unit} ${value}: ` + (isTrained
      ? "no word changes."
      : `another sentence. Of ${shuffles} shuffled answers, ${alike} give the same one.`);
  });
  make(panel, "p", { class: "axis" },
    "A shuffled answer is the unit's own (its row of W₂) with its entries shuffled. Many of them: any push would have done it. Few: this unit did.");
  figure.show();
}

const shown = (piece) => (piece === "</s>" ? "END" : piece);

/* Where the unit's value is largest: its question. */
function drawAsks(table, { asks, fires, largest }) {
  table.textContent = "";
  make(table, "caption", {}, `Asks: fires at ${fires}\u00a0% of places, most strongly (${format(largest, 1)}) here`);
  for (const { source, before, next, by } of asks) {
    const row = make(table, "tr");
    const place = make(row, "td", { style: "white-space: normal" }, source);
    make(place, "br");
    const german = make(place, "span", { lang: "de" }, `${before} `);
    make(german, "strong", {}, `\u2192 ${shown(next)}`);
    make(row, "td", {}, format(by, 1));
  }
}

/* The tokens whose logits the unit raises most: its answer. */
function drawAnswers(table, { answers }) {
  table.textContent = "";
  make(table, "caption", {}, "Answers: raises the logits of");
  for (const [piece, rise] of answers) {
    const row = make(table, "tr");
    make(row, "td", { lang: "de" }, shown(piece));
    const bar = make(row, "td", { style: "width: 60%" });
    make(bar, "span", { class: "bar", style: `width: ${(100 * rise) / 1.6}%` });
    make(row, "td", {}, format(rise, 2));
  }
}
