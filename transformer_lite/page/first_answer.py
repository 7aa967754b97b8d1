"""What a page shows before its model is loaded: the worker's answer to the example.

The messages are those of worker.js, for settings that nobody has changed.

Paper: §6.1
Chapter: 06_1_machine_translation
Tests: tests/package/page/test_first_answer.py
"""

from collections.abc import Iterator
from typing import Any

import torch

from transformer_lite.inference.translator import Translator
from transformer_lite.search import length_penalty, top_extensions
from transformer_lite.tokenizer import BOS, EOS

CANDIDATES = 5
"""The likeliest tokens that are kept for each place, as in worker.js."""

Message = dict[str, Any]


@torch.inference_mode()
def first_answer(translator: Translator, text: str) -> list[Message]:
    """Return the messages of worker.js about a text, the last of which is the result.

    An empty text has none. Words that the vocabulary lacks do not belong into it.
    """
    if not text:
        return []
    tokenizer, config = translator.tokenizer, translator.model.config
    ids = tokenizer.encode(text)
    read = zip(ids, tokenizer.pieces(ids), strict=True)
    pieces = [{"id": number, "text": piece} for number, piece in read]
    longest = config.max_len - translator.search.max_extra - 1
    about = {"unknown": [], "longest": longest, "tooLong": False, "done": False}
    (best,) = translator.hypotheses([text])
    steps = [{"step": step} for step in _steps(translator, ids)]
    result = {"output": tokenizer.decode(best.ids), "score": best.score, "done": True}
    explained = _explained(translator, [*ids, EOS], best.ids)
    return [{"pieces": pieces, **about}, *steps, result | explained]


def _steps(translator: Translator, ids: list[int]) -> Iterator[Message]:
    """Yield what beam search keeps at each step, for one sentence."""
    model, search = translator.model, translator.search
    size, alpha = search.beam_size, search.alpha
    most = len(ids) + search.max_extra
    state = model.start(torch.tensor([[*ids, EOS]]))
    tokens, log_probs = torch.tensor([[BOS]]), torch.zeros(1, 1)
    highest, finished = -torch.inf, 0
    for length in range(1, most + 1):
        logits, state = model.decoder.step(tokens, state)
        following = logits.log_softmax(dim=-1)
        found = top_extensions(log_probs, following, 2 * size)
        top = list(zip(*(part[0].tolist() for part in found), strict=True))
        divisor = length_penalty(length, alpha)
        ended = [one for one in top[:size] if one[2] == EOS]
        going_on = [one for one in top if one[2] != EOS][:size]
        highest = max([highest, *(log_prob / divisor for log_prob, _, _ in ended)])
        finished += len(ended)
        yield {
            name: [
                _token(translator, token)
                | {"score": log_prob / divisor, "parent": parent}
                for log_prob, parent, token in outputs
            ]
            for name, outputs in (("ended", ended), ("goingOn", going_on))
        }
        at_best = going_on[0][0] / length_penalty(most, alpha)
        if finished >= size or at_best <= highest:
            return
        kept, parents, last = (torch.tensor([part]) for part in zip(*going_on))  # noqa: B905
        log_probs, tokens, state = kept, last, state.reorder(parents)


def _explained(
    translator: Translator, src_ids: list[int], written: list[int]
) -> Message:
    """Return the weights in percent, and the likeliest tokens at each place."""
    src, tgt = torch.tensor([src_ids]), torch.tensor([[BOS, *written]])
    weights = translator.model.attention_weights(src, tgt)
    chances = translator.model(src, tgt)[0].softmax(dim=-1).tolist()

    def named(token: int, of_place: list[float]) -> Message:
        return _token(translator, token) | {"probability": of_place[token]}

    steps = []
    for token, of_place in zip([*written, EOS], chances, strict=True):
        likeliest = sorted(range(len(of_place)), key=lambda n: -of_place[n])
        candidates = [named(other, of_place) for other in likeliest[:CANDIDATES]]
        steps.append(named(token, of_place) | {"candidates": candidates})
    percent = {
        kind: (100 * of_kind[0]).round().int().flatten(2).tolist()
        for kind, of_kind in weights._asdict().items()
    }
    return {"steps": steps, "weights": percent}


def _token(translator: Translator, token: int) -> Message:
    return {"id": token, "piece": translator.tokenizer.pieces([token])[0]}
