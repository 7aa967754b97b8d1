"""Checks of attention, masks and heads (Section 3.2).

Paper: §3.2
Chapter: 03_2_1_scaled_dot_product_attention
Tests: tests/course/test_checks.py
"""

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lite_course import reference
from transformer_lite_course.comparison import (
    MistakeError,
    copy_weights,
    is_same,
    random,
    require,
    require_equal,
    require_gradients,
    unchanged,
    with_pairs,
)

Change = Callable[[Tensor], Tensor]
"""A step of the computation, right or wrong."""

# fmt: off
# Attention
NO_PAIR = "Return two tensors: the weighted sums, and the weights."
OVER_QUERIES = "The softmax runs over the queries; the weights of each query sum to 1, so it runs over the keys, the last axis."
NOT_SCALED = "The scores are not scaled; divide them by √d_k."
SCALED_BY_D_K = "The scores are divided by d_k; divide them by its square root."
MULTIPLIED = "The scores are multiplied by √d_k; divide them by it."
SCALED_BY_KEYS = "The scale is the root of the number of keys; it is that of d_k, the width of a query."
SCALED_BY_D_V = "The scale is the root of d_v, the width of a value; it is that of d_k, the width of a query."
SCALED_LATE = "The scale comes after the softmax; divide the scores, before it."
NO_SOFTMAX = "There is no softmax; the weights of a query must be positive and sum to 1."
LOG_SOFTMAX = "The weights are logarithms; take softmax, not log_softmax."
NOT_MASKED = "The mask has no effect."
MASK_INVERTED = "The mask is the wrong way round: True is where a query may attend."
MASKED_LATE = "The mask is applied after the softmax, so the weights of a query no longer sum to 1; mask the scores, before it."
MASKED_BY_0 = "Masked scores become 0, but a score of 0 still gets a weight; set them to -math.inf."
MASK_ADDED = "The mask is added to the scores as 0 and 1; set masked scores to -math.inf."
MASKED_NEAR_0 = "Masked scores become a number close to 0, which still gets a weight; set them to -math.inf."
HALF_STOPS = "In half precision your code stops ({}); mask with -math.inf, which every precision has, not with a large number."
HALF_LEAKS = "In half precision a masked key gets a weight; mask with -math.inf."
# Masks
NO_TENSOR = "{} is not a tensor."
INFINITE_MASK = "{} holds 0 and -inf; here masks are Boolean, True where allowed."
NOT_BOOLEAN = "{} is of type {}; make it torch.bool."
PADDING_INVERTED = "The padding mask is the wrong way round: True is where a key is a real token."
HIDES_QUERIES = "The padding mask hides queries; only keys are masked, so the axis of the tokens comes last: batch × 1 × 1 × len."
NO_AXES = "The padding mask has no axes for heads and queries; make it batch × 1 × 1 × len, so that it broadcasts."
ONE_AXIS = "The padding mask has one axis too few; make it batch × 1 × 1 × len."
PADDING_IS_0 = "The padding mask takes 0 for padding whatever pad_id is; compare with pad_id."
ONLY_FUTURE = "The causal mask lets each position see the future alone: rows are queries, columns are keys; keep the lower triangle."
CAUSAL_INVERTED = "The causal mask is the wrong way round: True is where a query may attend."
NOT_ITSELF = "The causal mask is off by one: no position sees itself, and the first sees nothing; keep the diagonal."
SEES_NEXT = "The causal mask is off by one: each position sees the next one, which it should predict."
# Heads
NO_MODULE = "MultiHeadAttention is not a torch.nn.Module."
CUT_BY_VIEW = "The heads are cut out by view alone, which mixes positions; first split the last axis into heads × d_k, then transpose heads and positions."
ONLY_VIEWS = "The heads are cut out and put together by view alone, which mixes positions; transpose heads and positions, before and after."
MERGED_BY_VIEW = "The heads are put together without transposing back, which mixes positions; transpose heads and positions before you flatten."
INTERLEAVED = "A head takes channels that lie num_heads apart, since the last axis is cut as d_k × heads; cut it as heads × d_k, so that a head takes d_k channels in a row."
CUT_INTERLEAVED = "Head channels are cut as d_k × heads and put together as heads × d_k; do both as heads × d_k, so that a head takes d_k channels in a row."
MERGED_INTERLEAVED = "Head channels are cut as heads × d_k and put together as d_k × heads; do both as heads × d_k, so that a head takes d_k channels in a row."
NO_OUTPUT_MAP = "The output map w_o is missing."
NO_QUERY_MAP = "The query is not projected; it goes through w_q."
FROM_QUERY = "Keys and values come from the query; they come from the memory."
EXCHANGED = "The keys come from w_v and the values from w_k; exchange them."
VALUES_BY_W_K = "The values come from w_k; they come from w_v."
KEYS_BY_W_V = "The keys come from w_v; they come from w_k."
SCALED_BY_D_MODEL = "The scores are divided by the root of d_model; d_k is the width of one head."
OVER_HEADS = "The softmax runs over the heads; it runs over the keys, the last axis."
AXIS_ADDED = "MultiHeadAttention adds an axis to the mask; the mask has one for the heads already: batch × 1 × 1 × k_len."
NO_KEYS_AND_VALUES = "keys_and_values does not return two tensors."
# fmt: on


def check_attention(part: ModuleType) -> None:
    """Equation 1, with its mask, in batches and in half precision."""
    attend = part.scaled_dot_product_attention
    query, key, value = (
        random(2, 3, 6),
        random(2, 5, 6, seed=1),
        random(2, 5, 4, seed=2),
    )
    mask = torch.tensor([[1, 1, 0, 0, 0], [1, 0, 1, 1, 0], [0, 1, 1, 0, 1]]).bool()
    for allowed in (None, mask):
        expected = reference.scaled_dot_product_attention(query, key, value, allowed)
        with unchanged(query=query, key=key, value=value):
            pair = attend(query, key, value, allowed)
        require(isinstance(pair, tuple) and len(pair) == 2, NO_PAIR)
        wrong = _wrong_weights(query, key, value, allowed)
        wrong_sums = {sentence: weights @ value for sentence, weights in wrong.items()}
        require_equal("The tensor of weights", pair[1], expected[1], wrong)
        require_equal("The tensor of weighted sums", pair[0], expected[0], wrong_sums)

    def with_heads(x: Tensor) -> Tensor:
        return x[:, None].expand(-1, 2, -1, -1)

    sums, _ = attend(*map(with_heads, (query, key, value)), mask)
    require_equal("With an axis for heads, the result", sums, with_heads(expected[0]))
    try:
        _, weights = attend(query.half(), key.half(), value.half(), mask)
    except RuntimeError as error:
        raise MistakeError(HALF_STOPS.format(error)) from error
    is_masked = weights.isfinite().all() and (weights[..., ~mask] == 0).all()
    require(is_masked, HALF_LEAKS)


def _wrong_weights(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> dict[str, Tensor]:
    """Return the weights that well-known mistakes give."""
    d_k, root = query.size(-1), math.sqrt(query.size(-1))

    def hide(scores: Tensor, value: float = -math.inf) -> Tensor:
        return scores if mask is None else scores.masked_fill(~mask, value)

    softmax = partial(torch.softmax, dim=-1)

    def weights(
        scale: float = root,
        hide: Change = hide,
        normalize: Change = softmax,
        after: Change = torch.clone,
    ) -> Tensor:
        return after(normalize(hide(query @ key.transpose(-2, -1) / scale)))

    changes = {
        OVER_QUERIES: {"normalize": partial(torch.softmax, dim=-2)},
        NOT_SCALED: {"scale": 1},
        SCALED_BY_D_K: {"scale": d_k},
        MULTIPLIED: {"scale": 1 / root},
        SCALED_BY_KEYS: {"scale": math.sqrt(key.size(-2))},
        SCALED_BY_D_V: {"scale": math.sqrt(value.size(-1))},
        SCALED_LATE: {"scale": 1, "after": lambda weights: weights / root},
        NO_SOFTMAX: {"normalize": torch.clone},
        LOG_SOFTMAX: {"normalize": partial(torch.log_softmax, dim=-1)},
    }
    if mask is not None:
        changes |= {
            NOT_MASKED: {"hide": torch.clone},
            MASK_INVERTED: {"hide": lambda s: s.masked_fill(mask, -math.inf)},
            MASKED_LATE: {"hide": torch.clone, "after": lambda w: w * mask},
            MASKED_BY_0: {"hide": lambda scores: scores * mask},
            MASK_ADDED: {"hide": lambda scores: scores + mask},
            MASKED_NEAR_0: {"hide": partial(hide, value=-1e-9)},
        }
    return with_pairs(weights, changes)


def check_masks(part: ModuleType) -> None:
    """True means "may attend", in both masks."""
    ids = torch.tensor([[4, 5, 2, 0], [7, 0, 2, 2]])
    for pad_id in (0, 2):
        real = ids != pad_id
        wrong = {
            PADDING_INVERTED: ~real[:, None, None],
            HIDES_QUERIES: real[:, None, :, None],
            NO_AXES: real,
            ONE_AXIS: real[:, None],
            PADDING_IS_0: (ids != 0)[:, None, None],
        }
        mask = part.padding_mask(ids, pad_id)
        _require_boolean("The padding mask", mask)
        require_equal("The padding mask", mask, real[:, None, None], wrong)
    for length in (4, 1):
        everything = torch.ones(length, length, dtype=torch.bool)
        wrong = {
            ONLY_FUTURE: everything.triu(),
            CAUSAL_INVERTED: everything.triu(1),
            NOT_ITSELF: everything.tril(-1),
            SEES_NEXT: everything.tril(1),
        }
        mask = part.causal_mask(length)
        _require_boolean("The causal mask", mask)
        require_equal("The causal mask", mask, everything.tril(), wrong)


def _require_boolean(name: str, mask: object) -> None:
    require(isinstance(mask, Tensor), NO_TENSOR.format(name))
    has_inf = mask.is_floating_point() and mask.isinf().any()
    require(not has_inf, INFINITE_MASK.format(name))
    require(mask.dtype == torch.bool, NOT_BOOLEAN.format(name, mask.dtype))


def check_heads(part: ModuleType) -> None:
    """Heads are split, attend each for itself, and are put together again."""
    torch.manual_seed(0)
    book = reference.MultiHeadAttention(12, 3, attention="explicit")
    reader = part.MultiHeadAttention(12, 3)
    require(isinstance(reader, nn.Module), NO_MODULE)
    copy_weights(book, reader)
    reader.eval()
    query, memory = random(2, 4, 12), random(2, 5, 12, seed=1)
    mask = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    mask[1, ..., 3:] = False
    for allowed in (None, mask):
        expected = book(query, memory, allowed)
        if allowed is not None:
            _require_no_added_axis(lambda m: reader(query, memory, m), mask, expected)
        with unchanged(query=query, memory=memory):
            output = reader(query, memory, allowed)
        wrong = _wrong_heads(book, query, memory, allowed)
        require_equal("The output", output, expected, wrong)
    pair = reader.keys_and_values(memory)
    is_pair = isinstance(pair, tuple | list) and len(pair) == 2
    require(is_pair, NO_KEYS_AND_VALUES)
    keys, values = book.keys_and_values(memory)
    require_equal("The tensor of keys from keys_and_values", pair[0], keys)
    require_equal("The tensor of values from keys_and_values", pair[1], values)
    require_equal("The result of attend", reader.attend(query, pair, mask), expected)
    require_gradients(reader, reader(query, memory, mask))


def _require_no_added_axis(
    attend: Callable[[Tensor], Tensor], mask: Tensor, expected: Tensor
) -> None:
    """Find out whether a mask with one axis less would be right."""

    def is_right(mask: Tensor) -> bool:
        with suppress(Exception):
            return is_same(attend(mask), expected)
        return False

    require(is_right(mask) or not is_right(mask[:, 0]), AXIS_ADDED)


def _wrong_heads(
    book: reference.MultiHeadAttention,
    query: Tensor,
    memory: Tensor,
    mask: Tensor | None,
) -> dict[str, Tensor]:
    """Return the outputs that well-known mistakes give."""
    heads, d_model = book.num_heads, query.size(-1)
    d_k = d_model // heads

    def cut(x: Tensor) -> Tensor:
        return x.unflatten(-1, (heads, d_k)).transpose(1, 2)

    def cut_by_view(x: Tensor) -> Tensor:
        return x.reshape(len(x), heads, x.size(1), d_k)

    def cut_interleaved(x: Tensor) -> Tensor:
        return x.unflatten(-1, (d_k, heads)).permute(0, 3, 1, 2)

    def merge(x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(2)

    def merge_by_view(x: Tensor) -> Tensor:
        return x.reshape(len(x), x.size(2), d_model)

    def merge_interleaved(x: Tensor) -> Tensor:
        return x.permute(0, 2, 3, 1).flatten(2)

    maps = {"w_q": book.w_q, "w_k": book.w_k, "w_v": book.w_v, "w_o": book.w_o}
    right = {**maps, "memory": memory, "mask": mask, "cut": cut, "merge": merge}

    def attend(scale: float = d_k, axis: int = -1, **changes: Any) -> Tensor:
        use = SimpleNamespace(**right | changes)
        queries, keys = use.cut(use.w_q(query)), use.cut(use.w_k(use.memory))
        scores = queries @ keys.transpose(-2, -1) / math.sqrt(scale)
        if use.mask is not None:
            scores = scores.masked_fill(~use.mask, -math.inf)
        sums = scores.softmax(axis) @ use.cut(use.w_v(use.memory))
        return use.w_o(use.merge(sums))

    changes: dict[str, dict[str, Any]] = {
        CUT_BY_VIEW: {"cut": cut_by_view},
        ONLY_VIEWS: {"cut": cut_by_view, "merge": merge_by_view},
        MERGED_BY_VIEW: {"merge": merge_by_view},
        INTERLEAVED: {"cut": cut_interleaved, "merge": merge_interleaved},
        CUT_INTERLEAVED: {"cut": cut_interleaved},
        MERGED_INTERLEAVED: {"merge": merge_interleaved},
        NO_OUTPUT_MAP: {"w_o": nn.Identity()},
        NO_QUERY_MAP: {"w_q": nn.Identity()},
        FROM_QUERY: {"memory": query, "mask": None},
        EXCHANGED: {"w_k": book.w_v, "w_v": book.w_k},
        VALUES_BY_W_K: {"w_v": book.w_k},
        KEYS_BY_W_V: {"w_k": book.w_v},
        SCALED_BY_D_MODEL: {"scale": d_model},
        NOT_SCALED: {"scale": 1},
        OVER_HEADS: {"axis": 1},
    }
    if mask is not None:
        changes |= {NOT_MASKED: {"mask": None}, MASK_INVERTED: {"mask": ~mask}}
    return with_pairs(attend, changes)
