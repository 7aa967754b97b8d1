"""Let a wide beam write no fewer tokens than a beam of 4.

The likeliest outputs are short, and get less BLEU. A search that may not end an output
before the beam of 4 has ended its own keeps the length and changes the rest.

python -m results.as_long
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from results.bleu import compare
from results.likeliest import CORPUS, MODEL, SPLIT, Output, scores_of, searched
from results.provenance import conditions, require_clean
from results.storage import write_json
from transformer_lite import Translator
from transformer_lite.batching import pad
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.model import DecoderState
from transformer_lite.search import beam_search
from transformer_lite.tokenizer import BOS, EOS
from transformer_lite_book.recordings import AS_LONG

BEAMS = (16, 64)
AT_ONCE = 128
"""So many beams are extended together."""


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
        write_json(AS_LONG, result)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
