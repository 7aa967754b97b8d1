/* What became of an output's words: found, said and shown. */

import { make } from "./dom.js";
import { listed, t } from "./messages.js";

/* The new output in parts, { before, after }: lists of words, equal where nothing
   changed. The common words are as many as possible. */
export function compared(old, now) {
  const common = old.map(() => []); // how many common words there are from i and j on
  const at = (i, j) => common[i]?.[j] ?? 0;
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      common[i][j] = old[i] === now[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const parts = [];
  const push = (isSame, before, after) => {
    if (parts.at(-1)?.isSame !== isSame) parts.push({ isSame, before: [], after: [] });
    parts.at(-1).before.push(...before);
    parts.at(-1).after.push(...after);
  };
  for (let i = 0, j = 0; i < old.length || j < now.length;) {
    if (i < old.length && old[i] === now[j]) push(true, [old[i++]], [now[j++]]);
    else if (j < now.length && at(i, j + 1) >= at(i + 1, j)) push(false, [], [now[j++]]);
    else push(false, [old[i++]], []);
  }
  return parts;
}

/* Which words of a new output are not in the old one, in this order. */
export const changedWords = (old, now) =>
  compared(old, now).flatMap(({ isSame, after }) => after.map((word) => ({ word, isNew: !isSame })));

/* Writes words into a node, the new ones marked. */
export function writeWords(node, words) {
  node.textContent = "";
  for (const { word, isNew } of words) {
    make(node, isNew ? "mark" : "span", {}, word);
    node.append(" ");
  }
}

const MOST = 3; // changes that are said in words

/* The changes as a sentence: “den” became “der”. */
export function saidOf(old, now) {
  const changes = compared(old, now).filter(({ isSame }) => !isSame).map(({ before, after }) => {
    const [old, now] = [before, after].map((words) => `“${words.join(" ")}”`);
    if (!before.length) return t`${now} is new`;
    return after.length ? t`${old} became ${now}` : t`${old} is gone`;
  });
  if (!changes.length) return t`No word changed.`;
  const said = listed(changes.slice(0, MOST));
  return changes.length > MOST ? t`${said}, and ${changes.length - MOST} more.` : t`${said}.`;
}
