/* The output, piece by piece, with the likeliest pieces at a place of it. */

import { button, make, onKey } from "./dom.js";
import { t } from "./messages.js";
import { wording } from "./sentence.js";

const percent = (share) =>
  share > 0 && share < 0.005 ? t`under 1 %` : `${Math.round(100 * share)} %`;
const shown = (piece) => (piece === "</s>" ? "END" : piece);

/* What the pinned output had at a place, if it was written after the same pieces. */
function candidatesThen(pinned, result, place) {
  const begin = ({ steps }) => steps.slice(0, place).map(({ id }) => id).join();
  return pinned?.steps[place] && begin(pinned) === begin(result) ? pinned.steps[place].candidates : [];
}

export function pieces(root, store, change, ask) {
  const { byPiece, pieces } = wording(store.state.model);
  make(root, "h2", {}, byPiece);
  make(root, "p", { class: "hint" },
    t`Choose a piece to see the likeliest ones at its place. Choose another one there, and the model goes on from it.`);
  const output = make(root, "div", {
    class: "pieces", role: "radiogroup", "aria-label": pieces,
  });
  const candidates = make(root, "ol", { class: "candidates", "aria-label": t`Continue with one of the likeliest pieces` });
  const release = button(root, t`Let the model choose again`, () => change({ forced: {} }));

  function choose(place) {
    store.update({ place });
    output.children[place].focus();
  }

  onKey(output, () => {
    const { place, result } = store.state;
    const last = result.steps.length - 1;
    const [next, before] = [Math.min(place + 1, last), Math.max(place - 1, 0)];
    return {
      ArrowRight: next, ArrowLeft: before, ArrowDown: next, ArrowUp: before, Home: 0, End: last,
    };
  }, choose);

  /* The output with another piece at the chosen place; what comes after it is free. */
  function force(id) {
    const { place, settings } = store.state;
    const before = Object.entries(settings.forced).filter(([other]) => other < place);
    change({ forced: { ...Object.fromEntries(before), [place]: id } });
  }

  store.watch(["settings"], ({ settings }) => {
    release.hidden = !Object.keys(settings.forced).length;
  });
  store.watch(["result", "place", "pinned"], ({ result, place, settings, pinned }) => {
    const hadFocus = [output, candidates].some((part) => part.contains(document.activeElement));
    output.textContent = "";
    candidates.textContent = "";
    if (!result) return;
    result.steps.forEach(({ piece, probability }, i) => {
      const choice = button(output, "", () => choose(i), {
        role: "radio", dir: "auto", "aria-checked": i === place,
        tabindex: i === place ? 0 : -1, class: i in settings.forced ? "forced" : "",
      });
      make(choice, "span", {}, shown(piece));
      make(choice, "small", {}, percent(probability));
    });
    const chosen = result.steps[place];
    const before = candidatesThen(pinned, result, place);
    for (const { id, piece, probability } of chosen.candidates) {
      const current = id === chosen.id ? { "aria-current": "true" } : {};
      const item = make(candidates, "li");
      const candidate = button(item, "", () => force(id), current);
      make(candidate, "span", { class: "piece", dir: "auto" }, shown(piece));
      const bars = make(candidate, "span", { class: "bar" });
      make(bars, "span", { style: `width: ${100 * probability}%` });
      const number = make(candidate, "span", { class: "number" }, percent(probability));
      const then = before.find((other) => other.id === id)?.probability;
      if (then !== undefined && percent(then) !== percent(probability)) {
        make(bars, "span", { class: "then", style: `width: ${100 * then}%` });
        make(number, "small", {}, ` ${t`was ${percent(then)}`}`);
      }
      const isChosen = id === chosen.id;
      const asked = { place, id: chosen.id, other: isChosen ? null : id, keys: [] };
      const [why, whole] = isChosen
        ? [t`Why?`, t`Why “${shown(piece)}”?`]
        : [t`Why not?`, t`Why not “${shown(piece)}”?`];
      button(item, why, () => ask(asked), { "aria-label": whole });
    }
    if (hadFocus) output.children[place].focus();
  });
}
