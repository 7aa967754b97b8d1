/* Drag the query (Section 3.2.1). The keys of two words span a plane, and the query is an
   arrow in it: what in a query decides about the weights? */

import { make } from "../../transformer_lite/page/dom.js";
import { listed, t } from "../../transformer_lite/page/messages.js";
import { Figure, format, predict, vector } from "./live.js";
import { dot, scaledDotProductAttention, softmax } from "../../transformer_lite/page/transformer.js";

const LEFT = -2.6, RIGHT = 7.4, TOP = 4, BOTTOM = -6.4; // the part of the plane that is shown
const UNIT = 36; // pixels

export const START = { query: [1, 0, 1, 0], root: true, hot: false, width: 2, wideRoot: true };

/* Everything that the figure shows, computed from its state.
   words  each with its name, key and value; the last one comes with "hot"
   wide   for each width, rows of dot products, each of a random query with ten random keys;
          the first row is drawn, and the means are over all rows; it has its own root */
export function compute({ query, root, hot, width, wideRoot }, { words, wide }) {
  const shown = hot ? words : words.slice(0, 2);
  const dots = shown.map(({ key }) => dot(query, key));
  const divisor = root ? Math.sqrt(query.length) : 1;
  const { weights, output } = scaledDotProductAttention(
    query, shown.map(({ key }) => key), shown.map(({ value }) => value), root
  );
  const { d_k, dots: random } = wide[width];
  const wideWeights = random.map((row) => softmax(row.map((product) => product / (wideRoot ? Math.sqrt(d_k) : 1))));
  return {
    words: shown,
    dots,
    scores: dots.map((product) => product / divisor),
    weights,
    output: [...output],
    reaction: weights[0] * (1 - weights[0]),
    d_k,
    wideWeights: wideWeights[0],
    wideLargest: mean(wideWeights.map((row) => Math.max(...row))),
    wideReaction: mean(wideWeights.flatMap((row) => [...row].map((weight) => weight * (1 - weight)))),
  };
}

/* Four digits of each weight, or five where four would show one of 0.99995 as 1. */
const digitsOf = (weights) => (Math.max(...weights) > 0.999 ? 5 : 4);

const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;

/* Axes of the plane of two keys: the first along the first key. */
export function planeOf(first, second) {
  const scale = (numbers, factor) => numbers.map((number) => number * factor);
  const along = scale(first, 1 / Math.hypot(...first));
  const part = dot(second, along);
  const rest = second.map((number, i) => number - part * along[i]);
  return [along, scale(rest, 1 / Math.hypot(...rest))];
}

const TASKS = [
  {
    text: t`Make the query at least three times as long, and keep both weights.`,
    isDone: ({ length, weights, scaled }) => scaled && length > 4.2 && Math.abs(weights[0] - 0.731) < 0.02,
    found: t`Along the thin line through the arrow's tip, both scores rise by the same amount. Only their difference counts.`,
  },
  {
    text: t`Give “cold” 99.99 % of the weight.`,
    isDone: ({ weights }) => weights[0] >= 0.9999,
    found: t`Now move the query a little: the weights hardly react. This is saturation.`,
  },
  {
    text: t`Add “hot”, which has the key of “cold” and the opposite value. Give the two different weights.`,
    isDone: () => false,
    found: t`It is impossible: equal keys get equal scores, wherever the query points. What tells hot from cold is the value.`,
  },
];

export function build(root, data) {
  const [cold, tea] = data.words;
  const plane = planeOf(cold.key, tea.key);
  const place = (point) => plane.map((axis) => dot(point, axis));
  const figure = new Figure(root, START);
  const now = () => compute(figure.state, data);

  const views = make(root, "div", { class: "views" });
  const drawing = make(views, "svg", {
    viewBox: `${LEFT * UNIT} ${-TOP * UNIT} ${(RIGHT - LEFT) * UNIT} ${(TOP - BOTTOM) * UNIT}`,
    role: "img", "aria-label": t`The plane of the keys, with the query as an arrow`,
  });
  const side = make(views, "div");
  drawPlane(figure, drawing, data, place, now);
  figure.handle(drawing, {
    get: ({ query }) => toPixels(place(query)),
    move: (x, y) => {
      const [right, up] = place(figure.state.query);
      const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
      const moved = [
        clamp(x / UNIT, LEFT + 0.3, RIGHT - 0.3) - right,
        clamp(-y / UNIT, BOTTOM + 0.3, TOP - 0.3) - up,
      ];
      return {
        query: figure.state.query.map(
          (number, i) => Math.round(100 * (number + moved[0] * plane[0][i] + moved[1] * plane[1][i])) / 100
        ),
      };
    },
  });

  make(
    side, "p", { class: "axis" },
    t`You look at the plane that contains both keys. What the query has outside this plane changes no dot product. The numbers at the ends of the dashed lines are the dot products. Moving the query along the thin line changes no weight. The weights react most where the band is strongest.`
  );
  tableOf(figure, side, now);
  const sliders = make(side, "div", { class: "sliders" });
  make(sliders, "p", { class: "axis" }, t`the query of “tea”, to drag or to set:`);
  START.query.forEach((_, i) => {
    figure.slider(sliders, `q${"₁₂₃₄"[i]}`, {
      min: -12, max: 12, step: 0.1,
      get: ({ query }) => query[i],
      set: (value) => ({ query: figure.state.query.with(i, value) }),
    });
  });
  const row = make(side, "div", { class: "controls" });
  figure.toggle(row, t`divide by √dₖ`, "root");
  figure.toggle(row, t`add “hot”`, "hot");
  figure.reset(row);
  figure.say(root, () => {
    const { words, weights, output } = now();
    const digits = digitsOf(weights) - 2;
    const shares = words.map(({ name }, i) => t`${format(100 * weights[i], digits)}\u00a0% “${name}”`);
    return t`“tea” receives ${listed(shares)}. Together: ${vector(output)}.`;
  });

  const tasks = make(root, "div", { class: "tasks" });
  predict(tasks, {
    question: t`The query becomes ten times as long. What happens to the weight of “cold”, 73 %?`,
    options: [t`It stays`, t`It becomes about 90 %`, t`It becomes about 99.995 %`],
    answer: t`It becomes about 99.995 %`,
    because: t`The scores 2 and 1 become 20 and 10, and e²⁰ is 22,026 times e¹⁰.`,
  }, () => doTasks(figure, tasks, now));

  wider(figure, make(root, "div", { class: "wider" }), data, now);
  figure.show();
}

const toPixels = ([right, up]) => [right * UNIT, -up * UNIT];

function arrow(drawing, kind, name) {
  const line = make(drawing, "line", { class: `arrow ${kind}`, x1: 0, y1: 0 });
  const head = make(drawing, "path", { class: `head ${kind}`, d: "M0 0L-11 -4.5L-11 4.5z" });
  const text = make(drawing, "text", { class: kind }, name);
  return (to, shift = [8, -8]) => {
    const [x, y] = toPixels(to);
    const turn = (Math.atan2(y, x) * 180) / Math.PI;
    line.setAttribute("x2", x);
    line.setAttribute("y2", y);
    head.setAttribute("transform", `translate(${x} ${y}) rotate(${turn})`);
    text.setAttribute("x", x + shift[0]);
    text.setAttribute("y", y + shift[1]);
  };
}

function drawPlane(figure, drawing, { words: [cold, tea] }, place, now) {
  // Where the weights react: a band across the plane, stronger where w (1 − w) is larger.
  const [right, up] = place(cold.key.map((number, i) => number - tea.key[i]));
  const length = Math.hypot(right, up);
  const turn = (Math.atan2(-up, right) * 180) / Math.PI;
  const band = make(drawing, "g", { transform: `rotate(${turn})` });
  const stripes = Array.from({ length: 96 }, (_, i) => {
    const at = (i - 48) / 4; // along the difference of the keys
    const stripe = make(band, "rect", {
      class: "stripe", x: at * UNIT, y: -16 * UNIT, width: UNIT / 4 + 0.5, height: 32 * UNIT,
    });
    return { at: at + 1 / 8, stripe };
  });
  const equal = make(drawing, "line", { class: "equal" });
  const feet = [cold, tea].map(() => make(drawing, "line", { class: "foot" }));
  const products = [cold, tea].map(() => make(drawing, "text", { class: "product" }));
  const keys = [arrow(drawing, "key", t`key of cold`), arrow(drawing, "key", t`key of tea`)];
  const nameOfFirst = drawing.querySelector("text.key");
  keys[0](place(cold.key), [6, -8]);
  keys[1](place(tea.key), [-34, -10]);
  const query = arrow(drawing, "query", t`query`);
  figure.onChange((state) => {
    nameOfFirst.textContent = state.hot ? t`key of cold and hot` : t`key of cold`;
    const divisor = state.root ? Math.sqrt(state.query.length) : 1;
    for (const { at, stripe } of stripes) {
      const weight = 1 / (1 + Math.exp((-at * length) / divisor));
      stripe.setAttribute("opacity", (4 * weight * (1 - weight)).toFixed(3));
    }
    const tip = place(state.query);
    query(tip, [12, 16]);
    const { dots } = now();
    [cold, tea].forEach(({ key }, i) => {
      const foot = place(key).map((number) => (number * dots[i]) / dot(key, key));
      line(feet[i], tip, foot);
      const [x, y] = toPixels(foot);
      products[i].textContent = format(dots[i], 1).replace(/\.0$/, "");
      products[i].setAttribute("x", x - 8);
      products[i].setAttribute("y", y + (i ? -10 : 20));
    });
    const along = [-up / length, right / length];
    const ends = [-20, 20].map((far) => tip.map((number, i) => number + far * along[i]));
    line(equal, ...ends);
  });
}

function line(node, from, to) {
  const [[x1, y1], [x2, y2]] = [toPixels(from), toPixels(to)];
  for (const [name, value] of Object.entries({ x1, y1, x2, y2 })) node.setAttribute(name, value);
}

function tableOf(figure, parent, now) {
  const table = make(parent, "table");
  const head = make(make(table, "thead"), "tr");
  const titles = [t`key`, "q · k", t`scaled`, t`weight`].map((title) => make(head, "th", { scope: "col" }, title));
  const body = make(table, "tbody");
  figure.onChange(({ root }) => {
    titles[2].textContent = root ? "÷ √4 = 2" : t`not divided`;
    const { words, dots, scores, weights } = now();
    body.textContent = "";
    words.forEach(({ name }, i) => {
      const row = make(body, "tr");
      make(row, "th", { scope: "row" }, name);
      make(row, "td", {}, format(dots[i], 1));
      make(row, "td", {}, format(scores[i], 1));
      const cell = make(row, "td", { class: "weight" }, `${format(weights[i], digitsOf(weights))} `);
      make(cell, "span", { class: "bar", style: `display: block; width: ${(4 * weights[i]).toFixed(2)}em` });
    });
  });
}

function doTasks(figure, parent, now) {
  const box = make(parent, "div", { class: "task" });
  let number = 0;
  const text = make(box, "p");
  const give = make(box, "button", { type: "button" }, t`Show me why`);
  const done = make(parent, "div", { role: "status" });
  const next = () => {
    const { text: task, found } = TASKS[number];
    make(done, "p", {}, `✓ ${task} ${found}`);
    number += 1;
    if (number === TASKS.length) box.remove();
    else text.textContent = t`Try: ${TASKS[number].text}`;
  };
  text.textContent = t`Try: ${TASKS[0].text}`;
  give.addEventListener("click", next);
  figure.onChange((state) => {
    const { weights } = now();
    const length = Math.hypot(...state.query);
    const isMet = () => TASKS[number]?.isDone({ length, weights, scaled: state.root });
    if (!state.hot && isMet()) next();
  });
}

function wider(figure, parent, { wide }, now) {
  make(parent, "p", { class: "axis" }, t`A random query and ten random keys, of more components; the bars are the weights:`);
  const bars = make(parent, "div", { class: "bars", "aria-hidden": "true" });
  const nodes = wide[0].dots[0].map(() => make(make(bars, "span"), "i"));
  figure.say(parent, ({ wideRoot }) => {
    const { d_k, wideLargest, wideReaction } = now();
    const how = wideRoot ? t`divided by their root` : t`not divided`;
    return t`With ${d_k} components, ${how}: on average over ${wide[0].dots.length} queries, the largest of ten weights is ${format(100 * wideLargest, 0)}\u00a0%, and a weight changes by ${format(wideReaction, 3)} times a small change of its score.`;
  });
  figure.onChange(() => {
    now().wideWeights.forEach((weight, i) => {
      nodes[i].style.height = `${Math.max(100 * weight, 1).toFixed(1)}%`;
    });
  });
  const panel = predict(parent, {
    question: t`With 1,024 components and without the root, how large is the largest of the ten weights, on average?`,
    options: [t`About 33 %`, t`About 60 %`, t`About 96 %`],
    answer: t`About 96 %`,
    because: t`Move dₖ to 1024 and take the root away. Then choose a smaller dₖ.`,
  });
  const row = make(panel, "div", { class: "controls" });
  figure.slider(row, "dₖ", {
    min: 0, max: wide.length - 1,
    get: ({ width }) => width,
    set: (width) => ({ width }),
    shown: (width) => String(wide[width].d_k),
  });
  figure.toggle(row, t`divide by √dₖ here, too`, "wideRoot");
}
