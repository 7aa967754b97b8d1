/* Text to token ids and back: byte-pair encoding as sentencepiece does it (Section 5.1).

   The vocabulary lists the pieces in the order in which they were learned, so the piece
   with the smallest id is merged first. "▁" (U+2581) stands for a space; the text gets
   one at its front, so that a word is the same there as anywhere else.

   Tests: tests/package/page/test_tokenizer_js.py */

export const UNK = 3;
const SPACE = "\u2581";

export class Tokenizer {
  /* pieces   the vocabulary; the first four are PAD, BOS, EOS and UNK
     symbols  those of the pieces that are never split nor merged, such as brackets */
  constructor(pieces, symbols = []) {
    this.pieces = pieces;
    this.ids = new Map(pieces.map((piece, id) => [piece, id]).slice(UNK + 1));
    this.symbols = [...symbols].sort((a, b) => b.length - a.length);
  }

  /* The ids of a text, without BOS and EOS. */
  encode(text) {
    return this.split(text).map(({ id }) => id);
  }

  /* The pieces of a text: a list of { id, text }. Characters that the vocabulary lacks
     are UNK; several in a row are one piece. */
  split(text) {
    if (!text) return [];
    const marked = SPACE + text.toWellFormed().replaceAll(" ", SPACE);
    const pieces = [];
    // No piece has a space in its middle, so each word is encoded on its own.
    for (const word of marked.match(/\u2581?[^\u2581]*/gu)) {
      for (const piece of this.merge(word)) {
        const id = this.ids.get(piece) ?? UNK;
        const last = pieces.at(-1);
        if (id === UNK && last?.id === UNK) last.text += piece;
        else pieces.push({ id, text: piece });
      }
    }
    return pieces;
  }

  /* Begins with single characters, and merges the best pair until there is none. */
  merge(word) {
    const symbol = this.symbols.find((one) => word.startsWith(one));
    if (symbol) return [symbol, ...this.merge(word.slice(symbol.length))];
    const parts = [...word];
    for (;;) {
      let first = Infinity;
      let place = -1;
      for (let i = 0; i + 1 < parts.length; i++) {
        const id = this.ids.get(parts[i] + parts[i + 1]) ?? Infinity;
        if (id < first) [first, place] = [id, i];
      }
      if (place < 0) return parts;
      parts.splice(place, 2, parts[place] + parts[place + 1]);
    }
  }

  /* The text of ids; PAD, BOS and EOS give nothing, and UNK gives " ⁇ ". */
  decode(ids) {
    const text = ids
      .filter((id) => id >= UNK)
      .map((id) => (id === UNK ? " \u2047 " : this.pieces[id].replaceAll(SPACE, " ")))
      .join("");
    return ids[0] === UNK ? text : text.replace(/^ /, "");
  }
}
