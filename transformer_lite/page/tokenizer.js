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
    this.longest = pieces.reduce((most, piece) => Math.max(most, [...piece].length), 0);
    this.symbols = [...symbols].sort((a, b) => b.length - a.length);
  }

  /* The ids of a text, without BOS and EOS. */
  encode(text) {
    return this.split(text).map(({ id }) => id);
  }

  /* The pieces of a text: a list of { id, text }. Characters that the vocabulary lacks
     are UNK; several in a row are one piece. Of a text that has more than `most` pieces
     the end may be missing. */
  split(text, most = Infinity) {
    if (!text) return [];
    const marked = SPACE + text.toWellFormed().replaceAll(" ", SPACE);
    const pieces = [];
    // No piece has a space in its middle, so each word is encoded on its own.
    for (const word of marked.match(/\u2581?[^\u2581]*/gu)) {
      for (const piece of this.merge(word, most)) {
        const id = this.ids.get(piece) ?? UNK;
        const last = pieces.at(-1);
        if (id === UNK && last?.id === UNK) last.text += piece;
        else pieces.push({ id, text: piece });
      }
      if (pieces.length > most) break;
    }
    return pieces;
  }

  /* Begins with single characters, and merges the best pair until there is none. */
  merge(word, most) {
    const symbol = this.symbols.find((one) => word.startsWith(one));
    if (symbol) return [symbol, ...this.merge(word.slice(symbol.length), most)];
    const parts = [];
    let known = 0; // characters, of which a piece has at most `longest`
    for (const character of word) {
      if (known > most * this.longest) break;
      if (this.ids.has(character)) known++;
      parts.push(character);
    }
    const rank = (i) =>
      i + 1 < parts.length ? this.ids.get(parts[i] + parts[i + 1]) ?? Infinity : Infinity;
    const ranks = parts.map((_, i) => rank(i)); // of the pairs that begin at each place
    for (;;) {
      let first = 0;
      for (let i = 1; i < parts.length; i++) if (ranks[i] < ranks[first]) first = i;
      if (!(ranks[first] < Infinity)) return parts;
      parts.splice(first, 2, parts[first] + parts[first + 1]);
      ranks.splice(first, 2, rank(first));
      if (first) ranks[first - 1] = rank(first - 1);
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
