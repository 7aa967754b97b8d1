"""A corpus turned into what training reads: a tokenizer and files of ids.

The work lies in `<out>.partial` until all of it is done. A journal there says how far
it is, so that a preparation that was interrupted resumes.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/data/test_prepare.py
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from tqdm import tqdm

from transformer_lite.data.corpora import Corpus
from transformer_lite.data.journal import Journal, append_pairs
from transformer_lite.data.pairs import Fault, SentencePair
from transformer_lite.files import only_process
from transformer_lite.tokenizer import VOCAB_SENTENCES, Tokenizer

CHUNK_PAIRS = 10_000
"""Pairs that are in memory at a time."""


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
    if not out.name:
        raise ValueError(f"{out}: no name for a folder; give --out one to make")
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
                f"{partial}: cannot be finished ({error.strerror or error}); make room "
                "if the disk is full, and the same command resumes the work"
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
        if corpus.form:
            for pair in _training_pairs(corpus, skip_unusable, "symbols"):
                symbols.update(corpus.form.symbols(corpus.form.tokens(*pair)))
        left_out: Counter[str] = Counter()
        pairs = _training_pairs(corpus, skip_unusable, "vocabulary", left_out)
        text = (line for pair in pairs for line in corpus.encodable(pair))
        try:
            trained = Tokenizer.train(
                text, vocab_size, vocab_sentences, sorted(symbols)
            )
        except ValueError as error:
            if not left_out:
                raise
            raise ValueError(f"{error} (left out: {_listed(left_out)})") from error
        trained.save(path)
        journal.begin()
    return Tokenizer.load(path)


def _training_pairs(
    corpus: Corpus,
    skip_unusable: bool,
    task: str,
    left_out: Counter[str] | None = None,
) -> Iterator[SentencePair]:
    """The training pairs, read with a progress bar that names the task.

    What is wrong with those that are left out is counted in `left_out`.
    """
    entries = iter(tqdm(corpus.splits["train"], desc=task, unit="pair", disable=None))
    if not skip_unusable:
        entries = _all_usable("train", entries)
    for entry in entries:
        if not isinstance(entry, Fault):
            yield entry
        elif left_out is not None:
            left_out[entry.kind] += 1


def _listed(left_out: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {kind}" for kind, number in left_out.items())


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
        reasons = _listed(dict(done.left_out))
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
