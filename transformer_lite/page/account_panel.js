/* The account of a number: the terms whose sum it is. A term opens its own account. */

import { button, make } from "./dom.js";
import { t } from "./messages.js";

const signed = (value, digits = 2) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`;

export function accountPanel(root, store, ask) {
  const panel = make(root, "section", { class: "account", "aria-label": t`Where a number comes from` });
  const title = make(panel, "h2", { tabindex: -1 }, t`Where a number comes from`);
  make(panel, "p", { class: "hint" },
    t`Choose “Why?” beside a piece. Its number is a sum; each term has an account of its own, down to the words.`);
  const shown = make(panel, "div");
  let opened = false; // by the reader, who then wants to see it

  const open = (keys) => {
    opened = true;
    ask({ ...store.state.asked, keys });
  };

  store.watch(["account"], ({ account, asked }) => {
    const hadFocus = shown.contains(document.activeElement);
    shown.textContent = "";
    if (!account) return;
    if (account.failure) {
      make(shown, "p", { role: "alert" }, t`This account is not there: ${account.failure}.`);
      return;
    }
    trail(shown, account, asked.keys, open);
    terms(shown, account, asked.keys, open);
    for (const { key, title } of account.views) {
      button(shown, title, () => open([...asked.keys, key]));
    }
    make(shown, "p", { class: "hint" },
      t`Sum − number: ${Math.abs(account.missing).toFixed(5)}. LayerNorm's divisions, the weights of attention and which units are above 0 are taken as computed.`);
    make(make(shown, "p", { class: "hint" }, `${t`In transformer.js:`} `), "code", {}, account.code);
    button(shown, t`Close`, () => {
      ask(null);
      title.focus();
    });
    if (opened || hadFocus) {
      title.focus({ preventScroll: true });
      panel.scrollIntoView({ block: "nearest" });
    }
    opened = false;
  });
  store.watch(["asked"], ({ asked, account }) => {
    opened ||= Boolean(asked) && !account;
  });
}

/* The way from the number that was asked for to the one that is shown. */
function trail(root, { trail }, keys, open) {
  const list = make(root, "ol", { class: "trail", "aria-label": t`The way to this number` });
  trail.forEach(({ title, value }, i) => {
    const item = make(list, "li");
    const said = `${title}: ${signed(value)}`;
    if (i < trail.length - 1) button(item, said, () => open(keys.slice(0, i)));
    else make(item, "strong", {}, said);
  });
}

function terms(root, { terms, others, rest }, keys, open) {
  const all = others ? [...terms, { title: t`the other ${others} together`, share: rest }] : terms;
  const largest = Math.max(...all.map(({ share }) => Math.abs(share)), 1e-9);
  const list = make(root, "ol", { class: "terms", "aria-label": t`Its terms` });
  for (const { key, title, share, opens, why, asks } of all) {
    const item = make(list, "li");
    const row = opens
      ? button(item, "", () => open([...keys, key]))
      : make(item, "div");
    make(row, "span", {}, title);
    const bar = make(row, "span", { class: "signed", "aria-hidden": "true" });
    const width = (50 * Math.abs(share)) / largest;
    make(bar, "span", {
      class: share < 0 ? "negative" : "",
      style: `width: ${width}%; left: ${share < 0 ? 50 - width : 50}%`,
    });
    make(row, "span", { class: "number" }, signed(share));
    if (why) {
      button(item, asks, () => open([...keys, why]), {
        "aria-label": t`Why ${title}?`,
      });
    }
  }
}
