"""Wrong answers to the exercises of 5.2, by check and by mistake."""

import math

import torch

from transformer_lite.config import ModelConfig
from transformer_lite.embeddings import Embedding
from transformer_lite.training.step import flops_per_token


def same(value):
    """Leave it as it is."""
    return value


def planned(bill=same, fleet=same, whole=math.floor, hours="steps"):
    """A plan with one thing or another done differently; as it is, it is right."""

    def plan(config, length, tokens, gpus, peak, share, price, budget):
        flops = flops_per_token(config, length) * tokens
        of_step = flops / (fleet(gpus) * peak * share)
        steps = whole(budget / (bill(gpus) * price * of_step / 3600))
        found = {
            "steps": steps * of_step / 3600,
            "budget": budget / (price * gpus),
            "together": steps * of_step * gpus / 3600,
        }
        return steps, found[hours]

    return plan


def parameters(model):
    """The matrix that looks tokens up, and all other parameters."""
    lookups = [m.weight for m in model.modules() if isinstance(m, Embedding)]
    others = [p for p in model.parameters() if all(p is not w for w in lookups)]
    return lookups[0], others


def estimated(factor=6, lookups=1, of=lambda p: True):
    """An estimate with one thing or another counted differently."""

    def estimate(model, tokens):
        lookup, others = parameters(model)
        counted = sum(p.numel() for p in others if of(p))
        return factor * tokens * (counted + lookups * lookup.numel())

    return estimate


def with_the_largest(model, tokens):
    """The first count and the largest parameter, whatever it is."""
    _, others = parameters(model)
    counted = sum(p.numel() for p in others)
    return 6 * tokens * (counted + max(p.numel() for p in model.parameters()))


def as_stored(model, tokens):
    """Every entry of the state dictionary, where a tied matrix stands more than once."""
    return 6 * tokens * sum(value.numel() for value in model.state_dict().values())


def from_a_configuration(model, tokens):
    """The package's count, of a configuration that the parameters tell."""
    vocab, width = parameters(model)[0].shape
    shape = {"d_model": width, "d_ff": 4 * width}
    config = ModelConfig(
        vocab_size=vocab, num_layers=len(model.encoder.layers), **shape
    )
    return tokens * flops_per_token(config, 25)


def significant(x, digits, to_whole):
    """A number rounded to so many binary digits by some way to round."""
    if x == 0:
        return 0.0
    fraction, exponent = math.frexp(x)
    scale = 2 ** (digits + 1)
    return math.ldexp(to_whole(fraction * scale) / scale, exponent)


def half_away(x):
    """The nearest whole number; halves go away from zero."""
    return math.copysign(math.floor(abs(x) + 0.5), x)


# fmt: off
WRONG = {
    "check_estimate": {
        "none": lambda model, tokens: None,
        "as it was": estimated(lookups=0),
        "the matrix twice, for lookup and output": estimated(lookups=2),
        "the matrix three times, for each of its uses": estimated(lookups=3),
        "forward only": estimated(factor=2),
        "four operations": estimated(factor=4),
        "eight operations": estimated(factor=8),
        "the first count by the base model's share": estimated(factor=6 / 0.7, lookups=0),
        "the matrix at two operations": estimated(lookups=1 / 3),
        "source and target tokens": lambda model, tokens: estimated()(model, 2 * tokens),
        "one token": lambda model, tokens: estimated()(model, 1),
        "the largest parameter": with_the_largest,
        "the state dictionary": as_stored,
        "the check's own count": lambda model, tokens: tokens * flops_per_token(model.config, 25),
        "the same of a configuration that it guesses": from_a_configuration,
    },
    "check_plan": {
        "the bill of one GPU": planned(bill=lambda gpus: 1),
        "the speed of one GPU": planned(fleet=lambda gpus: 1),
        "one GPU throughout": planned(bill=lambda gpus: 1, fleet=lambda gpus: 1),
        "rounded up": planned(whole=math.ceil),
        "rounded to the nearest": planned(whole=round),
        "a tenth of a step too much": planned(whole=lambda x: int(x + 0.09)),
        "rounded up from 0.95 on": planned(whole=lambda x: round(x - 0.45)),
        "not rounded": planned(whole=float),
        "whole, but a float": planned(whole=lambda x: float(math.floor(x))),
        "one step at least": planned(whole=lambda x: max(1, math.floor(x))),
        "nothing": lambda *given: None,
        "hours of the whole budget": planned(hours="budget"),
        "hours of all GPUs together": planned(hours="together"),
        "steps alone": lambda *given: planned()(*given)[0],
        "the first case by heart": lambda *given: (23, 0.1),
    },
    "check_round_binary": {
        "cuts off": lambda x, digits: significant(x, digits, math.trunc),
        "rounds down": lambda x, digits: significant(x, digits, math.floor),
        "halves away from zero": lambda x, digits: significant(x, digits, half_away),
        "halves up": lambda x, digits: significant(x, digits, lambda y: math.floor(y + 0.5)),
        "one digit less": lambda x, digits: significant(x, digits - 1, round),
        "fails at zero": lambda x, digits: math.ldexp(
            round(x * 2.0 ** (digits - math.floor(math.log2(abs(x))))),
            math.floor(math.log2(abs(x))) - digits,
        ),
        "two numbers": lambda x, digits: torch.full((2,), x),
        "both formats looked up, powers of two else": lambda x, digits: (
            torch.tensor(x, dtype={7: torch.bfloat16, 10: torch.half}[digits]).item()
            if digits in (7, 10)
            else math.copysign(2.0 ** round(math.log2(abs(x))), x)
            if x
            else 0.0
        ),
        "halves away from zero, but for bf16 and fp16": lambda x, digits: significant(
            x, digits, round if digits in (0, 7, 10) else half_away
        ),
        "takes nearly-halves for halves": lambda x, digits: significant(x, digits, lambda y: round(round(y, 6))),
    },
}
# fmt: on

RIGHT = {"check_estimate": {"matrices only": estimated(of=lambda p: p.ndim == 2)}}
