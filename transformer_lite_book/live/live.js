/* What all live figures share: their state, their controls, and how they draw.
   Plain DOM and SVG; nothing is loaded from anywhere. */

import { make } from "../../transformer_lite/page/dom.js";
import { t } from "../../transformer_lite/page/messages.js";

/* Numbers as Python prints them: -0 is 0, and the minus sign is a real one. */
export function format(number, digits) {
  const text = number.toFixed(digits);
  return Number(text) === 0 ? (0).toFixed(digits) : text.replace("-", "\u2212");
}

/* A whole number, such as 12,345. */
export const grouped = (number) => Math.round(number).toLocaleString("en-US");

export const vector = (numbers, digits = 1) =>
  `(${numbers.map((number) => format(number, digits).replace(/\.0+$/, "")).join(", ")})`;

/* The state of a figure, and what is drawn again when it changes. */
export class Figure {
  constructor(root, start) {
    this.root = root;
    this.start = start;
    this.state = structuredClone(start);
    this.views = [];
  }

  set(changes) {
    Object.assign(this.state, changes);
    this.show();
  }

  /* Calls `draw(state)` now and after each change. */
  onChange(draw) {
    this.views.push(draw);
  }

  show() {
    for (const draw of this.views) draw(this.state);
  }

  reset(parent) {
    const node = make(parent, "button", { type: "button", class: "reset" }, t`Reset`);
    node.addEventListener("click", () => this.set(structuredClone(this.start)));
  }

  /* Controls. Each reads the state by `get` and changes it by `set`. */

  slider(parent, title, { min, max, step = 1, get, set, shown = (value) => format(value, 1) }) {
    const label = make(parent, "label", { class: "slider" });
    make(label, "span", {}, title);
    const input = make(label, "input", { type: "range", min, max, step });
    const value = make(label, "output");
    input.addEventListener("input", () => this.set(set(Number(input.value))));
    this.onChange((state) => {
      input.value = get(state);
      value.textContent = shown(get(state));
      input.setAttribute("aria-valuetext", value.textContent);
    });
  }

  toggle(parent, title, name) {
    const label = make(parent, "label", { class: "switch" });
    const input = make(label, "input", { type: "checkbox" });
    label.append(` ${title}`);
    input.addEventListener("change", () => this.set({ [name]: input.checked }));
    this.onChange((state) => (input.checked = state[name]));
  }

  /* One of several texts; the state holds its place in their list. */
  choice(parent, title, options, name) {
    const select = make(make(parent, "label", { class: "choice" }, `${title} `), "select");
    options.forEach((option, i) => make(select, "option", { value: i }, option));
    select.addEventListener("change", () => this.set({ [name]: Number(select.value) }));
    this.onChange((state) => (select.value = state[name]));
  }

  /* A point that the pointer drags; `move(x, y)` gets places of the drawing. The keyboard
     moves the same numbers by sliders. */
  handle(drawing, { get, move }) {
    const point = make(drawing, "circle", { class: "handle", r: 11, "aria-hidden": "true" });
    const at = ({ clientX, clientY }) => {
      const { x, y } = new DOMPoint(clientX, clientY)
        .matrixTransform(drawing.getScreenCTM().inverse());
      this.set(move(x, y));
    };
    point.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      point.setPointerCapture(event.pointerId);
    });
    point.addEventListener("pointermove", (event) => {
      if (point.hasPointerCapture(event.pointerId)) at(event);
    });
    this.onChange((state) => {
      const [cx, cy] = get(state);
      point.setAttribute("cx", cx);
      point.setAttribute("cy", cy);
    });
  }

  /* A sentence that says the result, to eyes and to screen readers. */
  say(parent, sentence) {
    const says = make(parent, "p", { class: "says", "aria-live": "polite" });
    this.onChange((state) => {
      const text = sentence(state);
      if (says.textContent !== text) says.textContent = text;
    });
  }
}

/* A question whose answer is revealed after a guess. Returns the part of the figure that is
   hidden until then; `then(isGuess, isAnswer)` is called when it is shown. */
export function predict(parent, { question, options, answer, because }, then = () => {}) {
  const box = make(parent, "fieldset", { class: "predict" });
  make(box, "legend", {}, question);
  const row = make(box, "div", { class: "options" });
  const noGuess = t`Tell me`;
  for (const option of [...options, noGuess]) {
    const node = make(row, "button", { type: "button" }, option);
    node.addEventListener("click", () => {
      for (const other of row.children) {
        other.disabled = true;
        if (other.textContent === answer) other.classList.add("right");
      }
      node.classList.add("guess");
      const [isGuess, isAnswer] = [option !== noGuess, option === answer];
      const verdict = isAnswer ? `${t`Right.`} ` : isGuess ? `${t`Not this time.`} ` : "";
      make(box, "p", { class: "because", role: "status" }, verdict + because);
      panel.hidden = false;
      then(isGuess, isAnswer);
    });
  }
  const panel = make(parent, "div", { hidden: "" });
  return panel;
}

/* Starts every figure of a name that stands in a notebook's outputs, and hides the still
   picture that stands before it. */
export function start(name, build) {
  for (const root of document.querySelectorAll(`.live-figure[data-name="${name}"]:not([data-ready])`)) {
    const data = JSON.parse(root.querySelector("script").textContent);
    build(root, data);
    root.hidden = false;
    root.setAttribute("data-ready", "");
    const picture = pictureBefore(root);
    if (picture) picture.style.display = "none";
  }
}

/* The last picture before a figure in the same cell: in the book its HTML figure, in
   Jupyter the cell's outputs, in Colab the frame. */
function pictureBefore(root) {
  const cell = root.closest("figure, .jp-OutputArea, .output_wrapper, #output-area, body");
  const isBefore = (picture) =>
    picture.compareDocumentPosition(root) & Node.DOCUMENT_POSITION_FOLLOWING;
  return [...cell.querySelectorAll("img")].filter(isBefore).at(-1);
}
