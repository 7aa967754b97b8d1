/* A link restores the sentence, all that was changed, and the account that is open. */

import { unchanged } from "./state.js";

export function toLink(settings, asked) {
  const values = {
    text: settings.text, beam: settings.beamSize, alpha: settings.alpha,
    temperature: settings.temperature, draw: settings.seed ?? "",
    force: Object.entries(settings.forced).map((pair) => pair.join(":")).join(),
    positions: settings.positions ? "" : "no", scale: settings.scaled ? "" : "no",
    keep: settings.kept === 1 ? "" : settings.kept, off: settings.off.join(),
    units: Object.entries(settings.units).map((pair) => pair.join(":")).join(),
    other: settings.other, borrow: settings.borrowed.join(),
    at: asked ? [asked.place, asked.weight ?? asked.id, asked.other ?? "", ...asked.keys].join() : "",
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
  const pairs = (name) => list(name).map((pair) => pair.split(":"));
  const forced = pairs("force").map((pair) => pair.map(Number))
    .filter(([place, id]) => place >= 0 && id > 1 && id < model.config.vocab_size);
  const heads = (name, kinds) => list(name).filter((place) => isPlace(place, kinds, model.config.num_heads));
  const units = pairs("units").map(([name, value]) => [name, Number(value)])
    .filter(([name, value]) => isPlace(name, ["encoder", "decoder"], model.config.d_ff) && isFinite(value));
  return {
    text: given.get("text"),
    beamSize: Math.round(number("beam", 1, 8, usual.beamSize)),
    alpha: number("alpha", 0, 2, usual.alpha),
    temperature: number("temperature", 0.1, 2, 1),
    seed: given.has("draw") ? Math.round(number("draw", 0, 2 ** 31, 1)) : null,
    forced: Object.fromEntries(forced),
    positions: given.get("positions") !== "no",
    scaled: given.get("scale") !== "no",
    kept: number("keep", 0, 1, 1),
    off: heads("off", ["encoder", "decoder", "cross"]),
    units: Object.fromEntries(units),
    other: given.get("other") ?? "",
    borrowed: heads("borrow", ["encoder", "cross"]),
  };

  /* Whether the model has such a head or unit, as in "cross.2.3". */
  function isPlace(name, kinds, number) {
    const [, kind, layer, last] = /^(\w+)\.(\d+)\.(\d+)$/.exec(name) ?? [];
    return kinds.includes(kind) && layer < model.config.num_layers && last < number;
  }
}

/* The head that a link is about, as the explorer shows it: one in the account that is
   open, else the last one that is off; null if the model has none such. */
export function exploredOf(settings, asked, { config }) {
  const keys = (asked?.keys ?? []).join("/");
  const [, kind, layer, head] = /(encoder|decoder|cross)\.(\d+)\/h(\d+)/.exec(keys)
    ?? /^(\w+)\.(\d+)\.(\d+)$/.exec(settings?.off.at(-1) ?? "") ?? [];
  const map = ["encoder", "decoder", "cross"].indexOf(kind);
  const isThere = map >= 0 && layer < config.num_layers && head < config.num_heads;
  return isThere ? { map, layer: +layer, head: +head, query: null } : null;
}

/* What a link asks for, or null. */
export function askedOf(hash, model) {
  const [place, id, other, ...keys] = (new URLSearchParams(hash.slice(1)).get("at") ?? "").split(",");
  if (/^(encoder|decoder|cross)(\.\d+){4}$/.test(id) && Number.isInteger(+place)) {
    return { place: +place, weight: id, other: null, keys };
  }
  const isNumber = (text) => Number.isInteger(+text) && +text >= 0 && +text < model.config.vocab_size;
  if (other === undefined || ![place, id, other].every(isNumber)) return null;
  return { place: +place, id: +id, other: other ? +other : null, keys };
}
