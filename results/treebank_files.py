"""Get published treebanks as files of trees in brackets.

    python -m results.treebank_files NAME [OUT]

Writes train.mrg, valid.mrg and test.mrg into OUT, by default data/treebanks/NAME. The
paper trains on the Wall Street Journal part of the Penn Treebank, about 40,000
sentences, which has to be licensed. Free are NLTK's sample of it, a tenth, and CRAFT,
half as many sentences, of biomedical articles. GUM's trees were made by a parser; they
serve the semi-supervised setting of Section 6.3, which has 17 million such trees.
"""

import argparse
import gzip
import hashlib
import os
import re
import unicodedata
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from transformer_lite.data.corpora import DATA_VARIABLE, published_file
from transformer_lite.runs.files import renamed_when_whole

FOLDER = Path("data/treebanks")

WSJ_FILES = {"train": range(1, 160), "valid": range(160, 180), "test": range(180, 200)}
"""The numbers of the sample's files; it has no splits of its own."""
THEIR_NAMES = {"train": "train", "valid": "dev", "test": "test"}
"""What CRAFT and GUM call the splits."""
GUM_GENRES = ("academic", "bio", "court", "interview", "news", "voyage")
"""Genres that may be used for any purpose, and whose words are all there."""


@dataclass(frozen=True, kw_only=True)
class Treebank:
    """A published treebank."""

    folder: str
    """Where <split>.mrg.gz lies in the folder that TRANSFORMER_LITE_DATA names."""
    repository: str
    """On GitHub."""
    commit: str
    licence: str
    """What its publishers allow, and whom to name."""
    sha256: Mapping[str, str]
    """Of the text of each split, composed (NFC) and without white space: the same trees
    can be laid out in many ways."""
    download: Callable[["Treebank", str], list[bytes]]
    """Get the files of a split."""

    def file(self, path: str) -> Path:
        """Download a file of the repository, once."""
        mirrors = (
            f"https://raw.githubusercontent.com/{self.repository}/{self.commit}/",
            f"https://github.com/{self.repository}/raw/{self.commit}/",
        )
        return published_file(self.folder, path, mirrors)

    def text(self, split: str) -> str:
        """Return all trees of a split.

        Raises:
            ValueError: They cannot be had, or are not the published ones.
        """
        if os.environ.get(DATA_VARIABLE):
            path = published_file(self.folder, f"{split}.mrg.gz", ())
            files = [gzip.decompress(path.read_bytes())]
        else:
            files = self.download(self, split)
        text = "\n".join(file.decode("utf-8-sig") for file in files)
        bare = "".join(unicodedata.normalize("NFC", text).split())
        if hashlib.sha256(bare.encode("utf-8")).hexdigest() != self.sha256[split]:
            raise ValueError(
                f"{self.folder}: {split} has not the published text (its checksum "
                "differs); delete its files, and get them again"
            )
        return text


def sample_files(treebank: Treebank, split: str) -> list[bytes]:
    """Unpack the files of a split from NLTK's archive."""
    with zipfile.ZipFile(treebank.file("packages/corpora/treebank.zip")) as packed:
        found = [
            re.search(r"combined/wsj_(\d{4})\.mrg$", name)
            for name in sorted(packed.namelist())
        ]
        return [
            packed.read(match.string)
            for match in found
            if match and int(match[1]) in WSJ_FILES[split]
        ]


def craft_files(treebank: Treebank, split: str) -> list[bytes]:
    """Download the articles that CRAFT's list of a split names."""
    listed = treebank.file(f"articles/ids/craft-ids-{THEIR_NAMES[split]}.txt")
    return [
        treebank.file(
            f"structural-annotation/treebank/penn/{article}.tree"
        ).read_bytes()
        for article in listed.read_text("utf-8").split()
    ]


def gum_files(treebank: Treebank, split: str) -> list[bytes]:
    """Download the documents of six genres that GUM's page of splits names."""
    page = treebank.file("splits.md").read_text("utf-8")
    _, after = page.split(f"## {THEIR_NAMES[split]}\n")
    return [
        treebank.file(f"const/{document}.ptb").read_bytes()
        for document, genre in re.findall(
            r"\* (GUM_([a-z]+)_\w+)", after.partition("\n## ")[0]
        )
        if genre in GUM_GENRES
    ]


TREEBANKS = {
    "penn_treebank_sample": Treebank(
        folder="treebank-nltk-wsj",
        repository="nltk/nltk_data",
        commit="5db857e6f7df11eabb5e5665836db9ec8df07e28",
        licence="(C) LDC 1995; a sample under fair use, for non-commercial use only",
        sha256={
            "train": "107661cdc289090af4eb76ae35f4c18b5e7203c39a164e74ac7ce84de6785a6b",
            "valid": "0d27691fadb0db0fb8667172d803888b6e44b4feffd5693db2d47c34706f99cf",
            "test": "5bb3bbd5e994e1acdc10ab36d9b667252f0b58a355a3e1f5cd8ae4acc51eb78d",
        },
        download=sample_files,
    ),
    "craft": Treebank(
        folder="treebank-craft",
        repository="UCDenver-ccp/CRAFT",
        commit="2abe82b8bb8089448b84937d5f61d8c218011322",
        licence="CRAFT, CC BY 3.0",
        sha256={
            "train": "a21c8fd6fad5a5847f369d7aab93d620b2d660e974e796d2289924147de84619",
            "valid": "499f9664eb8e9c850acd4ef21846133a4f8f7be01484054d96a370d48902912f",
            "test": "bdec975ea7451127df762ff3e764b67ce2382ffdaa1e5b064591db4e012da0db",
        },
        download=craft_files,
    ),
    "gum": Treebank(
        folder="treebank-gum-silver",
        repository="amir-zeldes/gum",
        commit="72ce5ac14978a324c2fd18d49484e65292cbe316",
        licence="GUM, trees by a parser, CC BY 4.0; texts CC BY 2.5, 4.0, CC BY-SA 3.0",
        sha256={
            "train": "a7c06457522fa193617751bbdbb873a1d0a99d44b0c7adb80822d0c4ca10ebfb",
            "valid": "40204443a54ffaf8e9b2f051628647ee2b70fd4253d8f6eebc04d350b13b106d",
            "test": "1ebe93813c8ac7d69ac2e96888d8ec6ce79bf1190dd4377a1b82a55079a20357",
        },
        download=gum_files,
    ),
}


def get(name: str, out: Path) -> None:
    """Write the splits of a treebank into a new folder.

    Raises:
        ValueError: The folder exists, or the trees cannot be had.
    """
    with renamed_when_whole(out) as folder:
        for split in THEIR_NAMES:
            (folder / f"{split}.mrg").write_text(TREEBANKS[name].text(split), "utf-8")


if __name__ == "__main__":
    licences = "\n".join(f"{name}: {bank.licence}" for name, bank in TREEBANKS.items())
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=licences,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=TREEBANKS)
    parser.add_argument("out", nargs="?", type=Path)
    given = parser.parse_args()
    try:
        get(given.name, given.out or FOLDER / given.name)
    except ValueError as error:
        parser.error(str(error))
