/* The live translator: what the reader sees and does. The model runs in a worker.

   Plain DOM and SVG. Nothing is loaded but model.js, which lies beside this script. */
(function () {
  "use strict";

  const FOLDER = document.currentScript.src.replace(/[^/]*$/, "");
  const WORKER = "WORKER_SOURCE";
  const SVG = "http://www.w3.org/2000/svg";
  const KINDS = {
    encoder: "the encoder's self-attention",
    decoder: "the decoder's self-attention",
    cross: "the cross-attention",
  };
  const COLUMN = 100; // of the search tree, in pixels
  const ROW = 26;
  const LETTER = 8.5; // about the width of a letter
  const LONGEST = 9; // letters that are shown of a piece
  const TYPING = 200; // milliseconds without a key before the sentence is translated
  const FINISHED = 5; // finished outputs that are listed

  /* Makes the attention explorers that are in the page and not made yet. */
  function makeExplorers() {
    EXPLORER_SOURCE;
  }

  function make(parent, tag, attributes = {}, text) {
    const drawn = ["svg", "path", "text"].includes(tag);
    const node = drawn ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      node.setAttribute(name, value);
    }
    if (text !== undefined) node.textContent = text;
    parent?.appendChild(node);
    return node;
  }

  const percent = (share) =>
    share > 0 && share < 0.005 ? "under 1 %" : `${Math.round(100 * share)} %`;
  const readable = (pieces) => pieces.join("").replaceAll("\u2581", " ").trim();
  const headName = (place) => {
    const [kind, layer, head] = place.split(".");
    return `layer ${+layer + 1}, head ${+head + 1} of ${KINDS[kind]}`;
  };

  function start(root) {
    let model = null;
    let request = 0;
    let began = 0;
    let tree = []; // the steps of the search
    let pieces = []; // of the sentence
    let result = null;
    let chosen = 0; // the place in the translation whose candidates are shown
    let explored = { map: 2, layer: 0, head: 0, query: null };
    let timer = 0;

    // What the reader can change. A link keeps it.
    const unchanged = () => ({
      text: root.dataset.text ?? "",
      beamSize: model?.search.beam_size ?? 4,
      alpha: model?.search.alpha ?? 0.6,
      temperature: 1,
      seed: null, // of the drawing; null searches
      forced: {},
      off: [],
      positions: true,
      scaled: true,
    });
    let state = unchanged();

    /* The parts of the page, from top to bottom. */

    root.setAttribute("aria-busy", "true");
    const label = make(root, "label", { class: "sentence" });
    const asks = make(label, "span", {}, "A sentence");
    const text = make(label, "textarea", { rows: 2, spellcheck: "false", dir: "auto" });
    const status = make(root, "p", { class: "status", role: "status" }, "The model is loading.");
    const translation = make(root, "div", { class: "translation", role: "region", dir: "auto" });

    make(root, "h3", {}, "The pieces that the model reads");
    const source = make(root, "ol", { class: "pieces", "aria-label": "Pieces of the sentence" });

    make(root, "h3", {}, "The translation, piece by piece");
    make(root, "p", { class: "hint" },
      "Choose a piece to see the likeliest ones at its place. Choose another one there, and the model goes on from it.");
    const target = make(root, "div", {
      class: "pieces", role: "radiogroup", "aria-label": "Pieces of the translation",
    });
    const candidates = make(root, "ol", { class: "candidates", "aria-label": "Continue with one of the likeliest pieces" });
    const release = button(root, "Let the model choose again", () => change({ forced: {} }));

    make(root, "h3", {}, "The search");
    const controls = make(root, "div", { class: "controls" });
    const sliders = {
      beamSize: slider("Beam size", "beamSize", 1, 8, 1),
      alpha: slider("Length penalty α", "alpha", 0, 2, 0.1),
      temperature: slider("Temperature", "temperature", 0.1, 2, 0.1),
    };
    const draws = checkbox(controls, "Draw each piece at random instead", (on) =>
      change({ seed: on ? 1 : null }));
    const again = button(controls, "Draw again", () => change({ seed: state.seed + 1 }));
    const scrolled = make(root, "div", {
      class: "tree", tabindex: 0, role: "region", "aria-label": "Search tree",
    });
    make(root, "p", { class: "hint" },
      "Finished outputs, with the logarithm of their probability over the length penalty:");
    const finished = make(root, "ol", { class: "finished", "aria-label": "Finished outputs" });

    make(root, "h3", {}, "Take a part away");
    const parts = make(root, "div", { class: "controls" });
    const positions = checkbox(parts, "without the positional encoding (Section 3.5)", (on) =>
      change({ positions: !on }));
    const scaled = checkbox(parts, "without the division by √dₖ (Section 3.2.1)", (on) =>
      change({ scaled: !on }));
    const off = make(parts, "ul", { class: "off", "aria-label": "Heads that are switched off" });
    button(parts, "Put everything back", () => change({ ...unchanged(), text: state.text }));

    make(root, "h3", {}, "What attends to what");
    const attention = make(root, "div");
    const switches = button(root, "", () => {
      const place = exploredHead();
      const off = state.off.includes(place)
        ? state.off.filter((other) => other !== place)
        : [...state.off, place];
      change({ off });
    });

    const share = make(root, "p", { class: "share" });
    button(share, "Copy a link to this", copyLink);
    const copied = make(share, "span", { role: "status" });

    text.addEventListener("input", () => change({ text: text.value, forced: {} }, TYPING));
    target.addEventListener("keydown", move);
    attention.addEventListener("explore", (event) => {
      explored = event.detail;
      showSwitch();
    });
    window.addEventListener("hashchange", () => change(fromLink()));

    function button(parent, title, act) {
      const made = make(parent, "button", { type: "button" }, title);
      made.addEventListener("click", act);
      return made;
    }

    function checkbox(parent, title, act) {
      const around = make(parent, "label");
      const box = make(around, "input", { type: "checkbox" });
      around.append(` ${title}`);
      box.addEventListener("change", () => act(box.checked));
      return box;
    }

    function slider(title, key, min, max, step) {
      const around = make(controls, "label", { class: "slider" }, `${title} `);
      const value = make(around, "span", { "aria-hidden": "true" });
      const input = make(around, "input", { type: "range", min, max, step });
      input.addEventListener("input", () => change({ [key]: Number(input.value) }, TYPING));
      return { input, value };
    }

    /* What happens when something is changed. */

    function change(changes, wait = 0) {
      state = { ...state, ...changes };
      request += 1; // what is still computed is of no interest
      root.setAttribute("aria-busy", "true");
      copied.textContent = "";
      showSettings();
      clearTimeout(timer);
      timer = setTimeout(ask, wait);
    }

    function ask() {
      if (!model) return;
      [tree, began] = [[], performance.now()];
      worker.postMessage({ request, ...state });
    }

    function answer({ data }) {
      if (data.request !== request) return; // of a sentence that is there no more
      if (data.pieces) showSource(data);
      if (data.step) {
        tree.push(data.step);
        showSearch();
      }
      if (data.steps) {
        result = data;
        chosen = Math.min(chosen, result.steps.length - 1);
        showResult();
      }
      if (data.done) {
        root.setAttribute("aria-busy", "false");
        if (!pieces.length) showNothing("Type a sentence.");
      }
    }

    /* What is shown. */

    function showSettings() {
      if (text.value !== state.text) text.value = state.text;
      for (const [key, { input, value }] of Object.entries(sliders)) {
        input.value = state[key];
        value.textContent = state[key];
      }
      const isDrawn = state.seed !== null;
      draws.checked = isDrawn;
      again.hidden = !isDrawn;
      sliders.beamSize.input.disabled = isDrawn;
      sliders.alpha.input.disabled = isDrawn;
      positions.checked = !state.positions;
      scaled.checked = !state.scaled;
      release.hidden = !Object.keys(state.forced).length;
      off.textContent = "";
      for (const place of state.off) {
        const item = make(off, "li", {}, `without ${headName(place)} `);
        button(item, "Switch on", () =>
          change({ off: state.off.filter((other) => other !== place) })
        ).setAttribute("aria-label", `Switch on ${headName(place)}`);
      }
      showSwitch();
    }

    function showSource(data) {
      pieces = data.pieces;
      source.textContent = "";
      for (const piece of pieces.slice(0, data.longest)) {
        make(source, "li", { class: data.unknown.includes(piece.text) ? "unknown" : "", dir: "auto" }, piece.text);
      }
      const count = pieces.length.toLocaleString("en");
      if (data.tooLong) {
        showNothing(`This text has ${count} pieces, and the model reads at most ${data.longest}. Shorten it.`);
      } else if (data.unknown.length) {
        const listed = [...new Set(data.unknown)].map((one) => `“${one.replaceAll("\u2581", " ")}”`).join(", ");
        status.textContent = `The model has never seen ${listed}. It reads “unknown” there.`;
      } else if (pieces.length) {
        status.textContent = "";
      }
    }

    function showNothing(why) {
      result = null;
      root.setAttribute("aria-busy", "false");
      status.textContent = why;
      for (const part of [translation, target, candidates, scrolled, finished, attention]) {
        part.textContent = "";
      }
      switches.hidden = true;
    }

    /* Each step of the search with the pieces that lead to it. */
    function outputs() {
      let before = [[]];
      return tree.map(({ ended, goingOn }) => {
        const follow = (one) => ({ ...one, path: [...before[one.parent], one] });
        const step = { ended: ended.map(follow), goingOn: goingOn.map(follow) };
        before = step.goingOn.map(({ path }) => path);
        return step;
      });
    }

    function showSearch() {
      const steps = outputs();
      const { ended, goingOn } = steps.at(-1);
      const [likeliest] = goingOn.length ? goingOn : ended;
      translation.textContent = readable(likeliest.path.filter(({ id }) => id > 2).map((one) => one.piece));
      translation.classList.add("partial");
      if (tree.length === 1) root.dataset.firstWord = Math.round(performance.now() - began);
      showTree(steps, []);
    }

    function showTree(steps, best) {
      const rows = Math.max(...steps.map(({ goingOn, ended }) => goingOn.length + ended.length));
      const [width, height] = [(steps.length + 1) * COLUMN, rows * ROW];
      scrolled.textContent = "";
      const picture = make(scrolled, "svg", {
        width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
        "aria-label": `${steps.length} steps, at most ${rows} outputs in each`,
      });
      const isBest = (path) => path.every(({ id }, i) => id === best[i]);
      const shown = (piece) =>
        piece.length > LONGEST ? `${piece.slice(0, LONGEST - 1)}…` : piece;
      make(picture, "text", { class: best.length ? "best" : "", x: 3, y: ROW / 2 + 4 }, "BEGIN");
      steps.forEach(({ goingOn, ended }, step) => {
        [...goingOn, ...ended].forEach(({ piece, parent, path }, row) => {
          const kind = row < goingOn.length ? "" : "ended";
          const chain = isBest(path) ? `${kind} best` : kind;
          const [x, y] = [(step + 1) * COLUMN, (row + 0.5) * ROW];
          const from = (parent + 0.5) * ROW;
          const before = shown(path.at(-2)?.piece ?? "BEGIN");
          const end = x - COLUMN + 8 + LETTER * before.length;
          const middle = (end + x) / 2;
          make(picture, "path", {
            class: chain,
            d: `M${end} ${from}C${middle} ${from} ${middle} ${y} ${x} ${y}`,
          });
          make(picture, "text", { class: chain, x: x + 3, y: y + 4 }, kind ? "END" : shown(piece));
        });
      });
      scrolled.scrollLeft = best.length ? 0 : width;
    }

    function showResult() {
      const focused = target.contains(document.activeElement) || candidates.contains(document.activeElement);
      const seconds = ((performance.now() - began) / 1000).toFixed(1);
      translation.classList.remove("partial");
      translation.textContent = result.output;
      if (!status.textContent) status.textContent = `Translated in ${seconds} s.`;
      const ids = result.steps.map(({ id }) => id);
      const steps = outputs();
      showTree(steps, ids);
      finished.textContent = "";
      const ends = steps.flatMap(({ ended }) => ended)
        .map(({ logProb, path }) => ({ score: logProb / ((5 + path.length) / 6) ** (state.seed === null ? state.alpha : 0), path }))
        .sort((one, other) => other.score - one.score);
      for (const { score, path } of ends.slice(0, FINISHED)) {
        const words = readable(path.slice(0, -1).map(({ piece }) => piece));
        make(finished, "li", {}, `${score.toFixed(2).replace("-", "\u2212")}  ${words}`);
      }
      showTarget();
      if (focused) target.children[chosen].focus();
      showAttention();
    }

    function showTarget() {
      target.textContent = "";
      result.steps.forEach(({ piece, probability }, i) => {
        const shown = make(target, "button", {
          type: "button", role: "radio", dir: "auto",
          "aria-checked": i === chosen, tabindex: i === chosen ? 0 : -1,
          class: i in state.forced ? "forced" : "",
        });
        make(shown, "span", {}, piece === "</s>" ? "END" : piece);
        make(shown, "small", {}, percent(probability));
        shown.addEventListener("click", () => choose(i));
      });
      candidates.textContent = "";
      const step = result.steps[chosen];
      for (const { id, piece, probability } of step.candidates) {
        const item = make(candidates, "li");
        const name = piece === "</s>" ? "END" : piece;
        const force = button(item, "", () => {
          const before = Object.entries(state.forced).filter(([place]) => place < chosen);
          change({ forced: { ...Object.fromEntries(before), [chosen]: id } });
        });
        if (id === step.id) force.setAttribute("aria-current", "true");
        make(force, "span", { class: "piece", dir: "auto" }, name);
        make(make(force, "span", { class: "bar" }), "span", { style: `width: ${100 * probability}%` });
        make(force, "span", { class: "number" }, percent(probability));
      }
    }

    function choose(place) {
      chosen = place;
      showTarget();
      target.children[chosen].focus();
    }

    function move(event) {
      const last = result.steps.length - 1;
      const places = {
        ArrowRight: Math.min(chosen + 1, last), ArrowLeft: Math.max(chosen - 1, 0),
        ArrowDown: Math.min(chosen + 1, last), ArrowUp: Math.max(chosen - 1, 0),
        Home: 0, End: last,
      };
      if (!(event.key in places)) return;
      event.preventDefault();
      choose(places[event.key]);
    }

    function showAttention() {
      const read = [...pieces.map((piece) => piece.text), "END"];
      const written = result.steps.map(({ piece }) => piece);
      const begins = ["BEGIN", ...written.slice(0, -1)]; // what the decoder reads
      const { encoder, decoder, cross } = result.weights;
      const maps = [
        { name: "encoder: source to source", queries: read, keys: read, weights: encoder },
        { name: "decoder: target to target", queries: begins, keys: begins, weights: decoder },
        { name: "cross-attention: target to source", queries: begins, keys: read, weights: cross },
      ];
      const { queries } = maps[explored.map];
      const query = explored.query < queries.length ? explored.query : null;
      attention.textContent = "";
      const made = make(attention, "div", { class: "attention-explorer" });
      const data = JSON.stringify({ maps, start: { ...explored, query } });
      make(made, "script", { type: "application/json", class: "attention-data" }, data);
      makeExplorers();
    }

    const exploredHead = () =>
      `${["encoder", "decoder", "cross"][explored.map]}.${explored.layer}.${explored.head}`;

    function showSwitch() {
      const place = exploredHead();
      switches.hidden = !result;
      switches.textContent = `Switch ${state.off.includes(place) ? "on" : "off"} ${headName(place)}`;
    }

    /* A link restores the sentence and all that was changed. */

    function toLink() {
      const values = {
        text: state.text, beam: state.beamSize, alpha: state.alpha,
        temperature: state.temperature, draw: state.seed ?? "",
        force: Object.entries(state.forced).map((pair) => pair.join(":")).join(),
        off: state.off.join(), positions: state.positions ? "" : "no",
        scale: state.scaled ? "" : "no",
      };
      const given = Object.entries(values).filter(([, value]) => value !== "");
      return `#${new URLSearchParams(given)}`;
    }

    function fromLink() {
      const given = new URLSearchParams(location.hash.slice(1));
      if (!given.has("text")) return state;
      const usual = unchanged();
      const number = (name, least, most, otherwise) => {
        const value = Number(given.get(name) ?? NaN);
        return value >= least && value <= most ? value : otherwise;
      };
      const listed = (name) => (given.get(name) ?? "").split(",").filter(Boolean);
      const forced = listed("force").map((pair) => pair.split(":").map(Number))
        .filter(([place, id]) => place >= 0 && id > 1 && id < model.pieces.length);
      return {
        text: given.get("text"),
        beamSize: Math.round(number("beam", 1, 8, usual.beamSize)),
        alpha: number("alpha", 0, 2, usual.alpha),
        temperature: number("temperature", 0.1, 2, 1),
        seed: given.has("draw") ? Math.round(number("draw", 0, 2 ** 31, 1)) : null,
        forced: Object.fromEntries(forced),
        off: listed("off").filter((place) => /^(encoder|decoder|cross)\.\d+\.\d+$/.test(place)),
        positions: given.get("positions") !== "no",
        scaled: given.get("scale") !== "no",
      };
    }

    async function copyLink() {
      history.replaceState(null, "", toLink());
      try {
        await navigator.clipboard.writeText(location.href);
        copied.textContent = " Copied.";
      } catch {
        copied.textContent = " The link is in the address bar.";
      }
    }

    /* The worker is made of text: pages opened as files may not load one. */
    const address = URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" }));
    const worker = new Worker(address);
    worker.onmessage = answer;
    worker.onerror = ({ message }) => showNothing(`The translator failed: ${message}`);
    window.liveTranslatorModel = (given) => {
      model = given;
      worker.postMessage({ model: { ...given } });
      delete given.data; // the worker has it
      explored.layer = model.config.num_layers - 1;
      const [from, to] = model.languages.map(languageName);
      asks.textContent = from ? `A sentence in ${from}` : "A sentence";
      text.lang = model.languages[0];
      translation.lang = model.languages[1];
      translation.setAttribute("aria-label", to ? `Translation into ${to}` : "Translation");
      status.textContent = "";
      change({ ...unchanged(), ...fromLink() });
    };
    showSettings();
    showSwitch();
    make(document.head, "script", { src: `${FOLDER}model.js` }).onerror = () =>
      showNothing(`${FOLDER}model.js could not be loaded. It belongs beside page.js.`);
  }

  function languageName(code) {
    try {
      return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
    } catch {
      return code; // not a language's code
    }
  }

  document.querySelectorAll(".live-translator").forEach(start);
})();
