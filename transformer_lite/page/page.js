/* The page around a model: the reader changes the settings, the worker answers them, and
   each part of the page shows what is new.

   Nothing is loaded but model.js, which lies beside this script. WORKER is the text of
   the worker's script, because a page that opens as a file may not load one. MODEL is
   what the page knows of the model before its weights are there, with the answer to its
   example, so that nothing is empty at first. */

import { accountPanel } from "./account_panel.js";
import { attention } from "./attention.js";
import { button, make } from "./dom.js";
import { experiments } from "./experiments.js";
import { askedOf, exploredOf, fromLink, toLink } from "./link.js";
import { t } from "./messages.js";
import { pieces } from "./pieces.js";
import { pythonOf } from "./python.js";
import { search } from "./search.js";
import { sentence } from "./sentence.js";
import { NO_ANSWER, numSettingsChanged, Store } from "./state.js";

const FILE = document.currentScript.src.replace(/[^/]*$/, "model.js");

function start(root) {
  const store = new Store(MODEL);
  const address = URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" }));
  const worker = new Worker(address);
  let given = null; // what model.js holds, when it is here
  let wanted; // the place in the output that a link is about
  let [request, began, timer] = [0, 0, 0];

  /* What the reader does comes here; `wait` milliseconds later the worker is asked. */
  function change(settings, wait = 0) {
    request += 1; // what is still computed is of no interest
    store.update({ settings: { ...store.state.settings, ...settings } });
    const { loading, failure } = store.state;
    if (loading && failure) return; // there will never be a model
    store.update({ busy: true, failure: "" });
    if (loading) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      began = performance.now();
      worker.postMessage({ request, settings: store.state.settings });
    }, wait);
  }

  /* Asks for the account of a number in the result; null closes it. */
  function ask(asked) {
    const { loading, busy, result, settings } = store.state;
    const isThere = loading || busy || asked?.place < result?.steps.length;
    store.update(asked && isThere ? { asked } : { asked: null, account: null });
    if (loading || busy || !store.state.asked) return; // or when the result is there
    worker.postMessage({ request, settings, asked });
  }

  function fail(failure) {
    store.update({ failure, busy: false, answer: NO_ANSWER, result: null });
  }

  function begin() {
    store.update({ loading: false, busy: false });
    if (request || !MODEL.answer.length) change({}); // the reader has not waited
    else ask(store.state.asked);
    root.dataset.loaded = "";
  }

  /* What the worker posts; see worker.js. */
  worker.onmessage = ({ data }) => {
    if (data.loaded) begin();
    else if (store.state.loading) fail(t`${FILE} holds no working model: ${data.error}. Write the page again.`);
    else if (data.request === request) hear(data, store.state);
  };

  function hear(data, { answer, place, settings, result: old }) {
    if (data.error) fail(t`The model failed: ${data.error}.`);
    if (data.pieces) {
      store.update({ answer: { ...NO_ANSWER, ...data } });
      if (data.done) store.update({ result: null });
    }
    if (data.step) {
      const paths = answer.search.at(-1)?.goingOn.map(({ path }) => path) ?? [[]];
      const extend = (output) => ({ ...output, path: [...paths[output.parent], output] });
      const step = { ended: data.step.ended.map(extend), goingOn: data.step.goingOn.map(extend) };
      store.update({ answer: { ...answer, search: [...answer.search, step] } });
      if (began && !answer.search.length) root.dataset.firstWord = Math.round(performance.now() - began);
    }
    if (data.steps) {
      const seconds = began && (performance.now() - began) / 1000;
      // What the same sentence was before one setting changed.
      const isCompared = old?.settings.text === settings.text && numSettingsChanged(old.settings, settings) < 2;
      const before = isCompared ? old.output : null;
      const result = { ...data, settings, before, pieces: answer.pieces, seconds };
      const last = result.steps.length - 1;
      store.update({ answer: { ...answer, result }, result, place: Math.min(wanted ?? place, last) });
      wanted = undefined;
    }
    if (data.account) store.update({ account: data.account });
    if (!data.done) return;
    store.update({ busy: false });
    ask(store.state.asked);
  }

  store.watch(["busy", "loading", "failure"], ({ busy, loading, failure }) =>
    root.setAttribute("aria-busy", busy || (loading && !failure)));
  const columns = make(root, "div", { class: "columns" }); // side by side, if there is room
  const [left, right] = [make(columns, "div"), make(columns, "div")];
  for (const part of [sentence, pieces, search, experiments]) part(left, store, change, ask);
  accountPanel(right, store, ask);
  attention(right, store, change, ask);
  share(root, store);
  worker.onerror = ({ message }) => fail(t`The page cannot compute here: ${message}.`);

  const linked = () => {
    const [asked, settings] = [askedOf(location.hash, MODEL), fromLink(location.hash, MODEL)];
    const explored = exploredOf(settings, asked, MODEL) ?? store.state.explored;
    store.update({ asked, account: null, explored });
    wanted = asked?.place;
    return settings;
  };
  const first = linked();
  if (first) change(first);
  else for (const message of MODEL.answer) hear(message, store.state);
  window.addEventListener("hashchange", () => change(linked() ?? {}));

  window.liveTranslatorModel = (held) => {
    given = held;
    const { answer, ...about } = MODEL;
    if (given.name === MODEL.name) worker.postMessage({ model: { ...about, ...given } });
    else fail(t`${FILE} holds ${given.name}, and this is the page of ${MODEL.name}. Write the page again.`);
  };
  const script = make(document.head, "script", { src: FILE });
  script.onerror = () => fail(t`${FILE} could not be loaded. It belongs beside page.js.`);
  script.onload = () => {
    if (!given) fail(t`${FILE} is damaged. Write the page again.`);
  };
}

function share(root, store) {
  const line = make(root, "p", { class: "share" });
  button(line, t`Copy a link to this`, async () => {
    history.replaceState(null, "", toLink(store.state.settings, store.state.asked));
    try {
      await navigator.clipboard.writeText(location.href);
      copied.textContent = ` ${t`Copied.`}`;
    } catch {
      copied.textContent = ` ${t`The link is in the address bar.`}`;
    }
  });
  const copied = make(line, "span", { role: "status" });
  store.watch(["settings", "asked"], () => (copied.textContent = ""));
  const details = make(root, "details", {});
  make(details, "summary", {}, t`This as Python`);
  const code = make(make(details, "pre", { tabindex: 0 }), "code");
  store.watch(["result"], ({ model, settings, result }) => {
    details.hidden = !result;
    if (result) code.textContent = pythonOf(model, settings, result);
  });
}

start(document.querySelector(".live-translator"));
