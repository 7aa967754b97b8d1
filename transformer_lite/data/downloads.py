"""Published text: taken from a folder of one's own, or downloaded once.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/data/test_corpora.py
"""

import os
from collections.abc import Iterable
from pathlib import Path

import pooch

DATA_VARIABLE = "TRANSFORMER_LITE_DATA"
"""Environment variable: a folder that holds `<corpus>/<split>.<language>.gz`."""


def published_file(folder: str, name: str, mirrors: Iterable[str]) -> Path:
    """Return a corpus's file, from the folder that the environment names or downloaded.

    Args:
        folder: The corpus's folder, below that of the environment or of all downloads.
        name: The file's name, which follows each mirror's address.
        mirrors: Addresses to try, in this order.

    Raises:
        ValueError: The environment names a folder without the file, or no mirror has
            the file.
    """
    if data := os.environ.get(DATA_VARIABLE):
        path = Path(data) / folder / name
        if not path.exists():
            raise ValueError(
                f"{path}: no such file; put it there, or unset {DATA_VARIABLE} and "
                "have it downloaded"
            )
        return path
    failures = []
    for mirror in mirrors:
        try:
            path = pooch.retrieve(
                f"{mirror}{name}",
                known_hash=None,  # the caller compares the text's own checksum
                fname=Path(name).name,
                path=Path(pooch.os_cache("transformer_lite")) / folder,
                progressbar=True,
            )
        except (OSError, ValueError) as error:
            failures.append(f"{mirror}: {type(error).__name__}")
            continue
        with Path(path).open("rb") as file:
            if not file.read(100).lstrip().startswith(b"<"):
                return Path(path)
        Path(path).unlink()
        failures.append(f"{mirror}: a web page instead of the file")
    raise ValueError(
        f"{name} could not be downloaded ({'; '.join(failures)}); try again later, or "
        f"put the corpus under {folder}/ in a folder that {DATA_VARIABLE} names"
    )
