"""Switch heads of a trained translator off, and score what is left.

python -m results.heads_off            # every part
python -m results.heads_off alone      # some; each part names its commit
"""

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import sacrebleu
import torch
from torch import Tensor, nn

from results.interventions import (
    GREEDY,
    Pairs,
    attention_sublayers,
    german_bleu,
    pairs_of,
    without_heads,
)
from results.provenance import conditions, require_clean
from results.storage import read_json, write_json
from transformer_lite import Translator
from transformer_lite.config import SearchConfig
from transformer_lite_book.recordings import HEADS_OFF

MODEL, CORPUS = "tatoeba_en_de", "tatoeba"
SECOND_MODEL, SECOND_CORPUS = "multi30k_en_de", "multi30k"
SECOND_SPLIT = "test_2016_flickr"
PAIRS = 500
"""So many test pairs are scored, and so many validation pairs give a head's mean."""
FEWER = 200
"""So many pairs give a row's means, and so many score the second model."""
CHOICE = 250
"""So many validation pairs choose the best head of a row."""
COUNTS = (0, 16, 32, 48, 64)
"""So many heads are switched off together."""
ORDERS = 2
"""Random orders in which heads are switched off, for comparison."""
DRAWS = 400
"""Test sets that are drawn anew to say how far chance moves a difference."""

Head = tuple[int, int]
"""A head's row and its place in the row."""


def by_row(heads: Sequence[Head]) -> dict[int, list[int]]:
    """Return for each row those heads that are in it."""
    rows: dict[int, list[int]] = {}
    for row, head in heads:
        rows.setdefault(row, []).append(head)
    return rows


class SwitchableTranslator:
    """A trained translator whose heads can be switched off, row by row."""

    def __init__(self, name: str) -> None:
        self.translator = Translator.load(name, device="cpu")
        self.modules = list(attention_sublayers(self.translator.model).values())
        self.every = range(self.translator.model.config.num_heads)
        self.rows = range(len(self.modules))
        self.heads = [(row, head) for row in self.rows for head in self.every]

    def translate(
        self,
        sources: list[str],
        off: Mapping[int, Collection[int]],
        instead: Sequence[Tensor] | None = None,
    ) -> list[str]:
        """Translate without these heads of each row.

        Args:
            instead: What each head gives then, row by row; by default zeros.
        """
        with ExitStack() as stack:
            for row, heads in off.items():
                given = None if instead is None else instead[row]
                stack.enter_context(without_heads(self.modules[row], heads, given))
            return self.translator.translate(sources, GREEDY)

    def bleu(
        self, pairs: Pairs, off: Mapping[int, Collection[int]], *rest: Any
    ) -> float:
        """Return BLEU without these heads."""
        return german_bleu(self.translate(pairs[0], off, *rest), pairs[1])

    def others(self, head: int) -> list[int]:
        """Return every head of a row but one."""
        return [other for other in self.every if other != head]

    def least_harmful_first(self, bleu: Sequence[Sequence[float]]) -> list[Head]:
        """Return the heads in the order of BLEU without each, from the highest."""
        return sorted(self.heads, key=lambda at: -bleu[at[0]][at[1]])


def half_width(outputs: list[str], baseline: list[str], references: list[str]) -> float:
    """Return half of the interval in which 95 % of differences of BLEU lie.

    They are those on test sets that are drawn anew from these sentences.
    """
    metric = sacrebleu.BLEU(effective_order=True)  # for single sentences; counts only

    def counts(lines: list[str]) -> np.ndarray:
        found = [
            metric.sentence_score(line, [reference])
            for line, reference in zip(lines, references, strict=True)
        ]
        return np.array([[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in found])

    def score(sums: np.ndarray) -> float:
        correct, total = sums[:4].tolist(), sums[4:8].tolist()
        lengths = int(sums[8]), int(sums[9])
        return sacrebleu.BLEU.compute_bleu(correct, total, *lengths, "exp").score

    ours, theirs = counts(outputs), counts(baseline)
    random = np.random.default_rng(0)
    chosen = random.integers(0, len(ours), (DRAWS, len(ours)))
    found = [score(ours[draw].sum(0)) - score(theirs[draw].sum(0)) for draw in chosen]
    low, high = np.quantile(found, [0.025, 0.975])
    return round(float(high - low) / 2, 2)


def means_of(model: SwitchableTranslator, sources: list[str]) -> list[Tensor]:
    """Return what each head gives on average over the words of sentences."""
    modules = model.modules
    sums = [torch.zeros(module.w_o.in_features) for module in modules]
    counts = [0] * len(modules)
    hooks = []
    for i, module in enumerate(modules):

        def add(_: nn.Module, given: tuple[Tensor], i: int = i) -> None:
            sums[i] += given[0].flatten(0, -2).sum(0)
            counts[i] += given[0].flatten(0, -2).size(0)

        hooks.append(module.w_o.register_forward_pre_hook(add))
    one_by_one = SearchConfig(beam_size=1, batch_sentences=1)  # no padding
    model.translator.translate(sources, one_by_one)
    for hook in hooks:
        hook.remove()
    parts = zip(sums, counts, modules, strict=True)
    return [(s / n).view(m.num_heads, -1) for s, n, m in parts]


def single(model: SwitchableTranslator, _: Mapping[str, Any]) -> dict[str, Any]:
    """Score the model without each head, and without each row of heads."""
    test = pairs_of(CORPUS, "test", PAIRS)
    means = means_of(model, pairs_of(CORPUS, "valid", PAIRS)[0])
    found: dict[str, Any] = {"as_trained": model.bleu(test, {})}
    for name, instead in {"zeros": None, "mean": means}.items():
        found[name] = [
            [model.bleu(test, {row: [head]}, instead) for head in model.every]
            for row in model.rows
        ]
    found["rows"] = [model.bleu(test, {row: model.every}) for row in model.rows]
    return found


def rows_mean(model: SwitchableTranslator, _: Mapping[str, Any]) -> dict[str, Any]:
    """Score the model if all heads of a row give their means."""
    test = pairs_of(CORPUS, "test", PAIRS)
    means = means_of(model, pairs_of(CORPUS, "valid", FEWER)[0])
    scores = [model.bleu(test, {row: model.every}, means) for row in model.rows]
    return {"rows_mean": scores}


def alone(model: SwitchableTranslator, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Score the model with one head left in a row: the best on validation pairs.

    Half-widths say how far other test sentences would move these changes, and those of
    the single heads that change BLEU most, three down and one up.
    """
    valid = pairs_of(CORPUS, "valid", CHOICE)
    choice = [
        [model.bleu(valid, {row: model.others(head)}) for head in model.every]
        for row in model.rows
    ]
    best = [scores.index(max(scores)) for scores in choice]
    print(best, flush=True)

    sources, references = pairs_of(CORPUS, "test", PAIRS)
    trained = model.translate(sources, {})

    def scored(off: Mapping[int, Collection[int]]) -> tuple[float, float]:
        outputs = model.translate(sources, off)
        return german_bleu(outputs, references), half_width(
            outputs, trained, references
        )

    kept = [scored({row: model.others(head)}) for row, head in enumerate(best)]
    order = model.least_harmful_first(stored["zeros"])
    widths: dict[str, Any] = {"alone": [width for _, width in kept], "zeros": []}
    for row, head in [*reversed(order[-3:]), order[0]]:
        again, width = scored({row: [head]})
        if again != stored["zeros"][row][head]:
            raise ValueError(
                f"without head {head} of row {row}, BLEU is {again} and not "
                f"{stored['zeros'][row][head]}; measure `single` again first"
            )
        widths["zeros"].append({"row": row, "head": head, "half_width": width})
    scores = [score for score, _ in kept]
    found = {"alone_valid": choice, "best": best, "alone": scores}
    return found | {"half_widths": widths}


def together(model: SwitchableTranslator, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Switch more and more heads off, and score other test pairs.

    The heads go in the order of what each does alone, from the least harmful one; then
    in random orders.
    """
    pairs = pairs_of(CORPUS, "test", PAIRS, first=PAIRS)

    def scores(order: Sequence[Head]) -> list[float]:
        return [model.bleu(pairs, by_row(order[:count])) for count in COUNTS]

    orders = [
        np.random.default_rng(seed).permutation(len(model.heads))
        for seed in range(ORDERS)
    ]
    return {
        "counts": COUNTS,
        "together": scores(model.least_harmful_first(stored["zeros"])),
        "random_orders": [scores([model.heads[i] for i in order]) for order in orders],
    }


def same_sentences(
    model: SwitchableTranslator, stored: Mapping[str, Any]
) -> dict[str, Any]:
    """Switch the first heads of `together` off on the pairs that chose them."""
    off = by_row(model.least_harmful_first(stored["zeros"])[: COUNTS[1]])
    return {"same_sentences": model.bleu(pairs_of(CORPUS, "test", PAIRS), off)}


def second(_: SwitchableTranslator, __: Mapping[str, Any]) -> dict[str, Any]:
    """Take a second translator's last cross-attention away, and all but one head."""
    other, row = SwitchableTranslator(SECOND_MODEL), -1
    test = pairs_of(SECOND_CORPUS, SECOND_SPLIT, FEWER)
    found = {
        "model": SECOND_MODEL,
        "pairs": FEWER,
        "as_trained": other.bleu(test, {}),
        "row": other.bleu(test, {row: other.every}),
        "one_off": [other.bleu(test, {row: [head]}) for head in other.every],
        "alone": [other.bleu(test, {row: other.others(head)}) for head in other.every],
    }
    return {"second": found}


PARTS: dict[
    str, Callable[[SwitchableTranslator, Mapping[str, Any]], dict[str, Any]]
] = {
    part.__name__: part
    for part in (single, rows_mean, alone, together, same_sentences, second)
}


def main(chosen: Sequence[str]) -> None:
    """Measure parts, in their order, and keep the others as they are."""
    made = {"commit": require_clean(), **conditions()}
    model = SwitchableTranslator(MODEL)
    result: dict[str, Any] = {"model": MODEL, "pairs": PAIRS, "split": "test"}
    result |= {"made": {}}
    if HEADS_OFF.exists():
        result |= read_json(HEADS_OFF)
    for name in chosen or PARTS:
        measured = PARTS[name](model, result)
        print(name, measured, flush=True)
        result |= measured
        result["made"][name] = made
        write_json(HEADS_OFF, result)


if __name__ == "__main__":
    main(sys.argv[1:])
