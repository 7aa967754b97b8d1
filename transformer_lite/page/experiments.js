/* What the reader can change inside the model, and the list of what is changed. */

import { headName } from "./attention.js";
import { button, checkbox, make } from "./dom.js";
import { t } from "./messages.js";
import { slider } from "./search.js";
import { TYPING } from "./sentence.js";
import { unchanged } from "./state.js";

/* What is changed of a model: its title, and the settings without it. */
export function interventions(settings) {
  const { positions, scaled, kept, off, units, borrowed, forced } = settings;
  const without = (list, one) => list.filter((other) => other !== one);
  const lacking = (object, key) => Object.fromEntries(Object.entries(object).filter(([other]) => other !== key));
  return [
    ...(positions ? [] : [{ title: t`no positional encoding`, undo: { positions: true } }]),
    ...(scaled ? [] : [{ title: t`no division by √dₖ`, undo: { scaled: true } }]),
    ...(kept === 1 ? [] : [{ title: t`the encoder keeps ${kept} of x`, undo: { kept: 1 } }]),
    ...off.map((place) => ({ title: t`without ${headName(place)}`, undo: { off: without(off, place) } })),
    ...borrowed.map((place) => ({
      title: t`${headName(place)} reads the other sentence`, undo: { borrowed: without(borrowed, place) },
    })),
    ...Object.entries(units).map(([name, value]) => ({
      title: t`${unitName(name)} is ${value}`, undo: { units: lacking(units, name) },
    })),
    ...Object.keys(forced).map((place) => ({
      title: t`piece ${+place + 1} of the output is chosen`, undo: { forced: lacking(forced, place) },
    })),
  ];
}

const layerName = (side, number) =>
  side === "encoder" ? t`encoder layer ${number}` : t`decoder layer ${number}`;

/* The name of a unit such as "decoder.2.260". */
function unitName(name) {
  const [side, layer, unit] = name.split(".");
  return t`unit ${unit} of ${layerName(side, +layer + 1)}`;
}

export function experiments(root, store, change) {
  const { num_layers: layers, d_ff: units } = store.state.model.config;
  make(root, "h2", {}, t`Change the model`);
  const switches = make(root, "div", { class: "controls" });
  const positions = checkbox(switches, t`without the positional encoding (Section 3.5)`, (on) =>
    change({ positions: !on }));
  const scaled = checkbox(switches, t`without the division by √dₖ (Section 3.2.1)`, (on) =>
    change({ scaled: !on }));
  const showKept = slider(switches, t`r in the encoder's LayerNorm(r · x + Sublayer(x)) (Section 3.1)`,
    { min: 0, max: 1, step: 0.05 }, (kept) => change({ kept }, TYPING));

  const network = make(root, "form", { class: "controls" });
  const where = make(make(network, "label", {}, `${t`Layer`} `), "select");
  for (const side of ["decoder", "encoder"]) {
    for (let layer = layers - 1; layer >= 0; layer--) {
      make(where, "option", { value: `${side}.${layer}` }, layerName(side, layer + 1));
    }
  }
  const unit = numberInput(network, t`unit (Section 3.3)`, { min: 0, max: units - 1, step: 1, value: 0 });
  const value = numberInput(network, t`value`, { min: -100, max: 100, step: "any", value: 8 });
  make(network, "button", { type: "submit" }, t`Set`);
  network.addEventListener("submit", (event) => {
    event.preventDefault();
    const name = `${where.value}.${Number(unit.value)}`;
    change({ units: { ...store.state.settings.units, [name]: Number(value.value) } });
  });

  const label = make(root, "label", { class: "sentence" }, t`Another sentence, which a head can read instead`);
  const other = make(label, "input", { type: "text", spellcheck: "false", dir: "auto" });
  other.addEventListener("input", () => change({ other: other.value }, TYPING));
  make(root, "p", { class: "hint" },
    t`Choose heads in “What attends to what”: to switch them off, or to let them read this sentence.`);

  const list = make(root, "ul", { class: "changes", "aria-label": t`What is changed` });
  const reset = button(root, t`Put everything back`, () => {
    const { model, settings } = store.state;
    change({ ...unchanged(model), text: settings.text });
  });

  store.watch(["settings"], ({ settings }) => {
    const hadFocus = list.contains(document.activeElement);
    positions.checked = !settings.positions;
    scaled.checked = !settings.scaled;
    showKept(settings.kept);
    if (other.value !== settings.other) other.value = settings.other;
    list.textContent = "";
    for (const { title, undo } of interventions(settings)) {
      const item = make(list, "li", {}, `${title} `);
      button(item, "×", () => change(undo), { "aria-label": t`Put back: ${title}` });
    }
    if (hadFocus) (list.querySelector("button") ?? reset).focus();
  });
}

function numberInput(parent, title, attributes) {
  const label = make(parent, "label", {}, `${title} `);
  return make(label, "input", { type: "number", required: "", ...attributes });
}
