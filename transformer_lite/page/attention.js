/* What attends to what: the attention explorer, and a switch for the head in it. */

import { button, make } from "./dom.js";
import { explore } from "./explorer.js";
import { t } from "./messages.js";

const KINDS = ["encoder", "decoder", "cross"]; // in the order of the explorer's maps
const NAMES = {
  encoder: (layer, head) => t`layer ${layer}, head ${head} of the encoder's self-attention`,
  decoder: (layer, head) => t`layer ${layer}, head ${head} of the decoder's self-attention`,
  cross: (layer, head) => t`layer ${layer}, head ${head} of the cross-attention`,
};

/* The name of a head at a place such as "cross.0.3". */
export function headName(place) {
  const [kind, layer, head] = place.split(".");
  return NAMES[kind](+layer + 1, +head + 1);
}

const EXPLAINED = 3; // weights of a word that can be asked for

export function attention(root, store, change, ask) {
  make(root, "h2", {}, t`What attends to what`);
  const around = make(root, "div");
  const whys = make(root, "div", { class: "controls" });
  const controls = make(root, "div", { class: "controls" });
  const switches = button(controls, "", () => toggle("off"));
  const borrows = button(controls, "", () => toggle("borrowed"));
  around.addEventListener("explore", ({ detail }) => store.update({ explored: detail }));

  /* Buttons that open the accounts of a chosen word's largest weights. */
  function showWhys(result, { map, layer, head, query }) {
    whys.textContent = "";
    if (!result || query === null) return;
    const kind = KINDS[map];
    const keys = kind === "decoder" ? ["BEGIN", ...result.steps] : [...result.pieces, { text: "END" }];
    const names = keys.map((key) => key.text ?? key.piece ?? key);
    const width = kind === "decoder" ? result.steps.length : keys.length;
    const row = result.weights[kind][layer][head].slice(query * width, (query + 1) * width);
    const largest = row.map((percent, i) => [percent, i]).filter(([percent]) => percent > 0)
      .sort(([one], [other]) => other - one).slice(0, EXPLAINED);
    for (const [percent, i] of largest) {
      const weight = [kind, layer, head, query, i].join(".");
      const place = kind === "encoder" ? 0 : query;
      button(whys, t`Why ${percent} % of “${names[i]}”?`, () => ask({ place, weight, other: null, keys: [] }));
    }
  }

  /* Adds the head to a setting's list of heads, or takes it out. */
  function toggle(name) {
    const [place, places] = [exploredHead(), store.state.settings[name]];
    const others = places.filter((other) => other !== place);
    change({ [name]: places.includes(place) ? others : [...places, place] });
  }

  function exploredHead() {
    const { map, layer, head } = store.state.explored;
    return `${KINDS[map]}.${layer}.${head}`;
  }

  store.watch(["result"], ({ result, explored }) => {
    around.textContent = "";
    if (!result) return;
    const read = [...result.pieces.map(({ text }) => text), "END"];
    const written = result.steps.map(({ piece }) => piece);
    const begins = ["BEGIN", ...written.slice(0, -1)]; // what the decoder reads
    const { encoder, decoder, cross } = result.weights;
    const maps = [
      { name: t`encoder: source to source`, queries: read, keys: read, weights: encoder },
      { name: t`decoder: target to target`, queries: begins, keys: begins, weights: decoder },
      { name: t`cross-attention: target to source`, queries: begins, keys: read, weights: cross },
    ];
    const query = explored.query < maps[explored.map].queries.length ? explored.query : null;
    explore(make(around, "div", { class: "attention-explorer" }), { maps, start: { ...explored, query } });
  });
  store.watch(["result", "settings", "explored"], ({ result, explored, settings }) => {
    const place = exploredHead();
    const name = headName(place);
    switches.hidden = !result;
    switches.textContent = settings.off.includes(place) ? t`Switch on ${name}` : t`Switch off ${name}`;
    showWhys(result, explored);
    borrows.hidden = !result || !settings.other || KINDS[explored.map] === "decoder";
    borrows.textContent = settings.borrowed.includes(place)
      ? t`Let it read this sentence` : t`Let it read the other sentence`;
  });
}
