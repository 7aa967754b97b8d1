"""Wrong answers to the exercises of 5.2, by check and by mistake."""

import math

import torch


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


WRONG = {
    "check_break_even": {
        "the base model's number": lambda d_model, d_ff: 3072,
        "six widths, as if d_ff were four": lambda d_model, d_ff: 6 * d_model,
        "the feed-forward network alone": lambda d_model, d_ff: d_ff,
        "the projections alone": lambda d_model, d_ff: 2 * d_model,
        "three projections": lambda d_model, d_ff: 1.5 * d_model + d_ff,
        "scores without mixtures": lambda d_model, d_ff: 4 * d_model + 2 * d_ff,
        "one matrix in the network": lambda d_model, d_ff: 2 * d_model + d_ff / 2,
        "operations against multiplications": lambda d_model, d_ff: d_model + d_ff / 2,
        "zero, where both sides are zero": lambda d_model, d_ff: 0,
        "infinity, where both are infinite": lambda d_model, d_ff: math.inf,
        "nothing": lambda d_model, d_ff: None,
    },
    "check_round_binary": {
        "cuts off": lambda x, digits: significant(x, digits, math.trunc),
        "rounds down": lambda x, digits: significant(x, digits, math.floor),
        "halves away from zero": lambda x, digits: significant(x, digits, half_away),
        "halves up": lambda x, digits: significant(
            x, digits, lambda y: math.floor(y + 0.5)
        ),
        "one digit more": lambda x, digits: significant(x, digits + 1, round),
        "one digit less": lambda x, digits: significant(x, digits - 1, round),
        "decimal digits": round,
        "the same distance everywhere": lambda x, digits: (
            round(x * 2**digits) / 2**digits
        ),
        "always bf16": lambda x, digits: torch.tensor(x).bfloat16().item(),
        "always fp16": lambda x, digits: torch.tensor(x).half().item(),
        "fails at zero": lambda x, digits: math.ldexp(
            round(x * 2.0 ** (digits - math.floor(math.log2(abs(x))))),
            math.floor(math.log2(abs(x))) - digits,
        ),
        "nothing": lambda x, digits: None,
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
        "takes nearly-halves for halves": lambda x, digits: significant(
            x, digits, lambda y: round(round(y, 6))
        ),
    },
}
