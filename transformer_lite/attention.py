"""Scaled dot-product attention and multi-head attention.

Equation 1 stands here twice, with one signature: written out, as chapters show it,
and by PyTorch's fused kernel wherever that is faster, which a model uses unless told
otherwise. Tests hold their results and gradients equal.

Paper: §3.2.1–3.2.2
Chapter: 03_2_1_scaled_dot_product_attention, 03_2_2_multi_head_attention
Tests: tests/test_attention.py
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
    """Weighted sums of the values, and the weights (Equation 1).

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


def fused_attention(
    query: Float[Tensor, "*batch q_len d_k"],
    key: Float[Tensor, "*batch k_len d_k"],
    value: Float[Tensor, "*batch k_len d_v"],
    mask: Bool[Tensor, "*#batch #q_len #k_len"] | None = None,
) -> Float[Tensor, "*batch q_len d_v"]:
    """Weighted sums of the values by PyTorch's kernel (Equation 1).

    The kernel never stores the weights, so it does not return them.
    """
    if query.device.type == "cpu" and query.dtype == torch.bfloat16:
        # On CPUs the kernel's backward pass is many times slower in bf16 than in fp32.
        with torch.autocast("cpu", enabled=False):
            output = F.scaled_dot_product_attention(
                query.float(), key.float(), value.float(), attn_mask=mask
            )
        return output.to(query.dtype)
    if query.device.type == "cpu" and _is_a_decoding_step(query, key):
        return explicit_attention(query, key, value, mask)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def _is_a_decoding_step(query: Tensor, key: Tensor) -> bool:
    """Whether these are the few vectors for which the kernel is not made.

    On CPUs it then takes up to twice as long as Equation 1 written out.
    """
    return not query.requires_grad and query.size(-2) <= 8 and key.size(-2) <= 128


def explicit_attention(
    query: Float[Tensor, "*batch q_len d_k"],
    key: Float[Tensor, "*batch k_len d_k"],
    value: Float[Tensor, "*batch k_len d_v"],
    mask: Bool[Tensor, "*#batch #q_len #k_len"] | None = None,
) -> Float[Tensor, "*batch q_len d_v"]:
    """Weighted sums of the values by Equation 1, without the weights."""
    return scaled_dot_product_attention(query, key, value, mask)[0]


ATTENTION = {"fused": fused_attention, "explicit": explicit_attention}


class KeysAndValues(NamedTuple):
    """Projected keys and values of all heads."""

    key: Float[Tensor, "batch heads k_len d_k"]
    value: Float[Tensor, "batch heads k_len d_v"]


class KeyValueCache(NamedTuple):
    """Keys and values as a decoder reads them again and again, every head's kᵀ and v.

    On CPUs the product of a few queries with keyᵀ takes a third of the time where keyᵀ
    itself lies row by row in memory.
    """

    key_transposed: Float[Tensor, "batch heads d_k k_len"]
    value: Float[Tensor, "batch heads k_len d_v"]

    @classmethod
    def of(cls, projected: KeysAndValues) -> "KeyValueCache":
        """A cache of these keys and values."""
        return cls(projected.key.mT.contiguous(), projected.value.contiguous())

    def followed_by(self, newest: KeysAndValues) -> "KeyValueCache":
        """These positions and then the newest ones."""
        return KeyValueCache(
            torch.cat([self.key_transposed, newest.key.mT], dim=-1),
            torch.cat([self.value, newest.value], dim=-2),
        )

    def keep(self, sentences: Int[Tensor, " kept"]) -> "KeyValueCache":
        """Those of these sentences alone, in this order."""
        return KeyValueCache(*(part.index_select(0, sentences) for part in self))

    def keys_and_values(self) -> KeysAndValues:
        """What `MultiHeadAttention.attend` takes, without a copy."""
        return KeysAndValues(self.key_transposed.mT, self.value)


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each in its own projection (Section 3.2.2).

    MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O with
    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V). The h small matrices W_i^Q lie
    side by side in one large matrix `w_q`, and so for keys and values.

    Args:
        d_model: Width of queries, memory and output.
        num_heads: Number of heads, h.
        d_k: Width of a head's queries and keys; by default d_model / num_heads.
        d_v: Width of a head's values; by default d_model / num_heads.
        attention: "fused" or "explicit"; the results are equal.
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
        d_k = d_k or d_model // num_heads
        d_v = d_v or d_model // num_heads
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
    ) -> Float[Tensor, "batch q_len d_model"]:
        """What each query gathers from memory; in self-attention the two are one."""
        return self.attend(query, self.keys_and_values(memory), mask)

    def keys_and_values(
        self, memory: Float[Tensor, "batch k_len d_model"]
    ) -> KeysAndValues:
        """The memory as every head sees it; computed once, it serves many queries."""
        return KeysAndValues(
            self._split_heads(self.w_k(memory)), self._split_heads(self.w_v(memory))
        )

    def attend(
        self,
        query: Float[Tensor, "batch q_len d_model"],
        projected: KeysAndValues,
        mask: Bool[Tensor, "#batch #heads #q_len k_len"] | None = None,
    ) -> Float[Tensor, "batch q_len d_model"]:
        """What each query gathers from a memory that is projected already."""
        heads = self.attention(self._split_heads(self.w_q(query)), *projected, mask)
        return self.w_o(heads.transpose(1, 2).flatten(2))

    def weights(
        self,
        query: Float[Tensor, "batch q_len d_model"],
        memory: Float[Tensor, "batch k_len d_model"],
        mask: Bool[Tensor, "#batch #heads #q_len k_len"] | None = None,
    ) -> Float[Tensor, "batch heads q_len k_len"]:
        """Every head's attention weights, computed afresh for a figure."""
        queries = self._split_heads(self.w_q(query))
        return scaled_dot_product_attention(
            queries, *self.keys_and_values(memory), mask
        )[1]

    def _split_heads(
        self, projected: Float[Tensor, "batch len heads_times_d"]
    ) -> Float[Tensor, "batch heads len d"]:
        return projected.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
