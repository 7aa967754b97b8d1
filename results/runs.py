"""The table of all runs whose numbers the book shows.

A run is a recipe with changes, a corpus and a seed. runs.toml beside this file lists
them, but for Table 3, whose rows are made here. `make results` makes those whose
result is not there yet; `python -m results.make --show` prints the table. Folders are
named from the repository's root.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from transformer_lite.config import TABLE_3, Recipe, load_recipe

RECIPES = Path(__file__).parent / "recipes"
"""Recipes of experiments; those for readers come with the package."""

TABLE = tomllib.loads((Path(__file__).parent / "runs.toml").read_text("utf-8"))
CORPORA: dict[str, str] = TABLE["corpora"]
"""How `transformer-lite prepare` makes each corpus."""

TATOEBA_2018 = "bf1cfb0c3f7a57182b96420f1c48661c58f9db852060f64222892cf479b2f120"
"""SHA-256 of the English training sentences of manythings.org's edition of 2018-05-13,
which is not the one that `prepare tatoeba` downloads."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training, and what is translated and scored at its end."""

    name: str
    """Its result is results/<name>.json."""
    purpose: str
    """What the book needs it for."""
    corpus: str
    """A key of `CORPORA`."""
    recipe: str
    """The name of one in results/recipes/, or of one that comes with the package."""
    model: str = "Transformer"
    """A key of `results.models.MODELS`."""
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What differs from the recipe: {"model": {"dropout": 0.3}}."""
    seed: int = 1
    splits: tuple[str, ...] = ("valid",)
    """The splits that are translated and scored at the end."""
    ramp: int | None = None
    """Steps in which the learning rate rises to the peak of Equation 3, where it waits
    until that falls; 1 is no ramp. By default the recipe's warm-up."""
    until_flat: bool = False
    """Whether it goes on before its cooldown until the validation perplexity has
    stopped falling, by the rule of `results.make.flat_after`."""
    r_drop: float = 0.0
    """Weight of R-Drop's divergence, α in its paper; 0 is none."""
    begin_with: Mapping[str, str] | None = None
    """The "run" or trained model whose weights are its initial ones, and the "sha256"
    of these: under its name the package may have others today."""
    begins_with: str | None = None
    """Name of the run at whose end it begins, as if that had been resumed with more
    steps."""
    weights: Literal["average", "last", "best"] = "average"
    """The mean of the last checkpoints, the last one as it is, or the one with the
    lowest validation loss."""
    searches: tuple[tuple[int, float], ...] = ()
    """Beam sizes and α to choose from by the score on the validation set; without any
    the recipe's are taken."""

    @property
    def experiment(self) -> str:
        """Its name without the seed: what runs with other seeds share."""
        return self.name.rpartition("-")[0]

    @property
    def data(self) -> Path:
        """The folder of its prepared corpus."""
        return Path("data/results", self.corpus)

    @property
    def folder(self) -> Path:
        """The folder in which it is trained."""
        return Path("runs/results", self.name)

    @property
    def sessions(self) -> Path:
        """The record of the processes that train it."""
        return self.folder.with_suffix(".sessions.json")

    @property
    def result(self) -> Path:
        """The file that the book reads."""
        return Path("results") / f"{self.name}.json"

    def outputs(self, split: str) -> Path:
        """Return the file of what it made of a split, one line for each source."""
        return Path("results") / f"{self.name}.{split}.txt.gz"

    def changed(self, changes: Mapping[str, Mapping], **fields: Any) -> "Run":
        """Return it with further changes of its recipe, and with other fields."""
        both = {
            part: {**self.changes.get(part, {}), **changes.get(part, {})}
            for part in {**self.changes, **changes}
        }
        return replace(self, changes=both, **fields)

    def settings(self) -> Recipe:
        """Return its recipe, complete.

        Raises:
            ValueError: There is no such recipe, or a value is impossible.
            TypeError: A change names no setting.
        """
        own = RECIPES / f"{self.recipe}.toml"
        recipe = load_recipe(own if own.exists() else self.recipe)
        begin_with = self.begin_with and self.begin_with["run"]
        recipe = replace(recipe, data=self.data, begin_with=begin_with)
        for part, changes in self.changes.items():
            changed = replace(getattr(recipe, part), **changes)
            recipe = replace(recipe, **{part: changed})
        return replace(recipe, train=replace(recipe.train, seed=self.seed))


def _table_3(recipe: str, layers: int, widths: int, seeds: int) -> Iterator[Run]:
    """Yield Table 3, its layers divided by `layers` and its widths by `widths`.

    Every row has a first seed before any has a second, so that whoever runs out of time
    has a table; base has two more than the others.

    Args:
        recipe: The base row's; also the folder of the results.
        layers: What the number of layers is divided by.
        widths: What every width is divided by.
        seeds: Seeds of a row.
    """
    steps = load_recipe(RECIPES / f"{recipe}.toml").train.max_steps
    train = {"D3": {"label_smoothing": 0.0}, "D4": {"label_smoothing": 0.2}}
    train["big"] = {"max_steps": 3 * steps}  # as in the paper
    for seed in range(1, 1 + seeds + 2):
        for row in TABLE_3 if seed <= seeds else ("base",):
            paper = TABLE_3[row]
            smaller = {
                name: value // widths
                for name in ("d_model", "d_ff", "d_k", "d_v")
                if (value := getattr(paper, name)) is not None
            }
            same = {n: getattr(paper, n) for n in ("num_heads", "dropout", "positions")}
            model = {"num_layers": paper.num_layers // layers, **smaller, **same}
            yield Run(
                name=f"{recipe}/{row}-{seed}",
                purpose=f"Table 3, row {row}: layers ÷ {layers}, widths ÷ {widths}",
                corpus="multi30k_en_de",
                recipe=recipe,
                changes={"model": model, "train": train.get(row, {})},
                seed=seed,
                weights="last",
            )


def _table_3_longer() -> Iterator[Run]:
    """Yield Table 3, trained three times as long, with a falling rate at last.

    The weights with the lowest validation loss are scored, as if each run had stopped
    there: a row that overfits is not punished for its last steps. Big has no more steps
    than the others, and one seed. C3 and big learn slowly by the recipe of all rows, so
    they and, as their control, base are also trained with four times its warm-up. All
    these are in fp32, also on a processor on which bf16 is faster.
    """
    longer = {"max_steps": 7_500, "cooldown_steps": 2_500}
    long_warmup = {**longer, "warmup_steps": 2_000}
    for run in SMALLER:
        row = run.experiment.partition("/")[2]
        if row == "big" and run.seed > 1:
            continue
        variants = [("", "three times as long", longer)]
        if row in ("base", "C3", "big") and run.seed <= 2:
            purpose = "three times as long, with 2,000 warm-up steps"
            precision = {"precision": "fp32"} if row == "base" else {}
            variants.append(("_long_warmup", purpose, long_warmup | precision))
        for suffix, purpose, train in variants:
            yield run.changed(
                name=f"table_3_longer/{row}{suffix}-{run.seed}",
                purpose=f"{run.purpose}, {purpose}",
                changes={"train": train},
                weights="best",
            )


def _group(name: str) -> Iterator[Run]:
    """Yield the runs of a group of runs.toml."""
    group = {"folder": "", "seeds": [1], **TABLE[name]}
    folder, seeds, tables = (group.pop(key) for key in ("folder", "seeds", "runs"))
    for seed in seeds:
        for table in tables:
            for run_seed in table.get("seeds", [seed]):
                yield _run(folder, run_seed, group | table)


def _run(folder: str, seed: int, fields: dict[str, Any]) -> Run:
    """Return the run of a table, or the row of Table 3 that it is like, changed."""
    values = {key: _frozen(value) for key, value in fields.items() if key != "seeds"}
    values |= {"name": f"{folder}{fields['name']}-{seed}", "seed": seed}
    like, changes = values.pop("like", None), values.pop("changes", {})
    return (ROWS[f"{like}-{seed}"].changed if like else Run)(changes=changes, **values)


def _frozen(value: Any) -> Any:
    """Return tuples for lists."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


SMALLER = tuple(_table_3("table_3", 2, 4, seeds=2))
LONGER = tuple(_table_3_longer())
ROWS = {run.name: run for run in (*SMALLER, *LONGER)}

RUNS = (
    *(run for name in ("translation", "parsing", "search") for run in _group(name)),
    *(*SMALLER, *LONGER),
    *(run for name in ("ablations", "warmup") for run in _group(name)),
)
"""All runs for the processor of a laptop, what matters most first."""

GPU_RUNS = tuple(_table_3("table_3_gpu", 1, 2, seeds=3))
"""What to make first where a GPU is at hand for half an hour, many at a time: each of
these models alone leaves most of a large GPU idle."""
