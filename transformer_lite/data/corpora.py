"""Parallel text: toy, Multi30k, Tatoeba, WMT 2014, and files of one's own.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/package/data/test_corpora.py
"""

import codecs
import gzip
import hashlib
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from transformer_lite.data.tatoeba import read_archive, split_pairs
from transformer_lite.data.toy import generate_pairs
from transformer_lite.runs.files import reason_of
from transformer_lite.tokenizer import RESERVED, is_blank

DATA_VARIABLE = "TRANSFORMER_LITE_DATA"
"""Environment variable: a folder that holds `<corpus>/<split>.<language>.gz`."""

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

TATOEBA = "https://object.pouta.csc.fi/OPUS-Tatoeba/v2023-04-12/moses/"
"""A release of OPUS stays as it is; Tatoeba's own exports change every week."""

WMT14 = "wmt/wmt14"
"""WMT 2014 on the Hugging Face hub: newstest2013 validates, newstest2014 tests."""

_RESERVED = re.compile(f"[{RESERVED}]")


class SentencePair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str
    place: str = ""
    """Where it stands, such as a file and a line."""

    def problem(self) -> tuple[str, str] | None:
        """Return what keeps the pair from being used, and the remedy; None if nothing.

        The problem is in words that can be counted, such as "empty".
        """
        for text in (self.source, self.target):
            if is_blank(text):
                return "empty", "remove this pair"
            if "\n" in text:
                return "more than one line", "remove this pair"
            if character := _RESERVED.search(text):
                code = f"U+{ord(character[0]):04X}"
                return f"the character {code}, which the tokenizer needs", "remove it"
        return None


class UnusablePair(NamedTuple):
    """Takes the place of a pair that cannot be used."""

    problem: str
    """What is wrong, in words that can be counted, such as "not UTF-8"."""
    place: str
    """Where, such as a file and a line."""
    remedy: str
    """What to do about it."""

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}; {self.remedy}"


Pairs = Iterable[SentencePair | UnusablePair]


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs in splits; each split can be read any number of times."""

    name: str
    splits: Mapping[str, Pairs]
    """Has at least "train" and "valid"; other splits are for tests."""
    languages: tuple[str, str] = ("", "")
    """Codes, such as "en", of source and target language; empty if unknown."""

    def __post_init__(self) -> None:
        if missing := {"train", "valid"} - self.splits.keys():
            split = max(missing)
            raise ValueError(f"--{split} names no file; training needs one")

    def encodable(self, pair: SentencePair) -> tuple[str, str]:
        """Return the text to encode, source and target."""
        return pair.source, pair.target

    def symbols(self, pair: SentencePair) -> Iterable[str]:
        """Return the tokens of a pair that the vocabulary must have whole: none."""
        return ()


# Files of one's own


def require_file(path: Path) -> None:
    """Check that a file is there, and can be read more than once.

    Raises:
        ValueError: It is missing, a folder, a pipe or a device.
    """
    if not path.exists():
        raise ValueError(f"{path}: no such file; check the path")
    if path.is_dir():
        raise ValueError(f"{path}: a folder; give a text file, plain or gzipped")
    if not path.is_file():
        raise ValueError(f"{path}: can be read only once; write the text to a file")


def lines_of(path: Path) -> Iterator[str | UnusablePair]:
    r"""Yield the lines of a UTF-8 file, plain or gzipped; "\n" alone ends a line.

    A byte order mark and the ends of the lines are left out. An `UnusablePair` stands
    for a line that is not UTF-8.

    Raises:
        ValueError: It is no file, empty or damaged.
    """
    require_file(path)
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                try:
                    yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
                except UnicodeDecodeError as error:
                    place = f"{path}, line {number}, byte {error.start + 1}"
                    yield UnusablePair("not UTF-8", place, "convert the file to UTF-8")
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(
            f"{path}: cannot be read ({reason_of(error)}); give a text file, plain or "
            "gzipped"
        ) from error
    if number == 0:
        raise ValueError(f"{path}: empty; give a file with text")


@dataclass(frozen=True)
class TextFiles:
    """UTF-8 files, plain or gzipped, of sentences and their translations.

    Either two files, where line k of one translates line k of the other, or one file
    with source, tab and target on each line.
    """

    paths: tuple[Path, ...]

    def __iter__(self) -> Iterator[SentencePair | UnusablePair]:
        """Yield the pairs, in order; a ValueError for a file that ends too early."""
        names = " and ".join(map(str, self.paths))
        rows = zip_longest(*map(lines_of, self.paths))
        for number, lines in enumerate(rows, start=1):
            if None in lines:
                raise ValueError(
                    f"{self.paths[lines.index(None)]}: ends before line {number}, "
                    "which the other file has; line k of one file must translate line "
                    "k of the other"
                )
            unusable = [line for line in lines if isinstance(line, UnusablePair)]
            if unusable:
                yield unusable[0]
                continue
            sides = lines if len(lines) == 2 else lines[0].split("\t")
            place = f"{names}, line {number}"
            if len(sides) == 2:
                yield SentencePair(*sides, place)
            else:
                remedy = f"it has {len(sides)} columns; leave source, tab and target"
                if len(sides) == 1:
                    remedy = "it has no tab; name the file of translations, too"
                yield UnusablePair("not source, tab, target", place, remedy)


def corpus_of_files(
    given: Mapping[str, Sequence[Path]], languages: tuple[str, str] = ("", "")
) -> Corpus:
    """Make a corpus of one's own text.

    Args:
        given: For each split two files, source and target, or one of pairs with tabs.

    Raises:
        ValueError: A split has more than two files, one of them cannot be read, or a
            code is none.
    """
    for code in languages:
        if not re.fullmatch(r"([A-Za-z]{2,3}([-_]\w+)*)?", code):
            raise ValueError(
                f'"{code}" is no code of a language; give two or three letters, such '
                "as en or ko: how BLEU finds words depends on them"
            )
    for split, paths in given.items():
        if len(paths) > 2:
            raise ValueError(
                f"--{split} has {len(paths)} files; give source and target, or one "
                "file with a tab between them"
            )
    for path in chain.from_iterable(given.values()):
        require_file(path)
    splits = {split: TextFiles(tuple(paths)) for split, paths in given.items()}
    return Corpus("files", splits, languages)


# Published corpora


def load_corpus(
    name: str, source_language: str = "en", target_language: str = "de"
) -> Corpus:
    """Load a corpus by its name: "toy" is generated, the others are downloaded.

    Args:
        name: "toy" (en–de), "multi30k" (two of en, de, fr), "wmt14" (en with de or fr)
            or "tatoeba" (any codes that it has, such as "ko" or "zh").

    Raises:
        ValueError: There is no such corpus or language, or a file is missing or not
            the published one.
    """
    loaders = {"toy": _toy_splits, "multi30k": _multi30k_splits}
    loaders |= {"tatoeba": _tatoeba_splits, "wmt14": _wmt14_splits}
    if name not in loaders:
        raise ValueError(
            f'there is no corpus "{name}"; take one of {", ".join(loaders)}; for your '
            "own text, prepare-files or prepare-trees"
        )
    languages = (source_language, target_language)
    return Corpus(name, loaders[name](languages), languages)


def published_file(folder: str, name: str, mirrors: Iterable[str] = ()) -> Path:
    """Return a published file: downloaded once, or from a folder of one's own.

    Callers compare the text's checksum; Tatoeba's archives have theirs inside.

    Args:
        folder: The corpus's folder, below that of all downloads or of `DATA_VARIABLE`.
        name: The file's name, which follows each mirror's address.
        mirrors: Addresses to try, in this order.

    Raises:
        ValueError: The folder of `DATA_VARIABLE` lacks the file, or every mirror does.
    """
    if data := os.environ.get(DATA_VARIABLE):
        path = Path(data) / folder / name
        if not path.exists():
            raise ValueError(
                f"{path}: no such file; put it there, or unset {DATA_VARIABLE} and "
                "have it downloaded"
            )
        return path
    import pooch  # slow to import, and missing on some machines without a network

    failures = []
    for mirror in mirrors:
        try:
            retrieved = pooch.retrieve(
                f"{mirror}{name}",
                known_hash=None,  # the same text can be compressed in many ways
                fname=Path(name).name,
                path=Path(pooch.os_cache("transformer_lite")) / folder,
                progressbar=True,
            )
        except (OSError, ValueError) as error:
            status = getattr(getattr(error, "response", None), "status_code", "")
            failures.append(f"{mirror}: {type(error).__name__} {status}".rstrip())
            continue
        path = Path(retrieved)
        with path.open("rb") as file:
            if not file.read(100).lstrip().startswith(b"<"):
                return path
        path.unlink()
        failures.append(f"{mirror}: a web page instead of the file")
    missing = failures and all(failure.endswith(" 404") for failure in failures)
    remedy = "check the languages' codes" if missing else "try again later"
    raise ValueError(
        f"{name} could not be downloaded ({'; '.join(failures)}); {remedy}, or "
        f"put the corpus under {folder}/ in a folder that {DATA_VARIABLE} names"
    )


def _require(is_there: bool, name: str, languages: Sequence[str], remedy: str) -> None:
    if not is_there:
        raise ValueError(f"{name} has no {'–'.join(languages)}; {remedy}")


def _toy_splits(languages: tuple[str, str]) -> dict[str, Pairs]:
    remedy = "give --source en --target de"
    _require(languages == ("en", "de"), "toy", languages, remedy)
    stream = (SentencePair(p.source, p.target) for p in generate_pairs(seed=1))
    sizes = {"train": 10_000, "valid": 500, "test": 500}
    return {split: list(islice(stream, size)) for split, size in sizes.items()}


def _multi30k_splits(languages: tuple[str, str]) -> dict[str, Pairs]:
    is_there = set(languages) <= {"en", "de", "fr"} and languages[0] != languages[1]
    _require(is_there, "multi30k", languages, "take two of en, de, fr")
    names = {"train": "train", "valid": "val", "test_2016_flickr": "test_2016_flickr"}
    return {
        split: TextFiles(tuple(_multi30k_file(f"{name}.{code}") for code in languages))
        for split, name in names.items()
    }


def _multi30k_file(name: str) -> Path:
    path = published_file("multi30k", f"{name}.gz", MULTI30K_MIRRORS)
    text = "".join(f"{line}\n" for line in lines_of(path)).encode()
    if hashlib.sha256(text).hexdigest() != MULTI30K_SHA256[name]:
        raise ValueError(
            f"{path}: not the published text (its checksum differs); delete it. "
            f"Without {DATA_VARIABLE} it is downloaded again"
        )
    return path


def _tatoeba_splits(languages: tuple[str, str]) -> dict[str, Pairs]:
    """Load Tatoeba; both directions have the same pairs in each split."""
    are_codes = all(re.fullmatch("[a-z]{2,4}", code) for code in languages)
    remedy = "take two languages by their codes, such as en and de"
    _require(are_codes and len({*languages}) == 2, "tatoeba", languages, remedy)
    english_last = sorted(languages, key=lambda code: (code == "en", code))
    folder = "-".join(["tatoeba", *english_last])
    if os.environ.get(DATA_VARIABLE):
        splits = {}
        for split in ("train", "valid", "test"):
            files = (published_file(folder, f"{split}.{code}.gz") for code in languages)
            splits[split] = TextFiles(tuple(files))
        return splits
    # OPUS has the codes in the order of the alphabet, and Mandarin under its own.
    codes = ["cmn" if code == "zh" else code for code in languages]
    one, other = sorted(codes)
    path = published_file(folder, f"{one}-{other}.txt.zip", [TATOEBA])
    pairs = read_archive(path, one, other)
    splits = split_pairs([p for p in pairs if SentencePair(*p).problem() is None])
    order = 1 if codes == [one, other] else -1
    return {s: [SentencePair(*p[::order]) for p in of] for s, of in splits.items()}


@dataclass(frozen=True)
class Wmt14Split:
    """Sentence pairs of one split, read from disk as they are asked for."""

    languages: tuple[str, str]
    rows: Any

    def __iter__(self) -> Iterator[SentencePair]:
        source, target = self.languages
        for batch in self.rows.iter(batch_size=1000):  # 50 times as fast as single rows
            for row in batch["translation"]:
                yield SentencePair(row[source], row[target])


def _wmt14_splits(languages: tuple[str, str]) -> dict[str, Pairs]:
    """Load WMT 2014; not streamed from the hub, since preparation reads it twice."""
    is_there = set(languages) in ({"en", "de"}, {"en", "fr"})
    _require(is_there, "wmt14", languages, "take en, and one of de, fr")
    try:
        import datasets  # an extra, and slow to import
    except ImportError:
        raise ValueError(
            "wmt14 needs the library datasets; from the repository's root: "
            "pip install '.[wmt14]'"
        ) from None
    names = {"train": "train", "valid": "validation", "test": "test"}
    pair = f"{min(set(languages) - {'en'})}-en"
    try:
        return {
            split: Wmt14Split(languages, datasets.load_dataset(WMT14, pair, split=name))
            for split, name in names.items()
        }
    except OSError as error:
        reason = str(error).split("\n")[0]
        raise ValueError(
            f"{WMT14} could not be downloaded ({reason}); try again later"
        ) from error
