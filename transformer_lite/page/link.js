/* A link restores the sentence, all that was changed, and the account that is open. */

import { unchanged } from "./state.js";

export function toLink(settings, asked) {
  const values = {
    text: settings.text, beam: settings.beamSize, alpha: settings.alpha,
    temperature: settings.temperature, draw: settings.seed ?? "",
    force: Object.entries(settings.forced).map((pair) => pair.join(":")).join(),
    off: settings.off.join(), positions: settings.positions ? "" : "no",
    scale: settings.scaled ? "" : "no",
    at: asked ? [asked.place, asked.id, asked.other ?? "", ...asked.keys].join() : "",
  };
  const given = Object.entries(values).filter(([, value]) => value !== "");
  return `#${new URLSearchParams(given)}`;
}

/* The settings of a link, as far as it makes sense; null if it has no sentence. */
export function fromLink(hash, model) {
  const given = new URLSearchParams(hash.slice(1));
  if (!given.has("text")) return null;
  const usual = unchanged(model);
  const number = (name, least, most, otherwise) => {
    const value = Number(given.get(name) ?? NaN);
    return value >= least && value <= most ? value : otherwise;
  };
  const list = (name) => (given.get(name) ?? "").split(",").filter(Boolean);
  const forced = list("force").map((pair) => pair.split(":").map(Number))
    .filter(([place, id]) => place >= 0 && id > 1 && id < model.config.vocab_size);
  return {
    text: given.get("text"),
    beamSize: Math.round(number("beam", 1, 8, usual.beamSize)),
    alpha: number("alpha", 0, 2, usual.alpha),
    temperature: number("temperature", 0.1, 2, 1),
    seed: given.has("draw") ? Math.round(number("draw", 0, 2 ** 31, 1)) : null,
    forced: Object.fromEntries(forced),
    off: list("off").filter((place) => /^(encoder|decoder|cross)\.\d+\.\d+$/.test(place)),
    positions: given.get("positions") !== "no",
    scaled: given.get("scale") !== "no",
  };
}

/* What a link asks for, or null. */
export function askedOf(hash, model) {
  const [place, id, other, ...keys] = (new URLSearchParams(hash.slice(1)).get("at") ?? "").split(",");
  const isNumber = (text) => Number.isInteger(+text) && +text >= 0 && +text < model.config.vocab_size;
  if (other === undefined || ![place, id, other].every(isNumber)) return null;
  return { place: +place, id: +id, other: other ? +other : null, keys };
}
