/* The guided tour of the live translator: the page's stops, one at a time.

   Each stop is a section with a heading, a text, a list of guesses with the right one in
   bold, and what is to be seen, with a link that sets the translator. Without this script
   it is all there to read. */

import { button, make } from "../../transformer_lite/page/dom.js";
import { t } from "../../transformer_lite/page/messages.js";
import { predict } from "./live.js";

const ADDRESS = /^#stop-(\d+)/;

function start(stops, translator) {
  const root = make(null, "section", { class: "live-figure tour", "aria-label": t`Guided tour` });
  stops[0].parentElement.hidden = true;
  translator.before(root);
  const where = make(root, "p", { class: "where", tabindex: -1 });
  const card = make(root, "div", { class: "stop" });
  const bar = make(root, "div", { class: "controls" });
  const back = button(bar, t`Back`, () => show(number - 1, true));
  const next = button(bar, t`Next stop`, () => show(number + 1, true));
  const isRight = new Map(); // by stop: whether the first guess was right; null without one
  let number = 0;
  let mirrored = null;

  function show(wanted, isAsked) {
    number = Math.min(Math.max(wanted, 0), stops.length - 1);
    back.disabled = number === 0;
    next.disabled = number === stops.length - 1;
    card.textContent = "";
    const [title, text, guesses, seen] = [...stops[number].children].map((part) => part.cloneNode(true));
    where.textContent = title.firstChild.textContent.replace(/\d+/, `$&/${stops.length}`);
    text.classList.add("asked");
    card.append(text);
    delete root.dataset.guessed;
    const options = [...guesses.children];
    const panel = predict(card, {
      question: t`What do you expect?`,
      options: options.map((option) => option.textContent.trim()),
      answer: options.find((option) => option.querySelector("strong")).textContent.trim(),
      because: t`The translator below shows it now.`,
    }, (isGuess, isAnswer) => {
      root.dataset.guessed = "";
      if (!isRight.has(number)) isRight.set(number, isGuess ? isAnswer : null);
      if (next.disabled) make(panel, "p", {}, result([...isRight.values()]));
      (next.disabled ? back : next).focus();
      location.hash = seen.querySelector('a[href^="#"]').hash;
    });
    const output = make(panel, "p", { class: "output" });
    panel.append(seen);
    mirrored?.disconnect();
    mirrored = mirror(translator, output);
    if (isAsked) where.focus();
  }

  new ResizeObserver(() => {
    const covered = root.offsetHeight + parseFloat(getComputedStyle(root).top);
    translator.style.setProperty("--covered", `${covered}px`);
  }).observe(root);
  const opened = () => ADDRESS.exec(location.hash)?.[1] - 1;
  window.addEventListener("hashchange", () => opened() >= 0 && show(opened(), true));
  show(opened() || 0, opened() >= 0);
}

/* Shows the translator's output beside the question, when the search has ended: on a phone
   it is far below. */
function mirror(translator, output) {
  const copy = () => {
    const isBusy = translator.getAttribute("aria-busy") === "true";
    const translation = translator.querySelector(".translation").innerHTML;
    const isShown = !isBusy && translation; // there is none if the model has failed
    output.innerHTML = isShown ? translation : translator.querySelector(".status").innerHTML;
  };
  const observer = new MutationObserver(copy);
  observer.observe(translator, { childList: true, subtree: true, attributeFilter: ["aria-busy"] });
  return observer;
}

function result(guesses) {
  const made = guesses.filter((isRight) => isRight !== null);
  const right = made.filter(Boolean).length;
  return made.length ? t`The tour ends here. Guesses: ${made.length}, right: ${right}.` : t`The tour ends here.`;
}

start(
  [...document.querySelectorAll('section[id^="stop-"]')],
  document.querySelector(".live-translator"),
);
