"""Scaled dot-product attention and multi-head attention.

Equation 1 is here twice, with one signature: written out, and as PyTorch's fused
kernel, which models use by default. Tests hold results and gradients equal.

Paper: §3.2.1–3.2.2
Chapter: 03_2_1_scaled_dot_product_attention, 03_2_2_multi_head_attention
Tests: tests/package/test_attention.py
"""

import math
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F


def scaled_dot_product_attention(
    query: Float[Tensor, "*batch q_len d_k"],
    key: Float[Tensor, "*batch k_len d_k"],
    value: Float[Tensor, "*batch k_len d_v"],
    mask: Bool[Tensor, "*#batch #q_len #k_len"] | None = None,
) -> tuple[Float[Tensor, "*batch q_len d_v"], Float[Tensor, "*batch q_len k_len"]]:
    """Return weighted sums of the values, and the weights (Equation 1).

    Args:
        query: What each position asks for.
        key: What each position offers to be found by.
        value: What each position hands over.
        mask: True where a query may attend to a key. Every query must be allowed
            at least one key: a row of nothing but False gives NaN.

    Returns:
        softmax(query keyᵀ / √d_k) value, and the softmax itself.
    """
    d_k = query.size(-1)
    scores = query @ key.transpose(-2, -1) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1)
    return weights @ value, weights


class KeysAndValues(NamedTuple):
    """Projected keys and values of all heads; a decoder keeps them as its cache."""

    key: Float[Tensor, "batch heads k_len d_k"]
    value: Float[Tensor, "batch heads k_len d_v"]

    def followed_by(self, newest: "KeysAndValues") -> "KeysAndValues":
        """Return these positions and the newest ones after them."""
        pairs = zip(self, newest, strict=True)
        return KeysAndValues(*(torch.cat(pair, dim=-2) for pair in pairs))

    def keep(self, sentences: Int[Tensor, " kept"]) -> "KeysAndValues":
        """Return the keys and values of these sentences alone, in this order."""
        return KeysAndValues(*(part.index_select(0, sentences) for part in self))


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each in its own projection (Section 3.2.2).

    MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O with
    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V). The h small matrices W_i^Q lie
    side by side in one large matrix `w_q`, and so for keys and values.

    Args:
        d_model: Width of queries, memory and output.
        d_k: Width of a head's queries and keys; by default d_model / num_heads.
        d_v: Width of a head's values; by default d_model / num_heads.
        attention: "fused" or "explicit"; the results are equal.

    Raises:
        ValueError: `num_heads` does not divide `d_model`, and `d_k` or `d_v` lacks.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_k: int | None = None,
        d_v: int | None = None,
        attention: Literal["fused", "explicit"] = "fused",
    ) -> None:
        super().__init__()
        if d_model % num_heads and not (d_k and d_v):
            raise ValueError(
                f"num_heads = {num_heads} does not divide d_model = {d_model}; give "
                "d_k and d_v"
            )
        d_k, d_v = d_k or d_model // num_heads, d_v or d_model // num_heads
        self.num_heads = num_heads
        self.attention = ATTENTION[attention]
        # Deviation D4: no biases, as in the formula; Table 3 fits with and without.
        self.w_q = nn.Linear(d_model, num_heads * d_k, bias=False)
        self.w_k = nn.Linear(d_model, num_heads * d_k, bias=False)
        self.w_v = nn.Linear(d_model, num_heads * d_v, bias=False)
        self.w_o = nn.Linear(num_heads * d_v, d_model, bias=False)

    def forward(
        self,
        query: Float[Tensor, "batch q_len d_model"],
        memory: Float[Tensor, "batch k_len d_model"],
        mask: Bool[Tensor, "#batch #heads #q_len k_len"] | None = None,
        is_causal: bool = False,
    ) -> Float[Tensor, "batch q_len d_model"]:
        """Return what each query gathers from the memory.

        Args:
            memory: Vectors that are asked; in self-attention the same as `query`.
            mask: True where a query may attend to a position of the memory.
            is_causal: Whether `mask` is the causal mask; GPUs have a kernel for it.
        """
        return self.attend(query, self.keys_and_values(memory), mask, is_causal)

    def keys_and_values(
        self, memory: Float[Tensor, "batch k_len d_model"]
    ) -> KeysAndValues:
        """Project the memory for every head, so that many queries can share it."""
        return KeysAndValues(
            self._split_heads(self.w_k(memory)), self._split_heads(self.w_v(memory))
        )

    def attend(
        self,
        query: Float[Tensor, "batch q_len d_model"],
        projected: KeysAndValues,
        mask: Bool[Tensor, "#batch #heads #q_len k_len"] | None = None,
        is_causal: bool = False,
    ) -> Float[Tensor, "batch q_len d_model"]:
        """Do the same as `forward`, with a memory that is projected already."""
        queries = self._split_heads(self.w_q(query))
        heads = self.attention(queries, *projected, mask, is_causal)
        return self.w_o(heads.transpose(1, 2).flatten(2))

    def weights(
        self,
        query: Float[Tensor, "batch q_len d_model"],
        memory: Float[Tensor, "batch k_len d_model"],
        mask: Bool[Tensor, "#batch #heads #q_len k_len"] | None = None,
    ) -> Float[Tensor, "batch heads q_len k_len"]:
        """Return the attention weights of every head, for a figure."""
        queries = self._split_heads(self.w_q(query))
        return scaled_dot_product_attention(
            queries, *self.keys_and_values(memory), mask
        )[1]

    def _split_heads(
        self, projected: Float[Tensor, "batch len heads_times_d"]
    ) -> Float[Tensor, "batch heads len d"]:
        return projected.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)


def explicit_attention(
    query: Float[Tensor, "*batch q_len d_k"],
    key: Float[Tensor, "*batch k_len d_k"],
    value: Float[Tensor, "*batch k_len d_v"],
    mask: Bool[Tensor, "*#batch #q_len #k_len"] | None = None,
    is_causal: bool = False,
) -> Float[Tensor, "*batch q_len d_v"]:
    """Return the weighted sums of Equation 1; the mask says whether it is causal."""
    return scaled_dot_product_attention(query, key, value, mask)[0]


def fused_attention(
    query: Float[Tensor, "*batch q_len d_k"],
    key: Float[Tensor, "*batch k_len d_k"],
    value: Float[Tensor, "*batch k_len d_v"],
    mask: Bool[Tensor, "*#batch #q_len #k_len"] | None = None,
    is_causal: bool = False,
) -> Float[Tensor, "*batch q_len d_v"]:
    """Return the weighted sums of Equation 1 by PyTorch's fused kernel."""
    if is_causal and query.is_cuda:
        # The fastest kernels on GPUs take no mask, but know the causal one themselves.
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)
    if query.device.type == "cpu" and query.dtype == torch.bfloat16:
        return _fused_in_fp32(query, key, value, mask)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def _fused_in_fp32(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> Tensor:
    """Convert bf16 to fp32 and back: on CPUs the kernel's backward pass is slow."""
    with torch.autocast("cpu", enabled=False):
        parts = query.float(), key.float(), value.float()
        output = F.scaled_dot_product_attention(*parts, attn_mask=mask)
    return output.to(query.dtype)


ATTENTION = {"fused": fused_attention, "explicit": explicit_attention}
