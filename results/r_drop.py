"""R-Drop: two copies of a model, dropped out differently, have to agree.

Wu et al. (2021, "R-Drop: Regularized Dropout for Neural Networks").
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from transformer_lite.loss import LossSums
from transformer_lite.precision import autocast
from transformer_lite.training import trainer
from transformer_lite.training.step import Objective


class RDrop(Objective):
    """The mean loss of both copies, and how far their probabilities are apart.

    Args:
        of_objective: The arguments of `Objective`.
        alpha: Weight of the mean of both divergences (Kullback–Leibler), which counts
            half because the paper adds up the losses of the copies.
    """

    def __init__(self, *of_objective: Any, alpha: float) -> None:
        super().__init__(*of_objective)
        self.alpha = alpha

    def forward(
        self,
        src_ids: Int[Tensor, "batch src_len"],
        tgt_input: Int[Tensor, "batch steps"],
        labels: Int[Tensor, "batch steps"],
        real: Int[Tensor, " tokens"],
        scale: Float[Tensor, ""] | None = None,
    ) -> LossSums:
        """Return the sums over the batch's real target tokens; see `Objective`."""
        src_ids, tgt_input, twice = (
            ids.repeat(2, 1) for ids in (src_ids, tgt_input, labels)
        )
        real = torch.cat([real, real + labels.numel()])
        with autocast(self.precision, src_ids.device):
            hidden = self.model.hidden(src_ids, tgt_input)
            loss, nll, tokens = self.loss(hidden, twice, real, scale)
            hidden = hidden.flatten(0, 1).index_select(0, real)
            logits = F.linear(hidden, self.model.decoder.embedding.weight)
        one, other = logits.float().log_softmax(dim=-1).chunk(2)
        both_divergences = ((one.exp() - other.exp()) * (one - other)).sum()
        loss = (loss + self.alpha / 2 * both_divergences) / 2
        return LossSums(loss, nll / 2, tokens // 2)


@contextmanager
def r_drop(alpha: float) -> Iterator[None]:
    """Train by R-Drop inside the block, unless `alpha` is 0."""

    def objective(*of_trainer: object) -> Objective:
        return RDrop(*of_trainer, alpha=alpha) if alpha else Objective(*of_trainer)

    with patch.object(trainer, "Objective", objective):
        yield
