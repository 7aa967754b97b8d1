"""`transformer-lite train`: a recipe becomes a run.

Paper: §5
Chapter: the_multi_gpu_trainer
Tests: tests/test_cli.py
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar

from tyro.conf import Positional

from transformer_lite.commands.arguments import Verb, configurations, parse, unchecked
from transformer_lite.config import (
    ModelConfig,
    Recipe,
    SearchConfig,
    TrainConfig,
    load_recipe,
    recipe_from_dict,
)

INTERRUPTED = 130
"""Exit status of what a signal ended, as shells give it."""

_Model, _Train, _Search = map(unchecked, (ModelConfig, TrainConfig, SearchConfig))


@dataclass(frozen=True, kw_only=True)
class Train(Verb):
    """Train a model by a recipe; resumes from the last checkpoint in --out.

    The defaults shown are the recipe's, and without a recipe the paper's.
    """

    less_memory: ClassVar[str] = (
        "give a smaller --train.batch-tokens and the same --train.global-batch-tokens: "
        "the steps stay as they are"
    )
    recipe: Positional[str]
    """A recipe of the package, such as toy, or a TOML file."""
    out: Path | None = None
    """The run's folder; by default runs/RECIPE."""
    data: Path | None = None
    """Folder that `prepare` wrote; by default the recipe's."""
    model: _Model = field(default_factory=_Model)
    """The model; its vocab_size is taken from the data."""
    train: _Train = field(default_factory=_Train)
    """The training."""
    search: _Search = field(default_factory=_Search)
    """The search for translations."""

    @classmethod
    def parse(cls, words: Sequence[str]) -> "Train":
        """Read the arguments; what the recipe says is the default of every option.

        Raises:
            ValueError: There is no such recipe, or an option is unknown or impossible.
            SystemExit: Help was asked for, and shown.
        """
        # The recipe may stand anywhere: a first reading finds it.
        no_help = [word for word in words if word not in ("-h", "--help")]
        recipe = parse(cls, no_help, cls(recipe="")).recipe
        verb = parse(cls, words, cls.by_recipe(recipe) if recipe else None)
        verb.settings()  # refuses impossible ones
        return verb

    @classmethod
    def by_recipe(cls, name: str) -> "Train":
        """The verb as a recipe has it, without further options."""
        recipe = load_recipe(name)
        return cls(
            recipe=name,
            data=recipe.data,
            model=_Model(**asdict(recipe.model)),
            train=_Train(**asdict(recipe.train)),
            search=_Search(**asdict(recipe.search)),
        )

    def settings(self) -> Recipe:
        """The recipe with what the options change.

        Raises:
            ValueError: A setting is impossible.
        """
        parts = {name: asdict(getattr(self, name)) for name in configurations(Train)}
        return recipe_from_dict({"data": str(self.data), **parts})

    def run(self) -> None:
        """Train to the recipe's last step, or to a signal."""
        from transformer_lite.inference.scores import ValidationSamples
        from transformer_lite.training.hardware import keep_freed_memory
        from transformer_lite.training.run import train_recipe

        keep_freed_memory()
        out = self.out or Path("runs", Path(self.recipe).stem)
        recipe = self.settings()
        if not train_recipe(recipe, out, ValidationSamples):
            print("stopped; the same command resumes the run", file=sys.stderr)
            # torchrun takes any other status for a failure, and restarts the run.
            under_torchrun = "TORCHELASTIC_RESTART_COUNT" in os.environ
            sys.exit(0 if under_torchrun else INTERRUPTED)
        if os.environ.get("RANK", "0") == "0":  # one process speaks for all
            print(f"{out}: all {recipe.train.max_steps:,} steps are done")
