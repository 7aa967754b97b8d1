"""Wrong answers to the exercises of 5.2, by check and by mistake."""

import math

import torch

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
    "check_plan": {
        "the bill of one GPU": planned(bill=lambda gpus: 1),
        "the speed of one GPU": planned(fleet=lambda gpus: 1),
        "one GPU throughout": planned(bill=lambda gpus: 1, fleet=lambda gpus: 1),
        "rounded up": planned(whole=math.ceil),
        "rounded to the nearest": planned(whole=round),
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
