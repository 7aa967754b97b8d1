"""Parse with trained models that may write nothing but trees: for chapter 6.3.

    python -m results.constrained [OUT.json [ROOT]]

At each step the search takes from those tokens alone after which a tree is still
possible (`transformer_lite.parsing.parser`): greedily, and with a beam of 4. Where a
parser writes words, the next one has the probability of all words together. In a row at
most as many brackets open as in a training tree. As a control, the words of each
sentence are replaced by random ones, as many; as another, the model's probabilities of
words are left as they are. The unconstrained outputs are scored again with another
label on a closing bracket forgiven. Parsers of section 6.3 that are trained in ROOT,
this repository unless told otherwise, parse with the weights of their results. A run
that the file has is not made again; its first runs were searched greedily alone, with
five brackets in a row. It comes with the package:
transformer_lite_book/constrained.json. The trees are kept in results/constrained/, with
XX for each word where a parser writes words; of the Penn sample's parser and CRAFT's
first one there are scores only.
"""

import sys
from collections.abc import Iterable
from dataclasses import asdict, replace
from itertools import repeat
from pathlib import Path
from random import Random
from typing import Any

import tyro
from tyro.conf import Positional

from results.conditions import ROOT, checksums, conditions, require_clean
from results.files import read_json, read_lines, write_json, write_lines
from results.models import MODELS
from results.runs import RUNS, Run
from transformer_lite.config import Recipe, recipe_from_dict
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference.translator import Translator
from transformer_lite.parsing.brackets import score_brackets
from transformer_lite.parsing.parser import Parser, with_leaves
from transformer_lite.parsing.trees import TREES, TREES_WITH_WORDS
from transformer_lite.runs.folder import RunFolder
from transformer_lite.runs.weights import load_weights

RECORDING = ROOT / "transformer_lite_book" / "constrained.json"
OUTPUTS = {
    "test": (1, 0.0),
    "rules_alone": (1, 0.0),
    "beam_4": (4, 0.6),
    "random_words": (1, 0.0),
}
"""What is kept, and the beam size and α of its search."""


def brackets_in_a_row(trees: Iterable[str]) -> int:
    """Return how many brackets open in these trees without a word between them."""
    most = 0
    for tree in trees:
        opened = 0
        for token in tree.split(" "):
            opened = opened + 1 if token[0] == "(" else 0
            most = max(most, opened)
    return most


def record_of(run: Run, root: Path) -> dict[str, Any]:
    """Parse the test split with one run, keep the trees, and return their scores.

    Raises:
        ValueError: The weights, or the text, are not those of the stored result.
    """
    corpus = PreparedCorpus(root / run.data)
    folder = RunFolder(root / run.folder)
    recipe = folder.recipe()
    require_same(run, recipe, checksums(corpus))
    model = MODELS[run.model](recipe.model)
    load_weights(model, folder.average)
    translator = Translator(model.eval(), corpus.tokenizer, recipe.search)
    with_words = corpus.languages[1] == TREES_WITH_WORDS
    in_a_row = brackets_in_a_row(corpus.text("train")[1])
    sentences, references = corpus.text("test")
    found = {}
    for name, (beam_size, alpha) in OUTPUTS.items():
        if name == "rules_alone" and not with_words:
            continue  # the model's probabilities of tags are always as they are
        parser = Parser(translator, with_words, in_a_row)
        parser.model.pools_words = with_words and name != "rules_alone"
        read = random_words(sentences) if name == "random_words" else sentences
        search = replace(recipe.search, beam_size=beam_size, alpha=alpha)
        trees = parser.translate(read, search)
        if with_words:
            trees = [" ".join(with_leaves(tree, repeat("XX"))) for tree in trees]
        write_lines(outputs(run, name), trees)
        found[name] = score_brackets(sentences, references, trees)
    scores = asdict(found["test"])
    for name in [*found][1:]:  # without "test"
        scores[f"f1_of_{name}"] = found[name].f1_all
    free = map(with_matching_labels, read_lines(run.outputs("test")))
    forgiven = score_brackets(sentences, references, [*free], with_words)
    scores["f1_of_matching_labels"] = forgiven.f1_all
    return {
        "brackets_in_a_row": in_a_row,
        "scores": {
            n: round(v, 4) if isinstance(v, float) else v for n, v in scores.items()
        },
    }


def with_matching_labels(tree: str) -> str:
    """Give each closing bracket the label of the bracket that it closes."""
    tokens, stack = [], []
    for token in tree.split(" "):
        if token[:1] == "(":
            stack.append(token[1:])
        elif token[:1] == ")" and stack:
            token = f"){stack.pop()}"
        tokens.append(token)
    return " ".join(tokens)


def random_words(sentences: Iterable[str]) -> list[str]:
    """Replace all words by others of these sentences, drawn at random."""
    split = [sentence.split(" ") for sentence in sentences]
    words, generator = [word for one in split for word in one], Random(0)
    return [" ".join(generator.choices(words, k=len(one))) for one in split]


def require_same(run: Run, recipe: Recipe, text: dict[str, str]) -> None:
    """Check that model, training and text are those of a run's stored result.

    Raises:
        ValueError: They are not.
    """
    result = read_json(run.result)
    stored = recipe_from_dict(result["configuration"])
    if (recipe.model, recipe.train) != (stored.model, stored.train) or (
        not result["corpus"]["sha256"].items() <= text.items()
    ):
        raise ValueError(
            f"{run.folder}: has another model, training or text than {run.result}; "
            "name the folder in which that was trained as ROOT"
        )


def outputs(run: Run, name: str) -> Path:
    """Return the file of a run's trees; `name` is one of `OUTPUTS`."""
    return Path("results/constrained") / f"{run.result.stem}.{name}.txt.gz"


def parsers() -> list[Run]:
    """Return the runs that have a result and write trees."""
    return [
        run
        for run in RUNS
        if run.result.exists()
        and read_json(run.result)["corpus"]["languages"][1] in (TREES, TREES_WITH_WORDS)
    ]


def main(out: Positional[Path] = RECORDING, root: Positional[Path] = Path(), /) -> None:
    """Parse with every run that is trained, and add its scores to the file.

    Raises:
        SystemExit: None is trained in `root`.
    """
    made_by = {"commit": require_clean(), **conditions()}
    recorded = read_json(out) if out.exists() else {}
    runs = [run for run in parsers() if RunFolder(root / run.folder).average.exists()]
    if not runs:
        sys.exit(
            f"{root / 'runs/results/parsing'}: no trained weights are here; name "
            "another folder as ROOT, or delete results/parsing/NAME-SEED.json and make "
            "it again: python -m results.make --only parsing/NAME-SEED"
        )
    for run in runs:
        if run.name not in recorded:
            recorded[run.name] = {**made_by, **record_of(run, root)}
            write_json(out, recorded)


if __name__ == "__main__":
    tyro.cli(main)
