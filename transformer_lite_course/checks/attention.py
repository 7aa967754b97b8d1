"""Checks of attention, masks and heads (Section 3.2).

Paper: §3.2
Chapter: 03_2_1_scaled_dot_product_attention
Tests: tests/course/test_checks.py
"""

import math
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lite_course import reference
from transformer_lite_course.comparing import (
    Fault,
    Mistakes,
    copy_weights,
    random,
    require,
    require_equal,
    require_gradients,
    unchanged,
)

# Section 3.2.1


def check_attention(part: ModuleType) -> None:
    """Equation 1, with its mask, in batches and in half precision."""
    attend = part.scaled_dot_product_attention
    query, key, value = (
        random(2, 3, 6),
        random(2, 5, 6, seed=1),
        random(2, 5, 4, seed=2),
    )
    mask = torch.tensor([[1, 1, 0, 0, 0], [1, 0, 1, 1, 0], [0, 1, 1, 0, 1]]).bool()
    for given in (None, mask):
        expected = reference.scaled_dot_product_attention(query, key, value, given)
        with unchanged(query=query, key=key, value=value):
            found = attend(query, key, value, given)
        is_pair = isinstance(found, tuple) and len(found) == 2
        require(is_pair, "Return two tensors: the weighted sums, and the weights.")
        wrong = _wrong_attention(query, key, value, given)
        sums = {sentence: weights @ value for sentence, weights in wrong.items()}
        require_equal("The tensor of weights", found[1], expected[1], wrong)
        require_equal("The tensor of weighted sums", found[0], expected[0], sums)
    heads = [tensor[:, None].expand(-1, 2, -1, -1) for tensor in (query, key, value)]
    found, _ = attend(*heads, mask)
    require_equal(
        "With an axis for heads, the result",
        found,
        expected[0][:, None].expand(-1, 2, -1, -1),
    )
    half = [tensor.half() for tensor in (query, key, value)]
    try:
        found, weights = attend(*half, mask)
    except RuntimeError as error:
        raise Fault(
            f"In half precision your code stops ({error}); mask with -math.inf, which every precision has, not with a large number."
        ) from error
    require(
        bool(weights.isfinite().all()) and bool((weights[..., ~mask] == 0).all()),
        "In half precision a masked key gets a weight; mask with -math.inf.",
    )


def _wrong_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> dict[str, Tensor]:
    """Return the weights that well-known mistakes give."""
    scores = query @ key.transpose(-2, -1)
    root, size = math.sqrt(query.size(-1)), query.size(-1)
    allowed = torch.ones(3, 5, dtype=torch.bool) if mask is None else mask

    def masked(scores: Tensor, allowed: Tensor = allowed) -> Tensor:
        return scores.masked_fill(~allowed, -math.inf)

    def softmax(scores: Tensor, axis: int = -1) -> Tensor:
        return scores.softmax(axis)

    mistakes = {
        "The softmax runs over the queries; the weights of each query sum to 1, so it runs over the keys, the last axis.": softmax(
            masked(scores / root), -2
        ),
        "The scores are not scaled; divide them by √d_k.": softmax(masked(scores)),
        "The scores are divided by d_k; divide them by its square root.": softmax(
            masked(scores / size)
        ),
        "The scores are multiplied by √d_k; divide them by it.": softmax(
            masked(scores * root)
        ),
        "The scale is the root of the number of keys; it is that of d_k, the width of a query.": softmax(
            masked(scores / math.sqrt(key.size(-2)))
        ),
        "The scale comes after the softmax; divide the scores, before it.": softmax(
            masked(scores)
        )
        / root,
        "There is no softmax; the weights of a query must be positive and sum to 1.": masked(
            scores / root
        ),
        "The weights are logarithms; take softmax, not log_softmax.": masked(
            scores / root
        ).log_softmax(-1),
    }
    if mask is not None:
        mistakes |= {
            "The mask has no effect.": softmax(scores / root),
            "The mask is the wrong way round: True is where a query may attend.": softmax(
                masked(scores / root, ~allowed)
            ),
            "The mask is applied after the softmax, so the weights of a query no longer sum to 1; mask the scores, before it.": softmax(
                scores / root
            )
            * allowed,
            "Masked scores become 0, but a score of 0 still gets a weight; set them to -math.inf.": softmax(
                scores / root * allowed
            ),
            "The mask is added to the scores as 0 and 1; set masked scores to -math.inf.": softmax(
                scores / root + allowed
            ),
            "Masked scores become a number close to 0, which still gets a weight; set them to -math.inf.": softmax(
                (scores / root).masked_fill(~allowed, -1e-9)
            ),
        }
    return mistakes


# Section 3.2.3


def check_masks(part: ModuleType) -> None:
    """True means "may attend", in both masks."""
    ids = torch.tensor([[4, 5, 2, 0], [7, 0, 2, 2]])
    for pad_id in (0, 2):
        real = ids != pad_id
        found = part.padding_mask(ids, pad_id)
        name = "The padding mask"
        require(isinstance(found, Tensor), f"{name} is not a tensor.")
        _require_boolean(name, found)
        wrong: Mistakes = {
            f"{name} is the wrong way round: True is where a key is a real token.": ~real[
                :, None, None
            ],
            f"{name} hides queries; only keys are masked, so the axis of the tokens comes last: batch × 1 × 1 × len.": real[
                :, None, :, None
            ],
            f"{name} has no axes for heads and queries; make it batch × 1 × 1 × len, so that it broadcasts.": real,
            f"{name} has one axis too few; make it batch × 1 × 1 × len.": real[:, None],
            f"{name} takes 0 for padding whatever pad_id is; compare with pad_id.": (
                ids != 0
            )[:, None, None],
        }
        require_equal(name, found, real[:, None, None], wrong)
    name = "The causal mask"
    for length in (4, 1):
        ones = torch.ones(length, length)
        found = part.causal_mask(length)
        require(isinstance(found, Tensor), f"{name} is not a tensor.")
        _require_boolean(name, found)
        wrong = {
            f"{name} lets each position see the future alone: rows are queries, columns are keys; keep the lower triangle.": ones.triu(),
            f"{name} is the wrong way round: True is where a query may attend.": ones.triu(
                1
            ),
            f"{name} is off by one: no position sees itself, and the first sees nothing; keep the diagonal.": ones.tril(
                -1
            ),
            f"{name} is off by one: each position sees the next one, which it should predict.": ones.tril(
                1
            ),
        }
        require_equal(name, found, ones.tril(), wrong)


def _require_boolean(name: str, mask: Tensor) -> None:
    if mask.is_floating_point() and mask.isinf().any():
        raise Fault(
            f"{name} holds 0 and -inf; here masks are Boolean, True where allowed."
        )
    require(
        mask.dtype == torch.bool, f"{name} is of type {mask.dtype}; make it torch.bool."
    )


# Section 3.2.2


def check_heads(part: ModuleType) -> None:
    """Heads are split, attend each for itself, and are put together again."""
    torch.manual_seed(0)
    book = reference.MultiHeadAttention(12, 3, attention="explicit")
    mine = part.MultiHeadAttention(12, 3)
    require(isinstance(mine, nn.Module), "MultiHeadAttention is not a torch.nn.Module.")
    copy_weights(book, mine)
    mine.eval()
    query, memory = random(2, 4, 12), random(2, 5, 12, seed=1)
    mask = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    mask[1, ..., 3:] = False
    for given in (None, mask):
        expected = book(query, memory, given)
        with unchanged(query=query, memory=memory):
            found = mine(query, memory, given)
        wrong = _wrong_heads(book, query, memory, given)
        require_equal("The output", found, expected, wrong)
    projected = mine.keys_and_values(memory)
    require(
        isinstance(projected, tuple | list) and len(projected) == 2,
        "keys_and_values does not return two tensors.",
    )
    for name, ours, theirs in zip(
        ("of keys", "of values"), projected, book.keys_and_values(memory), strict=True
    ):
        require_equal(f"The tensor {name} from keys_and_values", ours, theirs)
    require_equal("The result of attend", mine.attend(query, projected, mask), expected)
    require_gradients(mine, mine(query, memory, mask))


def _wrong_heads(
    book: reference.MultiHeadAttention,
    query: Tensor,
    memory: Tensor,
    mask: Tensor | None,
) -> dict[str, Tensor]:
    """Return the outputs that well-known mistakes give."""
    number, d_model = book.num_heads, query.size(-1)

    def split(x: Tensor) -> Tensor:
        return x.unflatten(-1, (number, -1)).transpose(1, 2)

    def viewed(x: Tensor) -> Tensor:
        return x.reshape(len(x), number, x.size(1), -1)

    def interleaved(x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, number)).permute(0, 3, 1, 2)

    def merged(heads: Tensor) -> Tensor:
        return heads.transpose(1, 2).flatten(2)

    def in_order(heads: Tensor) -> Tensor:
        return heads.reshape(len(heads), heads.size(2), -1)

    def by_channel(heads: Tensor) -> Tensor:
        return heads.permute(0, 2, 3, 1).flatten(2)

    right = {
        "memory": memory,
        "split": split,
        "merged": merged,
        "key": book.w_k,
        "value": book.w_v,
        "output": book.w_o,
        "mask": mask,
        "axis": -1,
        "scale": d_model // number,
    }

    def run(**changes: Any) -> Tensor:
        it = SimpleNamespace(**right | changes)
        q, k = it.split(book.w_q(query)), it.split(it.key(it.memory))
        scores = q @ k.transpose(-2, -1) / math.sqrt(it.scale)
        if it.mask is not None:
            scores = scores.masked_fill(~it.mask, -math.inf)
        heads = scores.softmax(it.axis) @ it.split(it.value(it.memory))
        return it.output(it.merged(heads))

    mistakes = {
        "The heads are cut out by view alone, which mixes positions; first split the last axis into heads × d_k, then transpose heads and positions.": run(
            split=viewed
        ),
        "The heads are cut out and put together by view alone, which mixes positions; transpose heads and positions, before and after.": run(
            split=viewed, merged=in_order
        ),
        "The heads are put together without transposing back, which mixes positions; transpose heads and positions before you flatten.": run(
            merged=in_order
        ),
        "A head takes every third channel; the last axis is heads × d_k, in this order.": run(
            split=interleaved, merged=by_channel
        ),
        "Head channels are split as d_k × heads and put together as heads × d_k.": run(
            split=interleaved
        ),
        "The output map w_o is missing.": run(output=nn.Identity()),
        "Keys and values come from the query; they come from the memory.": run(
            memory=query, mask=None
        ),
        "The values come from w_k; they come from w_v.": run(value=book.w_k),
        "The keys come from w_v; they come from w_k.": run(key=book.w_v),
        "The scores are divided by the root of d_model; d_k is the width of one head.": run(
            scale=d_model
        ),
        "The scores are not divided by √d_k.": run(scale=1),
        "The softmax runs over the heads; it runs over the keys, the last axis.": run(
            axis=1
        ),
    }
    if mask is not None:
        mistakes |= {
            "The mask has no effect.": run(mask=None),
            "The mask is the wrong way round: True is where a query may attend.": run(
                mask=~mask
            ),
        }
    return mistakes
