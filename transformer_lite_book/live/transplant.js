/* Transplant a gender (Figures 3-5). One head of a small translator gets the numbers that
   it has in another sentence: does the model use what the head reads? */

import { button, make } from "../../transformer_lite/page/dom.js";
import { t } from "../../transformer_lite/page/messages.js";
import { Figure, format, predict } from "./live.js";

const PRONOUNS = ["er", "sie", "es"];
const WRITTEN = [t`er or ihn`, "sie", "es", t`another word`];
const GENDERS = [t`masculine`, t`feminine`, t`neuter`];
const ACTS = {
  "as it is": t`as it is`, zeros: t`zeros`, mean: t`mean`, transplant: t`transplant`,
};

export const START = { model: 0, head: 7, into: 1, from: 0, act: "transplant" };

/* Everything that the figure shows.
   data  sentences  each with its German words up to the pronoun, and the pronoun
         models     for each its heads: weights in percent by sentence, and the chances of
                    the three pronouns in thousandths, by sentence, with zeros, with the
                    mean, and with each other sentence's numbers; counts over many
                    sentences of what is written, by the gender that is put in */
export function compute({ model, head, into, from, act }, { sentences, models }) {
  const { seed, own, heads } = models[model];
  const { name, weights, zeros, mean, from: given, counts } = heads[head];
  const chances = { "as it is": own, zeros, mean, transplant: given[from] }[act][into];
  const largest = chances.indexOf(Math.max(...chances));
  return {
    name,
    seed,
    maps: heads.map((one) => one.weights[into]),
    given: weights[from],
    chances,
    written: PRONOUNS[largest],
    due: sentences[into].pronoun,
    donor: sentences[from].pronoun,
    counts,
    shares: counts.map((row) => row.map((n) => (100 * n) / row.reduce((a, b) => a + b))),
  };
}

export function build(root, data) {
  const figure = new Figure(root, START);
  const now = () => compute(figure.state, data);
  const sentence = (i) => `${data.sentences[i].words.join(" ").replace(" ,", ",")} …`;
  const english = (i) => data.sentences[i].source;

  make(root, "p", {},
    t`Each row is a head of the decoder. The squares show what it reads while the model writes the next word, the pronoun: the fuller a square, the larger the weight.`);
  const maps = make(root, "div");
  const panel = predict(root, {
    question: t`Model 1 writes “sie”, for “die Dose” (the can). We give one head the 12 numbers that it has where “der Hund” (the dog) is meant. With which head does “sie” become “er”? Choose by looking.`,
    options: ["1.2", "2.1", "2.3", "2.4"],
    answer: "2.4",
    because: t`It is head 2.4, and no other. Try it, then all eight heads of model 3: in this sentence, none does it alone.`,
  }, () => figure.show());

  const controls = make(panel, "div", { class: "controls" });
  figure.choice(controls, t`model`, data.models.map(({ seed }) => t`model ${seed}`), "model");
  const all = data.sentences.map((_, i) => `${sentence(i)} ${data.sentences[i].pronoun}`);
  figure.choice(controls, t`into`, all, "into");
  figure.choice(controls, t`from`, all, "from");

  const acts = make(panel, "div", { class: "controls" });
  for (const [act, title] of Object.entries(ACTS)) {
    const node = button(acts, title, () => figure.set({ act }));
    figure.onChange((state) => node.setAttribute("aria-pressed", state.act === act));
  }
  figure.reset(acts);
  figure.say(panel, ({ act }) => {
    const { name, seed, chances, written, due, donor } = now();
    const what = {
      "as it is": t`Nothing is replaced`,
      zeros: t`Zeros in place of head ${name} of model ${seed}`,
      mean: t`The mean of head ${name} of model ${seed}`,
      transplant: t`Head ${name} of model ${seed} has its numbers from the sentence with “${donor}”`,
    }[act];
    const share = `${format(Math.max(...chances) / 10, 1)}\u00a0%`;
    return written === due
      ? t`${what}: the model still writes “${written}” (${share}).`
      : t`${what}: the model now writes “${written}”, not “${due}” (${share}).`;
  });
  const views = make(panel, "div", { class: "views" });
  const bars = make(make(views, "table"), "tbody");
  const many = make(views, "div");

  maps.addEventListener("click", ({ target }) => {
    const chosen = target.closest("[data-head]");
    if (chosen) figure.set({ head: Number(chosen.dataset.head) });
  });
  figure.onChange(({ model, head, into, from }) => {
    const focused = maps.contains(document.activeElement);
    const { maps: rows, given } = now();
    maps.textContent = "";
    const heads = data.models[model].heads.map(({ name }) => name);
    make(maps, "p", { class: "axis" }, t`${english(into)} (model ${data.models[model].seed})`);
    drawMap(maps, data.sentences[into].words, heads, rows, panel.hidden ? null : head);
    if (!panel.hidden) {
      make(maps, "p", { class: "axis" }, t`The same head where its numbers come from: ${english(from)}`);
      drawMap(maps, data.sentences[from].words, [heads[head]], [given]);
    }
    if (focused) maps.querySelector(`[data-head="${head}"]`).focus();
  });
  figure.onChange(() => {
    const { chances, name, seed, counts, shares } = now();
    bars.textContent = "";
    const rest = Math.max(1000 - chances.reduce((a, b) => a + b), 0);
    [...PRONOUNS, t`others`].forEach((word, i) => {
      const row = make(bars, "tr");
      make(row, "th", { scope: "row" }, word);
      const cell = make(row, "td");
      const share = [...chances, rest][i] / 10;
      make(cell, "span", { class: "bar", style: `width: ${(share / 15).toFixed(2)}em` });
      cell.append(` ${format(share, 1)}\u00a0%`);
    });
    many.textContent = "";
    const total = counts.flat().reduce((a, b) => a + b) / 2;
    make(many, "p", { class: "axis" },
      t`${total} unseen sentences, head ${name} of model ${seed}: what the model writes, in percent, if the numbers come from a sentence whose noun has another gender.`);
    const table = make(many, "table");
    const line = make(make(table, "thead"), "tr");
    for (const title of [t`from`, ...WRITTEN]) {
      make(line, "th", { scope: "col", style: "white-space: normal" }, title);
    }
    const body = make(table, "tbody");
    shares.forEach((row, i) => {
      const node = make(body, "tr");
      make(node, "th", { scope: "row" }, GENDERS[i]);
      row.forEach((share, j) => {
        const bold = i === j ? "font-weight: 700" : "";
        make(node, "td", { style: bold }, format(share, 0));
      });
    });
  });
  figure.show();
}

/* The words that are read, and below them a row of squares for each head. */
function drawMap(parent, words, heads, rows, chosen) {
  const map = make(parent, "div", { class: "map", style: "margin-bottom: 0.6em" });
  map.style.gridTemplateColumns = `max-content repeat(${words.length + 1}, minmax(0, 1fr))`;
  make(map, "span");
  for (const word of [t`(begin)`, ...words]) {
    make(map, "span", { class: "token", style: "font-size: 12px; padding: 0; text-align: center" }, word);
  }
  heads.forEach((name, i) => {
    if (chosen === undefined) make(map, "span", { class: "token" }, name);
    else {
      make(map, "button", {
        type: "button", "data-head": i, "aria-pressed": i === chosen, "aria-label": t`head ${name}`,
        style: "min-height: 28px; padding: 0 0.4em",
      }, name);
    }
    for (const weight of rows[i]) {
      const shade = `color-mix(in srgb, var(--weight) ${weight}%, transparent)`;
      make(map, "i", { style: `aspect-ratio: auto; background: ${shade}; min-height: 28px` });
    }
  });
}
