"""When each part of a step happens on two processes: computing, and sending.

    torchrun --nproc-per-node 2 -m transformer_lite_book.timeline FILE

takes a few steps of a small model with a link of a chosen speed between the processes,
and writes when each part began and ended. The sums are made by Gloo. A thread then
sleeps until a link of that speed would have sent them, which needs no processor.

Paper: §5.2
Chapter: why_eight_gpus_are_not_eight_times_faster
Tests: tests/book/test_timeline.py
"""

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from transformer_lite.batching import Batch
from transformer_lite.config import ModelConfig
from transformer_lite.loss import LossSums, fused_label_smoothed_loss
from transformer_lite.model import Transformer
from transformer_lite.training.distributed import Processes, join_processes
from transformer_lite.training.step import Objective

TIMED_MODEL = ModelConfig(
    vocab_size=6000, num_layers=3, d_model=128, d_ff=512, num_heads=4, dropout=0.0
)
"""As in the paper's base model, the matrix that is used three times has about a third
of all weights."""
TIMED_PAIRS, TIMED_LENGTH = 5, 40
"""Pairs of sentences of a process, and the tokens of each side of a pair."""
UNRECORDED_STEPS, RECORDED_STEPS = 3, 7
"""Steps. DistributedDataParallel orders its buckets anew after the first."""
MANY_BUCKETS, ONE_BUCKET = 0.7, 1000.0
"""Largest bucket in MiB: of many, and of one that holds all gradients."""
LINK_SECONDS = 0.6
"""Seconds that the link takes for all gradients, for each second of backward pass."""


class SlowLink:
    """Sums each bucket over two processes, as slowly as a link would."""

    def __init__(self, bytes_per_second: float) -> None:
        self.bytes_per_second = bytes_per_second
        self.wire = ThreadPoolExecutor(1)  # one bucket after the other
        self.sent: list[dict[str, float]] = []

    def hook(self, _: Any, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        """Begin to send a bucket, and return at once."""
        values, ready = bucket.buffer(), time.perf_counter()
        future = torch.futures.Future()

        def send() -> None:
            begin = time.perf_counter()
            dist.all_reduce(values)
            seconds = values.nbytes / self.bytes_per_second
            time.sleep(max(0.0, begin + seconds - time.perf_counter()))
            self.note(ready, begin, seconds, values.nbytes)
            future.set_result(values / dist.get_world_size())

        self.wire.submit(send)
        return future

    def note(self, ready: float, begin: float, seconds: float, size: int) -> None:
        """Write down when a bucket was ready and sent, and how long the link takes."""
        times = {"ready": ready, "begin": begin, "end": time.perf_counter()}
        self.sent.append(times | {"link_seconds": seconds, "bytes": size})


class UntiedObjective(Objective):
    """An objective whose source, target and output have a matrix each."""

    def __init__(self, model: Transformer) -> None:
        super().__init__(model, smoothing=0.1)
        model.encoder.embedding = deepcopy(model.encoder.embedding)
        self.output = nn.Parameter(model.decoder.embedding.weight.detach().clone())

    def loss(
        self,
        hidden: Tensor,
        labels: Tensor,
        real: Tensor,
        scale: Tensor | None = None,
    ) -> LossSums:
        """Return the sums for the decoder's output."""
        return fused_label_smoothed_loss(
            hidden, self.output, labels, self.smoothing, real, scale
        )


def tied_objective(model: Transformer) -> Objective:
    """Return the model as it is, with one matrix for source, target and output."""
    return Objective(model, smoothing=0.1)


def objective_without_source(model: Transformer) -> Objective:
    """Return the tied model whose source embedding gives the matrix no gradient."""
    embedding = model.encoder.embedding
    model.encoder.embedding = _Detached(embedding)
    return Objective(model, smoothing=0.1)


class _Detached(nn.Module):
    """Looks tokens up, and sends nothing back."""

    def __init__(self, embedding: nn.Module) -> None:
        super().__init__()
        self.look_up = [embedding]  # in a list: its matrix is the decoder's

    def forward(self, ids: Tensor) -> Tensor:
        """Return the tokens' vectors."""
        return self.look_up[0](ids).detach()


TIMED_VARIANTS: dict[str, tuple[Callable[[Transformer], Objective], float]] = {
    "one bucket": (tied_objective, ONE_BUCKET),
    "many buckets": (tied_objective, MANY_BUCKETS),
    "three matrices": (UntiedObjective, MANY_BUCKETS),
    "no source gradient": (objective_without_source, MANY_BUCKETS),
}


class TimedTraining:
    """A model in training whose steps are timed.

    Args:
        make: From a model to its objective.
        bucket: Largest bucket, in MiB.
    """

    def __init__(self, make: Callable[[Transformer], Objective], bucket: float) -> None:
        torch.manual_seed(1)
        self.link = SlowLink(float("inf"))
        objective = make(Transformer(TIMED_MODEL))
        self.wrapped = DistributedDataParallel(objective, bucket_cap_mb=bucket)
        self.wrapped.register_comm_hook(None, self.link.hook)
        shape = 2, TIMED_PAIRS, TIMED_LENGTH
        ids = torch.randint(5, TIMED_MODEL.vocab_size, shape)
        self.batch = Batch.from_ids(*ids.tolist())

    def step(self) -> dict[str, Any]:
        """Take a step; return when each part ended, in seconds since it began."""
        batch, sent = self.batch, self.link.sent
        sent.clear()
        dist.barrier()
        start = time.perf_counter()
        part = self.wrapped(batch.src_ids, batch.tgt_input, batch.labels, batch.real)
        forward = time.perf_counter()
        (part.loss / batch.tokens).backward()
        end = time.perf_counter()
        self.wrapped.zero_grad()
        relative = [
            {
                k: v - start if k in ("ready", "begin", "end") else v
                for k, v in one.items()
            }
            for one in sent
        ]
        return {
            "forward": forward - start,
            "computed": max(one["ready"] for one in relative),
            "end": end - start,
            "sent": relative,
        }


def late_bytes(step: dict[str, Any]) -> float:
    """Return the bytes whose sum begins when everything is computed.

    Of the bucket that the link is busy with at that moment, the part that is left
    counts a thousandth, which tells equal steps apart.
    """
    found = 0.0
    for one in step["sent"]:
        if one["begin"] >= step["computed"]:
            found += one["bytes"]
        elif one["end"] > step["computed"]:
            found += one["bytes"] * (one["end"] - step["computed"]) / 1e3
    return found


def matrix_ready(step: dict[str, Any]) -> float:
    """Return when the last bucket with a matrix of the vocabulary could be sent.

    As a share of the time until everything is computed.
    """
    largest = max(one["bytes"] for one in step["sent"])
    ready = [one["ready"] for one in step["sent"] if one["bytes"] > 0.9 * largest]
    return max(ready) / step["computed"]


def take_steps(processes: Processes) -> dict[str, Any]:
    """Time all variants with a link that fits this machine.

    The variants take turns, so that a busy moment of the machine hits all of them. The
    link's speed follows the machine's, and the bytes that a variant sends. Whatever
    else the machine does can only make the link late. So of each variant, the step is
    kept in which both processes have the fewest bytes to send when everything is
    computed. Of all recorded steps, it is noted when the matrix could be sent.
    """
    runs = {name: TimedTraining(*of) for name, of in TIMED_VARIANTS.items()}
    rounds = []
    for number in range(UNRECORDED_STEPS + RECORDED_STEPS):
        rounds.append({name: run.step() for name, run in runs.items()})
        if number + 1 >= UNRECORDED_STEPS:
            backward = [s["computed"] - s["forward"] for s in rounds[-1].values()]
            backward = processes.all_reduce(torch.tensor(backward).mean())
            seconds = LINK_SECONDS * float(backward) / processes.world_size
            for name, run in runs.items():
                size = sum(one["bytes"] for one in rounds[-1][name]["sent"])
                run.link.bytes_per_second = size / seconds
    kept, ready = {}, {}
    for name, run in runs.items():
        run.link.wire.shutdown()
        steps = [taken[name] for taken in rounds[UNRECORDED_STEPS:]]
        late = torch.tensor([late_bytes(step) for step in steps])
        kept[name] = steps[int(processes.all_reduce(late).argmin())]
        ready[name] = [matrix_ready(step) for step in steps]
    return {"steps": kept, "matrix_ready": ready}


def main(path: Path) -> None:
    """Time steps on the processes that torchrun started; rank 0 writes them."""
    with join_processes() as processes:
        found = take_steps(processes)
        if processes.rank == 0:
            path.write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
