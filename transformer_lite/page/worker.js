/* The page's other thread: it holds the model, so that the page stays responsive.

   It is sent { model } once, and then { request, … } for each sentence. It answers with
   { request, … }: the pieces first, each step of the search, and the whole result. A
   newer request ends the one before. */

import { BOS, EOS, Transformer, UNCHANGED, beamSearch, best, sample, softmax } from "./transformer.js";
import { Tokenizer, UNK } from "./tokenizer.js";

const CANDIDATES = 5;
let exported, model, tokenizer, newest;

/* The weights: numbers of 8 bits times the scale of their row, or of 32 bits. */
export function unpack({ tensors, data }) {
  const text = atob(data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const parameters = {};
  let at = 0;
  for (const { name, rows, columns, bits } of tensors) {
    const numbers = new Float32Array(bytes.buffer, at, bits === 8 ? rows : rows * columns);
    at += numbers.byteLength;
    parameters[name] = numbers;
    if (bits === 32) continue;
    const small = new Int8Array(bytes.buffer, at, rows * columns);
    at += Math.ceil(small.length / 4) * 4; // the next numbers begin at a multiple of 4
    parameters[name] = Float32Array.from(small, (value, i) =>
      value * numbers[Math.floor(i / columns)]
    );
  }
  return parameters;
}

/* One space between words and none around, as on a line of text. */
export const cleaned = (text) => text.replace(/\s+/gu, " ").trim();

/* Numbers from 0 to 1 that are always the same for a seed (mulberry32). */
function randomNumbers(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/* Follows an output once more; returns the weights of each head as percent, and the
   likeliest tokens at each place. */
function explain(source, output, temperature, changes) {
  const weights = { encoder: [], decoder: [], cross: [] };
  const watch = (place, head, row) => {
    const [kind, layer] = place.split(".");
    const heads = (weights[kind][layer] ??= []);
    (heads[head] ??= []).push([...row].map((weight) => Math.round(100 * weight)));
  };
  let state = model.start(source, { ...changes, watch });
  const steps = [...output, EOS].map((id, i) => {
    const next = model.step(i ? output[i - 1] : BOS, state);
    state = next.state;
    const probabilities = softmax(next.logits.map((logit) => logit / temperature));
    const all = Array.from(probabilities, (probability, other) => [probability, other]);
    const candidates = best(all, CANDIDATES).map(([probability, other]) =>
      ({ id: other, piece: tokenizer.pieces[other], probability }));
    return { id, piece: tokenizer.pieces[id], probability: probabilities[id], candidates };
  });
  const length = steps.length;
  const square = (rows) => rows.flatMap((row) => [...row, ...Array(length - row.length).fill(0)]);
  weights.encoder = weights.encoder.map((heads) => heads.map((rows) => rows.flat()));
  weights.cross = weights.cross.map((heads) => heads.map((rows) => rows.flat()));
  weights.decoder = weights.decoder.map((heads) => heads.map(square));
  return { steps, weights };
}

/* Yields what the page is told, until the translation is whole. */
export function* translate({ text, beamSize, alpha, temperature, seed, forced, positions, scaled, off }) {
  const pieces = tokenizer.split(cleaned(text));
  const longest = exported.config.max_len - exported.search.max_extra - 1;
  const unknown = pieces.filter(({ id }) => id === UNK).map((piece) => piece.text);
  const tooLong = pieces.length > longest;
  yield { pieces, unknown, longest, tooLong };
  if (!pieces.length || tooLong) return;
  const source = [...pieces.map(({ id }) => id), EOS];
  const changes = { ...UNCHANGED, positions, scaled, off: new Set(off) };
  const maxLength = pieces.length + exported.search.max_extra;
  const options = { beamSize, alpha, temperature, forced, maxLength };
  const state = model.start(source, changes);
  const search = seed === null
    ? beamSearch(model, state, options)
    : sample(model, state, options, randomNumbers(seed));
  const named = ([logProb, parent, id]) => ({ logProb, parent, id, piece: tokenizer.pieces[id] });
  let found;
  for (const step of search) {
    found = step.found;
    yield { step: { ended: step.ended.map(named), goingOn: step.goingOn.map(named) } };
  }
  yield {
    output: tokenizer.decode(found.ids),
    score: found.score,
    ...explain(source, found.ids, temperature, changes),
  };
}

export function load(given) {
  exported = given;
  tokenizer = new Tokenizer(given.pieces, given.symbols);
  model = new Transformer(given.config, unpack(given));
}

/* Lets the messages in, of which one may be a newer request. */
function pause() {
  return new Promise((go) => setTimeout(go));
}

if (typeof WorkerGlobalScope !== "undefined") {
  self.onmessage = async ({ data }) => {
    if (data.model) {
      load(data.model);
      return;
    }
    newest = data.request;
    for (const told of translate(data)) {
      self.postMessage({ request: data.request, ...told });
      await pause();
      if (newest !== data.request) return;
    }
    self.postMessage({ request: data.request, done: true });
  };
}
