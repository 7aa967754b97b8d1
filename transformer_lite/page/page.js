/* The page around a model: the reader changes the settings, the worker answers them, and
   each part of the page shows what is new.

   Nothing is loaded but model.js, which lies beside this script. WORKER is the text of
   the worker's script, because a page that opens as a file may not load one. */

import { attention } from "./attention.js";
import { button, make } from "./dom.js";
import { experiments } from "./experiments.js";
import { fromLink, toLink } from "./link.js";
import { pieces } from "./pieces.js";
import { search } from "./search.js";
import { sentence } from "./sentence.js";
import { NO_ANSWER, Store, unchanged } from "./state.js";

const FILE = document.currentScript.src.replace(/[^/]*$/, "model.js");

function start(root) {
  const store = new Store();
  const address = URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" }));
  const worker = new Worker(address);
  let model = null; // until the worker has read it, the state has none
  let [request, began, timer] = [0, 0, 0];

  /* What the reader does comes here; `wait` milliseconds later the worker is asked. */
  function change(settings, wait = 0) {
    request += 1; // what is still computed is of no interest
    store.update({ settings: { ...store.state.settings, ...settings } });
    if (!store.state.model) return; // it is still to come, or never will
    store.update({ busy: true, failure: "" });
    clearTimeout(timer);
    timer = setTimeout(() => {
      began = performance.now();
      worker.postMessage({ request, settings: store.state.settings });
    }, wait);
  }

  function fail(failure) {
    store.update({ failure, busy: false, answer: NO_ANSWER, result: null });
  }

  function begin() {
    const { explored, settings } = store.state;
    store.update({ model, explored: { ...explored, layer: model.config.num_layers - 1 } });
    change(fromLink(location.hash, model) ?? (settings.text ? settings : unchanged(model)));
    window.addEventListener("hashchange", () => change(fromLink(location.hash, model) ?? {}));
  }

  /* What the worker posts; see worker.js. */
  worker.onmessage = ({ data }) => {
    if (data.loaded) begin();
    else if (!store.state.model) fail(`${FILE} holds no working model: ${data.error}. Write the page again.`);
    else if (data.request === request) hear(data, store.state);
  };

  function hear(data, { answer, place }) {
    if (data.error) fail(`The model failed: ${data.error}.`);
    if (data.pieces) {
      store.update({ answer: { ...NO_ANSWER, ...data } });
      if (data.done) store.update({ result: null });
    }
    if (data.step) {
      const paths = answer.search.at(-1)?.goingOn.map(({ path }) => path) ?? [[]];
      const extend = (output) => ({ ...output, path: [...paths[output.parent], output] });
      const step = { ended: data.step.ended.map(extend), goingOn: data.step.goingOn.map(extend) };
      store.update({ answer: { ...answer, search: [...answer.search, step] } });
      if (!answer.search.length) root.dataset.firstWord = Math.round(performance.now() - began);
    }
    if (data.steps) {
      const seconds = (performance.now() - began) / 1000;
      const result = { ...data, pieces: answer.pieces, seconds };
      const last = result.steps.length - 1;
      store.update({ answer: { ...answer, result }, result, place: Math.min(place, last) });
    }
    if (data.done) store.update({ busy: false });
  }

  store.watch(["busy"], ({ busy }) => root.setAttribute("aria-busy", busy));
  for (const part of [sentence, pieces, search, experiments, attention]) {
    part(root, store, change);
  }
  share(root, store);
  worker.onerror = ({ message }) => fail(`The page cannot compute here: ${message}.`);

  window.liveTranslatorModel = ({ data, ...rest }) => {
    model = rest;
    worker.postMessage({ model: { data, ...rest } });
  };
  const script = make(document.head, "script", { src: FILE });
  script.onerror = () => fail(`${FILE} could not be loaded. It belongs beside page.js.`);
  script.onload = () => {
    if (!model) fail(`${FILE} is damaged. Write the page again.`);
  };
}

function share(root, store) {
  const line = make(root, "p", { class: "share" });
  button(line, "Copy a link to this", async () => {
    history.replaceState(null, "", toLink(store.state.settings));
    try {
      await navigator.clipboard.writeText(location.href);
      copied.textContent = " Copied.";
    } catch {
      copied.textContent = " The link is in the address bar.";
    }
  });
  const copied = make(line, "span", { role: "status" });
  store.watch(["settings"], () => (copied.textContent = ""));
}

start(document.querySelector(".live-translator"));
