"""A corpus turned into what training reads: a tokenizer and files of ids.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/data/test_prepare.py
"""

import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path

from tqdm import tqdm

from transformer_lite.data.corpora import Corpus, Fault, SentencePair
from transformer_lite.data.store import SIDES, SideWriter, ids_path, offsets_path
from transformer_lite.files import new_folder
from transformer_lite.tokenizer import RESERVED, Tokenizer

CHUNK_PAIRS = 10_000
"""Pairs that are in memory at a time."""

_RESERVED = re.compile(f"[{RESERVED}]")


def prepare(
    corpus: Corpus, out: Path, vocab_size: int, max_length: int, skip_unusable: bool
) -> None:
    """Train a tokenizer on the training split, and write every split as ids.

    Writes `tokenizer.model`, `corpus.json`, and for each split the ids of both sides
    (`<split>.src.ids`, …) and its text (`<split>.src.txt`, …). The corpus is never
    held in memory. The folder appears when all of it is written.

    Args:
        corpus: Parallel text.
        out: The folder to make.
        vocab_size: Size of the vocabulary that both languages share.
        max_length: Most tokens of a sentence, EOS not counted.
        skip_unusable: Leave out training pairs that are faulty or too long, and count
            them in `corpus.json`; otherwise they are an error, as everywhere else.

    Raises:
        ValueError: `out` exists, the text is faulty, a sentence is too long, or the
            vocabulary does not fit the corpus.
    """
    with new_folder(out) as folder:
        tokenizer = _train_tokenizer(corpus, vocab_size, skip_unusable)
        tokenizer.save(folder / "tokenizer.model")
        sizes, left_out = {}, {}
        for split in corpus.splits:
            skip = skip_unusable and split == "train"
            sizes[split], faults = _write_split(
                corpus, split, tokenizer, folder, max_length, skip
            )
            left_out |= faults
        summary = {
            "corpus": corpus.name,
            "languages": corpus.languages,
            "vocab_size": vocab_size,
            "pairs": sizes,
            "left_out": left_out,
            "fingerprint": _fingerprint(folder),
        }
        (folder / "corpus.json").write_text(json.dumps(summary, indent=2) + "\n")


def _train_tokenizer(corpus: Corpus, vocab_size: int, skip_unusable: bool) -> Tokenizer:
    # Deviation D14: the brackets of trees share the vocabulary of their words.
    symbols: set[str] = set()
    if corpus.form:
        for pair in _usable_pairs(corpus, "train", "symbols", skip_unusable):
            symbols.update(corpus.form.symbols(corpus.form.tokens(*pair[:2])))
    pairs = _usable_pairs(corpus, "train", "vocabulary", skip_unusable)
    text = chain.from_iterable(map(corpus.encodable, pairs))
    return Tokenizer.train(text, vocab_size, symbols=sorted(symbols))


def _usable_pairs(
    corpus: Corpus,
    split: str,
    task: str,
    skip_unusable: bool,
    left_out: Counter[str] | None = None,
) -> Iterator[SentencePair]:
    """Yield the pairs of a split that can be used.

    Args:
        corpus: The corpus.
        split: The name of the split.
        task: What the progress bar says.
        skip_unusable: Whether the others are left out.
        left_out: Counts what is wrong with those.

    Raises:
        ValueError: A pair cannot be used and may not be left out.
    """
    entries = tqdm(corpus.splits[split], desc=task, unit="pair", disable=None)
    for number, entry in enumerate(entries, start=1):
        fault = _fault_of(entry, f"{split}, pair {number}")
        if fault is None:
            yield entry
        elif skip_unusable:
            (left_out if left_out is not None else Counter())[fault.kind] += 1
        else:
            raise ValueError(_with_remedy(fault, split))


def _fault_of(entry: SentencePair | Fault, place: str) -> Fault | None:
    """Return what is wrong with a pair, if anything is."""
    if isinstance(entry, Fault):
        return entry
    place = entry.place or place
    for text in entry[:2]:
        if not text.strip():
            return Fault("empty", place, "remove this pair")
        if "\n" in text:
            return Fault("more than one line", place, "remove this pair")
        if found := _RESERVED.search(text):
            kind = f"the character U+{ord(found[0]):04X}, which the tokenizer needs"
            return Fault(kind, place, "remove it")
    return None


def _with_remedy(fault: Fault, split: str) -> str:
    return f"{fault}" + (", or give --skip-unusable" if split == "train" else "")


def _write_split(
    corpus: Corpus,
    split: str,
    tokenizer: Tokenizer,
    folder: Path,
    max_length: int,
    skip_unusable: bool,
) -> tuple[int, Counter[str]]:
    """Write a split's ids and text; return its size and what was left out."""
    size, left_out = 0, Counter[str]()
    pairs = _usable_pairs(corpus, split, split, skip_unusable, left_out)
    with ExitStack() as files:
        writers = [files.enter_context(SideWriter(folder, split, s)) for s in SIDES]
        while chunk := list(islice(pairs, CHUNK_PAIRS)):
            texts = zip(*map(corpus.encodable, chunk), strict=True)
            ids = [tokenizer.encode_all(list(side)) for side in texts]
            for pair, *sides in zip(chunk, *ids, strict=True):
                length = max(map(len, sides))
                if length <= max_length:
                    size += 1
                    for writer, text, side in zip(writers, pair, sides, strict=False):
                        writer.add(text, side)
                elif skip_unusable:
                    left_out["too long"] += 1
                else:
                    place = pair.place or f"{split}: {pair.source!r}"
                    kind = f"more tokens than --max-length {max_length}"
                    fault = Fault(kind, place, f"give at least {length}")
                    raise ValueError(_with_remedy(fault, split))
    if not size:
        raise ValueError(
            f"{split}: no pair can be used ({dict(left_out)}); give other text"
        )
    return size, left_out


def _fingerprint(folder: Path) -> str:
    """Return a checksum of the training data's ids, equal for equal data."""
    checksum = 0
    for side in SIDES:
        for path in (ids_path, offsets_path):
            checksum = zlib.crc32(path(folder, "train", side).read_bytes(), checksum)
    return f"{checksum:08x}"
