"""Find the output that a trained translator gives the highest probability.

Beam search keeps a few outputs and may miss it. Here every beginning is kept that is
still likelier than the best whole output found so far, so nothing likelier is missed.

python -m results.likeliest
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from results.provenance import conditions, require_clean
from results.storage import write_json
from transformer_lite import Translator
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference.scores import bleu_of
from transformer_lite.tokenizer import BOS, EOS
from transformer_lite_book.recordings import LIKELIEST

MODEL, SPLIT = "multi30k_en_de", "test_2016_flickr"
CORPUS = Path("data/results/multi30k_en_de")
BEAMS = (1, 4, 16, 64)
ALPHA = 0.6
"""Exponent of the length penalty of one more search, the paper's."""
MOST = 30_000
"""If more beginnings than this are open, the search gives up."""
AT_ONCE = 512
"""So many beginnings are extended together."""


class Output(NamedTuple):
    """A whole output, without BOS and EOS, and its log-probability with EOS."""

    log_prob: float
    ids: list[int]


def forced(model: Any, memory: Tensor, outputs: Tensor) -> Tensor:
    """Return the log-probabilities of what follows each position of `outputs`."""
    number, length = len(outputs), memory.size(1)
    mask = torch.ones(number, 1, 1, length, dtype=torch.bool)
    hidden = model.decoder.hidden(outputs, memory.expand(number, -1, -1), mask)
    return model.decoder.embedding.logits(hidden).log_softmax(-1)


def likeliest(model: Any, memory: Tensor, best: Output) -> Output | None:
    """Return the likeliest output of all, or None if the search gives up.

    Args:
        best: An output that is known; whatever is less likely is cut off.
    """
    begun, log_probs = torch.tensor([[BOS]]), torch.zeros(1)
    while len(begun):
        if len(begun) > MOST:
            return None
        longer, their_log_probs = [], []
        for start in range(0, len(begun), AT_ONCE):
            some = begun[start : start + AT_ONCE]
            following = forced(model, memory, some)[:, -1]
            following = following + log_probs[start : start + AT_ONCE, None]
            ended, row = following[:, EOS].max(dim=0)
            if ended > best.log_prob:
                best = Output(ended.item(), some[row, 1:].tolist())
            following[:, EOS] = -torch.inf
            rows, tokens = (following > best.log_prob).nonzero(as_tuple=True)
            longer.append(torch.cat([some[rows], tokens[:, None]], dim=1))
            their_log_probs.append(following[rows, tokens])
        begun, log_probs = torch.cat(longer), torch.cat(their_log_probs)
        is_open = log_probs > best.log_prob  # a later part may have found a better one
        begun, log_probs = begun[is_open], log_probs[is_open]
    return best


def scores_of(
    translator: Translator, outputs: Sequence[Output], references: Sequence[str]
) -> dict[str, Any]:
    """Score a search's outputs, and say how likely and how long they are."""
    texts = [translator.tokenizer.decode(output.ids) for output in outputs]
    scored = bleu_of("de").corpus_score(texts, [references])
    return {
        "bleu": round(scored.score, 2),
        "precisions": [round(precision, 1) for precision in scored.precisions],
        "length_ratio": round(scored.sys_len / scored.ref_len, 3),
        "log_prob": round(sum(output.log_prob for output in outputs) / len(outputs), 2),
        "empty": sum(not output.ids for output in outputs),
    }


def searched(
    translator: Translator, sources: Sequence[str], beam_size: int, alpha: float = 0.0
) -> list[Output]:
    """Return what a beam search finds for each source."""
    search = replace(translator.search, beam_size=beam_size, alpha=alpha)
    found = translator.hypotheses(sources, search)
    return [Output(hypothesis.log_prob, hypothesis.ids) for hypothesis in found]


def memory_of(translator: Translator, source: str) -> Tensor:
    """Return the encoder's output for a source, (1, its tokens, d_model)."""
    ids = torch.tensor([[*translator.tokenizer.encode(source), EOS]])
    return translator.model.encoder(ids, torch.ones_like(ids)[:, None, None] > 0)


@torch.inference_mode()
def main() -> None:
    """Search each caption with wider and wider beams, and then through everything."""
    translator = Translator.load(MODEL, device="cpu")
    model, encode = translator.model, translator.tokenizer.encode
    sources, references = PreparedCorpus(CORPUS).text(SPLIT)
    result: dict[str, Any] = {"model": MODEL, "split": SPLIT}
    result |= {"commit": require_clean(), **conditions(), "ways": {}}
    found = {}
    for beam_size, alpha in [*((beam, 0.0) for beam in BEAMS), (4, ALPHA)]:
        name = f"beam {beam_size}" + (f", α = {alpha}" if alpha else "")
        found[name] = searched(translator, sources, beam_size, alpha)
        result["ways"][name] = scores_of(translator, found[name], references)
        print(name, result["ways"][name], flush=True)

    exact, gave_up, captions = [], 0, []
    for i, source in enumerate(sources):
        memory = memory_of(translator, source)
        known = max((of[i] for of in found.values()), key=lambda one: one.log_prob)
        best = likeliest(model, memory, known)
        gave_up += best is None
        exact.append(best or known)
        target = encode(references[i])
        rows = forced(model, memory, torch.tensor([[BOS, *target]]))[0]
        after = rows.gather(1, torch.tensor([[*target, EOS]]).T)
        captions.append(
            {
                "tokens": len(target) + 1,
                "reference": round(after.sum().item(), 2),
                "empty": round(rows[0, EOS].item(), 2),
                "translation": round(found["beam 4"][i].log_prob, 2),
                "written": len(found["beam 4"][i].ids) + 1,
                "likeliest": round(exact[-1].log_prob, 2),
            }
        )
        if i % 50 == 0:
            print(i, gave_up, sum(not output.ids for output in exact), flush=True)
    result["ways"]["likeliest"] = scores_of(translator, exact, references)
    result["gave_up"] = gave_up
    result["is_likeliest"] = {
        name: sum(a.ids == b.ids for a, b in zip(outputs, exact, strict=True))
        for name, outputs in found.items()
    }
    result["captions"] = {
        key: [caption[key] for caption in captions] for key in captions[0]
    }
    write_json(LIKELIEST, result)


if __name__ == "__main__":
    main()
