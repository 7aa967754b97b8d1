/* Eight cards (the chapter after the trainer). What several GPUs that sum their gradients
   over a link make of a step, computed from the step's operations and bytes. */

import { make } from "../../transformer_lite/page/dom.js";
import { t } from "../../transformer_lite/page/messages.js";
import { Figure, format, grouped, predict } from "./live.js";

export const START = { gpu: 1, link: 2, cards: 8, tokens: 25000, overlap: true, bf16: false };

/* When everything happens, in seconds. The backward pass begins with the tied matrix as
   output, which completes no gradient. A bucket is ready when its share of the rest is
   over, the last one at the end; the link sends one after the other. */
export function compute({ gpu, link, cards, tokens, overlap, bf16 }, data) {
  const { flops } = data.gpus[gpu];
  const { bytes } = data.links[link];
  const perCard = tokens / cards;
  const alone = (6 * data.parameters * tokens) / flops;
  const forward = alone / cards / 3;
  const computed = alone / cards;
  const layers = forward + data.output * (computed - forward); // their backward pass begins
  // Seconds for a byte of fp32; in bf16, a gradient has half of the bytes.
  const ring = ((2 * (cards - 1)) / cards / bytes) * (bf16 ? 0.5 : 1);
  const early = data.buckets.slice(0, -1);
  const before = early.reduce((sum, size) => sum + size, 0);
  let gone = 0;
  let free = 0;
  const buckets = data.buckets.map((size, i) => {
    gone += size;
    const share = i < early.length ? gone / before : 1;
    const ready = overlap ? layers + share * (computed - layers) : computed;
    const begin = Math.max(ready, free);
    free = begin + size * ring;
    return { ready, begin, end: free };
  });
  const end = Math.max(computed, free);
  const send = (before + data.buckets.at(-1)) * ring;
  return {
    perCard,
    alone,
    forward,
    computed,
    buckets,
    send,
    end,
    speedUp: alone / end,
    enough: ring * flops, // tokens on a card that hide the layers' sum, by the rule
  };
}

const milliseconds = (seconds) => format(1000 * seconds, seconds < 0.1 ? 1 : 0);

export function build(root, data) {
  const figure = new Figure(root, START);
  const now = () => compute(figure.state, data);

  const panel = predict(root, {
    question: t`An H100 card takes a step of 25,000 tokens of the base model. Now eight such cards share the step, connected by PCIe 5. How many times as fast are they?`,
    options: [t`About 8 times`, t`About 6 times`, t`About 3 times`],
    answer: t`About 3 times`,
    because: t`Each computes for an eighth of the time, and then they all wait for the sum of the gradients.`,
  });

  const controls = make(panel, "div", { class: "controls" });
  for (const [title, name, list] of [["GPU", "gpu", data.gpus], [t`link`, "link", data.links]]) {
    figure.choice(controls, title, list.map((one) => one.name), name);
  }
  const sliders = make(panel, "div", { class: "controls wide" });
  figure.slider(sliders, t`GPUs`, {
    min: 1, max: 8,
    get: ({ cards }) => cards,
    set: (cards) => ({ cards }),
    shown: (cards) => format(cards, 0),
  });
  figure.slider(sliders, t`tokens a step`, {
    min: 25000, max: 400000, step: 25000,
    get: ({ tokens }) => tokens,
    set: (tokens) => ({ tokens }),
    shown: grouped,
  });
  const last = make(panel, "div", { class: "controls" });
  figure.toggle(last, t`send during the backward pass`, "overlap");
  figure.toggle(last, t`gradients in bf16`, "bf16");
  figure.reset(last);

  const lanes = make(panel, "div", { "aria-hidden": "true" });
  figure.onChange(({ cards }) => {
    const { alone, forward, computed, buckets, end } = now();
    const whole = Math.max(alone, end);
    lanes.textContent = "";
    const lane = (title, parts) => {
      make(lanes, "div", { class: "axis" }, title);
      const line = make(lanes, "div", { style: "position: relative; height: 1.3em; margin-bottom: 0.3em" });
      for (const [from, to, look] of parts) {
        const left = (100 * from) / whole;
        const width = (100 * (to - from)) / whole;
        make(line, "div", { style: `position: absolute; height: 100%; left: ${left}%; width: ${width}%; border: 1px solid var(--ground); ${look}` });
      }
    };
    const work = "background: var(--weight)";
    lane(t`one GPU computes: ${milliseconds(alone)} ms`, [[0, alone, work]]);
    lane(t`each of ${cards} computes: ${milliseconds(computed)} ms`, [
      [0, forward, `${work}; opacity: 0.6`],
      [forward, computed, work],
    ]);
    const sends = cards > 1 ? buckets : [];
    lane(
      cards === 1 ? t`the link has nothing to sum`
        : t`the link sums ${sends.length} buckets, the one with the tied matrix last; all is over after ${milliseconds(end)} ms`,
      sends.map(({ begin, end: to }, i) => [
        begin, to, `background: var(${i === sends.length - 1 ? "--query" : "--value"})`,
      ]),
    );
  });
  figure.say(panel, ({ cards }) => {
    if (cards === 1) return t`One GPU has nothing to sum.`;
    const { speedUp, perCard, enough } = now();
    return t`Computed: ${cards} GPUs are ${format(speedUp, 1)} times as fast as one. Each has ${grouped(perCard)} tokens; the rule (By hand) asks for ${grouped(enough)}.`;
  });
  const source = make(panel, "p", {});
  figure.onChange(({ gpu, link }) => {
    const [computes, sends] = [data.gpus[gpu], data.links[link]];
    source.textContent =
      `${t`${computes.name}: ${format(computes.flops / 1e12, 0)} TFLOP/s, ${computes.source}.`} ` +
      t`${sends.name}: ${format(sends.bytes / 1e9, 1)} GB/s, ${sends.source}.`;
  });
  make(panel, "p", { class: "axis" },
    t`All times are computed, none is measured. The computing is taken to shrink exactly with the tokens; launching kernels, reading data and Adam's step are left out.`);
  figure.show();
}
