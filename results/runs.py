"""The table of all runs whose numbers the book shows.

A run is a recipe with changes, a corpus and a seed. `make results` makes those whose
result is not there yet; `python -m results.make --show` prints this table. Folders are
named from the repository's root.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from results.treebank_files import FOLDER
from transformer_lite.config import TABLE_3, Recipe, load_recipe

RECIPES = Path(__file__).parent / "recipes"
"""Recipes of experiments; those for readers come with the package."""


def _trees(treebank: str, *more: str) -> str:
    """Return how to prepare a treebank; `more` are others, for their training trees."""
    train = " ".join(f"{FOLDER / name}/train.mrg" for name in (treebank, *more))
    own = FOLDER / treebank
    held_out = f"--valid {own}/valid.mrg --test {own}/test.mrg"
    return f"trees --source en --train {train} {held_out}"


CORPORA = {
    "multi30k_en_de": "multi30k --source en --target de --vocab-size 4000",
    "multi30k_en_de_1000": "multi30k --source en --target de --vocab-size 1000",
    "multi30k_en_de_16000": "multi30k --source en --target de --vocab-size 16000",
    "multi30k_de_en": "multi30k --source de --target en --vocab-size 4000",
    "multi30k_en_fr": "multi30k --source en --target fr --vocab-size 4000",
    "toy": "toy",
    "tatoeba_en_de": "tatoeba --source en --target de --vocab-size 8000",
    "penn_treebank_sample": _trees("penn_treebank_sample") + " --vocab-size 4000",
    "penn_treebank_sample_words": _trees("penn_treebank_sample")
    + " --leaves words --vocabulary craft_parser",
    "craft": _trees("craft"),
    "craft_gum": _trees("craft", "gum"),
    "craft_gum_words": _trees("craft", "gum") + " --leaves words --vocab-size 4000",
    "craft_gum_tags": _trees("craft", "gum") + " --vocab-size 4000",
    "craft_gum_plain": _trees("craft", "gum")
    + " --leaves words --plain-closing --vocab-size 4000",
}
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

    def settings(self) -> Recipe:
        """Return its recipe, complete.

        Raises:
            ValueError: There is no such recipe, or a value is impossible.
            TypeError: A change names no setting.
        """
        own = RECIPES / f"{self.recipe}.toml"
        recipe = load_recipe(own if own.exists() else self.recipe)
        recipe = replace(recipe, data=self.data)
        for part, changes in self.changes.items():
            changed = replace(getattr(recipe, part), **changes)
            recipe = replace(recipe, **{part: changed})
        return replace(recipe, train=replace(recipe.train, seed=self.seed))


def _translation() -> Iterator[Run]:
    """Yield the book's own Table 2, and what came before the Transformer."""
    for seed in (1, 2, 3):
        yield Run(
            name=f"multi30k_en_de-{seed}",
            purpose="Translation, English to German: the main result",
            corpus="multi30k_en_de",
            recipe="multi30k_de",
            seed=seed,
            splits=("valid", "test_2016_flickr"),
        )
    for corpus, languages in (
        ("multi30k_de_en", "German to English"),
        ("multi30k_en_fr", "English to French"),
    ):
        yield Run(
            name=f"{corpus}-1",
            purpose=f"Translation, {languages}, by the same recipe",
            corpus=corpus,
            recipe="multi30k_de",
            splits=("valid", "test_2016_flickr"),
        )
    for model in ("recurrent", "recurrent with attention"):
        yield Run(
            name=f"multi30k_en_de_{model.replace(' ', '_')}-1",
            purpose=f"Translation as before the Transformer: {model}",
            corpus="multi30k_en_de",
            recipe="recurrent",
            model=model,
            splits=("valid", "test_2016_flickr"),
        )
    for corpus, recipe, text in (
        ("toy", "toy", "the toy grammar"),
        ("tatoeba_en_de", "tatoeba_de", "everyday sentences"),
    ):
        yield Run(
            name=f"{corpus}-1",
            purpose=f"Translation of {text}, English to German",
            corpus=corpus,
            recipe=recipe,
            splits=("valid", "test"),
        )


def _wider() -> Iterator[Run]:
    """Yield trials: the translator of everyday sentences, twice as wide.

    The first has two fifths of the target tokens of `tatoeba_en_de-1`. The second goes
    on from its end: the learning rate rises again, and falls again.
    """
    train = {"warmup_steps": 800, "rate_scale": 0.543, "checkpoint_every": 200}
    train |= {"precision": "bf16"}
    first, second = "search/tatoeba_wide-1", "search/tatoeba_wide_longer-1"
    for name, purpose, begins_with, steps, cooldown in (
        (first, "twice as wide", None, 12_000, 4_000),
        (second, "the same, trained on", first, 25_000, 6_000),
    ):
        yield Run(
            name=name,
            purpose=f"Trial: everyday sentences, {purpose}",
            corpus="tatoeba_en_de",
            recipe="tatoeba_de",
            changes={
                "model": {"d_model": 256, "d_ff": 1024},
                "train": {**train, "max_steps": steps, "cooldown_steps": cooldown},
            },
            begins_with=begins_with,
            splits=("valid", "test"),
        )


def _parsing() -> Iterator[Run]:
    """Yield Section 6.3: a small treebank, a larger one, the same and a parser's trees.

    Trees are written with tags, and of the largest treebank with words, too.
    """
    every = ((1, 0.0), (4, 0.0), (4, 0.3), (4, 0.6), (8, 0.3), (21, 0.3))
    greedy = ((1, 0.0),)
    semi_supervised = "the same and 3,707 trees by a parser (semi-supervised)"
    with_words = "with words in the tree, {} closing brackets"
    # A second seed takes the search that the first has chosen.
    for corpus, seed, recipe, purpose, searches in (
        (
            "penn_treebank_sample",
            1,
            "parsing_small",
            "the Wall Street Journal, 3,396 trees",
            every,
        ),
        ("craft", 1, "parsing", "biomedical articles, 18,951 trees", every),
        ("craft", 2, "parsing", "biomedical articles, 18,951 trees", greedy),
        ("craft_gum", 1, "parsing", semi_supervised, every),
        ("craft_gum", 2, "parsing", semi_supervised, ((4, 0.6),)),
        ("craft_gum_words", 1, "parsing_words", with_words.format("labelled"), greedy),
        ("craft_gum_plain", 1, "parsing_words", with_words.format("plain"), greedy),
    ):
        yield Run(
            name=f"parsing/{corpus}-{seed}",
            purpose=f"Parsing: {purpose}",
            corpus=corpus,
            recipe=recipe,
            seed=seed,
            splits=("valid", "test"),
            searches=searches,
        )
    # Both are compared with the parser with words. It has 6.5 million parameters, and
    # the recurrent model of this width 6.4.
    recurrent, width = "recurrent with attention", {"model": {"d_model": 480}}
    for seed in (1, 2):
        for name, model, changes, purpose in (
            ("craft_gum_tags", "Transformer", {}, "with tags, in the recipe of words"),
            ("craft_gum_words_recurrent", recurrent, width, f"with words, {recurrent}"),
        ):
            yield Run(
                name=f"parsing/{name}-{seed}",
                purpose=f"Parsing: {purpose}",
                corpus=name.removesuffix("_recurrent"),
                recipe="parsing_words",
                model=model,
                changes=changes,
                seed=seed,
                splits=("valid", "test"),
                searches=greedy,
            )
    # The learning rate rises again after the first run's end, and falls a second time.
    yield Run(
        name="parsing/craft_gum_words_longer-1",
        purpose="Parsing: the parser with labelled closing brackets, trained on",
        corpus="craft_gum_words",
        recipe="parsing_words",
        changes={"train": {"max_steps": 10_400, "cooldown_steps": 2_000}},
        begins_with="parsing/craft_gum_words-1",
        splits=("valid", "test"),
        searches=greedy,
    )
    again = {"warmup_steps": 1_500, "rate_scale": 0.25, "cooldown_steps": 2_500}
    for seed in (1, 2):
        yield Run(
            name=f"parsing/craft_gum_words_longest-{seed}",
            purpose="Parsing: the weights of this parser, trained on again",
            corpus="craft_gum_words",
            recipe="parsing_words",
            model="parser",
            changes={"train": {"max_steps": 6_000, "precision": "bf16", **again}},
            seed=seed,
            splits=("valid", "test"),
            searches=greedy,
        )
    yield Run(
        name="parsing/craft_gum_words_fourth_round-2",
        purpose="Parsing: the weights of this parser, trained on a second time",
        corpus="craft_gum_words",
        recipe="parsing_words",
        model="parser",
        changes={
            "train": {
                **again,
                "precision": "bf16",
                "max_steps": 10_000,
                "cooldown_steps": 2_000,
            }
        },
        seed=2,
        begins_with="parsing/craft_gum_words_longest-2",
        splits=("valid", "test"),
        searches=greedy,
    )
    # The parser of biomedical articles goes on to newspapers; as a control, another
    # begins there.
    short = {"max_steps": 1_200, "cooldown_steps": 600, "precision": "bf16"}
    slow = {"warmup_steps": 200, "rate_scale": 0.1}
    begin = "begun as the parser of biomedical articles"
    for name, seed, model, train, purpose in (
        ("fine_tuned", 1, "parser", {**short, **slow}, begin),
        ("fine_tuned", 2, "parser", {**short, **slow}, begin),
        ("from_scratch", 1, "Transformer", {**short, "warmup_steps": 400}, "alone"),
    ):
        yield Run(
            name=f"parsing/penn_treebank_sample_{name}-{seed}",
            purpose=f"Parsing: the Wall Street Journal with words, {purpose}",
            corpus="penn_treebank_sample_words",
            recipe="parsing_words",
            model=model,
            changes={"train": train},
            seed=seed,
            splits=("valid", "test"),
            searches=greedy,
        )


def _search() -> Iterator[Run]:
    """Yield the trials for a better recipe of Multi30k, judged on its validation set.

    Each has a falling rate over its last quarter, as `multi30k_de` has not.
    """
    wide = {"d_model": 256, "d_ff": 1024, "dropout": 0.2}
    # 0.0012 at its highest.
    rate = {"rate_scale": 0.543, "warmup_steps": 800}
    steps = {"max_steps": 10_000, "cooldown_steps": 2_500, "checkpoint_every": 200}
    steps |= {"precision": "bf16"}
    longer = {**steps, "max_steps": 17_000, "cooldown_steps": 4_000}
    for name, begins_with, train in (
        ("wide", None, steps),
        # The learning rate rises again after the first one's end, and falls again.
        ("wide_longer", "search/wide-1", longer),
    ):
        yield Run(
            name=f"search/{name}-1",
            purpose=f"Trial of a recipe for Multi30k: {name.replace('_', ' ')}",
            corpus="multi30k_en_de",
            recipe="multi30k_de",
            changes={"model": wide, "train": {**rate, **train}},
            begins_with=begins_with,
        )
    # In one go instead, with one thing changed. To choose a trial after its first seed,
    # name it here and delete its result: it is then scored again, on the test set too.
    chosen = None
    for name, dropout, r_drop in (("dropout", 0.3, 0.0), ("r_drop", 0.2, 5.0)):
        for seed in (1, 2, 3) if name == chosen else (1,):
            yield Run(
                name=f"search/wide_{name}-{seed}",
                purpose=f"Trial of a recipe for Multi30k: {name}",
                corpus="multi30k_en_de",
                recipe="multi30k_de",
                changes={
                    "model": {**wide, "dropout": dropout},
                    "train": {**rate, **longer},
                },
                seed=seed,
                r_drop=r_drop,
                splits=("valid", "test_2016_flickr")[: 2 if name == chosen else 1],
                searches=((4, 0.6), (4, 1.0), (4, 1.4), (8, 1.0)),
            )


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
    they are also trained with four times its warm-up.
    """
    longer = {"max_steps": 7_500, "cooldown_steps": 2_500}
    long_warmup = {**longer, "warmup_steps": 2_000}
    for run in _table_3("table_3", 2, 4, seeds=2):
        row = run.experiment.partition("/")[2]
        if row == "big" and run.seed > 1:
            continue
        variants = [("", "three times as long", longer)]
        if row in ("C3", "big"):
            purpose = "three times as long, with 2,000 warm-up steps"
            variants.append(("_long_warmup", purpose, long_warmup))
        for suffix, purpose, train in variants:
            yield replace(
                run,
                name=f"table_3_longer/{row}{suffix}-{run.seed}",
                purpose=f"{run.purpose}, {purpose}",
                changes={**run.changes, "train": {**run.changes["train"], **train}},
                weights="best",
            )


def _warmup() -> Iterator[Run]:
    """Yield Equation 3 with its beginning cut off here or there; the rest is the same.

    Warm-up of 1 step is none: the rate begins at its highest. That of 4,000 steps does
    not end within these runs, which all the time have a lower rate than the others.
    """
    for seed in (1, 2):
        for model in ("Transformer", "pre-norm"):
            for warmup in (1, 100, 500, 1000, 2000, 4000):
                if (model, warmup) == ("Transformer", 500):
                    continue  # base of Table 3
                norm = "pre" if model == "pre-norm" else "post"
                yield Run(
                    name=f"warmup/{norm}_norm_{warmup}-{seed}",
                    purpose=f"Warm-up of {warmup} steps, {norm}-norm",
                    corpus="multi30k_en_de",
                    recipe="table_3",
                    model=model,
                    changes={"train": {"warmup_steps": warmup}},
                    seed=seed,
                    splits=(),
                    weights="last",
                )


def _ablations() -> Iterator[Run]:
    """Yield rows of `table_3_longer` with one thing changed: those are their control.

    A batch holds as many sentences whatever the vocabulary. An epoch takes 546 steps
    with its 4,000 entries, 548 with 1,000, and 545 with 16,000.
    """
    rows = {run.name: run for run in _table_3_longer()}
    root, untied = {"model": "without root"}, {"model": "three matrices"}
    heads, padding = "heads for feed-forward", "without padding mask"
    small, large = "multi30k_en_de_1000", "multi30k_en_de_16000"
    flat, half = {"until_flat": True}, {"rate_scale": 0.25}
    for name, seeds, purpose, changes, train in (
        ("base_no_root", 2, "scores are not divided by √d_k", root, {}),
        ("base_no_ramp", 3, "the rate begins at the same peak", {"ramp": 1}, {}),
        ("base_ramp_50", 3, "the rate rises in a tenth of the steps", {"ramp": 50}, {}),
        ("base_untied", 2, "a matrix each for source, target, output", untied, {}),
        ("base_untied_half_rate", 2, "the same, with half the rate", untied, half),
        ("base_half_rate", 2, "half the rate", {}, half),
        ("base_1000", 2, "1,000 pieces", {"corpus": small}, {"batch_tokens": 1_350}),
        ("base_16000", 2, "16,000 pieces", {"corpus": large}, {"batch_tokens": 850}),
        ("base_no_ffn", 2, "heads for feed-forward networks", {"model": heads}, {}),
        ("base_no_padding_mask", 2, "padding is attended to", {"model": padding}, {}),
        ("A1_no_root", 2, "one head, scores are not divided by √d_k", root, {}),
        ("base_until_flat", 1, "until the perplexity is flat", flat, {}),
        ("C2_until_flat", 1, "a layer fewer, until the perplexity is flat", flat, {}),
        ("A1_until_flat", 1, "one head, until the perplexity is flat", flat, {}),
        ("C7_until_flat", 1, "twice d_ff, until the perplexity is flat", flat, {}),
        ("D1_until_flat", 1, "no dropout, until the perplexity is flat", flat, {}),
    ):
        for seed in range(1, 1 + seeds):
            run = rows[f"table_3_longer/{name.partition('_')[0]}-{seed}"]
            yield replace(
                run,
                name=f"ablations/{name}-{seed}",
                purpose=f"Table 3 changed: {purpose}",
                changes={**run.changes, "train": {**run.changes["train"], **train}},
                **changes,
            )


RUNS = (
    *_translation(),
    *_parsing(),
    *_search(),
    *_wider(),
    *_table_3("table_3", 2, 4, seeds=2),
    *_table_3_longer(),
    *_ablations(),
    *_warmup(),
)
"""All runs for the processor of a laptop, what matters most first."""

GPU_RUNS = tuple(_table_3("table_3_gpu", 1, 2, seeds=3))
"""What to make first where a GPU is at hand for half an hour, many at a time: each of
these models alone leaves most of a large GPU idle."""
