/* The page's other thread: it holds the model, so that the page stays responsive.

   It is sent { model } once, and posts { loaded }. It is sent { request, settings } for
   each sentence, and posts { request, … }: the pieces first, each step of the search, and
   the result; the last one is `done`. A newer request ends the one before. What goes wrong
   is posted as { request, error }. If it is sent { request, settings, asked }, it posts
   { request, account }, the account of a number in the result. */

import {
  BOS, EOS, Transformer, UNCHANGED, beamSearch, best, lengthPenalty, sample, softmax,
} from "./transformer.js";
import { account, lastVector } from "./account.js";
import { t } from "./messages.js";
import { Tokenizer, UNK } from "./tokenizer.js";

const CANDIDATES = 5;
const EMBEDDING = "encoder.embedding.weight";
let exported, model, tokenizer, newest;
let latest = null; // the newest output that is whole, and for what

/* The weights: numbers of 8 bits times the scale of their row, or of 32 bits. */
export function unpack({ tensors, data }) {
  const text = atob(data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const parameters = {};
  let at = 0;
  for (const { name, rows, columns, bits } of tensors) {
    const numbers = new Float32Array(bytes.buffer, at, bits === 8 ? rows : rows * columns);
    if (!numbers.every(Number.isFinite)) throw new Error(t`${name} is damaged`);
    at += numbers.byteLength;
    parameters[name] = numbers;
    if (bits === 32) continue;
    const small = new Int8Array(bytes.buffer, at, rows * columns);
    at += Math.ceil(small.length / 4) * 4; // the next numbers begin at a multiple of 4
    parameters[name] = Float32Array.from(small, (value, i) =>
      value * numbers[Math.floor(i / columns)]
    );
  }
  if (at !== bytes.length) throw new Error(t`there are more weights than names for them`);
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
    const isBorrowed = changes.borrowed.has(`${place}.${head}`); // of words that are not here
    const percent = isBorrowed ? source.map(() => 0) : [...row].map((weight) => Math.round(100 * weight));
    (heads[head] ??= []).push(percent);
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
  const filled = (row, width) => [...row, ...Array(width - row.length).fill(0)];
  const flat = (rows) => rows.flatMap((row) => filled(row, rows.at(-1).length));
  for (const kind in weights) weights[kind] = weights[kind].map((heads) => heads.map(flat));
  return { steps, weights };
}

/* The keys and values that the heads borrow from another sentence, by the heads' names. */
function keysAndValues({ other, borrowed }, changes, longest) {
  const source = [...tokenizer.split(cleaned(other), longest).slice(0, longest).map(({ id }) => id), EOS];
  const found = new Map();
  const remember = (place, memory) => {
    const words = memory.map((each, j) => ({ ...each, name: nameOf(source[j]) }));
    for (const name of borrowed) if (name.startsWith(`${place}.`)) found.set(name, words);
  };
  if (source.length > 1 && borrowed.length) model.start(source, { ...changes, remember });
  return found;
}

/* What the model is to do otherwise; see UNCHANGED. */
export function changesOf(settings, longest) {
  const { positions, scaled, kept, off } = settings;
  const units = new Map();
  for (const [name, value] of Object.entries(settings.units)) {
    const [side, layer, unit] = name.split(".");
    const network = `${side}.${layer}`;
    units.set(network, [...(units.get(network) ?? []), [Number(unit), value]]);
  }
  const changes = { ...UNCHANGED, positions, scaled, kept, off: new Set(off), units };
  return { ...changes, borrowed: keysAndValues(settings, changes, longest) };
}

/* Yields what is posted of a sentence, until its output is whole. */
export function* translate(settings) {
  const { text, beamSize, alpha, temperature, seed, forced } = settings;
  const longest = exported.config.max_len - exported.search.max_extra - 1;
  const pieces = tokenizer.split(cleaned(text), longest);
  const unknown = pieces.filter(({ id }) => id === UNK).map((piece) => piece.text);
  const tooLong = pieces.length > longest;
  const done = !pieces.length || tooLong;
  yield { pieces, unknown, longest, tooLong, done };
  if (done) return;
  const source = [...pieces.map(({ id }) => id), EOS];
  const changes = changesOf(settings, longest);
  const maxLength = pieces.length + exported.search.max_extra;
  const options = { beamSize, alpha, temperature, forced, maxLength };
  const state = model.start(source, changes);
  const steps = seed === null
    ? beamSearch(model, state, options)
    : sample(model, state, options, randomNumbers(seed));
  let output;
  for (const step of steps) {
    output = step.output;
    const divisor = lengthPenalty(step.length, seed === null ? alpha : 0);
    const named = ([logProb, parent, id]) =>
      ({ score: logProb / divisor, parent, id, piece: tokenizer.pieces[id] });
    yield { step: { ended: step.ended.map(named), goingOn: step.goingOn.map(named) } };
  }
  const { ids, score } = output;
  latest = { settings: JSON.stringify(settings), source, written: ids, changes, vectors: [] };
  const explained = explain(source, ids, temperature, changes);
  yield { output: tokenizer.decode(ids), score, ...explained, done: true };
}

const nameOf = (id) => ({ [BOS]: "BEGIN", [EOS]: "END" })[id] ?? tokenizer.pieces[id];

/* The account of a number in the output for these settings; see account.js. */
function* explainNumber(settings, { place, ...asked }) {
  if (latest?.settings !== JSON.stringify(settings)) for (const _ of translate(settings));
  const { source, written, changes, vectors } = latest;
  vectors[place] ??= lastVector(model, source, written.slice(0, place), nameOf, changes);
  try {
    yield { account: account(asked, vectors[place], model, nameOf) };
  } catch ({ message }) {
    yield { account: { failure: message } };
  }
}

/* Makes the model of what model.js holds. */
export function load(given) {
  model = new Transformer(given.config, unpack(given));
  const { rows, columns } = given.tensors.find(({ name }) => name === EMBEDDING);
  const [size, width] = [given.pieces.length, given.config.d_model];
  if (rows !== size || columns !== width) {
    throw new Error(t`${EMBEDDING} is ${rows} × ${columns} and not ${size} × ${width}`);
  }
  exported = given;
  tokenizer = new Tokenizer(given.pieces, given.symbols);
}

/* What is posted in answer to a message. */
function* answer({ model: given, settings, asked }) {
  if (asked) return yield* explainNumber(settings, asked);
  if (settings) return yield* translate(settings);
  load(given);
  yield { loaded: true };
}

/* Lets the messages in, of which one may be a newer request. */
const pause = () => new Promise((go) => setTimeout(go));

if (typeof WorkerGlobalScope !== "undefined") {
  self.onmessage = async ({ data }) => {
    const request = (newest = data.request);
    try {
      for (const message of answer(data)) {
        self.postMessage({ request, ...message });
        await pause();
        if (newest !== request) return;
      }
    } catch (error) {
      self.postMessage({ request, error: error.message });
    }
  };
}
