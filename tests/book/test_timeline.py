"""A timeline has the order of a real step: ready, sent, waited for."""

import json

import torch

from transformer_lite.model import Transformer
from transformer_lite_book.timeline import (
    TIMED_MODEL,
    UntiedObjective,
    objective_without_source,
    tied_objective,
)
from transformer_lite_course.processes import two_processes

PROGRAM = """
from contextlib import contextmanager
from pathlib import Path
from transformer_lite_book import timeline

join_processes = timeline.join_processes
before = set(Path("/proc/self/task").iterdir())  # of programs that ran before, too

@contextmanager
def joined():
    with join_processes() as processes:
        yield processes
    new = set(Path("/proc/self/task").iterdir()) - before
    threads = [(thread / "comm").read_text() for thread in new]
    assert not [name for name in threads if "gloo" in name], threads

timeline.join_processes = joined
timeline.RECORDED_STEPS = 1
timeline.main(Path({path!r}))
"""


def test_buckets_are_sent_one_after_the_other_and_the_matrix_is_last(tmp_path):
    # The program also fails if a thread of Gloo outlives its group, and with it a
    # DistributedDataParallel: together they can wait for each other for ever.
    path = tmp_path / "timeline.json"
    (tmp_path / "program.py").write_text(PROGRAM.format(path=str(path)))
    two_processes().run(tmp_path / "program.py")
    recorded = json.loads(path.read_text())
    steps = recorded["steps"]
    table = 4 * TIMED_MODEL.vocab_size * TIMED_MODEL.d_model
    for name, step in steps.items():
        assert 0 < step["forward"] < step["computed"] < step["end"]
        places = [one[k] for one in step["sent"] for k in ("begin", "end")]
        assert places == sorted(places)
        assert all(one["ready"] <= one["begin"] for one in step["sent"])
        largest = max(step["sent"], key=lambda one: one["bytes"])
        assert largest["bytes"] >= table
        is_last = largest is step["sent"][-1] or largest["ready"] == step["computed"]
        assert is_last == (name in ("one bucket", "many buckets")) or "three" in name
    for name, ready in recorded["matrix_ready"].items():
        assert len(ready) == 1
        assert ready[0] < 1 if name == "no source gradient" else ready[0] == 1
    assert len(steps["one bucket"]["sent"]) == 1
    assert len(steps["many buckets"]["sent"]) > 4


def test_variants_compute_the_same_loss_and_differ_in_what_is_tied():
    ids = torch.randint(5, TIMED_MODEL.vocab_size, (2, 7))
    inputs = ids, ids, ids, torch.arange(14)
    losses, numbers, sizes = [], [], []
    for make in (tied_objective, UntiedObjective, objective_without_source):
        torch.manual_seed(1)
        objective = make(Transformer(TIMED_MODEL))
        loss = objective(*inputs).loss
        loss.backward()
        losses.append(loss.item())
        numbers.append(sum(p.numel() for p in objective.parameters()))
        gradient = objective.model.decoder.embedding.weight.grad
        sizes.append(float(gradient.norm()))
    assert losses[0] == losses[1] == losses[2]
    table = TIMED_MODEL.vocab_size * TIMED_MODEL.d_model
    assert numbers == [numbers[0], numbers[0] + 2 * table, numbers[0]]
    assert sizes[0] != sizes[2]
