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
from transformer_lite_course.comparison import (
    random,
    require,
    require_equal,
    unchanged,
)

# fmt: off
# Loss
NO_LOSS_PAIR = "Return two things: the sum of the losses, and the tokens."
PADDING_COUNTS = "Padding counts in the loss; leave out every label that is pad_id."
MEAN = "The loss is a mean; return the sum, and divide where all batches of a step are known."
MEAN_OF_ALL = "The loss is a mean over all positions, padding too; return the sum over the real labels."
WRONG_SIGN = "The loss has the wrong sign."
SOFTMAX_TWICE = "The softmax is taken twice; cross_entropy and log_softmax take logits."
LOSS_PADDING_IS_0 = "Padding is id 0 for your loss whatever pad_id is."
NOT_SMOOTHED = "The labels are not smoothed."
SMOOTHED_PADDING = "The smoothed part also counts padding; mask both parts of the loss."
SMOOTHED_BY_PYTORCH = "ε is spread over all tokens, the right one too, as PyTorch does; the V - 1 wrong ones share it."
SMOOTHED_WITHOUT_PAD = "ε is spread over V - 2 tokens, without padding; the V - 1 wrong ones share it."
WRONG_NUMBER = "The number of tokens is {}; {} labels are real."
OVERFLOW = "With large logits the loss is not finite; take log_softmax, not the logarithm of a softmax."
# Schedule
LARGER = "noam_rate takes the larger of both terms; take the smaller one, min."
RATE_MULTIPLIED = "noam_rate multiplies by √d_model; divide by it."
NO_FACTOR = "noam_rate has no factor d_model^-0.5."
RISES = "noam_rate rises for ever."
NO_WARMUP = "noam_rate has no warm-up."
TOO_STEEP = "noam_rate rises too fast: the factor of the step is warmup^-1.5."
FROM_0 = "noam_rate counts steps from 0; the first step is 1 already."
STEP_PER_BATCH = "The optimizer takes a step after every batch; take one step when the gradients of all batches are added up."
RATE_PER_BATCH = "The schedule goes on with every batch, so warm-up ends too early; call its step once for each step of the optimizer."
NO_STEP = "The optimizer never takes its step."
NO_RATE = "The schedule never goes on; call its step once."
WRONG_ORDER = "Call optimizer.step() once and then schedule.step() once."
MEAN_OF_MEANS = "Each batch counts the same, whatever its size: you average means; divide the sum of all losses by the number of all tokens."
SUM_OF_MEANS = "The means of the batches are added; divide the sum of all losses by the number of all tokens."
SUM = "The gradient is that of the sum; divide by the number of all tokens."
BY_BATCHES = "The sum is divided by the number of batches; divide by that of all tokens."
LAST_BATCH = "Only the last batch has an effect; do not clear the gradients between batches."
NO_MOVE = "The weights do not move."
NOT_CLEARED = "The gradients are not cleared afterwards, so the next step adds to them."
# Batching
PADDED_LEFT = "pad fills up at the beginning; fill up at the end."
CUT = "pad cuts to the shortest row; fill up to the longest."
PADDED_BY_0 = "pad fills up with 0 whatever pad_id is."
NO_TENSORS = "teacher_forcing does not return two tensors."
READS_LABELS = "The decoder reads its own labels; it reads BOS and then the target, so each label is the next token."
READS_LONGEST_EOS = "The decoder reads EOS too; leave it out of what is read, in every row."
READS_EOS = "The decoder reads EOS too; only the labels end with it."
READS_NO_BOS = "The decoder does not read BOS; without it nothing predicts the first token."
NOT_SHIFTED = "The labels are what the decoder reads, not shifted; each label is the next token."
NO_EOS = "The labels have no EOS, so the model never learns to end."
LABELS_BOS = "The labels hold BOS; the first label is the first token."
LEFT_OUT = "Of {} sentences {} are in a batch; keep the last, smaller batch."
REPEATED = "A sentence is in more than one batch, or has a number that does not exist."
EMPTY = "A batch is empty."
TOO_LARGE = "A batch has {} tokens with padding; {} were allowed: {}count its number of sentences times the longest."
UNPADDED = "you count tokens without padding; "
WASTE = "{:.0%} of the batches is padding; put sentences of similar length together."
TOO_MANY = "{} batches for {} tokens are too many; fill each one up."
SORTED = "The batches come in the order of their lengths; shuffle them."
NOT_REPEATABLE = "The same seed gives other batches at the next call."
SEED_IGNORED = "Another seed gives the same batches."
# fmt: on


def check_loss(part: ModuleType) -> None:
    """Smoothed, summed, and blind to padding."""
    logits = 3 * random(2, 4, 7)
    labels = torch.tensor([[5, 1, 2, 0], [2, 0, 4, 0]])
    size, log_probs = logits.size(-1), logits.log_softmax(-1)

    def losses(right: float, other: float, log_probs: Tensor = log_probs) -> Tensor:
        """Weigh the right token and each other one."""
        of_right = log_probs.gather(-1, labels[..., None])[..., 0]
        return (other - right) * of_right - other * log_probs.sum(-1)

    for epsilon, pad_id in ((0.0, 0), (0.1, 0), (0.1, 2)):
        real = labels != pad_id
        with unchanged(logits=logits):
            pair = part.label_smoothed_loss(logits, labels, epsilon, pad_id)
        require(isinstance(pair, tuple) and len(pair) == 2, NO_LOSS_PAIR)
        share, of_pytorch, without_pad = (epsilon / (size - n) for n in (1, 0, 2))
        smoothed = losses(1 - epsilon, share)
        expected = (smoothed * real).sum()
        twice = losses(1 - epsilon, share, logits.softmax(-1).log_softmax(-1))
        wrong = {
            PADDING_COUNTS: smoothed.sum(),
            MEAN: expected / real.sum(),
            MEAN_OF_ALL: smoothed.mean(),
            WRONG_SIGN: -expected,
            SOFTMAX_TWICE: (twice * real).sum(),
            LOSS_PADDING_IS_0: (smoothed * (labels != 0)).sum(),
        }
        if epsilon:
            right_part = (losses(1 - epsilon - share, 0) * real).sum()
            by_pytorch = losses(1 - epsilon + of_pytorch, of_pytorch)
            but_pad = losses(1 - epsilon, without_pad)
            but_pad = but_pad + without_pad * log_probs[..., pad_id]
            wrong |= {
                NOT_SMOOTHED: (losses(1, 0) * real).sum(),
                SMOOTHED_PADDING: right_part + losses(share, share).sum(),
                SMOOTHED_BY_PYTORCH: (by_pytorch * real).sum(),
                SMOOTHED_WITHOUT_PAD: (but_pad * real).sum(),
            }
        require_equal("The loss", torch.as_tensor(pair[0]), expected, wrong)
        tokens = int(pair[1]), int(real.sum())
        require(tokens[0] == tokens[1], WRONG_NUMBER.format(*tokens))
    large = torch.tensor([[[1e4, 0.0, -1e4, 0, 0, 0, 0]]])
    loss, _ = part.label_smoothed_loss(large, torch.tensor([[1]]), 0.1, 0)
    require(torch.as_tensor(loss).isfinite(), OVERFLOW)


def check_schedule(part: ModuleType) -> None:
    """Equation 3, and one update for all batches of a step."""
    d_model, warmup = 16, 4
    steps, factor = torch.arange(1, 13).double(), d_model**-0.5

    def rates(steps: Tensor, power: float = -1.5) -> Tensor:
        return torch.minimum(steps**-0.5, steps * warmup**power)

    wrong = {
        LARGER: factor * torch.maximum(steps**-0.5, steps * warmup**-1.5),
        RATE_MULTIPLIED: rates(steps) / factor,
        NO_FACTOR: rates(steps),
        RISES: factor * steps * warmup**-1.5,
        NO_WARMUP: factor * steps**-0.5,
        TOO_STEEP: factor * rates(steps, power=-0.5),
        FROM_0: factor * rates(steps + 1),
    }
    result, expected = (
        torch.tensor([float(rate(int(step), d_model, warmup)) for step in steps])
        for rate in (part.noam_rate, reference.noam_rate)
    )
    require_equal("The rate of the first steps", result, expected, wrong)
    _check_take_step(part)


def _check_take_step(part: ModuleType) -> None:
    batches = [random(5, 3), random(1, 3, seed=1), random(2, 3, seed=2)]
    start = torch.tensor([1.0, -2.0, 0.5])
    weight = nn.Parameter(start.clone())
    calls: list[str] = []

    class Optimizer(torch.optim.SGD):
        def step(self, *args: Any) -> None:
            calls.append("optimizer")
            super().step(*args)

    class Schedule(torch.optim.lr_scheduler.LambdaLR):
        def step(self, *args: Any) -> None:
            calls.append("schedule")
            super().step(*args)

    optimizer = Optimizer([weight], lr=0.1)
    schedule = Schedule(optimizer, lambda done: 0.5**done)
    calls.clear()  # a schedule begins with a step

    def loss_of(batch: Tensor) -> tuple[Tensor, Tensor]:
        return ((batch @ weight) ** 2).sum(), torch.tensor(len(batch))

    def moved(*shares: float) -> Tensor:
        """Return the weights after a step in which the batches count so much."""
        pairs = zip(batches, shares, strict=True)
        return start - 0.1 * sum(w * 2 * b.T @ (b @ start) for b, w in pairs)

    sizes = [len(batch) for batch in batches]
    number, tokens = len(sizes), sum(sizes)
    mean = sum(((batch @ start) ** 2).sum() for batch in batches) / tokens
    loss = part.take_step(loss_of, batches, optimizer, schedule)
    require(calls.count("optimizer") != number, STEP_PER_BATCH)
    require(calls.count("schedule") != number, RATE_PER_BATCH)
    require("optimizer" in calls, NO_STEP)
    require("schedule" in calls, NO_RATE)
    require(calls == ["optimizer", "schedule"], WRONG_ORDER)
    wrong = {
        MEAN_OF_MEANS: moved(*(1 / size / number for size in sizes)),
        SUM_OF_MEANS: moved(*(1 / size for size in sizes)),
        SUM: moved(1, 1, 1),
        BY_BATCHES: moved(*[1 / number] * number),
        LAST_BATCH: [moved(0, 0, 1 / tokens), moved(0, 0, 1 / sizes[-1])],
        NO_MOVE: start,
    }
    expected = moved(*[1 / tokens] * number)
    require_equal("The vector of weights after the step", weight, expected, wrong)
    require(weight.grad is None or not weight.grad.any(), NOT_CLEARED)
    require_equal("The returned loss", torch.as_tensor(loss).detach(), mean)


def check_batching(part: ModuleType) -> None:
    """Rows filled up at the end, labels one place on, batches counted in tokens."""
    rows = [[4, 5, 6], [7], [8, 9]]
    wrong = {
        PADDED_LEFT: torch.tensor([[4, 5, 6], [1, 1, 7], [1, 8, 9]]),
        CUT: torch.tensor([[4], [7], [8]]),
        PADDED_BY_0: reference.pad(rows, 0),
    }
    expected = reference.pad(rows, 1)
    require_equal("The tensor from pad", part.pad(rows, 1), expected, wrong)
    _check_teacher_forcing(part, rows)
    _check_token_batches(part)


def _check_teacher_forcing(part: ModuleType, rows: list[list[int]]) -> None:
    pair = part.teacher_forcing(rows, BOS, EOS, PAD)
    require(isinstance(pair, tuple) and len(pair) == 2, NO_TENSORS)
    read, labels = reference.teacher_forcing(rows, BOS, EOS, PAD)
    whole = reference.pad([[BOS, *row, EOS] for row in rows], PAD)
    neither = reference.pad(rows, PAD)
    wrong = {
        READS_LABELS: labels,
        READS_LONGEST_EOS: whole[:, :-1],
        READS_EOS: whole,
        READS_NO_BOS: neither,
    }
    require_equal("The tensor that the decoder reads", pair[0], read, wrong)
    wrong = {NOT_SHIFTED: read, NO_EOS: neither, LABELS_BOS: whole}
    require_equal("The tensor of labels", pair[1], labels, wrong)


def _check_token_batches(part: ModuleType) -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 40, (997,), generator=generator).tolist()
    tokens, budget = sum(lengths), 300

    def batches_of(seed: int) -> list[list[int]]:
        batches = part.token_batches(lengths, budget, seed)
        return [[int(number) for number in batch] for batch in batches]

    batches = batches_of(seed=1)
    members = sorted(number for batch in batches for number in batch)
    all_in = len(members) >= len(lengths)
    require(all_in, LEFT_OUT.format(len(lengths), len(members)))
    require(members == list(range(len(lengths))), REPEATED)
    require(all(batches), EMPTY)
    sizes = [[lengths[number] for number in batch] for batch in batches]
    padded = [len(batch) * max(batch) for batch in sizes]
    reason = UNPADDED if all(sum(batch) <= budget for batch in sizes) else ""
    fits = max(padded) <= budget
    require(fits, TOO_LARGE.format(max(padded), budget, reason))
    waste = 1 - tokens / sum(padded)
    require(waste < 0.1, WASTE.format(waste))
    are_full = len(batches) < 1.5 * tokens / budget
    require(are_full, TOO_MANY.format(len(batches), tokens))
    longest = [max(batch) for batch in sizes]
    is_sorted = longest in (sorted(longest), sorted(longest, reverse=True))
    require(not is_sorted, SORTED)
    require(batches_of(seed=1) == batches, NOT_REPEATABLE)
    require(batches_of(seed=2) != batches, SEED_IGNORED)
