"""Published text: taken from a folder of one's own, or downloaded once.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/data/test_corpora.py, tests/data/test_treebanks.py
"""

import os
from collections.abc import Iterable
from pathlib import Path

import pooch

DATA_VARIABLE = "TRANSFORMER_LITE_DATA"
"""Environment variable: a folder that holds `<corpus>/<split>.<language>.gz`, and of
treebanks `<corpus>/<split>.mrg.gz`."""


def provided(folder: str, name: str) -> Path | None:
    """A file of a corpus in the folder that the environment names; None without one.

    Raises:
        ValueError: The environment names a folder that does not have it.
    """
    data = os.environ.get(DATA_VARIABLE)
    if not data:
        return None
    path = Path(data) / folder / name
    if not path.exists():
        raise ValueError(
            f"{path}: no such file; put it there, or unset {DATA_VARIABLE} and "
            "have it downloaded"
        )
    return path


def download_folder(folder: str) -> Path:
    """Where a corpus's downloads are kept."""
    return Path(pooch.os_cache("transformer_lite")) / folder


def downloaded(folder: str, name: str, mirrors: Iterable[str]) -> Path:
    """A file that is downloaded once; its text is to be compared by who reads it.

    Args:
        folder: The corpus's folder, inside the one where downloads are kept.
        name: Its name, which follows each mirror's address.
        mirrors: Addresses to try, in this order.

    Raises:
        ValueError: None of them has it; what came may have been a web page.
    """
    failures = []
    for mirror in mirrors:
        try:
            path = pooch.retrieve(
                f"{mirror}{name}",
                known_hash=None,  # the text's own checksum is compared afterwards
                fname=Path(name).name,
                path=download_folder(folder),
                progressbar=True,
            )
        except (OSError, ValueError) as error:
            failures.append(f"{mirror}: {type(error).__name__}")
            continue
        found = Path(path)
        with found.open("rb") as file:
            if not file.read(100).lstrip().startswith(b"<"):
                return found
        found.unlink()
        failures.append(f"{mirror}: a web page in its place")
    raise ValueError(
        f"{name} could not be downloaded ({'; '.join(failures)}); see whether your "
        f"network lets you have it, try again later, or put the corpus under {folder}/ "
        f"in a folder that {DATA_VARIABLE} names"
    )
