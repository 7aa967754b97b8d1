"""Parallel text: toy, Multi30k, Tatoeba, WMT 2014, and files of one's own.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/data/test_corpora.py
"""

import codecs
import gzip
import hashlib
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from itertools import islice, zip_longest
from pathlib import Path

from transformer_lite.data.downloads import DATA_VARIABLE, downloaded, provided
from transformer_lite.data.pairs import Fault, SentencePair, fault_of
from transformer_lite.data.tatoeba import folder_of, tatoeba_splits
from transformer_lite.data.toy import generate_pairs
from transformer_lite.data.trees import TreeForm
from transformer_lite.data.wmt14 import wmt14_splits

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

_NO_LANGUAGES = set(
    "src trg tgt ref hyp txt tsv csv gz bz xz zip py md tok bpe".split()
)
"""What names of files end in, too, and that is no language."""


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs in splits; each split can be read any number of times."""

    name: str
    splits: Mapping[str, Iterable[SentencePair | Fault]]
    """Has at least "train" and "valid"; other splits are for tests."""
    origin: str = ""
    """Names this corpus and no other; empty if nothing does."""
    languages: tuple[str, str] = ("", "")
    """Codes, such as "en", of source and target language; empty if unknown."""
    form: TreeForm | None = None
    """How a model writes the targets if these are trees (Section 6.3)."""

    def encodable(self, pair: SentencePair) -> SentencePair:
        """The pair as its ids spell it: a tree is written in the corpus's form."""
        source, target = pair
        if self.form:
            target = " ".join(self.form.tokens(source, target))
        return source, target


@dataclass(frozen=True)
class ToySplit:
    """A stretch of the toy grammar's endless stream; other stretches share nothing."""

    start: int
    size: int
    seed: int = 1

    def __iter__(self) -> Iterator[SentencePair]:
        """The pairs, English and German."""
        stream = islice(generate_pairs(self.seed), self.start, self.start + self.size)
        return ((pair.source, pair.target) for pair in stream)


@dataclass(frozen=True)
class ParallelFiles:
    """Two UTF-8 files, plain or gzipped, whose lines translate each other."""

    source: Path
    target: Path

    def __iter__(self) -> Iterator[SentencePair | Fault]:
        r"""The pairs, in order, or what is wrong with them; "\n" alone ends a line.

        Raises:
            ValueError: A file is missing, damaged or empty, or has fewer lines.
        """
        number = 0
        lines = zip_longest(lines_of(self.source), lines_of(self.target))
        for number, (source, target) in enumerate(lines, start=1):
            for path, line in ((self.source, source), (self.target, target)):
                if line is None:
                    raise ValueError(
                        f"{path}: ends before line {number}, which the other file has; "
                        "line k of one file must translate line k of the other"
                    )
            yield _pair(
                (source, f"{self.source}, line {number}"),
                (target, f"{self.target}, line {number}"),
            )
        if number == 0:
            raise ValueError(f"{self.source}: empty; give a file with sentences")


@dataclass(frozen=True)
class PairsFile:
    """A UTF-8 file, plain or gzipped, of source, tab and target on each line.

    Tatoeba's own files are read, too: with a sentence's number before each side, or
    with a third column that names its licence, CC-BY. A single number before two
    columns is a fault: it is the number of a pair, or the file has no pairs at all.
    """

    path: Path

    def __iter__(self) -> Iterator[SentencePair | Fault]:
        """The pairs, in order, or what is wrong with them.

        Raises:
            ValueError: The file is missing, damaged or empty.
        """
        number = 0
        for number, line in enumerate(lines_of(self.path), start=1):
            place = f"{self.path}, line {number}"
            match line.split(b"\t"):
                case [one, source, two, target] if one.isdigit() and two.isdigit():
                    yield _pair((source, place), (target, place))
                case [one, _, _] if one.isdigit():
                    yield Fault(
                        "a number before two more columns",
                        place,
                        "leave only source, tab, target, or give two files",
                    )
                case [source, target]:
                    yield _pair((source, place), (target, place))
                case [source, target, origin] if origin.startswith(b"CC-BY"):
                    yield _pair((source, place), (target, place))
                case columns:
                    yield Fault(
                        "not source, tab, target",
                        place,
                        f"it has {len(columns)} columns; mend it, or give two files",
                    )
        if number == 0:
            raise ValueError(f"{self.path}: empty; give a file with pairs")


def load_corpus(
    name: str, source_language: str = "en", target_language: str = "de"
) -> Corpus:
    """A corpus by its name: "toy" is generated, the others are downloaded.

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
    languages = (source_language, target_language)
    if name == "toy":
        if languages != ("en", "de"):
            raise ValueError(f"toy has no {'–'.join(languages)}; it is en–de")
        splits = {
            "train": ToySplit(0, 10_000),
            "valid": ToySplit(10_000, 500),
            "test": ToySplit(10_500, 500),
        }
        return Corpus(name, splits, repr(splits), languages)
    if name == "multi30k":
        if not set(languages) <= {"en", "de", "fr"} or len(set(languages)) == 1:
            raise ValueError(
                f"multi30k has no {'–'.join(languages)}; take two of en, de, fr"
            )
        published = {"train": "train", "valid": "val"}
        published["test_2016_flickr"] = "test_2016_flickr"
        return _corpus_of(
            name,
            {
                split: ParallelFiles(
                    *(_multi30k_file(f"{file}.{language}") for language in languages)
                )
                for split, file in published.items()
            },
            languages,
        )
    if name == "tatoeba":
        if os.environ.get(DATA_VARIABLE):
            return _corpus_of(name, _own_tatoeba(languages), languages)
        splits, origin = tatoeba_splits(*languages)
        return Corpus(name, splits, origin, languages)
    if name == "wmt14":
        splits = wmt14_splits(*languages)
        return Corpus(name, splits, repr(splits), languages)
    raise ValueError(
        f'there is no corpus "{name}"; take "toy", "multi30k", "tatoeba" or "wmt14", '
        'or a treebank: "penn_treebank_sample", "craft" or "gum"; for text of your '
        "own, prepare files, or prepare trees"
    )


def corpus_of_files(
    train: tuple[Path, ...],
    valid: tuple[Path, ...],
    test: tuple[Path, ...] | None = None,
    languages: tuple[str | None, str | None] = (None, None),
) -> Corpus:
    """A corpus of one's own: for each split two files, or one of pairs with tabs.

    Args:
        train: The training files, source and target, or one file of pairs.
        valid: The validation files.
        test: The test files, if there are any.
        languages: Codes of source and target language; for None what the names of
            two training files end in, as in `train.en` and `train.ko.txt.gz`, if they
            differ in it.
    """
    given = {"train": train, "valid": valid} | ({"test": test} if test else {})
    splits = {
        split: ParallelFiles(*paths) if len(paths) == 2 else PairsFile(*paths)
        for split, paths in given.items()
    }
    source, target = map(_language_of, train) if len(train) == 2 else ("", "")
    if source == target:  # so it is no language that the names end in
        source = target = ""
    return _corpus_of("files", splits, (languages[0] or source, languages[1] or target))


def _language_of(path: Path) -> str:
    """The language that a file's name ends in; empty if it does not say."""
    name = path.name.lower().removesuffix(".gz").removesuffix(".txt")
    found = re.search(r"\.([a-z]{2,3})([-_][a-z]+)*$", name)
    return found[1] if found and found[1] not in _NO_LANGUAGES else ""


def _corpus_of(
    name: str,
    splits: Mapping[str, ParallelFiles | PairsFile],
    languages: tuple[str, str],
) -> Corpus:
    origin = {
        split: [stamp(path) for path in astuple(files)]
        for split, files in splits.items()
    }
    return Corpus(name, splits, repr(origin), languages)


def stamp(path: Path) -> str:
    """Path, size and time of change of a file."""
    try:
        stat = path.stat()
    except OSError:
        return str(path)  # whoever reads it will say that it is missing
    return f"{path.resolve()}, {stat.st_size} bytes, {stat.st_mtime_ns} ns"


def _pair(source: tuple[bytes, str], target: tuple[bytes, str]) -> SentencePair | Fault:
    """The text of a pair, each side given with its place, or what is wrong with it."""
    texts = []
    for line, place in (source, target):
        remedy = "remove this pair"
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            remedy = f"see byte {error.start + 1} of it; convert the file to UTF-8"
            return Fault("not UTF-8", place, remedy)
        if fault := fault_of(text, place, remedy):
            return fault
        texts.append(text)
    return texts[0], texts[1]


_NO_TEXT_FILE = (
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,  # which Windows raises for a folder
)


def lines_of(path: Path) -> Iterator[bytes]:
    """The lines of a file without their ends and without a byte order mark."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                yield line.removesuffix(b"\n").removesuffix(b"\r")
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file; check the path") from None
    except _NO_TEXT_FILE as error:
        raise ValueError(
            f"{path}: cannot be read ({error}); give a text file, plain or gzipped"
        ) from error
    except OSError as error:  # of the disk or the network: it may pass
        raise OSError(f"{path}: cannot be read ({error.strerror or error})") from error


def _own_tatoeba(languages: tuple[str, str]) -> dict[str, ParallelFiles]:
    """Splits of Tatoeba as they lie in the folder that the environment names."""
    folder = folder_of(*languages)
    return {
        split: ParallelFiles(
            *(provided(folder, f"{split}.{code}.gz") for code in languages)
        )
        for split in ("train", "valid", "test")
    }


def _multi30k_file(name: str) -> Path:
    """Where a file lies, after downloading it if need be; its text is the published."""
    path = provided("multi30k", f"{name}.gz")
    if path is None:
        path = downloaded("multi30k", f"{name}.gz", MULTI30K_MIRRORS)
    text = b"".join(line + b"\n" for line in lines_of(path))
    if hashlib.sha256(text).hexdigest() != MULTI30K_SHA256[name]:
        raise ValueError(
            f"{path}: not the published text (its checksum differs); delete the file"
        )
    return path
