"""A corpus turned into what training reads: a tokenizer and files of ids.

The work lies in `<out>.partial` until all of it is done. A journal there says how far
it is, so that a preparation that was interrupted resumes.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/data/test_prepare.py, tests/data/test_journal.py
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from tqdm import tqdm

from transformer_lite.data.corpora import Corpus, Fault, SentencePair
from transformer_lite.data.store import (
    IDS,
    OFFSETS,
    SIDES,
    ids_path,
    offsets_path,
    text_path,
)
from transformer_lite.files import only_process
from transformer_lite.tokenizer import VOCAB_SENTENCES, Tokenizer

CHUNK_PAIRS = 10_000
"""Pairs that are in memory at a time."""


class Progress(NamedTuple):
    """How far a split is written."""

    read: int = 0
    """Pairs of the corpus that were read."""
    kept: int = 0
    """Pairs that were written."""
    num_ids: Sequence[int] = (0, 0)
    """Ids that were written, of each side."""
    text_bytes: Sequence[int] = (0, 0)
    """Bytes of text that were written, of each side."""
    whole: bool = False
    """Whether the split is whole."""
    left_out: Sequence[tuple[str, int]] = ()
    """What was wrong with pairs that were left out, and with how many."""


class Journal:
    """How far the writing of a folder is, on disk after every piece of work.

    Args:
        folder: The folder that is being written. What is there stays if it was written
            for the same request, and is removed otherwise.
        request: All that the result depends on, for JSON; None if that is not known.
    """

    def __init__(self, folder: Path, request: Mapping[str, Any] | None) -> None:
        self.folder = folder
        self._path = folder / "journal.json"
        self._request = request
        self._splits: dict[str, Progress] = {}
        self.begun = False
        """Whether the tokenizer is trained."""
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            journal = json.loads(self._path.read_text(encoding="utf-8"))
            if request is not None and journal["request"] == request:
                splits = journal["splits"].items()
                self._splits = {split: Progress(*fields) for split, fields in splits}
                self.begun = True
        if not self.begun:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()

    def begin(self) -> None:
        """Write down that the tokenizer is trained."""
        self.begun = True
        self._save()

    def __getitem__(self, split: str) -> Progress:
        """How far a split is written."""
        return self._splits.get(split, Progress())

    def __setitem__(self, split: str, progress: Progress) -> None:
        """Write down how far a split is written."""
        self._splits[split] = progress
        self._save()

    def remove(self) -> None:
        """Remove the journal from the folder, which is whole."""
        self._path.unlink()

    def _save(self) -> None:
        partial = self._path.with_suffix(".partial")
        journal = {"request": self._request, "splits": self._splits}
        partial.write_text(json.dumps(journal), encoding="utf-8")
        partial.replace(self._path)


def append_pairs(
    folder: Path,
    split: str,
    done: Progress,
    ids: Sequence[list[list[int]]],
    text: Sequence[list[str]],
    num_read: int,
) -> Progress:
    """Write ids and text of more pairs; return how far the split is then.

    Args:
        folder: Where the split's files lie.
        split: Its name.
        done: How far it was; what was written after that is cut off.
        ids: For each side, the ids of every sentence.
        text: For each side, the sentences.
        num_read: How many pairs of the corpus were read to get these.

    Raises:
        ValueError: The files have less than was done.
    """
    num_ids, text_bytes = [], []
    for side, name in enumerate(SIDES):
        flat = np.fromiter(chain.from_iterable(ids[side]), IDS)
        starts = np.cumsum([done.num_ids[side], *map(len, ids[side])], dtype=OFFSETS)
        lines = "".join(f"{line}\n" for line in text[side]).encode()
        num_ids.append(done.num_ids[side] + len(flat))
        text_bytes.append(done.text_bytes[side] + len(lines))
        for path, size, content in (
            (ids_path(folder, split, name), done.num_ids[side] * IDS.itemsize, flat),
            # The start of the first new sentence is there as the end of the last.
            (offsets_path(folder, split, name), done.kept * OFFSETS.itemsize, starts),
            (text_path(folder, split, name), done.text_bytes[side], lines),
        ):
            _write_after(path, size, content)
    return done._replace(
        read=done.read + num_read,
        kept=done.kept + len(ids[0]),
        num_ids=num_ids,
        text_bytes=text_bytes,
    )


def _write_after(path: Path, size: int, content: bytes | np.ndarray) -> None:
    """Write after the first `size` bytes of a file; what followed them is cut off."""
    if size and (not path.exists() or path.stat().st_size < size):
        raise ValueError(
            f"{path}: has lost its end; delete the folder and run `prepare` again"
        )
    with path.open("r+b" if size else "wb") as file:
        file.truncate(size)
        file.seek(size)
        file.write(content)


def prepare(
    corpus: Corpus,
    out: Path,
    vocab_size: int,
    max_length: int,
    skip_unusable: bool,
    vocab_sentences: int = VOCAB_SENTENCES,
) -> bool:
    """Train a tokenizer on the training split, and write every split as ids.

    Writes `tokenizer.model`, `corpus.json`, and for each split the ids of both sides
    (`<split>.src.ids`, …) and its text (`<split>.src.txt`, …). The corpus is never
    held in memory. The folder appears when all of it is written; if the work is
    interrupted, the same call resumes it. For a changed corpus or another option it
    begins anew.

    Args:
        corpus: Parallel text.
        out: The folder to make.
        vocab_size: Size of the vocabulary that both languages share.
        max_length: Most tokens of a sentence, EOS not counted.
        skip_unusable: Leave out training pairs that are faulty or too long, and count
            them in `corpus.json`; otherwise they are an error, as everywhere else.
        vocab_sentences: Most sentences that the vocabulary is learned from.

    Returns:
        False if the same call made the folder before.

    Raises:
        ValueError: `out` is something else or is being made, the text is faulty, a
            sentence is too long, or the vocabulary does not fit the corpus.
    """
    options = {
        "vocab_size": vocab_size,
        "max_length": max_length,
        "skip_unusable": skip_unusable,
        "vocab_sentences": vocab_sentences,
    }
    busy = f"{out}: another process is preparing it; wait, or give another --out"
    with only_process(out.with_name(out.name + ".lock"), busy):
        request = {"corpus": corpus.origin, **options} if corpus.origin else None
        if out.exists():
            _compare(out, request)
            return False
        partial = out.with_name(out.name + ".partial")
        try:
            journal = Journal(partial, request)
            tokenizer = _tokenizer(
                corpus, partial, journal, vocab_size, vocab_sentences, skip_unusable
            )
            for split in corpus.splits:
                skip = skip_unusable and split == "train"
                _write_split(corpus, split, tokenizer, journal, max_length, skip)
            sizes = {split: journal[split].kept for split in corpus.splits}
            summary = {"corpus": corpus.name, "languages": corpus.languages}
            summary |= {"vocab_size": vocab_size, "pairs": sizes}
            summary |= {"left_out": dict(journal["train"].left_out), "request": request}
            (partial / "corpus.json").write_text(json.dumps(summary, indent=2) + "\n")
            journal.remove()
            partial.rename(out)
        except ValueError:  # the same call would come to the same end
            shutil.rmtree(partial, ignore_errors=True)
            raise
        except OSError as error:
            raise OSError(
                f"{partial}: cannot be written ({error.strerror or error}); make room, "
                "and the same command resumes the work"
            ) from error
        return True


def _compare(out: Path, request: Mapping[str, Any] | None) -> None:
    """See that what lies in `out` was made by the same request."""
    made = None
    with suppress(OSError, ValueError, KeyError, TypeError):
        made = json.loads((out / "corpus.json").read_text(encoding="utf-8"))["request"]
    remedy = "delete it or give another --out"
    if request is None or made is None:
        raise ValueError(f"{out}: already there; {remedy}")
    if made["corpus"] != request["corpus"]:
        raise ValueError(
            f"{out}: was prepared from another corpus, or its text has changed since; "
            f"{remedy}"
        )
    for name, value in request.items():
        if made.get(name) != value:
            raise ValueError(
                f"{out}: was prepared with {name} = {made.get(name)}, now it is "
                f"{value}; {remedy}"
            )


def _tokenizer(
    corpus: Corpus,
    folder: Path,
    journal: Journal,
    vocab_size: int,
    vocab_sentences: int,
    skip_unusable: bool,
) -> Tokenizer:
    """The tokenizer, trained unless it was before."""
    path = folder / "tokenizer.model"
    if not journal.begun:
        # Deviation D14: the brackets of trees share the vocabulary of their words.
        symbols: set[str] = set()
        if corpus.target_tokens:
            for _, target in _training_pairs(corpus, skip_unusable, "symbols"):
                symbols.update(corpus.target_tokens(target))
        pairs = _training_pairs(corpus, skip_unusable, "vocabulary")
        text = (line for pair in pairs for line in corpus.encodable(pair))
        Tokenizer.train(text, vocab_size, vocab_sentences, sorted(symbols)).save(path)
        journal.begin()
    return Tokenizer.load(path)


def _training_pairs(
    corpus: Corpus, skip_unusable: bool, task: str
) -> Iterator[SentencePair]:
    """The training pairs, read with a progress bar that names the task."""
    entries = iter(tqdm(corpus.splits["train"], desc=task, unit="pair", disable=None))
    if not skip_unusable:
        entries = _all_usable("train", entries)
    return (entry for entry in entries if not isinstance(entry, Fault))


def _write_split(
    corpus: Corpus,
    split: str,
    tokenizer: Tokenizer,
    journal: Journal,
    max_length: int,
    skip_unusable: bool,
) -> None:
    """Write what is missing of a split's ids and text."""
    done = journal[split]
    if done.whole:
        return
    entries = tqdm(corpus.splits[split], desc=split, unit="pair", disable=None)
    rest = islice(entries, done.read, None)
    if not skip_unusable:
        rest = _all_usable(split, rest)
    while chunk := list(islice(rest, CHUNK_PAIRS)):
        encoded = list(
            _encode(corpus, chunk, done.read + 1, split, tokenizer, max_length)
        )
        faults = [entry for entry in encoded if isinstance(entry, Fault)]
        if faults and not skip_unusable:
            _refuse(split, faults[0], faults[1:])
        kept = [entry for entry in encoded if not isinstance(entry, Fault)]
        text = [[pair[side] for pair, _ in kept] for side in range(2)]
        ids = [[pair[side] for _, pair in kept] for side in range(2)]
        left_out = Counter(dict(done.left_out))
        left_out.update(fault.kind for fault in faults)
        done = append_pairs(journal.folder, split, done, ids, text, len(chunk))
        done = done._replace(left_out=list(left_out.items()))
        journal[split] = done
    if not done.kept:
        reasons = ", ".join(f"{n:,} {kind}" for kind, n in done.left_out)
        raise ValueError(f"{split}: no pair can be used ({reasons}); give other text")
    journal[split] = done._replace(whole=True)


def _encode(
    corpus: Corpus,
    entries: list[SentencePair | Fault],
    first: int,
    split: str,
    tokenizer: Tokenizer,
    max_length: int,
) -> Iterator[tuple[SentencePair, tuple[list[int], list[int]]] | Fault]:
    """Each pair with its ids, or what is wrong with it.

    Args:
        corpus: The corpus that they are of.
        entries: Pairs of a split, one after the other.
        first: The number of the first of them in the split.
        split: Its name.
        tokenizer: Its vocabulary.
        max_length: Most tokens of a sentence.
    """
    usable = (entry for entry in entries if not isinstance(entry, Fault))
    texts = [corpus.encodable(pair) for pair in usable]
    sides = ([text[side] for text in texts] for side in range(2))
    ids_of_pairs = zip(*map(tokenizer.encode_all, sides), strict=True)
    for number, entry in enumerate(entries, start=first):
        if isinstance(entry, Fault):
            yield entry
            continue
        ids = next(ids_of_pairs)
        length = max(map(len, ids))
        if length <= max_length:
            yield entry, ids
        else:
            yield Fault(
                f"more tokens than --max-length {max_length}",
                getattr(entry, "place", f"{split}, line {number}"),
                f"give at least {length}",
            )


def _all_usable(
    split: str, entries: Iterator[SentencePair | Fault]
) -> Iterator[SentencePair]:
    """The pairs of a split.

    Raises:
        ValueError: One of them cannot be used.
    """
    for entry in entries:
        if isinstance(entry, Fault):
            _refuse(split, entry, entries)
        yield entry


def _refuse(split: str, fault: Fault, rest: Iterable[SentencePair | Fault]) -> NoReturn:
    """Explain the first fault of a split, and say where the others are."""
    message = str(fault)
    if split == "train":
        message += ", or --skip-unusable"
    others = []
    with suppress(ValueError):  # the first fault may be the reason of that
        for entry in rest:
            if isinstance(entry, Fault):
                others.append(entry.place)
    if others:
        shown = "; ".join(others[:5]) + ("; …" if len(others) > 5 else "")
        message += f" (and {len(others):,} more such pairs: {shown})"
    raise ValueError(message)
