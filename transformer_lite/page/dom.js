/* Makes the elements of the page. */

const SVG = "http://www.w3.org/2000/svg";
const DRAWN = ["svg", "g", "path", "line", "rect", "circle", "text"];

export function make(parent, tag, attributes = {}, text) {
  const node = DRAWN.includes(tag)
    ? document.createElementNS(SVG, tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  parent?.appendChild(node);
  return node;
}

export function button(parent, title, act, attributes = {}) {
  const node = make(parent, "button", { type: "button", ...attributes }, title);
  node.addEventListener("click", act);
  return node;
}

/* Calls `act` with what `keys()` has for a key that is pressed, if it has something. */
export function onKey(node, keys, act) {
  node.addEventListener("keydown", (event) => {
    const known = keys();
    if (!(event.key in known)) return;
    event.preventDefault();
    act(known[event.key]);
  });
}

export function checkbox(parent, title, act) {
  const label = make(parent, "label");
  const box = make(label, "input", { type: "checkbox" });
  label.append(` ${title}`);
  box.addEventListener("change", () => act(box.checked));
  return box;
}
