"""Let a wide beam write no fewer tokens than a beam of 4, and draw outputs to judge.

The likeliest outputs are short, and get less BLEU. A search that may not end an output
before the beam of 4 has ended its own keeps the length and changes the rest. And for
forty captions it writes down what the beam of 4 and the search through all outputs
found, so that somebody can read them.

python -m results.as_long        # the searches
python -m results.as_long drawn  # the outputs to judge

A verdict is kept as long as the output stays; a new output has none. Somebody who does
not see which search wrote it writes it into the file: "right", "partly" or "wrong".
"lacks" and "false" say whether something of the caption is missing, and whether the
output says something else than the caption.
"""

import random
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from results.bleu import compare
from results.likeliest import (
    CORPUS,
    MODEL,
    SPLIT,
    Output,
    likeliest,
    memory_of,
    scores_of,
    searched,
)
from results.provenance import conditions, require_clean
from results.storage import read_json, write_json
from transformer_lite import Translator
from transformer_lite.batching import pad
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.model import DecoderState
from transformer_lite.search import beam_search
from transformer_lite.tokenizer import BOS, EOS
from transformer_lite_book.recordings import AS_LONG, likeliest_outputs

BEAMS = (16, 64)
AT_ONCE = 128
"""So many beams are extended together."""
JUDGED = 40
ROUNDED = 0.006
"""Log-probabilities that are stored with two decimals are as close as this if equal."""
DRAWN = ("drawn", "neither_empty_nor_found", "outputs")
"""What `draw` writes, and `main` keeps."""
VERDICT = ("verdict", "lacks", "false")


class AtLeast(NamedTuple):
    """A decoder's state, and how many tokens each output has at least, with EOS."""

    state: DecoderState
    least: Tensor

    def reorder(self, beams: Tensor) -> "AtLeast":
        """Return the state in which beam j of sentence i continues beam beams[i, j]."""
        return AtLeast(self.state.reorder(beams), self.least)

    def keep(self, sentences: Tensor) -> "AtLeast":
        """Return the state of these sentences alone, in this order."""
        return AtLeast(self.state.keep(sentences), self.least[sentences])


def searched_as_long(
    translator: Translator, sources: Sequence[str], beam_size: int, least: Sequence[int]
) -> list[Output]:
    """Return what a beam finds for each source among outputs that are long enough.

    Args:
        least: Tokens that each output has at least, with EOS.
    """
    model = translator.model

    def step(ids: Tensor, state: AtLeast) -> tuple[Tensor, AtLeast]:
        logits, following = model.decoder.step(ids, state.state)
        return logits, AtLeast(following, state.least)

    def allowed(state: AtLeast) -> Tensor:
        size = len(state.least), 1, model.decoder.embedding.weight.size(0)
        may_follow = torch.ones(size, dtype=torch.bool)
        may_follow[:, 0, EOS] = state.state.length >= state.least
        return may_follow

    ids = [[*translator.tokenizer.encode(source), EOS] for source in sources]
    by_length = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    found: dict[int, Output] = {}
    together = max(1, AT_ONCE // beam_size)
    for start in range(0, len(ids), together):
        rows = by_length[start : start + together]
        state = model.start(pad([ids[i] for i in rows]))
        begin = AtLeast(state, torch.tensor([least[i] for i in rows]))
        most = [len(ids[i]) - 1 + translator.search.max_extra for i in rows]
        limits = torch.tensor(most)
        outputs = beam_search(step, begin, limits, BOS, EOS, beam_size, allowed=allowed)
        for i, (best,) in zip(rows, outputs, strict=True):
            found[i] = Output(best.log_prob, best.ids)
    return [found[i] for i in range(len(ids))]


def neither_empty_nor_found(captions: dict[str, list[float]]) -> list[int]:
    """Return the captions whose likeliest output is neither empty nor a beam of 4's.

    Args:
        captions: The log-probabilities that results/likeliest.py has stored.
    """
    names = ("likeliest", "empty", "translation", "reference")
    of = enumerate(zip(*(captions[name] for name in names), strict=True))
    return [
        i
        for i, (best, empty, beam, human) in of
        if min(abs(best - empty), abs(best - beam)) > ROUNDED
        if best > max(empty, human) - ROUNDED  # else the search gave up
    ]


def to_judge(
    translator: Translator, sources: Sequence[str], drawn: Sequence[int]
) -> list[dict[str, Any]]:
    """Return the two outputs for each of the captions that were drawn."""
    stored, outputs = likeliest_outputs()["captions"]["likeliest"], []
    for i in drawn:
        (beam,) = searched(translator, [sources[i]], 4)
        best = known_likeliest(translator, sources[i], stored[i])
        if not best.ids or best.ids == beam.ids:
            sys.exit(f"caption {i + 1} should not have been drawn")
        for name, output in (("beam 4", beam), ("likeliest", best)):
            text = translator.tokenizer.decode(output.ids)
            tokens = len(output.ids) + 1
            row = {"caption": i + 1, "search": name, "tokens": tokens, "text": text}
            outputs.append(row)
    return outputs


def known_likeliest(translator: Translator, source: str, log_prob: float) -> Output:
    """Return the likeliest output, of which the rounded log-probability is stored.

    Whatever a beam finds is the likeliest if it is as likely as that.
    """
    for beam_size in BEAMS:
        (output,) = searched(translator, [source], beam_size)
        if output.log_prob > log_prob - ROUNDED:
            return output
    memory = memory_of(translator, source)
    best = likeliest(translator.model, memory, Output(log_prob - ROUNDED, []))
    if best is None:
        sys.exit(f"the search through all outputs gave up: {source}")
    return best


def with_verdicts(
    outputs: list[dict[str, Any]], before: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Give each output the verdict that it had, if it has not changed."""
    known = {(one["caption"], one["text"]): one for one in before}
    for output in outputs:
        same = known.get((output["caption"], output["text"]), {})
        output |= {key: same.get(key) for key in VERDICT}
    return outputs


@torch.inference_mode()
def draw() -> None:
    """Draw captions, and write their two outputs down."""
    result = read_json(AS_LONG) if AS_LONG.exists() else {}
    result["drawn"] = {"commit": require_clean(), **conditions()}
    translator = Translator.load(MODEL, device="cpu")
    sources, _ = PreparedCorpus(CORPUS).text(SPLIT)
    others = neither_empty_nor_found(likeliest_outputs()["captions"])
    result["neither_empty_nor_found"] = len(others)
    drawn = sorted(random.Random(0).sample(others, JUDGED))
    outputs = to_judge(translator, sources, drawn)
    result["outputs"] = with_verdicts(outputs, result.get("outputs", []))
    write_json(AS_LONG, result)


@torch.inference_mode()
def main() -> None:
    """Search with the length held, and write the scores down."""
    translator = Translator.load(MODEL, device="cpu")
    sources, references = PreparedCorpus(CORPUS).text(SPLIT)
    result: dict[str, Any] = {"model": MODEL, "split": SPLIT}
    result |= {"commit": require_clean(), **conditions()}
    found = {"beam 4": searched(translator, sources, 4)}
    least = [len(output.ids) + 1 for output in found["beam 4"]]
    for beam in BEAMS:
        name = f"beam {beam}, as long"
        found[name] = searched_as_long(translator, sources, beam, least)
        texts = {
            name: [translator.tokenizer.decode(output.ids) for output in of]
            for name, of in found.items()
        }
        compared = compare(texts, references, "de")
        result["ways"] = {
            name: {
                **scores_of(translator, of, references),
                "p_value": compared[name].p_value,
            }
            for name, of in found.items()
        }
        stored = read_json(AS_LONG) if AS_LONG.exists() else {}
        kept = {key: stored[key] for key in DRAWN if key in stored}
        write_json(AS_LONG, result | kept)


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"": main, "drawn": draw}[" ".join(sys.argv[1:])]()
