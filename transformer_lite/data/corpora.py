"""Parallel text: toy, Multi30k, Tatoeba, WMT 2014, and files of one's own.

Paper: §5.1, 6.3
Chapter: 05_1_training_data_and_batching
Tests: tests/data/test_corpora.py
"""

import codecs
import gzip
import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from transformer_lite.data.downloads import DATA_VARIABLE, published_file
from transformer_lite.data.tatoeba import folder_of, tatoeba_splits
from transformer_lite.data.toy import generate_pairs
from transformer_lite.data.trees import TreeForm, linearized, normalized, read_trees

_COMMIT = "a3d2e0d26b56f3846f66a952536ffed4e401d05a"
MULTI30K_MIRRORS = tuple(
    f"https://{repository}{_COMMIT}/data/task1/raw/"
    for repository in (
        "raw.githubusercontent.com/multi30k/dataset/",
        "github.com/multi30k/dataset/raw/",
        "cdn.jsdelivr.net/gh/multi30k/dataset@",
    )
)
MULTI30K_SHA256 = {
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "train.fr": "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
    "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "val.fr": "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
    "test_2016_flickr.de": (
        "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16"
    ),
    "test_2016_flickr.en": (
        "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182"
    ),
    "test_2016_flickr.fr": (
        "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6"
    ),
}
"""Checksums of the text itself: the same text can be compressed in many ways."""

WMT14 = "wmt/wmt14"
"""The repository of WMT 2014 on the Hugging Face hub."""
WMT14_SPLITS = {"train": "train", "valid": "validation", "test": "test"}
"""Our names and the hub's: newstest2013 validates, newstest2014 tests."""


class SentencePair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str
    place: str = ""
    """Where it stands, such as a file and a line."""


class Fault(NamedTuple):
    """Stands in a split in the place of a pair that cannot be used."""

    kind: str
    """What is wrong, in words that can be counted: "empty"."""
    place: str
    """Where, such as a file and a line."""
    remedy: str
    """What to do about it."""

    def __str__(self) -> str:
        return f"{self.place}: {self.kind}; {self.remedy}"


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs in splits; each split can be read any number of times."""

    name: str
    splits: Mapping[str, Iterable[SentencePair | Fault]]
    """Has at least "train" and "valid"; other splits are for tests."""
    languages: tuple[str, str] = ("", "")
    """Codes, such as "en", of source and target language; empty if unknown."""
    form: TreeForm | None = None
    """How a model writes the targets if these are trees (Section 6.3)."""

    def encodable(self, pair: SentencePair) -> tuple[str, str]:
        """Return the text that is encoded: a tree is written in the corpus's form."""
        if self.form is None:
            return pair.source, pair.target
        return pair.source, " ".join(self.form.tokens(pair.source, pair.target))


@dataclass(frozen=True)
class ParallelFiles:
    """Two UTF-8 files, plain or gzipped, whose lines translate each other."""

    source: Path
    target: Path

    def __iter__(self) -> Iterator[SentencePair | Fault]:
        r"""Yield the pairs, in order; "\n" alone ends a line.

        Raises:
            ValueError: A file is missing, damaged or empty, or has fewer lines.
        """
        number = 0
        lines = zip_longest(lines_of(self.source), lines_of(self.target))
        for number, (source, target) in enumerate(lines, start=1):
            texts, place = [], f"{self.source} and {self.target}, line {number}"
            for path, line in ((self.source, source), (self.target, target)):
                if line is None:
                    raise ValueError(
                        f"{path}: ends before line {number}, which the other file has; "
                        "line k of one file must translate line k of the other"
                    )
                texts.append(_decoded(line, f"{path}, line {number}"))
            yield _pair(texts, place)
        if number == 0:
            raise ValueError(f"{self.source}: empty; give a file with sentences")


@dataclass(frozen=True)
class PairsFile:
    """A UTF-8 file, plain or gzipped, of source, tab and target on each line."""

    path: Path

    def __iter__(self) -> Iterator[SentencePair | Fault]:
        """Yield the pairs, in order.

        Raises:
            ValueError: The file is missing, damaged or empty.
        """
        number = 0
        for number, line in enumerate(lines_of(self.path), start=1):
            place = f"{self.path}, line {number}"
            columns = line.split(b"\t")
            if len(columns) == 2:
                yield _pair([_decoded(column, place) for column in columns], place)
            else:
                remedy = f"it has {len(columns)} columns; leave source, tab and target"
                yield Fault("not source, tab, target", place, remedy)
        if number == 0:
            raise ValueError(f"{self.path}: empty; give a file with pairs")


@dataclass(frozen=True)
class TreeFiles:
    """UTF-8 files of trees in brackets, plain or gzipped, one after the other."""

    paths: tuple[Path, ...]

    def __iter__(self) -> Iterator[SentencePair | Fault]:
        """Yield the words of each tree and its tokens with tags.

        Raises:
            ValueError: A file is missing, damaged, empty or not UTF-8, or a bracket is
                missing.
        """
        for path in self.paths:
            number = 0
            for number, tree in read_trees(_text_lines(path), str(path)):
                place, kept = f"{path}, line {number}", normalized(tree)
                if kept is None:
                    yield Fault("no word", place, "remove this tree")
                else:
                    words = " ".join(kept.words())
                    yield SentencePair(words, " ".join(linearized(kept)), place)
            if number == 0:
                raise ValueError(f"{path}: empty; give a file with trees")


@dataclass(frozen=True)
class Wmt14Split:
    """Sentence pairs of one split, read from disk as they are asked for."""

    name: str
    languages: tuple[str, str]
    rows: Any = field(repr=False)

    def __iter__(self) -> Iterator[SentencePair]:
        """Yield the pairs, in order."""
        source, target = self.languages
        batches = self.rows.iter(batch_size=1000)  # fifty times as fast as row by row
        rows = (row for batch in batches for row in batch["translation"])
        for number, row in enumerate(rows, start=1):
            place = f"wmt14, {self.name}, row {number}"
            yield SentencePair(row[source], row[target], place)


def load_corpus(
    name: str, source_language: str = "en", target_language: str = "de"
) -> Corpus:
    """Load a corpus by its name: "toy" is generated, the others are downloaded.

    Args:
        name: "toy", "multi30k", "tatoeba" or "wmt14".
        source_language: "en" for toy; "en", "de" or "fr" for multi30k and wmt14; any
            code that Tatoeba has, such as "ko" or "zh".
        target_language: "de" for toy, likewise for the others; one of the two is "en"
            for wmt14.

    Raises:
        ValueError: There is no such corpus or language, or a file is missing or not
            the published one.
    """
    loaders = {
        "toy": _toy_splits,
        "multi30k": _multi30k_splits,
        "tatoeba": _tatoeba_splits,
        "wmt14": _wmt14_splits,
    }
    if name not in loaders:
        raise ValueError(
            f'there is no corpus "{name}"; take one of {", ".join(loaders)}; for your '
            "own text, prepare files or prepare trees"
        )
    languages = (source_language, target_language)
    return Corpus(name, loaders[name](languages), languages)


def corpus_of_files(
    given: Mapping[str, Sequence[Path]], languages: tuple[str, str] = ("", "")
) -> Corpus:
    """Make a corpus of one's own text.

    Args:
        given: For each split two files, source and target, or one of pairs with tabs.
        languages: Codes of source and target language.

    Raises:
        ValueError: A split has more than two files.
    """
    for split, paths in given.items():
        if len(paths) > 2:
            raise ValueError(
                f"--{split} has {len(paths)} files; give source and target, or one "
                "file with a tab between them"
            )
    splits = {
        split: ParallelFiles(*paths) if len(paths) == 2 else PairsFile(*paths)
        for split, paths in given.items()
    }
    return Corpus("files", splits, languages)


def corpus_of_trees(
    given: Mapping[str, Sequence[Path]],
    language: str = "",
    form: TreeForm | None = None,
) -> Corpus:
    """Make a treebank of one's own files, of trees in brackets (Section 6.3).

    Args:
        given: For each split any number of files.
        language: Code of the words' language.
        form: How a model writes the trees; by default with tags, as the paper's.
    """
    form = form or TreeForm()
    splits = {split: TreeFiles(tuple(paths)) for split, paths in given.items()}
    return Corpus("trees", splits, (language, form.language), form)


Splits = dict[str, Iterable[SentencePair | Fault]]


def _toy_splits(languages: tuple[str, str]) -> Splits:
    if languages != ("en", "de"):
        raise ValueError(f"toy has no {'–'.join(languages)}; it is en–de")
    stream = (SentencePair(p.source, p.target) for p in generate_pairs(seed=1))
    sizes = {"train": 10_000, "valid": 500, "test": 500}
    return {split: list(islice(stream, size)) for split, size in sizes.items()}


def _multi30k_splits(languages: tuple[str, str]) -> Splits:
    if not set(languages) <= {"en", "de", "fr"} or len(set(languages)) == 1:
        raise ValueError(
            f"multi30k has no {'–'.join(languages)}; take two of en, de, fr"
        )
    names = {"train": "train", "valid": "val", "test_2016_flickr": "test_2016_flickr"}
    return {
        split: ParallelFiles(*(_multi30k_file(f"{name}.{code}") for code in languages))
        for split, name in names.items()
    }


def _multi30k_file(name: str) -> Path:
    path = published_file("multi30k", f"{name}.gz", MULTI30K_MIRRORS)
    text = b"".join(line + b"\n" for line in lines_of(path))
    if hashlib.sha256(text).hexdigest() != MULTI30K_SHA256[name]:
        raise ValueError(
            f"{path}: not the published text (its checksum differs); delete the file"
        )
    return path


def _tatoeba_splits(languages: tuple[str, str]) -> Splits:
    if not os.environ.get(DATA_VARIABLE):
        splits = tatoeba_splits(*languages)
        return {
            split: [SentencePair(*pair) for pair in pairs]
            for split, pairs in splits.items()
        }
    folder = folder_of(*languages)
    return {
        split: ParallelFiles(
            *(published_file(folder, f"{split}.{code}.gz", ()) for code in languages)
        )
        for split in ("train", "valid", "test")
    }


def _wmt14_splits(languages: tuple[str, str]) -> Splits:
    """Load WMT 2014 by the `datasets` library, which downloads it once.

    Not streamed from the hub: preparation reads the text twice. The library keeps it on
    disk and maps it into memory.
    """
    foreign = set(languages) - {"en"}
    if "en" not in languages or len(foreign) != 1 or not foreign <= {"de", "fr"}:
        raise ValueError(
            f"wmt14 has no {'–'.join(languages)}; take en, and one of de, fr"
        )
    try:
        import datasets  # an extra, and slow to import
    except ImportError:
        raise ValueError(
            "wmt14 needs the library datasets; pip install datasets"
        ) from None
    try:
        return {
            split: Wmt14Split(
                split,
                languages,
                datasets.load_dataset(WMT14, f"{min(foreign)}-en", split=name),
            )
            for split, name in WMT14_SPLITS.items()
        }
    except OSError as error:
        reason = str(error).split("\n")[0]
        raise ValueError(
            f"{WMT14} could not be downloaded ({reason}); try again later"
        ) from error


def _decoded(line: bytes, place: str) -> str | Fault:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        remedy = f"see byte {error.start + 1} of it; convert the file to UTF-8"
        return Fault("not UTF-8", place, remedy)


def _pair(texts: list[str | Fault], place: str) -> SentencePair | Fault:
    faults = [text for text in texts if isinstance(text, Fault)]
    return faults[0] if faults else SentencePair(*texts, place)


def lines_of(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file without their ends and without a byte order mark.

    Raises:
        ValueError: The file is missing, a folder, or damaged.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                yield line.removesuffix(b"\n").removesuffix(b"\r")
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file; check the path") from None
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(
            f"{path}: cannot be read ({error}); give a text file, plain or gzipped"
        ) from error


def _text_lines(path: Path) -> Iterator[str]:
    for number, line in enumerate(lines_of(path), start=1):
        text = _decoded(line, f"{path}, line {number}")
        if isinstance(text, Fault):
            raise ValueError(str(text))
        yield text
