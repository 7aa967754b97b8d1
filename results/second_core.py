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
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.multiprocessing import get_context
from torch.nn import functional as F

from results.provenance import conditions, require_clean
from results.storage import write_json
from transformer_lite.attention import MultiHeadAttention
from transformer_lite_book.recordings import SECOND_CORE

TURNS = 11
"""So many times, all layers of a size take turns; each time, the better of two runs."""
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


Setting = tuple[str, int, int, int, str]
"""Layer, width, words, sentences, and what two cores share."""


def work(pipe: Connection) -> None:
    """Be the second core: take the second half of each layer that `pipe` names."""
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {CORES[1]})
    while (jobs := pipe.recv()) is not None:
        halves = {}
        for setting, gradients in jobs:
            halves[setting] = shares(*setting)[2]
            halves[setting].keep_gradients(gradients)
        pipe.send("ready")
        while (setting := pipe.recv()) is not None:
            halves[setting].train()
            pipe.send("trained")


class Duel:
    """One core and two that do the same work, by turns.

    Args:
        pipe: To the process that is the second core.
        setting: What is timed.
    """

    def __init__(self, pipe: Connection, setting: Setting) -> None:
        self.pipe, self.setting = pipe, setting
        self.whole, *self.halves = shares(*setting)
        size = sum(weight.numel() for weight in self.whole.layer.parameters())
        self.own, self.others = torch.zeros(size), torch.zeros(size).share_memory_()
        self.whole.keep_gradients(self.own)  # its halves have the same layer
        self.times: dict[int, list[float]] = {1: [], 2: []}

    def require_equal_gradients(self) -> None:
        """Check that two cores find the gradients of one.

        Raises:
            AssertionError: They do not.
        """
        found = []
        for cores in self.times:
            self.own.zero_()
            self.train(cores)
            found.append(self.own.clone())
        tolerance = 1e-3 * found[0].std().item()
        torch.testing.assert_close(*found, rtol=1e-3, atol=tolerance)

    def train(self, cores: int) -> None:
        """Run forward and backward on so many cores."""
        if cores == 1 or not self.halves:
            torch.set_num_threads(cores)
            self.whole.train()
        else:
            torch.set_num_threads(1)
            self.pipe.send(self.setting)
            self.halves[0].train()
            self.pipe.recv()
            self.own.add_(self.others)

    def take_turn(self) -> None:
        """Time one core, and then two, in milliseconds."""
        # Two threads may move between the cores; a process stays where it is.
        os.sched_setaffinity(0, {CORES[0]} if self.halves else CORES)
        for cores, of_cores in self.times.items():
            best = float("inf")
            for _ in range(2):  # the second run finds its memory in the cache
                start = time.perf_counter()
                self.train(cores)
                best = min(best, time.perf_counter() - start)
            time.sleep(best)
            of_cores.append(round(1000 * best, 3))

    def result(self) -> dict[str, Any]:
        """Return what was timed, without the first turn."""
        layer, width, words, sentences, shared = self.setting
        size = {"width": width, "words": words, "sentences": sentences}
        times = {"one": self.times[1][1:], "two": self.times[2][1:]}
        return {"layer": layer, **size, "shared": shared, **times}


def duels(pipe: Connection, width: int, words: int, sentences: int) -> list[dict]:
    """Time all layers at one size by turns: a change of speed meets all alike."""
    settings = [
        (name, width, words, sentences, way)
        for name in LAYERS
        for way in ways(name, sentences)
    ]
    found = [Duel(pipe, setting) for setting in settings]
    pipe.send([(duel.setting, duel.others) for duel in found if duel.halves])
    pipe.recv()
    for duel in found:
        duel.require_equal_gradients()
    for _ in range(1 + TURNS):
        for duel in found:
            duel.take_turn()
    pipe.send(None)
    return [duel.result() for duel in found]


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
            for found in duels(pipe, width, words, sentences):
                result["times"].append(found)
                pairs = zip(found["one"], found["two"], strict=True)
                gain = median(one / two for one, two in pairs)
                print(width, words, sentences, found["layer"], found["shared"], end=" ")
                print(f"{median(found['one']):.1f} ms, gain {gain:.2f}")
    pipe.send(None)
    worker.join()
    write_json(SECOND_CORE, result)


if __name__ == "__main__":
    main()
