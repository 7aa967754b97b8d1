"""`transformer-lite export`: a run becomes what another program serves.

Paper: §6.1
Chapter: 06_1_machine_translation
Tests: tests/test_cli.py
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from transformer_lite.commands.arguments import Verb
from transformer_lite.training.folder import RunFolder, find_run


@dataclass(frozen=True, kw_only=True)
class Export(Verb):
    """Write a run's model in the format of a program that serves it faster."""

    folder: Positional[Path]
    """The run's folder."""
    out: Path
    """Folder to make."""
    format: Literal["ctranslate2"] = "ctranslate2"
    """The program: pip install ctranslate2."""
    weights: Path | None = None
    """A checkpoint; by default the average, else the best, else the newest."""

    def run(self) -> None:
        """Write the folder."""
        from transformer_lite.inference.export import export_ctranslate2
        from transformer_lite.inference.translator import Translator

        weights = self.weights or RunFolder(find_run(self.folder)).default_weights()
        export_ctranslate2(Translator.load(self.folder, weights), self.out)
        print(f"{self.out}: {self.format} model of {weights}")
