"""Time layers with one processor core and with two.

Two cores can share a layer's work in three ways. `OPERATIONS`: each takes a part of
every large operation, as PyTorch does with two threads. `WORDS`: each takes half of the
words, in a process of its own; a layer with a chain cannot be shared like this.
`SENTENCES`: each takes half of the sentences, also in a process of its own.

No other program should run meanwhile. As root: chrt -f 1 python -m results.second_core
lets the others run only in the pauses.
"""

import os
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.multiprocessing import get_context
from torch.nn import functional as F

from results.provenance import conditions, require_clean
from results.storage import write_json
from transformer_lite.attention import MultiHeadAttention
from transformer_lite_book.recordings import SECOND_CORE

TURNS = 7
"""So many times, one core and two take turns; each time, the better of two runs."""
WIDTHS = (64, 128, 256, 512)
LONG, SHORT, MANY = (512, 1), (32, 1), (32, 64)
"""Words and sentences. The last two are timed only with the `LIKELY` widths."""
LIKELY = (128, 512)
CORES = sorted(os.sched_getaffinity(0))[:2]
OPERATIONS, WORDS, SENTENCES = "operations", "words", "sentences"


def gates(of_words: Tensor, of_before: Tensor, before: Tensor) -> Tensor:
    """Return what a GRU makes of its matrix products."""
    (r_x, z_x, new), (r_h, z_h, old) = of_words.chunk(3, -1), of_before.chunk(3, -1)
    keep, reset = torch.sigmoid(z_x + z_h), torch.sigmoid(r_x + r_h)
    return (1 - keep) * torch.tanh(new + reset * old) + keep * before


def with_chain(gru: nn.GRU, x: Tensor, before: Tensor) -> Tensor:
    """Run a GRU; only the first word of `before` is read, as the state before."""
    states, state = [], torch.zeros_like(before[:, 0])
    for of_word in F.linear(x, gru.weight_ih_l0, gru.bias_ih_l0).unbind(1):
        of_state = F.linear(state, gru.weight_hh_l0, gru.bias_hh_l0)
        state = gates(of_word, of_state, state)
        states.append(state)
    return torch.stack(states, dim=1)


def one_by_one(gru: nn.GRU, x: Tensor, before: Tensor) -> Tensor:
    """Run the same loop without its chain: it reads the word before, not the state."""
    of_words = F.linear(x, gru.weight_ih_l0, gru.bias_ih_l0)
    states = []
    for of_word, word in zip(of_words.unbind(1), before.unbind(1), strict=True):
        of_state = F.linear(word, gru.weight_hh_l0, gru.bias_hh_l0)
        states.append(gates(of_word, of_state, word))
    return torch.stack(states, dim=1)


def at_once(gru: nn.GRU, x: Tensor, before: Tensor) -> Tensor:
    """Return the same as `one_by_one`, without a loop."""
    of_words = F.linear(x, gru.weight_ih_l0, gru.bias_ih_l0)
    return gates(of_words, F.linear(before, gru.weight_hh_l0, gru.bias_hh_l0), before)


class Timed(NamedTuple):
    """A layer: how it is made, and how it reads words and the words before them."""

    make: Callable[[int], nn.Module]
    run: Callable[[Any, Tensor, Tensor], Tensor]


def attention(width: int) -> nn.Module:
    """Return attention with heads of 64, as in the paper."""
    return MultiHeadAttention(width, width // 64)


def gru(width: int) -> nn.Module:
    """Return a GRU that keeps the width."""
    return nn.GRU(width, width, batch_first=True)


def lstm(width: int) -> nn.Module:
    """Return an LSTM that keeps the width."""
    return nn.LSTM(width, width, batch_first=True)


LAYERS = {
    "attention": Timed(attention, lambda layer, x, before: layer(x, x)),
    "all at once": Timed(gru, at_once),
    "one by one": Timed(gru, one_by_one),
    "with chain": Timed(gru, with_chain),
    "GRU": Timed(gru, lambda layer, x, before: layer(x)[0]),
    "LSTM": Timed(lstm, lambda layer, x, before: layer(x)[0]),
}


class Share(NamedTuple):
    """A layer with the words of a core, and the words before them."""

    run: Callable[[Any, Tensor, Tensor], Tensor]
    layer: nn.Module
    x: Tensor
    before: Tensor

    def train(self) -> None:
        """Run forward and backward, and add to the gradients."""
        self.run(self.layer, self.x, self.before).sum().backward()

    def keep_gradients(self, row: Tensor) -> None:
        """From now on, hold the gradients of all weights in `row`."""
        weights = list(self.layer.parameters())
        pieces = row.split([weight.numel() for weight in weights])
        for weight, piece in zip(weights, pieces, strict=True):
            weight.grad = piece.view_as(weight)


def shares(name: str, width: int, words: int, sentences: int, way: str) -> list[Share]:
    """Return the whole, and then the half of each core."""
    torch.manual_seed(0)
    timed = LAYERS[name]
    layer = timed.make(width)
    x = torch.randn(sentences, words, width)
    before = F.pad(x, (0, 0, 1, -1))
    parts = [(x, before)]
    if way != OPERATIONS:
        dim = 1 if way == WORDS else 0
        parts += zip(x.chunk(2, dim), before.chunk(2, dim), strict=True)
    found = []
    for both in parts:
        # In a model, a layer's inputs need gradients, and those of the words before
        # take the place of the states' gradients in a chain.
        leaves = [part.clone().requires_grad_() for part in both]
        found.append(Share(timed.run, layer, *leaves))
    return found


def ways(name: str, sentences: int) -> list[str]:
    """Return how two cores can share the work of a layer."""
    if sentences > 1:
        return [SENTENCES] if name in ("attention", "GRU", "LSTM") else []
    # With a chain, the second half of the words waits for the first.
    return [OPERATIONS, WORDS] if name == "one by one" else [OPERATIONS]


def work(pipe: Connection) -> None:
    """Be the second core: take the second half of each layer that `pipe` names."""
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {CORES[1]})
    while (job := pipe.recv()) is not None:
        setting, gradients = job
        half = shares(*setting)[2]
        half.keep_gradients(gradients)
        pipe.send("ready")
        while pipe.recv() == "train":
            half.train()
            pipe.send("trained")


def duel(pipe: Connection, setting: tuple[str, int, int, int, str]) -> dict[str, Any]:
    """Let one core and two take turns; return their times in milliseconds."""
    whole, *halves = shares(*setting)
    size = sum(weight.numel() for weight in whole.layer.parameters())
    own, others = torch.zeros(size), torch.zeros(size).share_memory_()
    whole.keep_gradients(own)  # its halves have the same layer
    # Two threads may move between the cores; a process stays where it is.
    os.sched_setaffinity(0, {CORES[0]} if halves else CORES)
    if halves:
        pipe.send((setting, others))
        pipe.recv()

    def train(cores: int) -> None:
        if cores == 1 or not halves:
            torch.set_num_threads(cores)
            whole.train()
        else:
            torch.set_num_threads(1)
            pipe.send("train")
            halves[0].train()
            pipe.recv()
            own.add_(others)

    found = []
    for cores in (1, 2):
        own.zero_()
        train(cores)
        found.append(own.clone())
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-3 * found[0].std().item())

    times: dict[int, list[float]] = {1: [], 2: []}
    for turn in range(1 + TURNS):
        for cores, of_cores in times.items():
            best = float("inf")
            for _ in range(2):  # the second run finds its memory in the cache
                start = time.perf_counter()
                train(cores)
                best = min(best, time.perf_counter() - start)
            time.sleep(best)
            if turn:
                of_cores.append(round(1000 * best, 3))
    if halves:
        pipe.send("next")
    width, words, sentences = setting[1:4]
    size_of = {"width": width, "words": words, "sentences": sentences}
    of_cores = {"one": times[1], "two": times[2]}
    return {"layer": setting[0], **size_of, "shared": setting[4], **of_cores}


def main() -> None:
    """Time all layers, and write their times."""
    torch.set_num_threads(2)
    result: dict[str, Any] = {"commit": require_clean(), **conditions()}
    context = get_context("spawn")
    pipe, end = context.Pipe()
    worker = context.Process(target=work, args=(end,), daemon=True)
    worker.start()
    result["times"] = []
    for width in WIDTHS:
        sizes = (LONG, SHORT, MANY) if width in LIKELY else (LONG,)
        for words, sentences in sizes:
            for name in LAYERS:
                for way in ways(name, sentences):
                    found = duel(pipe, (name, width, words, sentences, way))
                    result["times"].append(found)
                    pairs = zip(found["one"], found["two"], strict=True)
                    gains = sorted(one / two for one, two in pairs)
                    print(width, words, sentences, name, way, min(found["one"]))
                    print(f"  {gains[0]:.2f} {gains[TURNS // 2]:.2f} {gains[-1]:.2f}")
    pipe.send(None)
    worker.join()
    write_json(SECOND_CORE, result)


if __name__ == "__main__":
    main()
