"""Parse with trained models that may write nothing but trees: for chapter 6.3.

    python -m results.constrained [OUT.json [ROOT]]

At each step, greedy search takes the likeliest of those tokens after which a tree is
still possible, with at most five brackets opened in a row. As a control, the words of
each sentence are replaced by random ones, as many. Parsers of section 6.3 that write
tags and are trained in ROOT, this repository unless told otherwise, parse with the
weights of their results. What the file has of other runs stays. It comes with the
package: transformer_lite/book/constrained.json. The trees, which hold no words, are
kept in results/constrained/; of the Penn sample's parser and CRAFT's first one there
are scores only.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import torch

from results.conditions import ROOT, checksums, conditions, require_clean
from results.files import read_json, write_json, write_lines
from results.models import MODELS
from results.runs import RUNS, Run
from transformer_lite.batching import pad
from transformer_lite.config import Recipe, recipe_from_dict
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.data.trees import TREES
from transformer_lite.inference.brackets import score_brackets
from transformer_lite.inference.translator import batches_by_length
from transformer_lite.model import Transformer
from transformer_lite.run_folder import RunFolder
from transformer_lite.tokenizer import BOS, EOS, Tokenizer
from transformer_lite.weights import load_weights

RECORDING = ROOT / "transformer_lite" / "book" / "constrained.json"
IN_A_ROW = 5
"""Most brackets that may open one after the other; without a limit nothing need end."""
BATCH = 64


@dataclass
class Beginning:
    """The beginning of a tree, and what may follow."""

    words_left: int
    tokens: list[str] = field(default_factory=list)
    stack: list[list] = field(default_factory=list)
    """Labels of the brackets that are open, each with its number of children."""
    opened: int = 0
    """Brackets that were opened one after the other at the end."""

    def may_follow(self, known: Iterable[str]) -> list[str]:
        """Return the tokens after which a tree is still possible; none if complete."""
        if not self.stack and self.tokens:
            return []
        return [token for token in known if self._allows(token)]

    def _allows(self, token: str) -> bool:
        if token[0] == "(":
            return self.words_left > 0 and self.opened < IN_A_ROW
        if not self.stack:
            return False
        if token[0] != ")":
            return self.words_left > 0
        label, children = self.stack[-1]
        is_last = len(self.stack) == 1
        return token[1:] == label and children > 0 and not (is_last and self.words_left)

    def add(self, token: str) -> None:
        """Add a token."""
        self.tokens.append(token)
        self.opened = self.opened + 1 if token[0] == "(" else 0
        if token[0] == "(":
            self.stack.append([token[1:], 0])
            return
        if token[0] == ")":
            self.stack.pop()
        else:
            self.words_left -= 1
        if self.stack:
            self.stack[-1][1] += 1


@torch.inference_mode()
def parse(
    model: Transformer,
    tokenizer: Tokenizer,
    sentences: Sequence[str],
    known: Sequence[str],
) -> list[str]:
    """Return the tree of each sentence, linearized.

    Args:
        model: Trained on a treebank.
        tokenizer: Its own.
        sentences: Their words, with spaces between them.
        known: Brackets and tags, each a token of the tokenizer.
    """
    ids = {}
    for token in known:
        (ids[token],) = tokenizer.encode(token)
    texts = {id_: token for token, id_ in ids.items()}
    sources = [[*tokenizer.encode(sentence), EOS] for sentence in sentences]
    outputs = [""] * len(sentences)
    for rows in batches_by_length([*map(len, sources)], BATCH):
        trees = [Beginning(len(sentences[row].split(" "))) for row in rows]
        state = model.start(pad([sources[row] for row in rows]))
        last = torch.full((len(rows), 1), BOS)
        while any(allowed := [tree.may_follow(known) for tree in trees]):
            logits, state = model.decoder.step(last, state)
            mask = torch.full_like(logits[:, 0], float("-inf"))
            for row, tokens in enumerate(allowed):
                mask[row, [ids[token] for token in tokens] or [EOS]] = 0
            last = (logits[:, 0] + mask).argmax(-1)[:, None]
            for tree, tokens, id_ in zip(
                trees, allowed, last[:, 0].tolist(), strict=True
            ):
                if tokens:
                    tree.add(texts[id_])
        for row, tree in zip(rows, trees, strict=True):
            outputs[row] = " ".join(tree.tokens)
    return outputs


def scores_of(run: Run, root: Path) -> dict[str, Any]:
    """Score one run's test split, and keep its trees.

    Raises:
        ValueError: The weights, or the text, are not those of the stored result.
    """
    corpus = PreparedCorpus(root / run.data)
    folder = RunFolder(root / run.folder)
    require_same(run, folder.recipe(), checksums(corpus))
    model = MODELS[run.model](folder.recipe().model)
    load_weights(model, folder.average)
    known = sorted({t for tree in corpus.text("train")[1] for t in tree.split(" ")})
    sentences, references = corpus.text("test")
    generator = Random(0)
    words = [word for sentence in sentences for word in sentence.split(" ")]
    drawn = [" ".join(generator.choices(words, k=len(s.split(" ")))) for s in sentences]
    found = {}
    for name, read in (("test", sentences), ("random_words", drawn)):
        trees = parse(model.eval(), corpus.tokenizer, read, known)
        write_lines(outputs(run, name), trees)
        found[name] = score_brackets(sentences, references, trees)
    scores = asdict(found["test"])
    scores["f1_of_random_words"] = found["random_words"].f1_all
    return {n: round(v, 4) if isinstance(v, float) else v for n, v in scores.items()}


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


def outputs(run: Run, words: str) -> Path:
    """Return the file of a run's trees over the test set's words, or random ones."""
    return Path("results/constrained") / f"{run.result.stem}.{words}.txt.gz"


def parsers() -> list[Run]:
    """Return the runs that have a result and write trees with tags."""
    return [
        run
        for run in RUNS
        if run.result.exists()
        and read_json(run.result)["corpus"]["languages"][1] == TREES
    ]


def main(out: Path = RECORDING, root: Path = Path()) -> None:
    """Parse with every run that is trained, and add its scores to the file.

    Raises:
        SystemExit: None is trained in `root`.
    """
    made_by = {"commit": require_clean(), **conditions()}
    runs = [run for run in parsers() if RunFolder(root / run.folder).average.exists()]
    if not runs:
        sys.exit(
            f"{root / 'runs/results/parsing'}: no trained weights are here; name "
            "another folder as ROOT, or delete results/parsing/NAME-SEED.json and make "
            "it again: python -m results.make --only parsing/NAME-SEED"
        )
    for run in runs:
        scores = scores_of(run, root)
        recorded = read_json(out) if out.exists() else {}
        recorded[run.name] = {**made_by, "scores": scores}
        write_json(out, recorded)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
