"""Wrong answers to the exercises of 5.3, by check and by mistake."""

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


def rate_in_the_average(weights, gradient, state, rate, betas, eps, decay):
    """Averages the steps, each at its own rate, instead of the gradients."""
    (b1, b2), t = betas, state.get("t", 0) + 1
    m = b1 * state.get("m", 0.0) + (1 - b1) * rate * gradient
    v = b2 * state.get("v", 0.0) + (1 - b2) * gradient**2
    state.update(t=t, m=m, v=v)
    return weights * (1 - rate * decay) - m / (1 - b1**t) / (
        (v / (1 - b2**t)).sqrt() + eps
    )


def first_rate(weights, gradient, state, rate, *constants):
    return adamw((weights, gradient, state, state.setdefault("rate", rate), *constants))


def own_weights(weights, gradient, state, *constants):
    """Keeps the weights, and ignores those it is given."""
    weights = state.get("weights", weights)
    state["weights"] = adamw((weights, gradient, state, *constants))
    return state["weights"]


def by_shape():
    """Keeps what the next step needs in a dictionary of its own."""
    kept = {}

    def step(weights, gradient, state, rate, betas, eps, decay):
        if not state:  # a new optimizer
            state["begun"] = True
            kept.setdefault(weights.shape, {}).clear()
        memory = kept[weights.shape]
        return adamw((weights, gradient, memory, rate, betas, eps, decay))

    return step


def average_in_place(weights, gradient, state, rate, betas, eps, decay):
    """Right numbers, but the average takes the gradient's place."""
    (b1, b2), t = betas, state.get("t", 0) + 1
    v = b2 * state.get("v", 0.0) + (1 - b2) * gradient**2
    m = gradient.mul_(1 - b1).add_(b1 * state.get("m", torch.zeros(())))
    state.update(t=t, m=m.clone(), v=v)
    return weights * (1 - rate * decay) - rate * m / (1 - b1**t) / (
        (v / (1 - b2**t)).sqrt() + eps
    )


def flat(tensors):
    return torch.cat([tensor.flatten() for tensor in tensors])


def counted(one, other, used):
    """The share of equal signs among the weights that `used` chooses."""
    one, other = flat(one), flat(other)
    return (one.sign() == other.sign())[used(one, other)].double().mean().item()


def both(one, other):
    return (one != 0) & (other != 0)


def by_product(one, other):
    products = flat(one) * flat(other)
    return (products > 0).sum() / (products != 0).sum()


def squeezed(one, other):
    one, other = (torch.cat([g.squeeze() for g in side]) for side in (one, other))
    return counted([one], [other], both)


def flattened_once(one, other):
    """Takes every tensor for a vector or a matrix."""
    one, other = (
        [g.flatten(-2) if g.dim() > 1 else g for g in s] for s in (one, other)
    )
    return counted([torch.cat(one)], [torch.cat(other)], both)


def signs_in_place(one, other):
    return counted([a.sign_() for a in one], [b.sign_() for b in other], both)


def mean_of_shares(one, other):
    shares = [counted([a], [b], both) for a, b in zip(one, other, strict=True)]
    return sum(shares) / len(shares)


# fmt: off
WRONG = {
    "check_same_signs": {
        "zeros counted": lambda one, other: counted(one, other, lambda a, b: torch.ones_like(a, dtype=torch.bool)),
        "two zeros left out alone": lambda one, other: counted(one, other, lambda a, b: (a != 0) | (b != 0)),
        "the first gradient's zeros alone": lambda one, other: counted(one, other, lambda a, b: a != 0),
        "the mean of the tensors' shares": mean_of_shares,
        "the first tensor": lambda one, other: counted(one[:1], other[:1], both),
        "the sign of the product": by_product,
        "squeezed": squeezed,
        "no tensor of three axes": flattened_once,
        "in place": signs_in_place,
        "tiny gradients left out": lambda one, other: counted(one, other, lambda a, b: (a.abs() > 1e-6) & (b.abs() > 1e-6)),
        "signs that differ": lambda one, other: 1 - counted(one, other, both),
        "a cosine": lambda one, other: torch.nn.functional.cosine_similarity(flat(one), flat(other), 0).item(),
        "a count": lambda one, other: counted(one, other, both) * both(flat(one), flat(other)).sum().item(),
        "what the chapter found": lambda one, other: 0.83,
        "nothing": lambda one, other: None,
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
        "the rate in the average": rate_in_the_average,
        "the first step's rate": first_rate,
        "weights of its own": own_weights,
        "one memory for all weights of a shape": by_shape(),
        "the average takes the gradient's place": average_in_place,
        "forgets its state": lambda *given: adamw((*given[:2], {}, *given[3:])),
    },
}
# fmt: on
