"""`transformer-lite average`: the last checkpoints become one.

Paper: §6.1
Chapter: 06_1_machine_translation
Tests: tests/test_cli.py
"""

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from transformer_lite.commands.arguments import Verb
from transformer_lite.training.folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class Average(Verb):
    """Average the last checkpoints of a run."""

    folder: Positional[Path]
    """The run's folder."""
    last: int = 5
    """How many checkpoints."""

    def run(self) -> None:
        """Write average.safetensors beside the checkpoints."""
        from transformer_lite.training import checkpoint

        folder = RunFolder(self.folder)
        paths = folder.step_checkpoints()
        if not paths:
            raise ValueError(
                f"{folder.checkpoints}: no checkpoints to average; give the "
                "folder of a run that has some"
            )
        if not 1 <= self.last <= len(paths):
            raise ValueError(
                f"{folder.checkpoints}: has {len(paths)} checkpoints, and --last is "
                f"{self.last}; give --last {len(paths)} or less, and at least 1"
            )
        averaged = checkpoint.average(paths[-self.last :])
        checkpoint.save_weights(folder.average, averaged)
        print(f"averaged {', '.join(path.stem for path in paths[-self.last :])}")
