"""The text of Marian's models to our token ids and back.

A sentencepiece model for each of its languages cuts text into pieces, and `vocab.json`
numbers the pieces of both; some models have such a list for each language. Numbers are
names: here pieces are numbered anew, `PAD, BOS, EOS, UNK = 0, 1, 2, 3` before all
others, and so are the rows of the model's matrices.

Paper: §5.1
Chapter: attention_visualizations
Tests: tests/inference/test_marian_tokenizer.py
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import sentencepiece

from transformer_lite.tokenizer import BOS, EOS, PAD, UNK

SPECIAL = {PAD: "<pad>", BOS: "<s>", EOS: "</s>", UNK: "<unk>"}
"""Our special tokens. A Marian model has no BOS: before the first token stands PAD."""


class Numbering(NamedTuple):
    """A vocabulary in our order."""

    order: list[int]
    """For each of our ids the model's own, which is the row of its matrices."""
    pieces: list[str]
    """For each of our ids its piece."""

    @classmethod
    def read(cls, path: Path, size: int, start: int | None = None) -> "Numbering":
        """The pieces that a JSON file numbers.

        Args:
            path: The file.
            size: Rows of the model's matrices; those without a piece stay nameless.
            start: What stands before the first token; by default the padding token.

        Raises:
            ValueError: The file is missing, is no such list, lacks a special token, or
                has other numbers than the model has rows.
        """
        again = "download the model again"
        try:
            numbers = json.loads(path.read_text(encoding="utf-8"))
            names = {int(number): str(piece) for piece, number in numbers.items()}
            pad, eos, unk = (int(numbers[SPECIAL[token]]) for token in (PAD, EOS, UNK))
            for piece, number in numbers.items():
                if names[int(number)] != piece:
                    both = f"{piece!r} and {names[int(number)]!r}"
                    raise ValueError(f"{both} have the number {number}")
        except KeyError as error:
            raise ValueError(f"{path}: has no piece {error}; {again}") from None
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path}: not a numbered list of pieces ({error}); {again}"
            ) from error
        rows = range(size)
        start = pad if start is None else start
        if not {*names, start} <= set(rows):
            raise ValueError(
                f"{path}: numbers up to {max(*names, start)} do not fit a model of "
                f"{size} tokens; take both from one and the same model"
            )
        others = [number for number in rows if number not in (pad, eos, unk)]
        pieces = [names.get(number, SPECIAL[UNK]) for number in others]
        return cls([pad, start, eos, unk, *others], [*SPECIAL.values(), *pieces])


class MarianTokenizer:
    """One language of a Marian model.

    As `MarianTokenizer` of Hugging Face's transformers, but that "</s>" in a text is
    text, and that a code `>>xx<<` which the model does not know is refused, where that
    reads it as UNK.

    Args:
        model: A serialized sentencepiece model.
        pieces: The piece of each id.
    """

    def __init__(self, model: bytes, pieces: list[str]) -> None:
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self._pieces = pieces
        self._ids = {piece: id_ for id_, piece in enumerate(pieces) if id_ > UNK}

    @classmethod
    def load(cls, path: Path, pieces: list[str]) -> "MarianTokenizer":
        """The tokenizer whose sentencepiece model lies at `path`.

        Raises:
            ValueError: There is none.
        """
        try:
            tokenizer = cls(path.read_bytes(), pieces)
            if tokenizer._processor.get_piece_size() == 0:
                raise ValueError("it has no pieces")
            return tokenizer
        except (OSError, RuntimeError, ValueError) as error:
            raise ValueError(
                f"{path}: not a sentencepiece model ({error}); download the model again"
            ) from error

    @property
    def languages(self) -> list[str]:
        """Codes such as ">>deu<<", of which a multilingual model wants one at first."""
        return [piece for piece in self._ids if re.fullmatch(r">>.+<<", piece)]

    def encode(self, text: str) -> list[int]:
        """The text's token ids, without EOS; a piece without a number is UNK.

        Raises:
            ValueError: The text begins with a language's code that is none of the
                model's.
        """
        code = re.match(r">>.+?<<", text)
        if code and code[0] in self._ids:
            return [self._ids[code[0]], *self.encode(text[code.end() :])]
        if code and re.fullmatch(r">>[a-z]{2,3}(_\w+)?<<", code[0]):
            remedy = "leave it out: the model has one target language"
            if known := self.languages:
                remedy = f"give one of {' '.join(known)}"
            raise ValueError(f"{code[0]} is no code of this model; {remedy}")
        pieces = self._processor.encode(text, out_type=str)
        return [self._ids.get(piece, UNK) for piece in pieces]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids; PAD, BOS, EOS and UNK vanish."""
        pieces = [self._pieces[id_] for id_ in ids if id_ > UNK]
        return self._processor.decode_pieces(pieces).replace("▁", " ").strip()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The vocabulary's entry for each id, for labels of figures."""
        return [self._pieces[id_] for id_ in ids]
