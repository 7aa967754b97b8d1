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
        ValueError: None of them has it, or what came, now or before, is a web page.
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
        with Path(path).open("rb") as file:
            if file.read(100).lstrip().startswith(b"<"):
                raise ValueError(
                    f"{path}: a web page in the place of {name}; see whether your "
                    f"network lets you have {mirror}{name}, delete the page and start "
                    "again"
                )
        return Path(path)
    raise ValueError(
        f"{name} could not be downloaded ({'; '.join(failures)}); try again later, "
        f"or put the corpus under {folder}/ in a folder that {DATA_VARIABLE} names"
    )
