"""Marian's vocabulary: a sentencepiece model for each language, and one list of pieces.

`vocab.json` numbers the pieces of both languages. Here they are numbered anew, with
`PAD, BOS, EOS, UNK = 0, 1, 2, 3` before all others, as the package's search expects.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from transformer_lite.tokenizer import UNK, Tokenizer


class MarianTokenizer(Tokenizer):
    """Read the source language, write the target language.

    Texts have the tokens that `MarianTokenizer` of transformers gives them, but that
    a language's code which the model does not know is refused, where that reads UNK.

    Args:
        source: The serialized sentencepiece model of the source language.
        target: That of the target language.
        numbers: The model's own number of each piece.
    """

    def __init__(
        self, source: bytes, target: bytes, numbers: Mapping[str, int]
    ) -> None:
        super().__init__(source)
        self._target = SentencePieceProcessor(model_proto=target)
        special = ["<pad>", "</s>", "<unk>"]
        others = sorted(numbers.keys() - set(special), key=numbers.__getitem__)
        # A Marian model has no BOS: before the first token stands PAD.
        self.rows = [numbers[piece] for piece in ["<pad>", *special, *others]]
        """The model's own number of each of our ids."""
        self._pieces = ["<pad>", "<s>", "</s>", "<unk>", *others]
        self._ids = {piece: id_ for id_, piece in enumerate(self._pieces) if id_ > UNK}

    @classmethod
    def load(cls, path: Path) -> "MarianTokenizer":
        """Load the tokenizer from a model's folder."""
        numbers = json.loads((path / "vocab.json").read_text(encoding="utf-8"))
        models = ((path / f"{side}.spm").read_bytes() for side in ("source", "target"))
        return cls(*models, numbers)

    @property
    def vocab_size(self) -> int:
        """Number of token ids, the four special ones included."""
        return len(self._pieces)

    def encode(self, text: str) -> list[int]:
        """Return a source's token ids, without EOS.

        Raises:
            ValueError: The text begins with the code of a language, such as
                ">>deu<<", that the model does not know.
        """
        code = re.match(r">>\w+<<", text)
        if code is None:
            return self._ids_of(self._processor, text)
        if code[0] not in self._ids:
            known = " ".join(piece for piece in self._ids if piece.startswith(">>"))
            raise ValueError(
                f"{code[0]} is no language of this model; it has {known or 'only one'}"
            )
        return [self._ids[code[0]], *self.encode(text[code.end() :])]

    def encode_all(self, texts: list[str]) -> list[list[int]]:
        """Return the token ids of each source."""
        return [self.encode(text) for text in texts]

    def encode_target(self, text: str) -> list[int]:
        """Return a target's token ids, without BOS and EOS."""
        return self._ids_of(self._target, text)

    def decode(self, ids: Iterable[int]) -> str:
        """Return a target's text; PAD, BOS, EOS and UNK vanish."""
        pieces = [self._pieces[id_] for id_ in ids if id_ > UNK]
        return self._target.decode_pieces(pieces).replace("▁", " ").strip()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the vocabulary's entry for each id, for labels of figures."""
        return [self._pieces[id_] for id_ in ids]

    def _ids_of(self, processor: SentencePieceProcessor, text: str) -> list[int]:
        pieces = processor.encode(text, out_type=str)
        return [self._ids.get(piece, UNK) for piece in pieces]
