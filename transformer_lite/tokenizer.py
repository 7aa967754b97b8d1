"""Text to token ids and back, by sentencepiece's byte-pair encoding.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/package/test_tokenizer.py
"""

import hashlib
import io
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from random import Random

import sentencepiece

PAD, BOS, EOS, UNK = 0, 1, 2, 3

RESERVED = "\0\u2581\u2585"
"""Characters that sentencepiece uses itself; `decode` does not give them back."""

_SPACE = "\u2581"
"""What stands for a space in a token."""

_FILLERS = f"{_SPACE}\u2800\u115f\u1160\u3164\uffa0"
"""What is empty though Unicode calls it a symbol or a letter.

These are the space of a token, the Braille cell without dots, and Hangul's fillers, the
only letters whose property Default_Ignorable_Code_Point is true.
"""

REMEDY = "copy it from the prepared data, or from a run on them; or `prepare` them anew"
"""What to do when a tokenizer's file is missing or damaged."""

VOCAB_SENTENCES = 500_000
"""Most sentences that a vocabulary is learned from; toy and Multi30k have fewer."""


def is_blank(text: str) -> bool:
    """Return whether nothing of a text can be seen or said.

    Spaces (Unicode's categories Z…), control and format characters (Cc, Cf), marks
    without a letter (M…) and `_FILLERS` show nothing. A character that this Python does
    not know may be a new letter or emoji.
    """
    category = unicodedata.category
    return all(
        character in _FILLERS or category(character).startswith(("Z", "Cc", "Cf", "M"))
        for character in text
    )


class Tokenizer:
    """One sub-word vocabulary for both languages (Section 5.1).

    No text is normalized, so `decode(encode(text)) == text` for any text made of
    characters that occurred in training, except those in `RESERVED`: "▁" (U+2581),
    which stands for a space, U+2585 and NUL.

    Args:
        model: A serialized sentencepiece model.
    """

    def __init__(self, model: bytes) -> None:
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        vocab_size: int,
        vocab_sentences: int = VOCAB_SENTENCES,
        symbols: Iterable[str] = (),
        allow_smaller: bool = False,
    ) -> "Tokenizer":
        """Learn a tokenizer from lines of the training data.

        Args:
            lines: The sentences of both languages, read one by one.
            vocab_sentences: Most lines to learn from. From more lines a random sample
                of this size is drawn, always the same one.
            symbols: Words that are one token each, such as the brackets of trees
                (Section 6.3). A longer word is split after such a beginning.
            allow_smaller: Learn fewer tokens where the lines have too little text.

        Raises:
            ValueError: The lines have too little text for `vocab_size`, or too many
                different characters; the message names a possible size.
        """
        for name, value, least in (
            ("vocab_size", vocab_size, UNK + 2),
            ("vocab_sentences", vocab_sentences, 101),  # sentencepiece's own limit
        ):
            if value < least:
                raise ValueError(
                    f"{name} = {value} is impossible; give at least {least}"
                )
        sample, model = _sample(lines, vocab_sentences), io.BytesIO()
        symbols = list(symbols)
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(sample),
                model_writer=model,
                model_type="bpe",
                vocab_size=vocab_size,
                pad_id=PAD,
                bos_id=BOS,
                eos_id=EOS,
                unk_id=UNK,
                user_defined_symbols=[f"▁{symbol}" for symbol in symbols],
                character_coverage=1.0,
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                max_sentence_length=1_000_000,  # bytes; longer lines would be skipped
                # `lines` are a sample already; stored vocabularies hold these options.
                input_sentence_size=vocab_sentences,
                shuffle_input_sentence=True,
                minloglevel=2,
            )
        except RuntimeError as error:
            most = re.search(r"to a value <= (\d+)", str(error))
            if allow_smaller and most:
                return cls.train(sample, int(most[1]), vocab_sentences, symbols)
            raise ValueError(_explain(str(error), vocab_size)) from error
        return cls(model.getvalue())

    @classmethod
    def load(cls, path: Path, sha256: str | None = None) -> "Tokenizer":
        """Load the tokenizer saved at `path`.

        Args:
            sha256: The file's checksum, if it was recorded.

        Raises:
            ValueError: There is no sentencepiece model at `path`, or another one.
        """
        try:
            content = path.read_bytes()
            if sha256 not in (None, hashlib.sha256(content).hexdigest()):
                raise RuntimeError("its checksum is not the one in corpus.json")
            tokenizer = cls(content)
            if not tokenizer.vocab_size:
                raise RuntimeError("no tokens")
        except FileNotFoundError:
            raise ValueError(f"{path}: no such tokenizer; {REMEDY}") from None
        except RuntimeError as error:
            raise ValueError(
                f"{path}: damaged, or another file ({error}); {REMEDY}"
            ) from error
        return tokenizer

    def save(self, path: Path) -> None:
        """Write the model in sentencepiece's own file format."""
        path.write_bytes(self._processor.serialized_model_proto())

    @property
    def vocab_size(self) -> int:
        """Number of token ids, the four special ones included."""
        return self._processor.get_piece_size()

    @property
    def symbols(self) -> list[str]:
        """The pieces of the symbols that were given to `train`."""
        ids = range(UNK + 1, self.vocab_size)
        # Symbols have the score 0, and so has the piece that was learned first.
        unscored = [id_ for id_ in ids if self._processor.get_score(id_) == 0]
        return self.pieces(unscored[:-1])

    def encode(self, text: str) -> list[int]:
        """Return the text's token ids, without BOS and EOS."""
        return self._processor.encode(text)

    def encode_all(self, texts: list[str]) -> list[list[int]]:
        """Return the token ids of each text, computed on all cores of the machine."""
        return self._processor.encode(texts, num_threads=-1)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of token ids, without PAD, BOS and EOS; UNK gives " ⁇ "."""
        return self._processor.decode(list(ids))

    def unknown(self, text: str) -> list[str]:
        """Return the characters of a text that the vocabulary does not have."""
        if UNK not in self.encode(text):
            return []
        find = self._processor.piece_to_id
        return [c for c in dict.fromkeys(text.replace(" ", _SPACE)) if find(c) == UNK]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the vocabulary's entry for each id, to label figures."""
        return [self._processor.id_to_piece(id_) for id_ in ids]


def _sample(lines: Iterable[str], number: int) -> list[str]:
    """Draw a random sample, always the same, in which all lines are equally likely."""
    # Deviation D12: a sample. Sentencepiece's own would differ in each process.
    generator, sample = Random(1), []
    for index, line in enumerate(lines):
        if index < number:
            sample.append(line)
        elif (place := generator.randrange(index + 1)) < number:
            sample[place] = line
    return sample


def _explain(error: str, vocab_size: int) -> str:
    """Explain sentencepiece's error about the vocabulary's size, with a remedy."""
    start = f"vocab_size = {vocab_size} (--vocab-size) does not fit this corpus"
    if least := re.search(r"smaller than required_chars\. \d+ vs (\d+)", error):
        return f"{start}, which has more different characters; give at least {least[1]}"
    if most := re.search(r"to a value <= (\d+)", error):
        return f"{start}, which has too little text; give at most {most[1]}"
    return f"{start}; give another size, or more text"
