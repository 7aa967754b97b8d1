"""Watch a translator of real captions in its first steps, with warm-up and without.

It is base of Table 3, on Multi30k, as the runs `table_3_longer/base` and
`ablations/base_no_ramp` train it. Their learning rates are those of its first 1,000
steps. A third way has half the rate, without warm-up. In the last two, the rate rises
only in the encoder's layers, or only outside them.

python -m results.collapse
"""

import json
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR

from results.make import prepare
from results.provenance import conditions, require_clean
from results.runs import RUNS
from results.storage import write_json
from transformer_lite.batching import Batch
from transformer_lite.config import SearchConfig
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.optimizer import noam_rate
from transformer_lite.runs.folder import RunFolder
from transformer_lite.tokenizer import PAD
from transformer_lite.training.checkpoint import TrainingState
from transformer_lite.training.run import train_recipe
from transformer_lite.training.trainer import OnValidation
from transformer_lite_book.first_steps import own_share_of
from transformer_lite_book.recordings import COLLAPSE, runs_with_collapse

BASE = next(run for run in RUNS if run.name == "table_3_longer/base-1")
WAYS = {
    "with warm-up": (1, True, True),
    "without": (1, False, False),
    "without, half the rate": (0.5, False, False),
    "in the encoder": (1, True, False),
    "outside the encoder": (1, False, True),
}
"""Name: what the rate is multiplied by, and whether it rises in the encoder's layers,
and elsewhere."""
SEEDS = (1, 2, 3)
STEPS, EVERY = 1_000, 20
PAIRS = 128
"""Validation pairs that are watched: their vectors, and what their source is worth."""
WORKERS = 2


def perplexity(model: nn.Module, batch: Batch, src_ids: Tensor) -> float:
    """Return how unsure a model is about a batch's labels if it reads some sources."""
    logits = model(src_ids, batch.tgt_input)
    return F.cross_entropy(logits.mT, batch.labels, ignore_index=PAD).exp().item()


def watch(model: nn.Module, corpus: PreparedCorpus, _: SearchConfig) -> OnValidation:
    """Record own shares in encoder and decoder, and what another's source costs."""
    batch = Batch.of_pairs(*corpus.ids("valid"), np.arange(PAIRS))
    places = {"encoder": batch.src_ids != PAD, "decoder": batch.labels != PAD}

    @torch.no_grad()
    def look() -> dict[str, float]:
        found: dict[str, Tensor] = {}

        def keep(name: str) -> Any:
            return lambda *call: found.update({name: call[-1]})

        hooks = [
            getattr(model, name).layers[-1].register_forward_hook(keep(name))
            for name in places
        ]
        own = perplexity(model, batch, batch.src_ids)
        shares = {
            name: own_share_of(found[name][place]) for name, place in places.items()
        }
        for hook in hooks:
            hook.remove()
        others = perplexity(model, batch, batch.src_ids.roll(1, dims=0))
        return shares | {"own source": own, "another's source": others}

    return look


def schedule_of(in_encoder: bool, elsewhere: bool) -> Callable[..., LambdaLR]:
    """Return what makes a schedule that rises in the encoder's layers, or elsewhere.

    Where the rate does not rise, it waits at the peak until that of Equation 3 falls.
    """

    def schedule(state: TrainingState) -> LambdaLR:
        d_model, warmup = state.model.config.d_model, state.config.warmup_steps
        inside = [*state.model.encoder.layers.parameters()]
        known = {*map(id, inside)}
        outside = [one for one in state.model.parameters() if id(one) not in known]
        [group] = state.optimizer.param_groups
        state.optimizer.param_groups = [
            group | {"params": part} for part in (inside, outside)
        ]
        factors = [
            lambda done, first=1 if rise else warmup: noam_rate(
                max(done + 1, first), d_model, warmup
            )
            for rise in (in_encoder, elsewhere)
        ]
        return LambdaLR(state.optimizer, factors)

    return schedule


def first_steps(way: str, seed: int) -> dict[str, Any]:
    """Train in a way with a seed, and return what each validation found."""
    torch.set_num_threads(1)
    factor, *rises = WAYS[way]
    recipe = replace(BASE, seed=seed).settings()
    changes = {"max_steps": STEPS, "cooldown_steps": 0, "validate_every": EVERY}
    changes |= {"rate_scale": factor * recipe.train.rate_scale, "precision": "fp32"}
    recipe = replace(recipe, train=replace(recipe.train, **changes))
    two_rates = patch.object(TrainingState, "_schedule", schedule_of(*rises))
    with tempfile.TemporaryDirectory() as folder, two_rates:
        run = RunFolder(Path(folder, "run"))
        train_recipe(recipe, run.path, watch)
        lines = map(json.loads, run.metrics.read_text("utf-8").splitlines())
        found = [line for line in lines if "encoder" in line]
    result: dict[str, Any] = {"way": way, "seed": seed}
    result["step"] = [line["step"] for line in found]
    result["perplexity"] = [round(line["valid_perplexity"], 2) for line in found]
    for name in ("encoder", "decoder", "own source", "another's source"):
        result[name] = [round(line[name], 3) for line in found]
    return result


def main() -> None:
    """Train in each way with each seed, if not done, and write down what was seen."""
    made_by = {"commit": require_clean(), **conditions()}
    stored = runs_with_collapse() if COLLAPSE.exists() else []
    there = {(run["way"], run["seed"]) for run in stored}
    missing = [at for at in product(WAYS, SEEDS) if at not in there]
    prepare(BASE.corpus)
    with ProcessPoolExecutor(WORKERS) as pool:
        new = [
            run | made_by for run in pool.map(first_steps, *zip(*missing, strict=True))
        ]
    write_json(COLLAPSE, {"runs": stored + new})


if __name__ == "__main__":
    main()
