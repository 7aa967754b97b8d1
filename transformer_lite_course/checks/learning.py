"""Checks of loss, schedule and batching (Section 5).

Paper: §5
Chapter: 05_3_optimizer
Tests: tests/course/test_checks.py
"""

from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lite.tokenizer import BOS, EOS, PAD
from transformer_lite_course import reference
from transformer_lite_course.comparing import (
    Fault,
    Mistakes,
    random,
    require,
    require_equal,
    unchanged,
)

# Section 5.4


def check_loss(part: ModuleType) -> None:
    """Smoothed, summed, and blind to padding."""
    logits = 3 * random(2, 4, 7)
    labels = torch.tensor([[5, 1, 2, 0], [2, 0, 4, 0]])
    for smoothing, pad_id in ((0.0, 0), (0.1, 0), (0.1, 2)):
        real = labels != pad_id
        log_probs = logits.log_softmax(-1)
        with unchanged(logits=logits):
            found = part.label_smoothed_loss(logits, labels, smoothing, pad_id)
        is_pair = isinstance(found, tuple) and len(found) == 2
        require(is_pair, "Return two things: the sum of the losses, and the tokens.")
        loss, tokens = found
        nll = -log_probs.gather(-1, labels[..., None])[..., 0]
        size = logits.size(-1)

        def smoothed(right: float, other: float, lp: Tensor = log_probs) -> Tensor:
            own = -lp.gather(-1, labels[..., None])[..., 0]
            return (right - other) * own - other * lp.sum(-1)

        share = smoothing / (size - 1)
        each = smoothed(1 - smoothing, share)
        twice = logits.softmax(-1).log_softmax(-1)
        by_torch = smoothed(1 - smoothing + smoothing / size, smoothing / size)
        without_pad = smoothed(1 - smoothing, smoothing / (size - 2))
        without_pad = without_pad + smoothing / (size - 2) * log_probs[..., pad_id]
        wrong: dict[str, Tensor] = {
            "Padding counts in the loss; leave out every label that is pad_id.": each.sum(),
            "The loss is a mean; return the sum, and divide where all batches of a step are known.": (
                each * real
            ).sum()
            / real.sum(),
            "The loss is a mean over all positions, padding too; return the sum over the real labels.": each.mean(),
            "The loss has the wrong sign.": -(each * real).sum(),
            "The softmax is taken twice; cross_entropy and log_softmax take logits.": (
                smoothed(1 - smoothing, share, twice) * real
            ).sum(),
            "Padding is id 0 for your loss whatever pad_id is.": (
                each * (labels != 0)
            ).sum(),
        }
        if smoothing:
            wrong |= {
                "The labels are not smoothed.": (nll * real).sum(),
                "The smoothed part also counts padding; mask both parts of the loss.": (
                    (1 - smoothing - share) * (nll * real).sum()
                    - share * log_probs.sum()
                ),
                "ε is spread over all tokens, the right one too, as PyTorch does; the V - 1 wrong ones share it.": (
                    by_torch * real
                ).sum(),
                "ε is spread over V - 2 tokens, without padding; the V - 1 wrong ones share it.": (
                    without_pad * real
                ).sum(),
            }
        require_equal("The loss", torch.as_tensor(loss), (each * real).sum(), wrong)
        require(
            int(tokens) == int(real.sum()),
            f"The number of tokens is {int(tokens)}; {int(real.sum())} labels are real.",
        )
    large = torch.tensor([[[1e4, 0.0, -1e4, 0, 0, 0, 0]]])
    loss, _ = part.label_smoothed_loss(large, torch.tensor([[1]]), 0.1, 0)
    require(
        bool(torch.as_tensor(loss).isfinite()),
        "With large logits the loss is not finite; take log_softmax, not the logarithm of a softmax.",
    )


# Section 5.3


def check_schedule(part: ModuleType) -> None:
    """Equation 3, and one update for all batches of a step."""
    steps = torch.arange(1, 13).double()
    d_model, warmup = 16, 4

    falls, rises, factor = steps**-0.5, steps * warmup**-1.5, d_model**-0.5

    late = torch.minimum((steps + 1) ** -0.5, (steps + 1) * warmup**-1.5)
    steep = torch.minimum(falls, steps * warmup**-0.5)
    wrong: Mistakes = {
        "noam_rate takes the larger of both terms; take the smaller one, min.": factor
        * torch.maximum(falls, rises),
        "noam_rate multiplies by √d_model; divide by it.": torch.minimum(falls, rises)
        / factor,
        "noam_rate has no factor d_model^-0.5.": torch.minimum(falls, rises),
        "noam_rate rises for ever.": factor * rises,
        "noam_rate has no warm-up.": factor * falls,
        "noam_rate rises too fast: the factor of the step is warmup^-1.5.": factor
        * steep,
        "noam_rate counts steps from 0; the first step is 1 already.": factor * late,
    }
    found = torch.tensor(
        [float(part.noam_rate(int(s), d_model, warmup)) for s in steps]
    )
    expected = torch.tensor(
        [reference.noam_rate(int(s), d_model, warmup) for s in steps]
    )
    require_equal("The rate of the first steps", found, expected, wrong)
    _check_take_step(part)


def _check_take_step(part: ModuleType) -> None:
    inputs = [random(5, 3), random(1, 3, seed=1), random(2, 3, seed=2)]
    start = torch.tensor([1.0, -2.0, 0.5])
    weight = nn.Parameter(start.clone())
    calls: list[str] = []

    class Recorded(torch.optim.SGD):
        def step(self, *args: Any) -> None:
            calls.append("optimizer")
            super().step(*args)

    optimizer = Recorded([weight], lr=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: 0.5**done)
    calls.clear()
    real_step = schedule.step

    def counted() -> None:
        calls.append("schedule")
        real_step()

    schedule.step = counted

    def loss_of(batch: Tensor) -> tuple[Tensor, Tensor]:
        return ((batch @ weight) ** 2).sum(), torch.tensor(len(batch))

    def gradient(weights: list[float]) -> Tensor:
        parts = zip(inputs, weights, strict=True)
        return sum(w * 2 * batch.T @ (batch @ start) for batch, w in parts)

    tokens = sum(map(len, inputs))
    mean = sum(((batch @ start) ** 2).sum() for batch in inputs) / tokens
    loss = part.take_step(loss_of, inputs, optimizer, schedule)
    number = len(inputs)
    if calls.count("optimizer") == number:
        raise Fault(
            "The optimizer takes a step after every batch; take one step when the gradients of all batches are added up."
        )
    if calls.count("schedule") == number:
        raise Fault(
            "The schedule goes on with every batch, so warm-up ends too early; call its step once for each step of the optimizer."
        )
    require("optimizer" in calls, "The optimizer never takes its step.")
    require("schedule" in calls, "The schedule never goes on; call its step once.")
    require(
        calls == ["optimizer", "schedule"],
        "Call optimizer.step() once and then schedule.step() once.",
    )
    wrong: Mistakes = {
        "Each batch counts the same, whatever its size: you average means; divide the sum of all losses by the number of all tokens.": start
        - 0.1 * gradient([1 / len(b) / number for b in inputs]),
        "The means of the batches are added; divide the sum of all losses by the number of all tokens.": start
        - 0.1 * gradient([1 / len(b) for b in inputs]),
        "The gradient is that of the sum; divide by the number of all tokens.": start
        - 0.1 * gradient([1.0] * number),
        "The sum is divided by the number of batches; divide by that of all tokens.": start
        - 0.1 * gradient([1 / number] * number),
        "Only the last batch has an effect; do not clear the gradients between batches.": [
            start - 0.1 * gradient([0, 0, 1 / number])
            for number in (tokens, len(inputs[-1]))
        ],
        "The weights do not move.": start,
    }
    moved = start - 0.1 * gradient([1 / tokens] * number)
    require_equal("The vector of weights after the step", weight, moved, wrong)
    require(
        weight.grad is None or not weight.grad.any(),
        "The gradients are not cleared afterwards, so the next step adds to them.",
    )
    require_equal("The returned loss", torch.as_tensor(loss).detach(), mean)


# Section 5.1


def check_batching(part: ModuleType) -> None:
    """Rows filled up at the end, labels one place on, batches counted in tokens."""
    rows = [[4, 5, 6], [7], [8, 9]]
    left = torch.tensor([[4, 5, 6], [1, 1, 7], [1, 8, 9]])
    wrong: Mistakes = {
        "pad fills up at the beginning; fill up at the end.": left,
        "pad cuts to the shortest row; fill up to the longest.": torch.tensor(
            [[4], [7], [8]]
        ),
        "pad fills up with 0 whatever pad_id is.": reference.pad(rows, 0),
    }
    require_equal(
        "The tensor from pad", part.pad(rows, 1), reference.pad(rows, 1), wrong
    )
    _check_teacher_forcing(part, rows)
    _check_token_batches(part)


def _check_teacher_forcing(part: ModuleType, rows: list[list[int]]) -> None:
    found = part.teacher_forcing(rows, BOS, EOS, PAD)
    is_pair = isinstance(found, tuple) and len(found) == 2
    require(is_pair, "teacher_forcing does not return two tensors.")
    read, labels = reference.teacher_forcing(rows, BOS, EOS, PAD)
    both = reference.pad([[BOS, *row, EOS] for row in rows], PAD)
    cut = both[:, :-1]
    wrong: Mistakes = {
        "The decoder reads its own labels; it reads BOS and then the target, so each label is the next token.": labels,
        "The decoder reads EOS too; leave it out of what is read, in every row.": cut,
        "The decoder reads EOS too; only the labels end with it.": both,
        "The decoder does not read BOS; without it nothing predicts the first token.": reference.pad(
            rows, PAD
        ),
    }
    require_equal("The tensor that the decoder reads", found[0], read, wrong)
    wrong = {
        "The labels are what the decoder reads, not shifted; each label is the next token.": read,
        "The labels have no EOS, so the model never learns to end.": reference.pad(
            rows, PAD
        ),
        "The labels hold BOS; the first label is the first token.": both,
    }
    require_equal("The tensor of labels", found[1], labels, wrong)


def _check_token_batches(part: ModuleType) -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 40, (997,), generator=generator).tolist()
    budget = 300
    batches = part.token_batches(lengths, budget, 1)
    members = sorted(int(number) for batch in batches for number in batch)
    if len(members) < len(lengths):
        raise Fault(
            f"Of {len(lengths)} sentences {len(members)} are in a batch; keep the last, smaller batch."
        )
    require(
        members == list(range(len(lengths))),
        "A sentence is in more than one batch, or has a number that does not exist.",
    )
    require(all(map(len, batches)), "A batch is empty.")
    sizes = [[lengths[int(number)] for number in batch] for batch in batches]
    padded = [len(batch) * max(batch) for batch in sizes]
    if max(padded) > budget:
        fits = all(sum(batch) <= budget for batch in sizes)
        reason = (
            "you count tokens without padding; a batch takes its number of sentences times the longest"
            if fits
            else "count its number of sentences times the longest"
        )
        raise Fault(
            f"A batch has {max(padded)} tokens with padding; {budget} were allowed: {reason}."
        )
    waste = 1 - sum(lengths) / sum(padded)
    require(
        waste < 0.1,
        f"{waste:.0%} of the batches is padding; put sentences of similar length together.",
    )
    require(
        len(batches) < 1.5 * sum(lengths) / budget,
        f"{len(batches)} batches for {sum(lengths)} tokens are too many; fill each one up.",
    )
    longest = [max(batch) for batch in sizes]
    require(
        longest not in (sorted(longest), sorted(longest, reverse=True)),
        "The batches come in the order of their lengths; shuffle them.",
    )
    as_lists = [list(map(int, batch)) for batch in batches]
    again = [list(map(int, batch)) for batch in part.token_batches(lengths, budget, 1)]
    require(again == as_lists, "The same seed gives other batches at the next call.")
    other = [list(map(int, batch)) for batch in part.token_batches(lengths, budget, 2)]
    require(other != as_lists, "Another seed gives the same batches.")
