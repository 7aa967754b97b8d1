/* The sentence, the model's output for it, and the pieces that the model reads. */

import { button, make } from "./dom.js";
import { listed, t } from "./messages.js";
import { changedWords, saidOf, writeWords } from "./words.js";

export const TYPING = 200; // milliseconds without a change before the model begins

/* What the page calls a model's work and its output. */
const TASKS = {
  translation: {
    doing: t`Translating …`,
    done: (seconds) => t`Translated in ${seconds} s.`,
    output: t`The translation`,
    byPiece: t`The translation, piece by piece`,
    pieces: t`Pieces of the translation`,
  },
  parsing: {
    doing: t`Parsing …`,
    done: (seconds) => t`Parsed in ${seconds} s.`,
    output: t`The tree`,
    byPiece: t`The tree, piece by piece`,
    pieces: t`Pieces of the tree`,
  },
};
export const wording = (model) => TASKS[model.task];

export const readable = (pieces) => pieces.join("").replaceAll("\u2581", " ").trim();

export function sentence(root, store, change, ask) {
  const label = make(root, "label", { class: "sentence" });
  const title = make(label, "span");
  const text = make(label, "textarea", { rows: 2, spellcheck: "false", dir: "auto" });
  const status = make(root, "p", { class: "status", role: "status" });
  const output = make(root, "div", { class: "translation", role: "region", dir: "auto" });
  pin(root, store);
  make(root, "h2", {}, t`The pieces that the model reads`);
  const pieces = make(root, "ol", { class: "pieces", "aria-label": t`Pieces of the sentence` });

  text.addEventListener("input", () => {
    ask(null); // its pieces may not be in the new output
    change({ text: text.value, forced: {} }, TYPING);
  });

  const { model } = store.state;
  const [from, into] = model.languages;
  title.textContent = from ? t`A sentence in ${languageName(from)}` : t`A sentence`;
  text.lang = from;
  output.lang = model.task === "parsing" ? from : into;
  output.setAttribute("aria-label", wording(model).output);
  store.watch(["settings"], ({ settings }) => {
    if (text.value !== settings.text) text.value = settings.text;
  });
  store.watch(["failure", "loading", "busy", "answer"], (state) => {
    const message = messageOf(state);
    if (status.textContent !== message) status.textContent = message;
  });
  store.watch(["answer"], ({ answer }) => {
    const step = answer.search.at(-1);
    if (!step) {
      pieces.textContent = "";
      for (const { text: piece } of answer.pieces.slice(0, answer.longest)) {
        const kind = answer.unknown.includes(piece) ? "unknown" : "";
        make(pieces, "li", { class: kind, dir: "auto" }, piece);
      }
    }
    if (!step && !answer.done) return; // the output before stays until the first word
    const path = step ? (step.goingOn[0] ?? step.ended[0]).path : [];
    const words = path.filter(({ id }) => id > 2).map(({ piece }) => piece);
    const { before, output: whole } = answer.result ?? {};
    if (before) writeWords(output, changedWords(before.split(" "), whole.split(" ")));
    else output.textContent = whole ?? readable(words);
    output.classList.toggle("partial", !answer.result);
  });
}

/* An output that stays for comparison. Words that the newest one lacks are marked. */
function pin(root, store) {
  const line = make(root, "p", { class: "pinned" });
  const set = button(line, t`Pin this output`, () => {
    const { pinned, result } = store.state;
    store.update({ pinned: pinned ? null : result });
  });
  const text = make(line, "span", { dir: "auto", lang: store.state.model.languages[1] });
  store.watch(["pinned", "result"], ({ pinned, result }) => {
    set.hidden = !pinned && !result;
    set.textContent = pinned ? t`Unpin` : t`Pin this output`;
    text.textContent = "";
    if (pinned) writeWords(text, changedWords((result ?? pinned).output.split(" "), pinned.output.split(" ")));
  });
}

function messageOf({ model, loading, failure, busy, answer }) {
  if (failure) return failure;
  if (loading) return t`The model is loading.`;
  if (answer.tooLong) {
    return t`This text is too long: the model reads at most ${answer.longest} pieces. Shorten it.`;
  }
  if (answer.unknown.length) {
    const names = answer.unknown.map((name) => `“${name.replaceAll("\u2581", " ")}”`);
    return t`The model has never seen ${listed([...new Set(names)])}. It reads “unknown” there.`;
  }
  if (busy) return wording(model).doing;
  if (!answer.pieces.length) return t`Type a sentence.`;
  const { seconds, before, output } = answer.result;
  if (!seconds) return t`The model is here: write a sentence, or change something below.`;
  return `${wording(model).done(seconds.toFixed(1))} ${before ? saidOf(before.split(" "), output.split(" ")) : ""}`;
}

function languageName(code) {
  try {
    return new Intl.DisplayNames([document.documentElement.lang || "en"], { type: "language" }).of(code);
  } catch {
    return code; // not a language's code
  }
}
