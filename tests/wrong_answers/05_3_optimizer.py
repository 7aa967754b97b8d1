"""Wrong answers to the exercises of 5.3, by check and by mistake."""

import math

import torch


def adamw(given, **changes):
    """A step with one thing or another done differently."""
    weights, gradient, state, rate, (b1, b2), eps, decay = given
    if "l2" in changes:
        gradient, decay = gradient + decay * weights, 0.0
    t = state["t"] = state.get("t", 0) + 1
    m = state["m"] = b1 * state.get("m", 0.0) + (1 - b1) * gradient
    v = state["v"] = b2 * state.get("v", 0.0) + (1 - b2) * gradient**2
    if "biased" not in changes:
        m, v = m / (1 - b1**t), v / (1 - b2**t)
    if "largest" in changes:
        v = state["top"] = torch.maximum(v, state.get("top", v))
    root = (v + eps).sqrt() if "inside" in changes else v.sqrt() + eps
    shrink = 1 - (1 if "rateless" in changes else rate) * decay
    if "late" in changes:
        return (weights - rate * m / root) * shrink
    return weights * shrink - rate * m / root


def but(**changes):
    """The step with these changes."""
    return lambda *given: adamw(given, **changes)


def by_pytorch(optimizer):
    """The right numbers, from the finished optimizer, kept in the state."""

    def step(weights, gradient, state, rate, betas, eps, decay):
        options = {"weight_decay": decay} if optimizer is torch.optim.AdamW else {}
        if not options:
            weights = weights * (1 - rate * decay)
        if "made" not in state:
            state["weights"] = torch.nn.Parameter(weights)
            made = optimizer([state["weights"]], rate, betas, eps, **options)
            state["made"] = made
        state["weights"].data, state["weights"].grad = weights, gradient
        state["made"].step()
        return state["weights"].detach().clone()

    return step


def fused(weights, gradient, state, rate, betas, eps, decay):
    """The right numbers, from the function inside the finished optimizer."""
    if not state:
        state["t"] = torch.zeros(())
        state["m"], state["v"] = torch.zeros_like(weights), torch.zeros_like(weights)
    state["t"] += 1
    kept = [[state["m"]], [state["v"]], [], [state["t"]]]
    options = {"lr": rate, "beta1": betas[0], "beta2": betas[1], "eps": eps}
    options |= {"weight_decay": decay, "amsgrad": False, "maximize": False}
    torch._fused_adamw_([weights], [gradient], *kept, **options)
    return weights


def sign_only(weights, gradient, state, rate, betas, eps, decay):
    """Right in the first step."""
    return weights * (1 - rate * decay) - rate * gradient.sign()


def bare(rate, d_model, scale):
    """What the minimum in Equation 3 has to be."""
    return rate * math.sqrt(d_model) / scale


# fmt: off
WRONG = {
    "check_steps_of": {
        "without d_model": lambda r, d, w, s: (r / s * w**1.5, (r / s) ** -2),
        "without scale": lambda r, d, w, s: (bare(r, d, 1) * w**1.5, bare(r, d, 1) ** -2),
        "scale on the wrong side": lambda r, d, w, s: (bare(r, d, 1 / s) * w**1.5, bare(r, d, 1 / s) ** -2),
        "the base model's warm-up": lambda r, d, w, s: (bare(r, d, s) * 4000**1.5, bare(r, d, s) ** -2),
        "falls with the step itself": lambda r, d, w, s: (bare(r, d, s) * w**1.5, w * (math.sqrt(d * w) * r / s) ** -1),
        "twice the peak": lambda r, d, w, s: (w, w),
        "rounded": lambda r, d, w, s: (round(bare(r, d, s) * w**1.5), round(bare(r, d, s) ** -2)),
        "one step alone": lambda r, d, w, s: bare(r, d, s) ** -2,
        "no numbers": lambda r, d, w, s: ("early", "late"),
        "a factor that fits scale 1 and 0.5 only": lambda r, d, w, s: (
            r * math.sqrt(d) * (3 - 2 * s) * w**1.5,
            (r * math.sqrt(d) * (3 - 2 * s) or 1) ** -2,
        ),
    },
    "check_adamw_step": {
        "decay in the gradient": but(l2=True),
        "decay without the rate": but(rateless=True),
        "no bias correction": but(biased=True),
        "ε inside the root": but(inside=True),
        "AMSGrad": but(largest=True),
        "the first step's rule for all": sign_only,
        "PyTorch's AdamW": by_pytorch(torch.optim.AdamW),
        "PyTorch's Adam after the decay": by_pytorch(torch.optim.Adam),
        "PyTorch's fused function": fused,
        "a single number": lambda *given: torch.zeros(()),
        "no tensor": lambda weights, *others: weights.tolist(),
        "decay after the step": but(late=True),
        "forgets its state": lambda *given: adamw((*given[:2], {}, *given[3:])),
    },
}
# fmt: on
