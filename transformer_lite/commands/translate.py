"""`transformer-lite translate`: lines become lines.

Paper: §6.1, 6.3
Chapter: 06_1_machine_translation, 06_3_english_constituency_parsing
Tests: tests/test_cli.py, tests/test_parsing.py
"""

import errno
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from tqdm import tqdm
from tyro.conf import Positional

from transformer_lite.commands.arguments import Verb
from transformer_lite.data.trees import TREES, TREES_WITH_WORDS
from transformer_lite.training.folder import RunFolder, find_run

PATIENCE = 5
"""Seconds until progress is shown."""


@dataclass(frozen=True, kw_only=True)
class Search(Verb):
    """A run's model, and how it searches for translations."""

    less_memory: ClassVar[str] = "give a smaller --batch-sentences or --beam"
    folder: Positional[Path]
    """The run's folder."""
    weights: Path | None = None
    """A checkpoint; by default the average, else the best, else the newest."""
    beam: int | None = None
    """Beam size; 1 is greedy search. By default the run's."""
    alpha: float | None = None
    """Exponent of the length penalty; by default the run's."""
    batch_sentences: int | None = None
    """Sentences translated at once; by default the run's."""
    workers: int = 1
    """Processes that translate; on CPUs one for each core pays for many sentences."""

    def trained(self) -> RunFolder:
        """The run's folder.

        Raises:
            ValueError: It holds no run.
        """
        run = RunFolder(find_run(self.folder))
        if run.corpus.exists() and not run.config.exists():
            raise ValueError(
                f"{self.folder}: a prepared corpus; give the folder that `train` wrote"
            )
        run.recipe()
        return run

    def load(self) -> tuple[Any, Path]:
        """A `Translator`, and where its weights come from."""
        from transformer_lite.inference.translator import Translator

        weights = self.weights or self.trained().default_weights()
        return Translator.load(self.folder, weights), weights

    @contextmanager
    def translator(self) -> Iterator[tuple[Any, Path]]:
        """A `Translator` with its workers, and where its weights come from."""
        from transformer_lite.inference.parallel import parallel_translator
        from transformer_lite.training.hardware import keep_freed_memory

        if self.workers < 1:
            raise ValueError(f"--workers {self.workers} is impossible; give at least 1")
        keep_freed_memory()
        translator, weights = self.load()
        given = {"beam_size": self.beam, "alpha": self.alpha}
        given["batch_sentences"] = self.batch_sentences
        given = {name: value for name, value in given.items() if value is not None}
        translator.search = replace(translator.search, **given)
        if self.workers == 1:
            yield translator, weights
            return
        with parallel_translator(translator, self.workers) as several:
            yield several, weights


@dataclass(frozen=True, kw_only=True)
class Translate(Search):
    """Translate a file or standard input, one line in, one line out.

    A run on a treebank parses: of a tokenized sentence it writes the tree in brackets.
    """

    folder: Positional[Path]
    """The run's folder, a model of the package such as multi30k_en_de, or a published
    one such as hf:Helsinki-NLP/opus-mt-en-de."""
    file: Positional[Path | None] = None
    """Text to translate, one sentence a line; by default standard input."""
    out: Path | None = None
    """File to write; by default standard output."""

    def run(self) -> None:
        """Translate every line; an empty or unusable line stays empty.

        Raises:
            SystemExit: With status 1, all being written, if a line was too long or not
                UTF-8, or what a parser says of it no tree.
        """
        from transformer_lite.inference.parser import parse

        # Without a run there is nothing to read a text for.
        language = "" if self.is_published() else self.trained().languages()[1]
        is_parser = language in (TREES, TREES_WITH_WORDS)
        if self.file and self.out and self.file.resolve() == self.out.resolve():
            raise ValueError(
                f"{self.out}: is the text to translate; give another --out"
            )
        unusable = []

        def warn(message: str) -> None:
            place = f"{self.file}, " if self.file else ""
            print(f"{self.program()}: {place}{message}; left empty", file=sys.stderr)
            unusable.append(message)

        with (
            self._read() as source,
            _written(self.out) as target,
            self.translator() as (translator, weights),
        ):
            print(f"weights: {weights}", file=sys.stderr)
            typed = source.isatty()
            if typed:
                print("type a sentence and Enter; Ctrl-D ends", file=sys.stderr)
            lines = _decoded(source, warn)
            # A bar would tear the lines apart that are shown on the same terminal.
            quiet = target.isatty() or not sys.stderr.isatty()
            lines = iter(tqdm(lines, unit="line", delay=PATIENCE, disable=quiet))
            stream = partial(parse, translator) if is_parser else translator.stream
            for translation in stream(lines, warn, 1 if typed else None):
                # In UTF-8 as the input is, whatever the terminal's language.
                target.write(translation.encode("utf-8") + b"\n")
                target.flush()
        if unusable:
            sys.exit(1)

    @contextmanager
    def _read(self) -> Iterator[Any]:
        """The text to translate, or standard input, which stays open."""
        if self.file is None:
            yield sys.stdin.buffer
            return
        if not self.file.is_file():
            problem = "a folder" if self.file.is_dir() else "no such file"
            raise ValueError(
                f"{self.file}: {problem}; give a text file, or pipe text in: "
                f'echo "…" | transformer-lite translate {self.folder}'
            )
        with self.file.open("rb") as file:
            yield file

    def is_published(self) -> bool:
        """Whether the model is another's.

        Raises:
            ValueError: Of such a model a checkpoint was asked for.
        """
        from transformer_lite.inference.published import is_published

        published = is_published(self.folder)
        if published and self.weights:
            raise ValueError(
                f"--weights {self.weights}: {self.folder} is no run and has no "
                "checkpoints; leave --weights out"
            )
        return published

    def load(self) -> tuple[Any, Path]:
        """A `Translator`, and where its weights come from."""
        from transformer_lite.inference.published import load_published

        if not self.is_published():
            return super().load()
        translator = load_published(self.folder)
        if codes := translator.tokenizer.languages:
            shown = " ".join([*codes[:9], *(["…"] if codes[9:] else [])])
            print(f"begin each line with a language: {shown}", file=sys.stderr)
        return translator, self.folder


@contextmanager
def _written(path: Path | None) -> Iterator[Any]:
    """A file that is at `path` once the block has ended well, or standard output."""
    if path is None:
        yield sys.stdout.buffer
        return
    if path.is_dir():
        raise ValueError(f"{path}: a folder; give --out the name of a file")
    unfinished = path.with_name(path.name + ".partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with unfinished.open("wb") as file:
            yield file
        unfinished.replace(path)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise OSError(f"{path}: cannot be written; make room on the disk") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _decoded(lines: Iterable[bytes], warn: Callable[[str], None]) -> Iterator[str]:
    """The lines as text, each as soon as it is there; a line feed alone ends a line.

    Args:
        lines: With their ends.
        warn: Called with a message for each line that is not UTF-8; it becomes empty.
    """
    for number, line in enumerate(lines, start=1):
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            warn(f"line {number}: not UTF-8 (byte {error.start + 1}), convert the text")
            text = ""
        if "\0" in text:  # every other byte of UTF-16 is 0, and each half would pass
            at = text.index("\0") + 1
            warn(f"line {number}: a zero byte (character {at}), convert it to UTF-8")
            text = ""
        yield text
