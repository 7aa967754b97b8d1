/* The attention explorer: all layers and heads of a sentence, one of them as lines.
   Plain DOM and SVG; nothing is loaded from anywhere. */

import { button, make, onKey } from "./dom.js";
import { listed, t } from "./messages.js";

const WORD_HEIGHT = 20; // as in the style sheet
const SMALLEST = 3; // of all words' lines, those of fewer percent are left out

/* A word that keeps its own direction and turns nothing beside it around. */
const apart = (word) => `\u2068${word}\u2069`;

/* A head as a small map: squares of three shades, one path for each. */
function thumbnail(weights, queries, keys) {
  const viewBox = `0 0 ${keys} ${queries}`;
  const picture = make(null, "svg", { viewBox, preserveAspectRatio: "none", "aria-hidden": "true" });
  for (const [from, to, opacity] of [[5, 20, 0.25], [20, 50, 0.6], [50, 101, 1]]) {
    let squares = "";
    weights.forEach((weight, i) => {
      if (weight >= from && weight < to) {
        squares += `M${i % keys} ${Math.floor(i / keys)}h1v1h-1z`;
      }
    });
    make(picture, "path", { d: squares, opacity: opacity });
  }
  return picture;
}

/* Makes an explorer in an element. It says there what is chosen, by "explore" events.
     maps   what readers can choose: a list of { name, queries, keys, weights }, where
            weights[layer][head] lists percent, query by query
     start  { map, layer, head, query }: what is chosen first; query may be null */
export function explore(root, { maps, start }) {
  const number = document.querySelectorAll(".attention-explorer[data-ready]").length + 1;
  const name = `attention-explorer-${number}`;
  root.setAttribute("data-ready", "");
  const state = { ...start };
  const app = make(root, "div", { class: "app" });

  if (maps.length > 1) {
    const chooser = make(app, "select", { "aria-label": t`What is shown` });
    maps.forEach((map, i) => make(chooser, "option", { value: i }, map.name));
    chooser.value = state.map;
    chooser.addEventListener("change", () => {
      state.map = Number(chooser.value);
      state.query = null;
      build();
    });
  }
  make(app, "p", { class: "hint" },
    t`Choose a head (arrow keys move), then a word (arrow keys too; Esc shows all).`);
  const views = make(app, "div", { class: "views" });
  const says = make(app, "p", { class: "says", "aria-live": "polite" });
  let heads, rows, shares, picture;

  function build() {
    const map = maps[state.map];
    state.layer = Math.min(state.layer, map.weights.length - 1);
    state.head = Math.min(state.head, map.weights[0].length - 1);
    views.textContent = "";
    buildHeads(map);
    buildLines(map);
    show();
  }

  function buildHeads(map) {
    const count = map.weights[0].length;
    const column = make(views, "div");
    make(column, "div", { class: "axis" }, t`heads 1 to ${count} of each layer →`);
    const group = make(column, "div", {
      class: "heads", role: "radiogroup", "aria-label": t`Layer and head`,
      style: `grid-template-columns: max-content repeat(${count}, minmax(0, 64px))`,
    });
    heads = map.weights.map((layer, i) => {
      make(group, "div", { class: "axis" }, t`layer ${i + 1}`);
      return layer.map((weights, j) => {
        const head = button(group, "", () => choose(i, j), {
          class: "head", role: "radio", "aria-label": t`layer ${i + 1}, head ${j + 1}`,
        });
        head.appendChild(thumbnail(weights, map.queries.length, map.keys.length));
        return head;
      });
    });
    const moves = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
    onKey(group, () => moves, ([down, right]) => {
      const layers = map.weights.length;
      choose((state.layer + down + layers) % layers, (state.head + right + count) % count);
    });
  }

  function choose(layer, head) {
    state.layer = layer;
    state.head = head;
    show();
    heads[layer][head].focus();
  }

  function look(query) {
    state.query = query;
    show();
  }

  function buildLines(map) {
    const lines = make(views, "div", { class: "lines" });
    for (const title of [t`query looks`, "", t`at key`]) {
      make(lines, "div", { class: "axis", "aria-hidden": "true" }, title);
    }
    const left = make(lines, "ol", {
      class: "words queries", role: "listbox", tabindex: "0",
      "aria-label": t`The word that looks (query)`,
    });
    rows = map.queries.map((word, i) => {
      const row = make(left, "li", { role: "option", id: `${name}-query-${i}` });
      make(row, "span", { dir: "auto", title: word }, word);
      row.addEventListener("click", () => look(state.query === i ? null : i));
      return row;
    });
    onKey(left, () => {
      const last = map.queries.length - 1;
      const next = Math.min((state.query ?? -1) + 1, last);
      const before = Math.max((state.query ?? last + 1) - 1, 0);
      return { ArrowDown: next, ArrowUp: before, Home: 0, End: last, Escape: null };
    }, look);
    const height = WORD_HEIGHT * Math.max(map.queries.length, map.keys.length);
    const middle = make(lines, "div", { style: `height: ${height}px` });
    picture = make(middle, "svg", {
      viewBox: `0 0 100 ${height}`, preserveAspectRatio: "none", "aria-hidden": "true",
    });
    const right = make(lines, "ol", {
      class: "words keys", "aria-label": t`The words it looks at (keys)`,
    });
    shares = map.keys.map((word) => {
      const row = make(right, "li");
      make(row, "span", { dir: "auto", title: word }, word);
      return make(row, "span", { class: "share" });
    });
  }

  function show() {
    const map = maps[state.map];
    const weights = map.weights[state.layer][state.head];
    const width = map.keys.length;
    const query = state.query;
    heads.flat().forEach((head) => {
      const isChosen = head === heads[state.layer][state.head];
      head.setAttribute("aria-checked", isChosen);
      head.tabIndex = isChosen ? 0 : -1;
    });
    rows.forEach((row, i) => row.setAttribute("aria-selected", i === query));
    const list = rows[0].parentNode;
    if (query === null) list.removeAttribute("aria-activedescendant");
    else list.setAttribute("aria-activedescendant", rows[query].id);
    picture.textContent = "";
    weights.forEach((weight, i) => {
      const from = Math.floor(i / width);
      if (query === null ? weight < SMALLEST : from !== query || !weight) return;
      make(picture, "line", {
        x1: 0, y1: (from + 0.5) * WORD_HEIGHT, x2: 100, y2: ((i % width) + 0.5) * WORD_HEIGHT,
        "stroke-width": (0.6 + weight / 11).toFixed(1),
        opacity: (0.25 + (0.7 * weight) / 100).toFixed(2),
      });
    });
    const row = query === null ? [] : weights.slice(query * width, (query + 1) * width);
    shares.forEach((share, i) => {
      share.textContent = row[i] ? `${row[i]} %` : "";
    });
    root.dispatchEvent(new CustomEvent("explore", { detail: { ...state }, bubbles: true }));
    const where = t`Layer ${state.layer + 1}, head ${state.head + 1}`;
    if (query === null) {
      says.textContent = picture.firstChild
        ? t`${where}: the lines of all words.`
        : t`${where}: no weight reaches ${SMALLEST} %. Choose a word to see its lines.`;
      return;
    }
    const best = row
      .map((weight, i) => [weight, i])
      .sort((one, other) => other[0] - one[0] || one[1] - other[1])
      .slice(0, 3)
      .filter(([weight]) => weight > 0)
      .map(([weight, i]) => t`“${apart(map.keys[i])}” ${weight} %`);
    says.textContent =
      t`${where}: “${apart(map.queries[query])}” looks most at ${listed(best)}.`;
  }

  build();
}
