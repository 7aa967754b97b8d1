"""Wrong answers to the exercises of The Multi-GPU Trainer, by check and by mistake."""

import copy

import torch


def weighted(means, weights):
    """The rows of `means`, nan left out, added up with these weights."""
    weights = torch.tensor(weights, dtype=means.dtype)
    return (means.nan_to_num() * weights[:, None]).sum(0)


def share(tokens):
    """The share of each process in all tokens."""
    return [n / sum(tokens) for n in tokens]


ALL = ("model", "optimizer", "schedule", "done", "order", "dropout")


def saved_of(run, parts):
    """What a checkpoint with these parts holds, not copied."""
    state = {name: getattr(run, name).state_dict() for name in ALL[:3]}
    state |= {"done": run.done, "order": run.order.get_state()}
    state |= {"dropout": torch.get_rng_state()}
    return {name: state[name] for name in parts}


def pair(*parts):
    """A `save` and a `resume` that know these parts of a run only."""

    def resume(run, saved):
        for name in ALL[:3]:
            if name in parts:
                getattr(run, name).load_state_dict(saved[name])
        run.done = saved["done"] if "done" in parts else run.done
        if "order" in parts:
            run.order.set_state(saved["order"])
        if "dropout" in parts:
            torch.set_rng_state(saved["dropout"])

    return lambda run: copy.deepcopy(saved_of(run, parts)), resume


STORE = {}


def erased(means, tokens):
    """Right, but `means` is all zeros afterwards."""
    rows = [m * n for m, n in zip(means, tokens, strict=True) if n]
    found = sum(rows) / sum(tokens)
    means.zero_()
    return found


def all_nan_at_an_accident(means, tokens):
    found = sum(m * n for m, n in zip(means, tokens, strict=True) if n) / sum(tokens)
    return torch.full_like(found, float("nan")) if found.isnan().any() else found


def kept_outside(run):
    """Saves nothing; a variable of the same process has it all."""
    STORE["last"] = pair(*ALL)[0](run)
    return {}


def replay(run, saved):
    """Saves nothing but a number; takes the same steps from the seed."""
    run.__init__(1)
    run.train(saved.get("done", 4))


def after(change, which):
    """Save and resume, each right, but the chosen ones also change the run."""
    save, resume = pair(*ALL)

    def save_and_change(run):
        found = save(run)
        if "save" in which:
            change(run.model)
        return found

    def resume_and_change(run, saved):
        resume(run, saved)
        if "resume" in which:
            change(run.model)

    return save_and_change, resume_and_change


def freeze(model):
    """Freeze all but the last bias."""
    for parameter in [*model.parameters()][:-1]:
        parameter.requires_grad_(False)


def without_dropout(model):
    model[1].p = 0.0


# fmt: off
WRONG = {
    "check_combine": {
        "mean of means": lambda means, tokens: means.mean(0),
        "nan times 0": lambda means, tokens: (means * torch.tensor(tokens)[:, None]).sum(0) / sum(tokens),
        "every nan hidden, also a real one": lambda means, tokens: weighted(means, share(tokens)),
        "processes with any nan left out": lambda means, tokens: (
            sum(m * n for m, n in zip(means, tokens, strict=True) if m.isfinite().all())
            / sum(tokens)
        ),
        "weights turned round": lambda means, tokens: weighted(means, share(tokens)[::-1]),
        "weights across and not down": lambda means, tokens: (
            means.nan_to_num() @ torch.tensor(share(tokens), dtype=means.dtype)
            if len(tokens) == means.size(1)
            else weighted(means, share(tokens))
        ),
        "nothing": lambda means, tokens: None,
        "rows of nothing but nan left out": lambda means, tokens: (
            sum(
                m * n for m, n in zip(means, tokens, strict=True) if not m.isnan().all()
            )
            / sum(tokens)
        ),
        "a real nan hidden where every process has tokens": lambda means, tokens: (
            sum(m * n for m, n in zip(means, tokens, strict=True) if n) / sum(tokens)
            if 0 in tokens
            else weighted(means, share(tokens))
        ),
        "all nan at an accident": all_nan_at_an_accident,
        "the means erased": erased,
    },
    "check_checkpoint": {
        "weights alone": pair("model"),
        "without Adam's state": pair("model", "schedule", "done", "order", "dropout"),
        "without the schedule": pair("model", "optimizer", "done", "order", "dropout"),
        "without the number of steps": pair("model", "optimizer", "schedule", "order", "dropout"),
        "without the place in the data": pair("model", "optimizer", "schedule", "done", "dropout"),
        "without the state of dropout": pair("model", "optimizer", "schedule", "done", "order"),
        "without copies": (lambda run: saved_of(run, ALL), pair(*ALL)[1]),
        "copies of the weights alone": (
            lambda run: saved_of(run, ALL) | copy.deepcopy(saved_of(run, ["model"])),
            pair(*ALL)[1],
        ),
        "seeds the random numbers anew": (
            pair("model", "optimizer", "schedule", "done", "order")[0],
            lambda run, saved: (
                pair("model", "optimizer", "schedule", "done", "order")[1](run, saved),
                torch.manual_seed(1),
            ),
        ),
        "no dictionary": (lambda run: list(saved_of(run, ALL).values()), pair(*ALL)[1]),
        "draws random numbers while it saves": (
            lambda run: pair(*ALL)[0](run) | {"drawn": torch.rand(1)},
            pair(*ALL)[1],
        ),
        "nothing": (lambda run: None, lambda run, saved: None),
        "replays from the seed": (lambda run: {}, replay),
        "replays from the seed by the number of steps": (lambda run: {"done": run.done}, replay),
        "kept outside the file": (kept_outside, lambda run, saved: pair(*ALL)[1](run, STORE["last"])),
        "save switches dropout off": after(torch.nn.Module.eval, "save"),
        "resume switches dropout off": after(torch.nn.Module.eval, "resume"),
        "both switch dropout off": after(torch.nn.Module.eval, "save, resume"),
        "both freeze layers": after(freeze, "save, resume"),
        "resume freezes layers": after(freeze, "resume"),
        "both set the rate of dropout to 0": after(without_dropout, "save, resume"),
    },
}
# fmt: on
