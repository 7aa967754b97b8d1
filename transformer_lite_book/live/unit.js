/* Turn up a unit (Section 3.3). One unit in the last decoder layer of a trained translator
   gets a value at all positions: what does it ask, what does it answer, and what becomes
   of the translation? */

import { make } from "../../transformer_lite/page/dom.js";
import { t } from "../../transformer_lite/page/messages.js";
import { changedWords, writeWords } from "../../transformer_lite/page/words.js";
import { Figure, format, predict } from "./live.js";

/* The colour of feed-forward networks in the book. */
const PURPLE = "background: light-dark(#8f4fb3, #c79be0)";
const NOTHING = t`It stays as it is`;

/* The value is the number of a stored one; -1 leaves the unit as it is. */
export const START = { card: 0, sentence: 0, value: -1 };

/* Everything that the figure shows.
   data  values     that a unit is set to; `high` is the one that all units were set to
         cards      for each unit its number, where it fires most, and what it raises
         sentences  for each its outputs, the first as trained; which of them each card
                    and value gives (`set`), how many of all units give it at `high`
                    (`given`), and what changes when one of them is `off` */
export function compute({ card, sentence, value }, { values, high, probes, cards, sentences }) {
  const { unit, fires, largest, answers, asks } = cards[card];
  const { source, outputs, set, given, off } = sentences[sentence];
  const output = value < 0 ? 0 : set[card][value];
  const words = ({ text }) => text.split(" ").filter(Boolean);
  const bare = (output) => words(output).map((word) => word.replace(/[.,!?]+$/, ""));
  const count = {
    0: off.filter(([, text]) => text === outputs[output].text).length,
    [high]: given[output],
  }[values[value]];
  const written = words(outputs[output]);
  const changed = changedWords(bare(outputs[0]), bare(outputs[output]));
  return {
    unit,
    fires,
    largest,
    answers,
    asks: asks.map(([probe, before, next, by]) => ({ source: probes[probe][0], before, next, by })),
    source,
    set: value < 0 ? null : values[value],
    words: changed.map(({ isNew }, i) => ({ word: written[i], isNew })),
    gloss: outputs[output].gloss,
    isTrained: output === 0,
    given: output === 0 ? null : count ?? null,
  };
}

export function build(root, data) {
  const figure = new Figure(root, START);
  const now = () => compute(figure.state, data);
  const keys = data.sentences.findIndex(({ source }) => source.includes("keys"));

  const panel = predict(root, {
    question: t`One of the ${data.units} units in the last network raises the words “hat, habe, haben” (has, have). It is switched off: its value is 0 at every position. What happens to “${data.sentences[keys].outputs[0].text}”?`,
    options: [NOTHING, t`“habe” disappears`, t`It becomes nonsense`],
    answer: NOTHING,
    because: t`No word changes. But choose unit 379 and “Good morning! How are you?”, and switch that unit off. Then turn units up.`,
  }, () => figure.set({ sentence: keys, value: data.values.indexOf(0) })); // as in the question

  const cards = make(panel, "div", { class: "options", role: "group", "aria-label": t`unit` });
  const chosen = data.cards.map(({ unit, answers }, card) => {
    const name = `${unit}: ${answers.slice(0, 3).map(([piece]) => shown(piece)).join(", ")}`;
    const node = make(cards, "button", { type: "button" }, name);
    node.addEventListener("click", () => figure.set({ card }));
    return node;
  });
  figure.choice(panel, t`sentence`, data.sentences.map(({ source }) => source), "sentence");
  const controls = make(panel, "div", { class: "controls wide" });
  figure.slider(controls, t`value`, {
    min: -1, max: data.values.length - 1,
    get: ({ value }) => value,
    set: (value) => ({ value }),
    shown: (value) => (value < 0 ? t`as trained` : value ? format(data.values[value], 0) : t`0 (off)`),
  });
  figure.reset(controls);

  const text = make(panel, "p", { class: "output", lang: "de" });
  const gloss = make(panel, "p", { class: "axis" });
  const said = make(panel, "div");
  const views = make(panel, "div", { class: "views" });
  const asks = make(make(views, "div"), "table");
  const answers = make(make(views, "div"), "table");
  figure.onChange(({ card, sentence }) => {
    const state = now();
    chosen.forEach((node, i) => node.setAttribute("aria-pressed", i === card));
    drawAsks(asks, state);
    drawAnswers(answers, state);
    writeWords(text, state.words);
    gloss.textContent = t`In English: ${state.gloss}`;
  });
  figure.say(said, () => {
    const { unit, set, isTrained, given } = now();
    if (set === null) return t`Unit ${unit} is as the network computes it.`;
    const what = set ? t`Unit ${unit} has the value ${set} everywhere` : t`Unit ${unit} is off`;
    if (isTrained) return t`${what}: no word changes.`;
    const other = t`${what}: another sentence.`;
    return given === null ? other : `${other} ${saidOfAll(data.units, set, given)}`;
  });
  make(panel, "p", { class: "axis" },
    t`No unit has more than ${format(data.most, 1)} by itself in ${data.probes.length} short sentences.`);
  figure.show();
}

/* How many of all units give the same sentence, each set to the same value. */
function saidOfAll(units, set, given) {
  if (set) {
    return given > 1
      ? t`Of all ${units} units, set to ${set} one at a time, ${given} give it.`
      : t`Of all ${units} units, set to ${set} one at a time, ${given} gives it.`;
  }
  return given > 1
    ? t`Of all ${units} units, switched off one at a time, ${given} give it.`
    : t`Of all ${units} units, switched off one at a time, ${given} gives it.`;
}

const shown = (piece) => (piece === "</s>" ? "END" : piece);

/* Where the unit's value is largest: its question. */
function drawAsks(table, { asks, fires, largest }) {
  table.textContent = "";
  make(table, "caption", {}, t`Asks: fires at ${fires}\u00a0% of places, most strongly (${format(largest, 1)}) here`);
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
  make(table, "caption", {}, t`Answers: a value of 1 raises the logits of (before the division by the standard deviation)`);
  for (const [piece, rise] of answers) {
    const row = make(table, "tr");
    make(row, "td", { lang: "de" }, shown(piece));
    const bar = make(row, "td", { style: "width: 60%" });
    make(bar, "span", { class: "bar", style: `width: ${(100 * rise) / 1.6}%; ${PURPLE}` });
    make(row, "td", {}, format(rise, 2));
  }
}
