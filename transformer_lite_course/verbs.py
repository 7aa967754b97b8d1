"""The course's verbs of the command line: write the parts, check them, train them.

`transformer_lite.cli` finds them by their entry points in pyproject.toml.

Paper: §3, 5.1, 5.3–5.4, 6.1
Chapter: 03_model_architecture
Tests: tests/course/test_grading.py
"""

import sys
from pathlib import Path
from typing import Annotated

from tyro.conf import FlagCreatePairsOff, Positional, arg

from transformer_lite.config import Recipe, load_recipe
from transformer_lite_course.parts import PARTS, write_skeleton


def exercise(folder: Positional[Path], /) -> None:
    """Write the parts of a Transformer for you to fill in.

    Args:
        folder: The folder to make.
    """
    write_skeleton(folder)
    print(f"{folder}: {len(PARTS)} parts to write, each as its chapter explains")
    for part in PARTS.values():
        print(f"  {part.name + '.py':15} {part.link}")
    print(f"check them with: transformer-lite grade {folder}")


def grade(
    folder: Positional[Path],
    parts: Positional[tuple[str, ...]] = (),
    /,
    *,
    json: FlagCreatePairsOff[bool] = False,
    watch: FlagCreatePairsOff[bool] = False,
) -> None:
    """Check the parts that you have written, each for itself.

    Args:
        folder: Your files, as `exercise` has written them.
        parts: Names of parts, such as attention; by default all.
        json: Print the grades as JSON.
        watch: Check a part again whenever its file is saved, until Ctrl-C.

    Raises:
        SystemExit: With status 1 if a part fails or is not written.
    """
    from transformer_lite_course import report

    sys.exit(0 if report.run(folder, parts, json, watch) else 1)


def train_parts(
    folder: Positional[Path],
    /,
    *,
    recipe: Annotated[Recipe, arg(name="")] = load_recipe("toy"),  # noqa: B008  (frozen)
) -> None:
    """Train the Transformer of your parts on the toy corpus, and watch it translate.

    No run is kept. Of the settings only the model's count, and seed, max_steps,
    batch_tokens, warmup_steps, rate_scale and label_smoothing of the training.

    Args:
        folder: Your files, as `exercise` has written them.
        recipe: The widths, steps and rates; the defaults are the recipe toy's.
    """
    from transformer_lite_course.toy_training import train

    train(folder, recipe)
