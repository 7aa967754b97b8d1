/* When is n² large? (Section 4). Which share of a layer's multiplications belongs to the
   pairs of tokens, and so grows with n², at each length and width. */

import { make } from "../../transformer_lite/page/dom.js";
import { t } from "../../transformer_lite/page/messages.js";
import { Figure, format, grouped, predict } from "./live.js";

export const START = { layer: 0, d: 512, n: 512 };
const LONGEST = 2 ** 20;

/* A token's matrices cost `factor` · d times as much as one of its pairs. */
export function compute({ layer, d, n }, { layers }) {
  const half = layers[layer].factor * d; // tokens
  const share = (length) => length / (length + half);
  const curve = Array.from({ length: 35 }, (_, i) => 2 ** (3 + i / 2));
  return { half, share: share(n), curve: curve.map((length) => [length, share(length)]) };
}

const percent = (share) => `${format(100 * share, share < 0.01 ? 2 : 0)}\u00a0%`;
const across = (n) => 48 + (297 * (Math.log2(n) - 3)) / (Math.log2(LONGEST) - 3);
const down = (share) => 190 - 170 * share;

export function build(root, data) {
  const figure = new Figure(root, START);
  const now = () => compute(figure.state, data);

  const panel = predict(root, {
    question: t`An encoder layer of the paper’s base model (width d = 512) reads n tokens. Its attention compares all n² pairs; the work of its matrices only grows with n. At which n do the pairs take half of the layer’s multiplications?`,
    options: [t`512 tokens: n = d`, t`1,536 tokens: n = 3d`, t`3,072 tokens: n = 6d`],
    answer: t`3,072 tokens: n = 6d`,
    because: t`Now move n and d, or choose a model.`,
  });

  const models = make(panel, "div", { class: "controls" });
  for (const { name, layer, d, n } of data.models) {
    const node = make(models, "button", { type: "button" }, `${name}: n = ${grouped(n)}`);
    node.addEventListener("click", () => figure.set({ layer, d, n }));
    figure.onChange((state) => {
      const isChosen = state.layer === layer && state.d === d && state.n === n;
      node.setAttribute("aria-pressed", isChosen);
    });
  }
  figure.choice(panel, t`layer`, data.layers.map(({ name }) => name), "layer");

  const controls = make(panel, "div", { class: "controls wide" });
  figure.slider(controls, t`tokens n`, {
    min: 24, max: 160, // eight places for each doubling, from 8 to 1,048,576
    get: ({ n }) => Math.round(8 * Math.log2(n)),
    set: (place) => ({ n: Math.round(2 ** (place / 8)) }),
    shown: () => grouped(figure.state.n),
  });
  figure.slider(controls, t`width d`, {
    min: 6, max: 14,
    get: ({ d }) => Math.round(Math.log2(d)),
    set: (power) => ({ d: 2 ** power }),
    shown: () => grouped(figure.state.d),
  });
  figure.reset(controls);

  const drawing = make(panel, "svg", { viewBox: "0 0 358 232", "aria-hidden": "true" });
  figure.onChange(({ n, d }) => {
    const { curve, share, half } = now();
    drawing.textContent = "";
    const line = (x1, y1, x2, y2, look) => make(drawing, "line", { x1, y1, x2, y2, class: look });
    const write = (x, y, text, anchor) => make(drawing, "text", { x, y, "text-anchor": anchor }, text);
    line(48, 190, 345, 190, "foot");
    for (const at of [0, 0.5, 1]) write(44, down(at) + 5, `${100 * at}\u00a0%`, "end").style.fontSize = "12px";
    for (const at of [27, 512, 8192, 131072]) write(across(at), 207, grouped(at), "middle").style.fontSize = "12px";
    write(192, 226, t`tokens n`, "middle").style.fontSize = "12px";
    line(across(d), 190, across(d), 20, "foot");
    write(across(d) - 4, 32, "n = d", "end");
    if (half < LONGEST) line(across(half), down(0.5), across(half), 190, "equal");
    const path = curve.map(([at, part], i) => `${i ? "L" : "M"}${across(at)} ${down(part)}`).join("");
    make(drawing, "path", { d: path, fill: "none", style: "stroke: var(--weight); stroke-width: 2.5" });
    make(drawing, "circle", { cx: across(n), cy: down(share), r: 6, style: "fill: var(--query)" });
  });
  figure.say(panel, ({ n, d, layer }) => {
    const { share, half } = now();
    return t`With ${grouped(n)} tokens and d = ${grouped(d)}, the pairs take ${percent(share)} of the multiplications. They take half at n = ${data.layers[layer].factor}d = ${grouped(half)}.`;
  });
  make(panel, "p", { class: "axis" },
    t`The curve is the share of the pairs; the dotted line marks n = d. In GPT-2 and Llama 3, a token reads no later ones, so half of the pairs count.`);
  figure.show();
}
