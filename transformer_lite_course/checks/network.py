"""Checks of layers, embeddings, positions and the whole model (Section 3).

Paper: §3
Chapter: 03_model_architecture
Tests: tests/course/test_checks.py
"""

from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lite.config import ModelConfig
from transformer_lite.tokenizer import BOS, EOS, PAD
from transformer_lite_course import reference
from transformer_lite_course.comparison import (
    MistakeError,
    copy_weights,
    random,
    require,
    require_equal,
    require_gradients,
    with_pairs,
)

CONFIG = ModelConfig(
    vocab_size=11, num_layers=2, d_model=12, d_ff=20, num_heads=3, max_len=16
)
"""A small model whose widths all differ."""

# fmt: off
# FeedForward
NO_RELU = "FeedForward has no ReLU between its two maps."
RELU_LATE = "The ReLU of FeedForward comes after the second map; it stands between both."
RELU_TWICE = "FeedForward also applies a ReLU after the second map."
GELU = "FeedForward takes GELU; the paper takes ReLU, max(0, x)."
ADDS_INPUT = "FeedForward adds its input; the residual connection is in AddAndNorm."
# AddAndNorm
PRE_NORM = "AddAndNorm normalizes the input before the sum (pre-norm); the paper normalizes the sum."
NORM_OF_OUTPUT = "AddAndNorm normalizes only the sub-layer's output; add the input first."
NO_RESIDUAL = "The residual connection is missing: AddAndNorm forgets its input x."
NO_NORM = "AddAndNorm does not normalize the sum."
UNBIASED = "The variance in the LayerNorm divides by n - 1; LayerNorm divides by n (correction=0)."
UNBIASED_OUTSIDE = "The standard deviation in the LayerNorm divides by n - 1, and ε is outside of the root; divide by n, and add ε to the variance."
EPSILON_OUTSIDE = "In the LayerNorm ε is added to the standard deviation; add it to the variance, inside the root."
OVER_POSITIONS = "The LayerNorm normalizes over the positions; it normalizes over the channels of each position, the last axis."
OVER_BOTH = "The LayerNorm normalizes over positions and channels together; it normalizes over the channels of each position, the last axis."
NO_DROPOUT = "AddAndNorm has no dropout in training."
DROPS_SUM = "AddAndNorm drops out of the sum; only the sub-layer's output is dropped."
DROPS_RESULT = "AddAndNorm drops out of its result; only the sub-layer's output is dropped, before the sum."
DROPS_INPUT = "AddAndNorm drops out of the input, not of the sub-layer's output."
# EncoderLayer
ENCODER_NOT_MASKED = "EncoderLayer does not pass its mask on to the self-attention."
ENCODER_MASK_INVERTED = "EncoderLayer turns its mask round."
FEED_FORWARD_FIRST = "EncoderLayer runs the feed-forward network first; self-attention comes first."
FEED_FORWARD_OF_INPUT = "The feed-forward network of EncoderLayer reads the layer's input; it reads what self-attention made of it."
RESIDUAL_OF_INPUT = "The second residual connection of EncoderLayer starts at the layer's input; it starts at what the first sub-layer returned."
ENCODER_NO_FEED_FORWARD = "EncoderLayer has no feed-forward network."
NO_SELF_ATTENTION = "EncoderLayer has no self-attention."
ONE_NORM = "EncoderLayer uses one AddAndNorm for both sub-layers; each has its own."
# DecoderLayer
LAYER_SEES_FUTURE = "DecoderLayer looks into the future: pass the causal mask to its self-attention."
CAUSAL_INVERTED = "DecoderLayer turns the causal mask round."
SEES_SOURCE_PADDING = "The cross-attention of DecoderLayer sees the source's padding: pass it memory_mask."
SOURCE_FIRST = "DecoderLayer attends to the source first; masked self-attention comes first."
NO_CROSS_ATTENTION = "DecoderLayer has no cross-attention, so it never sees the source."
DECODER_NO_FEED_FORWARD = "DecoderLayer has no feed-forward network."
FEED_FORWARD_BETWEEN = "DecoderLayer runs the feed-forward network between both attentions; it comes last."
READS_X_ALONE = "The cross-attention of DecoderLayer reads x alone; keys and values come from the memory."
LAYER_FORGETS = "DecoderLayer.step sees only the newest position; put its keys and values behind those of the past."
# Embedding
TWO_MATRICES = "Embedding has {} parameters ({}); the same matrix embeds and scores."
NO_MATRIX = "Embedding has no parameter; make one nn.Parameter."
VARIANCE_OF_1 = "The matrix begins with a variance of 1, so the logits begin with one of d_model; draw it with variance 1 / d_model."
WRONG_DEVIATION = "The entries of the matrix begin with a deviation of {:.3f}; it should be √(1 / d_model), here {:.3f}."
NOT_MULTIPLIED = "The embeddings are not multiplied by √d_model."
MULTIPLIED_BY_SQUARE = "The embeddings are multiplied by d_model; multiply by its square root."
DIVIDED = "The embeddings are divided by √d_model; multiply."
MULTIPLIED_BY_VOCABULARY = "The embeddings are multiplied by the root of the vocabulary's size; take that of d_model."
LOGITS_SOFTMAX = "logits ends in a softmax; the loss and the search take it, and twice is once too often."
LOGITS_LOG_SOFTMAX = "logits ends in a log_softmax; return the scores before it."
LOGITS_MULTIPLIED = "The logits are multiplied by √d_model; the factor belongs to the embeddings alone."
LOGITS_DIVIDED = "The logits are divided by √d_model; leave them as they are."
# Positions
SINES_FIRST = "All sines come first and then all cosines; sine and cosine of an angle stand side by side, in channels 2i and 2i + 1."
COSINES_EVEN = "Sine and cosine have changed places; even channels are sines."
FREQUENCY_EACH = "Every channel has a frequency of its own; channels 2i and 2i + 1 share one."
FROM_1 = "The positions begin at 1; the first is 0."
EXPONENT_I = "The exponent is i / d_model; it is 2i / d_model."
EXPONENT_4I = "The exponent is 4i / d_model: arange(0, d_model, 2) counts 2i already."
POSITION_MULTIPLIED = "The position is multiplied by 10000^(2i/d_model); divide by it."
BASE_1000 = "The base is 1000; it is 10000."
ONLY_SINES = "Every channel is a sine; the odd ones are cosines."
AUTHORS_CODE = "The exponent divides by d_model / 2 - 1, as in the authors' code; the formula has 2i / d_model."
TRANSPOSED = "Rows and columns have changed places; a row is a position."
# Transformer
ONE_LAYER = "The layers of a stack are one and the same layer, repeated; make a new one each time (not [layer] * N)."
MORE_MATRICES = "There is more than one embedding matrix; source, target and output share one."
MODEL_SOFTMAX = "The model ends in a softmax; return the logits."
MODEL_LOG_SOFTMAX = "The model ends in a log_softmax; return the logits."
NO_POSITIONS = "Neither side has positions; add sinusoidal_encoding to the embeddings."
NO_SOURCE_POSITIONS = "The source has no positions."
NO_TARGET_POSITIONS = "The target has no positions."
SEES_FUTURE = "The decoder looks into the future; give its layers the causal mask."
NEVER_MASKED = "Padding of the source is never masked; pass padding_mask to both stacks."
ENCODER_SEES_PADDING = "The encoder sees the source's padding; pass it the padding mask."
DECODER_SEES_PADDING = "The decoder sees the source's padding; pass it the padding mask."
NO_ENCODER = "The decoder reads the source's embeddings; it reads the encoder's output."
SIDE_BY_SIDE = "Each decoder layer reads the output of the encoder layer beside it; all read the last one's."
MODEL_NO_DROPOUT = "Training has no dropout: two passes give equal logits."
CHANGES_STATE = "step changes the state that it is given; return a new one, so that a search can go on from the old one."
MODEL_FORGETS = "step forgets the tokens before the newest one."
FIRST_IS_RIGHT = "{} The first position is right, so look at the position that step adds to the embedding, and at the past."
# fmt: on


def check_layers(part: ModuleType) -> None:
    """The feed-forward network, the residual connection with its norm, both layers."""
    torch.manual_seed(0)
    _check_feed_forward(part)
    _check_add_and_norm(part)
    _check_encoder_layer(part)
    _check_decoder_layer(part)


def _check_feed_forward(part: ModuleType) -> None:
    book, reader = reference.FeedForward(12, 20), part.FeedForward(12, 20)
    copy_weights(book, reader)
    x, w_1, w_2 = random(2, 3, 12), book.w_1, book.w_2
    wrong = {
        NO_RELU: w_2(w_1(x)),
        RELU_LATE: w_2(w_1(x)).relu(),
        RELU_TWICE: w_2(w_1(x).relu()).relu(),
        GELU: w_2(F.gelu(w_1(x))),
        ADDS_INPUT: x + book(x),
    }
    require_equal("The output of FeedForward", reader.eval()(x), book(x), wrong)


def _check_add_and_norm(part: ModuleType) -> None:
    book, reader = reference.AddAndNorm(12, 1.0), part.AddAndNorm(12, 1.0)
    _randomize_vectors(book)
    copy_weights(book, reader)
    norm = book.norm
    for scale in (1, 0.005):  # small entries show where ε is
        x, y = scale * random(2, 3, 12), scale * random(2, 3, 12, seed=1)
        total = x + y

        def by(deviation: Tensor, axis: int = -1, total: Tensor = total) -> Tensor:
            centred = total - total.mean(axis, keepdim=True)
            return centred / deviation * norm.weight + norm.bias

        variance = total.var(-1, correction=0, keepdim=True)
        of_positions = total.var(1, correction=0, keepdim=True)
        unbiased = total.var(-1, keepdim=True)
        over_both = F.layer_norm(total, total.shape[1:])
        wrong = {
            PRE_NORM: norm(x) + y,
            NORM_OF_OUTPUT: x + norm(y),
            NO_RESIDUAL: norm(y),
            NO_NORM: total,
            UNBIASED: by((unbiased + 1e-5).sqrt()),
            UNBIASED_OUTSIDE: [by(unbiased.sqrt() + e) for e in (1e-5, 1e-6)],
            EPSILON_OUTSIDE: by(variance.sqrt() + 1e-5),
            OVER_POSITIONS: by((of_positions + 1e-5).sqrt(), axis=1),
            OVER_BOTH: over_both * norm.weight + norm.bias,
        }
        output = reader.eval()(x, y)
        require_equal("The output of AddAndNorm", output, norm(total), wrong)
    # With a probability of 1 everything is dropped that can be.
    nothing = torch.zeros_like(x)
    wrong = {
        NO_DROPOUT: norm(x + y),
        DROPS_SUM: norm(nothing),
        DROPS_RESULT: nothing,
        DROPS_INPUT: norm(y),
    }
    output = reader.train()(x, y)
    require_equal("The output of AddAndNorm in training", output, norm(x), wrong)


def _check_encoder_layer(part: ModuleType) -> None:
    book, reader = reference.EncoderLayer(CONFIG), part.EncoderLayer(CONFIG)
    _randomize_vectors(book)
    copy_weights(book, reader)
    book.eval(), reader.eval()
    x = random(2, 4, 12)
    mask = torch.ones(2, 1, 1, 4, dtype=torch.bool)
    mask[1, ..., 2:] = False
    first, feed_forward = book.after_self_attention, book.feed_forward
    second = book.after_feed_forward

    def attended(x: Tensor) -> Tensor:
        return first(x, book.self_attention(x, x, mask))

    y = attended(x)
    wrong = {
        ENCODER_NOT_MASKED: book(x, torch.ones_like(mask)),
        ENCODER_MASK_INVERTED: book(x, ~mask),
        FEED_FORWARD_FIRST: attended(second(x, feed_forward(x))),
        FEED_FORWARD_OF_INPUT: second(y, feed_forward(x)),
        RESIDUAL_OF_INPUT: second(x, feed_forward(y)),
        ENCODER_NO_FEED_FORWARD: y,
        NO_SELF_ATTENTION: second(x, feed_forward(x)),
        ONE_NORM: first(y, feed_forward(y)),
    }
    require_equal("The output of EncoderLayer", reader(x, mask), book(x, mask), wrong)
    require_gradients(reader, reader(x, mask))


def _check_decoder_layer(part: ModuleType) -> None:
    book, reader = reference.DecoderLayer(CONFIG), part.DecoderLayer(CONFIG)
    _randomize_vectors(book)
    copy_weights(book, reader)
    book.eval(), reader.eval()
    x, memory = random(2, 4, 12), random(2, 5, 12, seed=1)
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    mask = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    mask[1, ..., 3:] = False

    def run(*sublayers: str, own_memory: bool = False) -> Tensor:
        y = x
        for name in sublayers:
            inputs = {
                "self_attention": (y, y, causal[None, None]),
                "cross_attention": (y, y) if own_memory else (y, memory, mask),
                "feed_forward": (y,),
            }
            output = getattr(book, name)(*inputs[name])
            y = getattr(book, f"after_{name}")(y, output)
        return y

    attention, cross, feed_forward = "self_attention", "cross_attention", "feed_forward"
    wrong = {
        LAYER_SEES_FUTURE: book(x, memory, torch.ones_like(causal), mask),
        CAUSAL_INVERTED: book(x, memory, ~causal, mask),
        SEES_SOURCE_PADDING: book(x, memory, causal, torch.ones_like(mask)),
        SOURCE_FIRST: run(cross, attention, feed_forward),
        NO_CROSS_ATTENTION: run(attention, feed_forward),
        DECODER_NO_FEED_FORWARD: run(attention, cross),
        FEED_FORWARD_BETWEEN: run(attention, feed_forward, cross),
        READS_X_ALONE: run(attention, cross, feed_forward, own_memory=True),
    }
    expected = book(x, memory, causal, mask)
    output = reader(x, memory, causal, mask)
    require_equal("The output of DecoderLayer", output, expected, wrong)
    require_gradients(reader, output)
    past = reader.self_attention.keys_and_values(x[:, :0])
    projected = reader.cross_attention.keys_and_values(memory)
    for place in range(4):
        newest = slice(place, place + 1)
        seen = torch.ones(2, 1, 1, place + 1, dtype=torch.bool)
        output, past = reader.step(x[:, newest], past, seen, projected, mask)
        alone = book(x[:, newest], memory, causal[:1, :1], mask)
        what = f"At position {place + 1}, the output of DecoderLayer.step"
        wrong = {LAYER_FORGETS: alone} if place else {}
        require_equal(what, output, expected[:, newest], wrong)


def _randomize_vectors(module: nn.Module) -> None:
    """Draw the vectors, which begin as zeros and ones, so that none can be missed."""
    for parameter in module.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter)


def check_embeddings(part: ModuleType) -> None:
    """One matrix in two places, scaled in one of them."""
    torch.manual_seed(0)
    d_model, root = 64, 8
    book, reader = reference.Embedding(400, d_model), part.Embedding(400, d_model)
    names = [name for name, _ in reader.named_parameters()]
    require(len(names) < 2, TWO_MATRICES.format(len(names), ", ".join(names)))
    require(bool(names), NO_MATRIX)
    deviation = next(reader.parameters()).std().item()
    require(abs(deviation - 1) >= 0.1, VARIANCE_OF_1)
    is_right = abs(deviation - 1 / root) < 0.01
    require(is_right, WRONG_DEVIATION.format(deviation, 1 / root))
    copy_weights(book, reader)
    ids = torch.tensor([[3, 8, 1], [0, 8, 399]])
    rows, hidden = book.weight[ids], random(2, 3, d_model)
    wrong = {
        NOT_MULTIPLIED: rows,
        MULTIPLIED_BY_SQUARE: rows * d_model,
        DIVIDED: rows / root,
        MULTIPLIED_BY_VOCABULARY: rows * 20,
    }
    require_equal("The tensor of embeddings", reader(ids), rows * root, wrong)
    scores = hidden @ book.weight.T
    wrong = {
        LOGITS_SOFTMAX: scores.softmax(-1),
        LOGITS_LOG_SOFTMAX: scores.log_softmax(-1),
        LOGITS_MULTIPLIED: scores * root,
        LOGITS_DIVIDED: scores / root,
    }
    require_equal("The tensor of logits", reader.logits(hidden), scores, wrong)


def check_positions(part: ModuleType) -> None:
    """Every frequency as a sine and a cosine, side by side."""
    length, width = 50, 8
    position = torch.arange(length).double()[:, None]
    exponent = torch.arange(0, width, 2).double() / width

    interleaved = partial(torch.flatten, start_dim=1)

    def waves(
        start: int = 0,
        power: Tensor = -exponent,
        base: float = 10_000,
        even: Any = torch.sin,
        odd: Any = torch.cos,
        order: Any = interleaved,
    ) -> Tensor:
        angle = (position + start) * base**power
        return order(torch.stack([even(angle), odd(angle)], -1))

    each = position / 10_000 ** (torch.arange(width).double() / width)
    authors = torch.arange(width // 2).double() / (width / 2 - 1)
    is_even = torch.arange(width) % 2 == 0
    changes = {
        SINES_FIRST: {"order": lambda waves: waves.transpose(1, 2).flatten(1)},
        COSINES_EVEN: {"even": torch.cos, "odd": torch.sin},
        FROM_1: {"start": 1},
        EXPONENT_I: {"power": -exponent / 2},
        EXPONENT_4I: {"power": -2 * exponent},
        POSITION_MULTIPLIED: {"power": exponent},
        BASE_1000: {"base": 1_000},
        ONLY_SINES: {"odd": torch.sin},
        AUTHORS_CODE: {"power": -authors},
        TRANSPOSED: {"order": lambda waves: waves.flatten(1).T},
    }
    wrong = {FREQUENCY_EACH: torch.where(is_even, each.sin(), each.cos())}
    wrong |= with_pairs(waves, changes)
    require_equal(
        "The encoding", part.sinusoidal_encoding(length, width), waves(), wrong
    )


def check_model(part: ModuleType) -> None:
    """Figure 1, and the same one token at a time."""
    torch.manual_seed(0)
    book, reader = reference.Transformer(CONFIG), part.Transformer(CONFIG)
    _randomize_vectors(book)
    books, readers = (sum(p.numel() for p in m.parameters()) for m in (book, reader))
    require(readers >= books or not _repeats_layers(reader), ONE_LAYER)
    matrix = CONFIG.vocab_size * CONFIG.d_model
    require(readers - books not in (matrix, 2 * matrix), MORE_MATRICES)
    copy_weights(book, reader, _name_in_course)
    book.eval(), reader.eval()
    src = torch.tensor([[5, 6, 7, 8, EOS], [9, 4, EOS, PAD, PAD]])
    tgt = torch.tensor([[BOS, 4, 8, 9], [BOS, 7, 5, 6]])
    expected = book(src, tgt)

    def logits(after: Any = torch.clone, **left_out: None) -> Tensor:
        return after(_logits_without(book, src, tgt, *left_out))

    def without(*parts: str) -> dict[str, None]:
        return dict.fromkeys(parts)

    changes: dict[str, dict[str, Any]] = {
        MODEL_SOFTMAX: {"after": partial(torch.softmax, dim=-1)},
        MODEL_LOG_SOFTMAX: {"after": partial(torch.log_softmax, dim=-1)},
        NO_POSITIONS: without("source positions", "target positions"),
        NO_SOURCE_POSITIONS: without("source positions"),
        NO_TARGET_POSITIONS: without("target positions"),
        SEES_FUTURE: without("causal mask"),
        NEVER_MASKED: without("encoder's mask", "decoder's mask"),
        ENCODER_SEES_PADDING: without("encoder's mask"),
        DECODER_SEES_PADDING: without("decoder's mask"),
        NO_ENCODER: without("encoder"),
        SIDE_BY_SIDE: without("last encoder layer for all"),
    }
    wrong = with_pairs(logits, changes)
    require_equal("The tensor of logits", reader(src, tgt), expected, wrong)
    reader.train()
    first, *others = (reader(src, tgt) for _ in range(4))
    require(any(not torch.equal(first, other) for other in others), MODEL_NO_DROPOUT)
    reader.eval()
    _check_steps(reader, src, tgt, expected)
    require_gradients(reader, reader(src, tgt))


def _name_in_course(name: str) -> str:
    """Return the name that the course gives to a parameter of the book's model."""
    stack, _, rest = name.partition(".")
    return rest if rest.startswith("embedding") else f"{stack}_{rest}"


def _repeats_layers(model: nn.Module) -> bool:
    stacks = (m for m in model.modules() if isinstance(m, nn.ModuleList))
    return any(len(set(map(id, stack))) < len(stack) for stack in stacks)


def _logits_without(
    book: reference.Transformer, src: Tensor, tgt: Tensor, *left_out: str
) -> Tensor:
    """Return the logits with parts of Figure 1 left out."""
    encoder, decoder = book.encoder, book.decoder
    mask = reference.padding_mask(src, PAD)
    causal = reference.causal_mask(tgt.size(1))
    src_mask = mask | ("encoder's mask" in left_out)
    memory_mask = mask | ("decoder's mask" in left_out)
    causal = causal | ("causal mask" in left_out)
    x, y = encoder.embedding(src), decoder.embedding(tgt)
    x = x if "source positions" in left_out else encoder.positions(x)
    y = y if "target positions" in left_out else decoder.positions(y)
    memories = [x]
    for layer in encoder.layers:
        memories.append(layer(memories[-1], src_mask))
    last = 0 if "encoder" in left_out else -1
    for number, layer in enumerate(decoder.layers, start=1):
        beside = "last encoder layer for all" in left_out
        y = layer(y, memories[number if beside else last], causal, memory_mask)
    return decoder.embedding.logits(y)


def _check_steps(reader: nn.Module, src: Tensor, tgt: Tensor, expected: Tensor) -> None:
    """Compare the model one token at a time with the model on whole targets."""
    state = reader.start(src)
    for place in range(tgt.size(1)):
        before, ids = state, tgt[:, place]
        logits, state = reader.step(ids, before)
        try:
            reader.step(ids + 1, before)  # a search tries other tokens, too
            is_kept = torch.equal(reader.step(ids, before)[0], logits)
        except (RuntimeError, IndexError, ValueError):
            is_kept = False
        require(is_kept, CHANGES_STATE)
        wrong = {MODEL_FORGETS: reader.step(ids, reader.start(src))[0]} if place else {}
        what = f"At position {place + 1}, the tensor of logits from step"
        try:
            require_equal(what, logits, expected[:, place], wrong)
        except MistakeError as mistake:
            if not place or str(mistake) == MODEL_FORGETS:
                raise
            raise MistakeError(FIRST_IS_RIGHT.format(mistake)) from None
