/* The words that a reader sees or hears, in the language of the page.

   A message is a whole label or sentence: each language has an order of words of its own.
   MESSAGES are the translations that an edition of the page has; without them there are
   none, and all messages are English. */

const translated = typeof MESSAGES === "undefined" ? {} : MESSAGES;

/* A message with its values: t`Unit ${number} is off` is looked up as "Unit {0} is off".
   A translation may order the places in another way. */
export function t(texts, ...values) {
  const message = texts.reduce((begun, text, i) => `${begun}{${i - 1}}${text}`);
  return (translated[message] ?? message).replace(/\{(\d)\}/g, (_, place) => values[place]);
}

export const listed = (parts) => parts.join(t`, `);
