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
    last: int | None = None
    """How many checkpoints; by default as many as the run itself averages, if so many
    are there."""

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
        last = self.last
        if last is None:
            last = min(folder.recipe().train.average_checkpoints, len(paths))
        if not 1 <= last <= len(paths):
            raise ValueError(
                f"{folder.checkpoints}: has {len(paths)} checkpoints, and --last is "
                f"{last}; give --last {len(paths)} or less, and at least 1"
            )
        checkpoint.save_weights(folder.average, checkpoint.average(paths[-last:]))
        print(f"averaged {', '.join(path.stem for path in paths[-last:])}")
