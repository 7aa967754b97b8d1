/* How many heads can you do without? (Section 3.2.2). A trained translator's heads are
   switched off, alone, all but one of a sub-layer, or a whole sub-layer. */

import { button, make } from "../../transformer_lite/page/dom.js";
import { t } from "../../transformer_lite/page/messages.js";
import { changedWords, writeWords } from "../../transformer_lite/page/words.js";
import { Figure, predict } from "./live.js";

const GUESSES = ["3", "20", "60"];

export const START = { sentence: 0, row: null, head: null, alone: false };

/* Everything that the figure shows.
   data  rows     the names of the sub-layers, from the source to the output
         sentences  for each its outputs, and which of them each setting gives: `without`
                  head h of sub-layer r, `alone` with that head alone in its sub-layer,
                  `none` without the whole sub-layer */
export function compute({ sentence, row, head, alone }, { sentences }) {
  const { source, outputs, trained, without, alone: kept, none } = sentences[sentence];
  const chosen =
    row === null ? trained : head === null ? none[row] : (alone ? kept : without)[row][head];
  const words = (output) =>
    changedWords(outputs[trained].text.split(" "), outputs[output].text.split(" "));
  const damage = (table) =>
    table.map((heads) => heads.map((output) => words(output).filter(({ isNew }) => isNew).length));
  return {
    source,
    words: words(chosen),
    gloss: outputs[chosen].gloss,
    isTrained: chosen === trained,
    damage: damage(alone ? kept : without),
    harmful: without.flat().filter((output) => output !== trained).length,
  };
}

export function build(root, data) {
  const figure = new Figure(root, START);
  const now = () => compute(figure.state, data);
  const { harmful } = compute(START, data);
  const total = data.rows.length * data.heads;

  const panel = predict(root, {
    question: t`This translator has ${total} heads. We switch off one head at a time. How often does the translation of “${data.sentences[0].source}” change?`,
    options: GUESSES,
    answer: GUESSES.find((guess) => Number(guess) === harmful),
    because: t`${harmful} times. Each of the other ${total - harmful} can go alone, and no word changes. Are they superfluous? Switch off the whole last row, or leave only one of its heads on.`,
  });

  const controls = make(panel, "div", { class: "controls" });
  figure.choice(controls, t`sentence`, data.sentences.map(({ source }) => source), "sentence");
  figure.toggle(controls, t`the chosen head is the only one of its row`, "alone");
  figure.reset(controls);

  const text = make(panel, "p", { class: "output", lang: "de" });
  const gloss = make(panel, "p", { class: "axis" });
  const grid = make(panel, "div", { class: "heads-off" });
  const rows = data.rows.map((name, row) => {
    const all = button(grid, name, () => choose(row, null), { class: "row-off" });
    const heads = Array.from({ length: data.heads }, (_, head) =>
      button(grid, "", () => choose(row, head), { "aria-label": t`${name}, head ${head + 1}` })
    );
    return { all, heads };
  });
  grid.style.gridTemplateColumns = `max-content repeat(${data.heads}, minmax(28px, 1fr))`;

  function choose(row, head) {
    const { state } = figure;
    const again = state.row === row && state.head === head;
    figure.set(again ? { row: null, head: null } : { row, head });
  }

  figure.onChange(({ sentence, row, head, alone }) => {
    const { words, gloss: english, damage } = now();
    writeWords(text, words);
    gloss.textContent = t`In English: ${english}`;
    rows.forEach(({ all, heads }, i) => {
      all.setAttribute("aria-pressed", row === i && head === null);
      heads.forEach((node, j) => {
        const number = row === i && head === null ? 0 : damage[i][j]; // none where all are off
        node.textContent = number || "";
        node.classList.toggle("harmful", number > 0);
        const isOff = row === i && (head === null || (alone ? j !== head : j === head));
        node.classList.toggle("off", isOff);
        node.setAttribute("aria-pressed", row === i && head === j);
      });
    });
  });
  figure.say(panel, ({ row, head, alone }) => {
    const { words, isTrained } = now();
    const what =
      row === null ? t`All heads are on`
      : head === null ? t`All heads of ${data.rows[row]} are off`
      : alone ? t`Of ${data.rows[row]} only head ${head + 1} is on`
      : t`Head ${head + 1} of ${data.rows[row]} is off`;
    const changed = words.filter(({ isNew }) => isNew).length;
    if (isTrained) return t`${what}: the translation is as trained.`;
    return changed === 1 ? t`${what}: ${changed} word changes.` : t`${what}: ${changed} words change.`;
  });
  const foot = make(panel, "p", { class: "axis" });
  figure.onChange(({ alone }) => {
    foot.textContent = alone
      ? t`A head that is off gives zeros. The number in a square counts the words that change if this head is the only one of its row that is on.`
      : t`A head that is off gives zeros. The number in a square counts the words that change if this head alone is off.`;
  });
  figure.show();
}
