"""Treebanks as parallel text: sentences, and their trees as a target language.

The paper trains on the Wall Street Journal part of the Penn Treebank, about 40,000
sentences, which only licensees have. Free to have are NLTK's sample of it, a tenth, and
CRAFT, half as many sentences as the paper's, of biomedical articles. For the
semi-supervised setting (Section 6.3) the training split takes in trees that a parser
made: of GUM, some thousands to the paper's 17 million.

Paper: §6.3
Chapter: 06_3_english_constituency_parsing
Tests: tests/data/test_treebanks.py
"""

import hashlib
import re
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transformer_lite.data.corpora import Corpus, lines_of, stamp
from transformer_lite.data.downloads import (
    DATA_VARIABLE,
    download_folder,
    downloaded,
    provided,
)
from transformer_lite.data.pairs import Fault, PlacedPair, SentencePair, fault_of
from transformer_lite.data.trees import (
    Tree,
    TreeForm,
    linearized,
    normalized,
    read_trees,
)

Paths = tuple[Path, ...]


@dataclass(frozen=True)
class TreeFiles:
    """UTF-8 files of trees in brackets, plain or gzipped, one after the other."""

    paths: Paths

    def __iter__(self) -> Iterator[SentencePair | Fault]:
        """Each tree's words and its tokens, or what is wrong with it.

        Raises:
            ValueError: A file is missing, damaged, empty or not UTF-8, or a bracket is
                missing.
        """
        for path in self.paths:
            number = 0
            for number, tree in read_trees(_text(path), str(path)):
                yield _pair(normalized(tree), f"{path}, line {number}")
            if number == 0:
                raise ValueError(f"{path}: empty; give a file with trees")


def _pair(tree: Tree | None, place: str) -> SentencePair | Fault:
    remedy = "remove this tree"
    if tree is None:
        return Fault("no word", place, remedy)
    pair = " ".join(tree.words()), " ".join(linearized(tree))
    faults = (fault_of(side, place, remedy) for side in pair)
    return next(filter(None, faults), PlacedPair.at(place, pair))


def _text(path: Path) -> Iterator[str]:
    for number, line in enumerate(lines_of(path), start=1):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, line {number}: not UTF-8; see byte {error.start + 1} of it; "
                "convert the file to UTF-8"
            ) from None


@dataclass(frozen=True)
class Published:
    """A treebank that others publish."""

    folder: str
    """Where its splits lie, as train.mrg.gz, in the folder the environment names."""
    licence: str
    """What its publishers allow, and whom to name."""
    sha256: Mapping[str, str]
    """Of each split's text, composed (NFC) and without its white space: the same trees
    can be laid out in many ways."""
    download: Callable[[], dict[str, list[Path]]]
    """Gets the files of each split."""

    def splits(self) -> dict[str, TreeFiles]:
        """Its splits, after downloading them if need be.

        Raises:
            ValueError: A file is missing, or their text is not the published one.
        """
        given = {
            split: provided(self.folder, f"{split}.mrg.gz") for split in self.sha256
        }
        if None in given.values():
            files = self.download()
            remedy = f"delete {download_folder(self.folder)} and start again"
        else:
            files = {split: [path] for split, path in given.items()}
            remedy = f"put the published file there, or unset {DATA_VARIABLE}"
        for split, published in self.sha256.items():
            if not files[split]:
                raise ValueError(
                    f"{self.folder}: what was downloaded has no trees for {split}; "
                    f"{remedy}"
                )
            digest = hashlib.sha256()
            for path in files[split]:
                for line in _text(path):
                    text = unicodedata.normalize("NFC", line)
                    digest.update("".join(text.split()).encode("utf-8"))
            if digest.hexdigest() != published:
                raise ValueError(
                    f"{files[split][0]}: {split} has not the published text (its "
                    f"checksum differs); {remedy}"
                )
        return {split: TreeFiles(tuple(files[split])) for split in self.sha256}


def _addresses(repository: str, commit: str, folder: str = "") -> list[str]:
    return [
        f"https://raw.githubusercontent.com/{repository}/{commit}/{folder}",
        f"https://github.com/{repository}/raw/{commit}/{folder}",
    ]


NLTK_ADDRESSES = _addresses(
    "nltk/nltk_data", "5db857e6f7df11eabb5e5665836db9ec8df07e28", "packages/corpora/"
)
CRAFT_ADDRESSES = _addresses(
    "UCDenver-ccp/CRAFT", "2abe82b8bb8089448b84937d5f61d8c218011322"
)
GUM_ADDRESSES = _addresses(
    "amir-zeldes/gum", "72ce5ac14978a324c2fd18d49484e65292cbe316"
)


def _download_sample() -> dict[str, list[Path]]:
    """NLTK's archive, unpacked; files 1–159 train, 160–179 validate, 180–199 test."""
    archive = downloaded("treebank-nltk-wsj", "treebank.zip", NLTK_ADDRESSES)
    files: dict[str, list[Path]] = {"train": [], "valid": [], "test": []}
    try:
        with zipfile.ZipFile(archive) as packed:
            for name in sorted(packed.namelist()):
                if found := re.search(r"combined/wsj_(\d{4})\.mrg$", name):
                    number = int(found[1])
                    held_out = "valid" if number < 180 else "test"
                    split = "train" if number < 160 else held_out
                    path = packed.extract(name, archive.with_suffix(""))
                    files[split].append(Path(path))
    except (zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{archive}: not a zip file ({error}); delete it") from error
    return files


def _download_craft() -> dict[str, list[Path]]:
    """The articles that CRAFT's own lists of identifiers name."""
    files = {}
    for split, name in {"train": "train", "valid": "dev", "test": "test"}.items():
        listed = downloaded(
            "treebank-craft", f"articles/ids/craft-ids-{name}.txt", CRAFT_ADDRESSES
        )
        files[split] = []
        for article in listed.read_text(encoding="utf-8", errors="replace").split():
            if not article.isdecimal():
                raise ValueError(
                    f"{listed}: not a list of articles, which are numbers ({article}); "
                    "delete it and start again"
                )
            tree = f"structural-annotation/treebank/penn/{article}.tree"
            files[split].append(downloaded("treebank-craft", tree, CRAFT_ADDRESSES))
    return files


GUM_GENRES = ("academic", "bio", "court", "interview", "news", "voyage")
"""Those that may be used for any purpose, and whose words are all there."""


def _download_gum() -> dict[str, list[Path]]:
    """The documents of six genres, by GUM's own page of splits."""
    page = downloaded("treebank-gum-silver", "splits.md", GUM_ADDRESSES).read_text(
        encoding="utf-8", errors="replace"
    )
    files = {}
    for split, name in {"train": "train", "valid": "dev", "test": "test"}.items():
        section = re.search(rf"^## {name}$(.*?)(?=^## |\Z)", page, re.M | re.S)
        listed = re.findall(r"\* (GUM_([a-z]+)_\w+)", section[1] if section else "")
        files[split] = [
            downloaded("treebank-gum-silver", f"const/{document}.ptb", GUM_ADDRESSES)
            for document, genre in listed
            if genre in GUM_GENRES
        ]
    return files


TREEBANKS = {
    "penn_treebank_sample": Published(
        folder="treebank-nltk-wsj",
        licence="(C) LDC 1995; a sample under fair use, for non-commercial use only",
        sha256={
            "train": "107661cdc289090af4eb76ae35f4c18b5e7203c39a164e74ac7ce84de6785a6b",
            "valid": "0d27691fadb0db0fb8667172d803888b6e44b4feffd5693db2d47c34706f99cf",
            "test": "5bb3bbd5e994e1acdc10ab36d9b667252f0b58a355a3e1f5cd8ae4acc51eb78d",
        },
        download=_download_sample,
    ),
    "craft": Published(
        folder="treebank-craft",
        licence="CRAFT, CC BY 3.0",
        sha256={
            "train": "a21c8fd6fad5a5847f369d7aab93d620b2d660e974e796d2289924147de84619",
            "valid": "499f9664eb8e9c850acd4ef21846133a4f8f7be01484054d96a370d48902912f",
            "test": "bdec975ea7451127df762ff3e764b67ce2382ffdaa1e5b064591db4e012da0db",
        },
        download=_download_craft,
    ),
    "gum": Published(
        folder="treebank-gum-silver",
        licence="GUM, trees by a parser, CC BY 4.0; texts CC BY 2.5, 4.0, CC BY-SA 3.0",
        sha256={
            "train": "a7c06457522fa193617751bbdbb873a1d0a99d44b0c7adb80822d0c4ca10ebfb",
            "valid": "40204443a54ffaf8e9b2f051628647ee2b70fd4253d8f6eebc04d350b13b106d",
            "test": "1ebe93813c8ac7d69ac2e96888d8ec6ce79bf1190dd4377a1b82a55079a20357",
        },
        download=_download_gum,
    ),
}
"""Treebanks by name."""


def load_treebank(
    name: str, silver: Sequence[str] = (), form: TreeForm = TreeForm()
) -> Corpus:
    """A treebank by its name: "penn_treebank_sample", "craft" or "gum".

    Args:
        name: Which treebank. The sample has no splits of its own: its files 1–159
            train, 160–179 validate and 180–199 test.
        silver: Further training trees, such as a parser's: treebanks by name, of which
            the training split is taken, or files.
        form: How a model writes the trees. Vinyals et al. (2015) gained a point of F1
            by writing XX for every tag; the paper's authors keep the tags
            (tensor2tensor's `wsj_parsing`).

    Raises:
        ValueError: There is no such treebank, or a file is missing or not the
            published one.
    """
    _require_silver(silver)  # before anything is downloaded
    if name not in TREEBANKS:
        raise ValueError(
            f'no treebank is named "{name}"; there are {", ".join(TREEBANKS)}'
        )
    splits = TREEBANKS[name].splits()
    return _corpus_of(name, splits, ("en", form.language), silver, form)


def treebank_of_files(
    train: Paths,
    valid: Paths,
    test: Paths | None = None,
    silver: Sequence[str] = (),
    form: TreeForm = TreeForm(),
    language: str = "",
) -> Corpus:
    """A treebank of one's own: for each split files of trees in brackets.

    Args:
        train: The training files.
        valid: The validation files.
        test: The test files, if there are any.
        silver: As for `load_treebank`.
        form: As for `load_treebank`.
        language: Code of the words' language; empty if it is not known.

    Raises:
        ValueError: A file is missing or holds no trees, or there is no such silver
            treebank.
    """
    _require_silver(silver)
    given = {"train": train, "valid": valid} | ({"test": test} if test else {})
    splits = {split: TreeFiles(paths) for split, paths in given.items()}
    return _corpus_of("trees", splits, (language, form.language), silver, form)


def _require_silver(silver: Sequence[str]) -> None:
    """See that there are these further trees."""
    for further in silver:
        if further not in TREEBANKS and not Path(further).exists():
            raise ValueError(
                f"--silver {further}: neither a treebank nor a file; give "
                f"{', '.join(TREEBANKS)}, or a file of trees in brackets"
            )


def _corpus_of(
    name: str,
    splits: Mapping[str, TreeFiles],
    languages: tuple[str, str],
    silver: Sequence[str],
    form: TreeForm,
) -> Corpus:
    paths = splits["train"].paths
    for further in silver:
        known = TREEBANKS.get(further)
        paths += known.splits()["train"].paths if known else (Path(further),)
    splits = {**splits, "train": TreeFiles(paths)}
    origin = {split: list(map(stamp, files.paths)) for split, files in splits.items()}
    origin = f"{form} of {origin}"
    return Corpus(" + ".join([name, *silver]), splits, origin, languages, form)
