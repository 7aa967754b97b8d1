"""Checks of layers, embeddings, positions and the whole model (Section 3).

Paper: §3
Chapter: 03_model_architecture
Tests: tests/course/test_checks.py
"""

from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lite.config import ModelConfig
from transformer_lite.tokenizer import BOS, EOS, PAD
from transformer_lite_course import reference
from transformer_lite_course.comparing import (
    Fault,
    Mistakes,
    copy_weights,
    random,
    require,
    require_equal,
    require_gradients,
)

CONFIG = ModelConfig(
    vocab_size=11, num_layers=2, d_model=12, d_ff=20, num_heads=3, max_len=16
)
"""A small model whose widths all differ."""


# Sections 3.1 and 3.3


def check_layers(part: ModuleType) -> None:
    """The feed-forward network, the residual connection with its norm, both layers."""
    torch.manual_seed(0)
    _check_feed_forward(part)
    _check_add_and_norm(part)
    _check_encoder_layer(part)
    _check_decoder_layer(part)


def _check_feed_forward(part: ModuleType) -> None:
    book, mine = reference.FeedForward(12, 20), part.FeedForward(12, 20)
    copy_weights(book, mine)
    x = random(2, 3, 12)
    w_1, w_2 = book.w_1, book.w_2
    wrong: Mistakes = {
        "FeedForward has no ReLU between its two maps.": w_2(w_1(x)),
        "The ReLU of FeedForward comes after the second map; it stands between both.": w_2(
            w_1(x)
        ).relu(),
        "FeedForward also applies a ReLU after the second map.": w_2(
            w_1(x).relu()
        ).relu(),
        "FeedForward takes GELU; the paper takes ReLU, max(0, x).": w_2(F.gelu(w_1(x))),
        "FeedForward adds its input; the residual connection is in AddAndNorm.": x
        + book(x),
    }
    require_equal("The output of FeedForward", mine.eval()(x), book(x), wrong)


def _check_add_and_norm(part: ModuleType) -> None:
    book, mine = reference.AddAndNorm(12, 1.0), part.AddAndNorm(12, 1.0)
    nn.init.normal_(book.norm.weight)
    nn.init.normal_(book.norm.bias)
    copy_weights(book, mine)
    norm = book.norm
    # Small entries show where ε is.
    for scale in (1, 0.005):
        x, y = scale * random(2, 3, 12), scale * random(2, 3, 12, seed=1)
        sum_of = x + y

        def by(deviation: Tensor, sum_of: Tensor = sum_of) -> Tensor:
            centred = sum_of - sum_of.mean(-1, keepdim=True)
            return centred / deviation * norm.weight + norm.bias

        variance = sum_of.var(-1, correction=0, keepdim=True)
        unbiased = sum_of.var(-1, keepdim=True)
        wrong: Mistakes = {
            "AddAndNorm normalizes the input before the sum (pre-norm); the paper normalizes the sum.": norm(
                x
            )
            + y,
            "AddAndNorm normalizes only the sub-layer's output; add the input first.": x
            + norm(y),
            "The residual connection is missing: AddAndNorm forgets its input x.": norm(
                y
            ),
            "AddAndNorm does not normalize the sum.": sum_of,
            "The variance in the LayerNorm divides by n - 1; LayerNorm divides by n (correction=0).": by(
                (unbiased + 1e-5).sqrt()
            ),
            "The standard deviation in the LayerNorm divides by n - 1, and ε is outside of the root; divide by n, and add ε to the variance.": [
                by(unbiased.sqrt() + epsilon) for epsilon in (1e-5, 1e-6)
            ],
            "In the LayerNorm ε is added to the standard deviation; add it to the variance, inside the root.": by(
                variance.sqrt() + 1e-5
            ),
            "The LayerNorm normalizes over the positions; it normalizes over the channels of each position, the last axis.": (
                (sum_of - sum_of.mean(1, keepdim=True))
                / (sum_of.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
                * norm.weight
                + norm.bias
            ),
            "The LayerNorm normalizes over positions and channels together; it normalizes over the channels of each position, the last axis.": F.layer_norm(
                sum_of, sum_of.shape[1:]
            )
            * norm.weight
            + norm.bias,
        }
        found = mine.eval()(x, y)
        require_equal("The output of AddAndNorm", found, norm(sum_of), wrong)
    # With a probability of 1 everything is dropped that can be.
    wrong = {
        "AddAndNorm has no dropout in training.": norm(x + y),
        "AddAndNorm drops out of the sum; only the sub-layer's output is dropped.": norm(
            torch.zeros_like(x)
        ),
        "AddAndNorm drops out of its result; only the sub-layer's output is dropped, before the sum.": torch.zeros_like(
            x
        ),
        "AddAndNorm drops out of the input, not of the sub-layer's output.": norm(y),
    }
    found = mine.train()(x, y)
    require_equal("The output of AddAndNorm in training", found, norm(x), wrong)


def _check_encoder_layer(part: ModuleType) -> None:
    book, mine = reference.EncoderLayer(CONFIG), part.EncoderLayer(CONFIG)
    _spread(book)
    copy_weights(book, mine)
    book.eval(), mine.eval()
    x = random(2, 4, 12)
    mask = torch.ones(2, 1, 1, 4, dtype=torch.bool)
    mask[1, ..., 2:] = False
    attend, first = book.self_attention, book.after_self_attention
    forward, second = book.feed_forward, book.after_feed_forward

    def after(x: Tensor, mask: Tensor) -> Tensor:
        return first(x, attend(x, x, mask))

    attended = after(x, mask)
    wrong: Mistakes = {
        "EncoderLayer does not pass its mask on to the self-attention.": book(
            x, torch.ones_like(mask)
        ),
        "EncoderLayer turns its mask round.": book(x, ~mask),
        "EncoderLayer runs the feed-forward network first; self-attention comes first.": after(
            second(x, forward(x)), mask
        ),
        "The feed-forward network of EncoderLayer reads the layer's input; it reads what self-attention made of it.": second(
            attended, forward(x)
        ),
        "The second residual connection of EncoderLayer starts at the layer's input; it starts at what the first sub-layer returned.": second(
            x, forward(attended)
        ),
        "EncoderLayer has no feed-forward network.": attended,
        "EncoderLayer has no self-attention.": second(x, forward(x)),
        "EncoderLayer uses one AddAndNorm for both sub-layers; each has its own.": first(
            attended, forward(attended)
        ),
    }
    require_equal("The output of EncoderLayer", mine(x, mask), book(x, mask), wrong)
    require_gradients(mine, mine(x, mask))


def _check_decoder_layer(part: ModuleType) -> None:
    book, mine = reference.DecoderLayer(CONFIG), part.DecoderLayer(CONFIG)
    _spread(book)
    copy_weights(book, mine)
    book.eval(), mine.eval()
    x, memory = random(2, 4, 12), random(2, 5, 12, seed=1)
    causal = torch.ones(4, 4).tril().bool()
    mask = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    mask[1, ..., 3:] = False
    everything = torch.ones_like(causal)

    def run(order: tuple[str, ...]) -> Tensor:
        y = x
        for name in order:
            layer, end = getattr(book, name), getattr(book, f"after_{name}")
            given = {
                "self_attention": (y, y, causal[None, None]),
                "cross_attention": (y, memory, mask),
                "feed_forward": (y,),
            }
            y = end(y, layer(*given[name]))
        return y

    wrong: Mistakes = {
        "DecoderLayer looks into the future: pass the causal mask to its self-attention.": book(
            x, memory, everything, mask
        ),
        "DecoderLayer turns the causal mask round.": book(x, memory, ~causal, mask),
        "The cross-attention of DecoderLayer sees the source's padding: pass it memory_mask.": book(
            x, memory, causal, torch.ones_like(mask)
        ),
        "DecoderLayer attends to the source first; masked self-attention comes first.": run(
            ("cross_attention", "self_attention", "feed_forward")
        ),
        "DecoderLayer has no cross-attention, so it never sees the source.": run(
            ("self_attention", "feed_forward")
        ),
        "DecoderLayer has no feed-forward network.": run(
            ("self_attention", "cross_attention")
        ),
        "DecoderLayer runs the feed-forward network between both attentions; it comes last.": run(
            ("self_attention", "feed_forward", "cross_attention")
        ),
        "The cross-attention of DecoderLayer reads x alone; keys and values come from the memory.": _with_own_memory(
            book, x, causal
        ),
    }
    expected = book(x, memory, causal, mask)
    found = mine(x, memory, causal, mask)
    require_equal("The output of DecoderLayer", found, expected, wrong)
    require_gradients(mine, found)
    past = mine.self_attention.keys_and_values(x[:, :0])
    projected = mine.cross_attention.keys_and_values(memory)
    for place in range(4):
        seen = torch.ones(2, 1, 1, place + 1, dtype=torch.bool)
        newest = x[:, place : place + 1]
        output, past = mine.step(newest, past, seen, projected, mask)
        alone = book(newest, memory, causal[:1, :1], mask)
        wrong = {
            "DecoderLayer.step sees only the newest position; put its keys and values behind those of the past.": alone
        }
        require_equal(
            f"At position {place + 1}, the output of DecoderLayer.step",
            output,
            expected[:, place : place + 1],
            wrong if place else {},
        )


def _with_own_memory(book: nn.Module, x: Tensor, causal: Tensor) -> Tensor:
    y = book.after_self_attention(x, book.self_attention(x, x, causal[None, None]))
    y = book.after_cross_attention(y, book.cross_attention(y, y))
    return book.after_feed_forward(y, book.feed_forward(y))


def _spread(module: nn.Module) -> None:
    """Draw the vectors, too, which begin as zeros and ones, so that none can be missed."""
    for parameter in module.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter)


# Section 3.4


def check_embeddings(part: ModuleType) -> None:
    """One matrix in two places, scaled in one of them."""
    torch.manual_seed(0)
    mine = part.Embedding(400, 64)
    matrices = dict(mine.named_parameters())
    if len(matrices) > 1:
        raise Fault(
            f"Embedding has {len(matrices)} parameters ({', '.join(matrices)}); the same matrix embeds and scores."
        )
    require(bool(matrices), "Embedding has no parameter; make one nn.Parameter.")
    deviation = next(iter(matrices.values())).std().item()
    if abs(deviation - 1) < 0.1:
        raise Fault(
            "The matrix begins with a variance of 1, so the logits begin with one of d_model; draw it with variance 1 / d_model."
        )
    require(
        abs(deviation - 64**-0.5) < 0.01,
        f"The entries of the matrix begin with a deviation of {deviation:.3f}; it should be √(1 / d_model), here {64**-0.5:.3f}.",
    )
    book = reference.Embedding(400, 64)
    copy_weights(book, mine)
    ids, weight = torch.tensor([[3, 8, 1], [0, 8, 399]]), book.weight
    rows = weight[ids]
    wrong: Mistakes = {
        "The embeddings are not multiplied by √d_model.": rows,
        "The embeddings are multiplied by d_model; multiply by its square root.": rows
        * 64,
        "The embeddings are divided by √d_model; multiply.": rows / 8,
        "The embeddings are multiplied by the root of the vocabulary's size; take that of d_model.": rows
        * 20,
    }
    require_equal("The tensor of embeddings", mine(ids), rows * 8, wrong)
    hidden = random(2, 3, 64)
    scores = F.linear(hidden, weight)
    wrong = {
        "logits ends in a softmax; the loss and the search take it, and twice is once too often.": scores.softmax(
            -1
        ),
        "logits ends in a log_softmax; return the scores before it.": scores.log_softmax(
            -1
        ),
        "The logits are multiplied by √d_model; the factor belongs to the embeddings alone.": scores
        * 8,
        "The logits are divided by √d_model; leave them as they are.": scores / 8,
    }
    require_equal("The tensor of logits", mine.logits(hidden), scores, wrong)


# Section 3.5


def check_positions(part: ModuleType) -> None:
    """Every frequency as a sine and a cosine, side by side."""
    length, width = 50, 8
    position = torch.arange(length).double()[:, None]
    pair = torch.arange(0, width, 2).double()

    def waves(angle: Tensor, first: Any = torch.sin, second: Any = torch.cos) -> Tensor:
        return torch.stack([first(angle), second(angle)], -1).flatten(1)

    angle = position / 10_000 ** (pair / width)
    channel = torch.arange(width).double()
    each = position / 10_000 ** (channel / width)
    even = torch.arange(width) % 2 == 0
    wrong: Mistakes = {
        "All sines come first and then all cosines; sine and cosine of an angle stand side by side, in channels 2i and 2i + 1.": torch.cat(
            [angle.sin(), angle.cos()], 1
        ),
        "Sine and cosine have changed places; even channels are sines.": waves(
            angle, torch.cos, torch.sin
        ),
        "Every channel has a frequency of its own; channels 2i and 2i + 1 share one.": torch.where(
            even, each.sin(), each.cos()
        ),
        "The positions begin at 1; the first is 0.": waves(
            (position + 1) / 10_000 ** (pair / width)
        ),
        "The exponent is i / d_model; it is 2i / d_model.": waves(
            position / 10_000 ** (pair / 2 / width)
        ),
        "The exponent is 4i / d_model: arange(0, d_model, 2) counts 2i already.": waves(
            position / 10_000 ** (2 * pair / width)
        ),
        "The position is multiplied by 10000^(2i/d_model); divide by it.": waves(
            position * 10_000 ** (pair / width)
        ),
        "The base is 1000; it is 10000.": waves(position / 1_000 ** (pair / width)),
        "Every channel is a sine; the odd ones are cosines.": waves(
            angle, second=torch.sin
        ),
        "The exponent divides by d_model / 2 - 1, as in the authors' code; the formula has 2i / d_model.": waves(
            position / 10_000 ** (pair / 2 / (width / 2 - 1))
        ),
    }
    found = part.sinusoidal_encoding(length, width)
    if isinstance(found, Tensor) and found.shape == (width, length):
        raise Fault("Rows and columns have changed places; a row is a position.")
    require_equal("The encoding", found, waves(angle), wrong)


# Figure 1


def check_model(part: ModuleType) -> None:
    """Figure 1, and the same one token at a time."""
    torch.manual_seed(0)
    book, mine = reference.Transformer(CONFIG), part.Transformer(CONFIG)
    _spread(book)
    ours, theirs = (sum(p.numel() for p in m.parameters()) for m in (book, mine))
    if theirs < ours and _repeats_layers(mine):
        raise Fault(
            "The layers of a stack are one and the same layer, repeated; make a new one each time (not [layer] * N)."
        )
    if theirs - ours in (n * CONFIG.vocab_size * CONFIG.d_model for n in (1, 2)):
        raise Fault(
            "There is more than one embedding matrix; source, target and output share one."
        )
    copy_weights(book, mine, _name_in_course)
    book.eval(), mine.eval()
    src = torch.tensor([[5, 6, 7, 8, EOS], [9, 4, EOS, PAD, PAD]])
    tgt = torch.tensor([[BOS, 4, 8, 9], [BOS, 7, 5, 6]])
    expected, found = book(src, tgt), mine(src, tgt)
    run = partial(_wrong_model, book, src, tgt)
    wrong: Mistakes = {
        "The model ends in a softmax; return the logits.": expected.softmax(-1),
        "The model ends in a log_softmax; return the logits.": expected.log_softmax(-1),
        "Neither side has positions; add sinusoidal_encoding to the embeddings.": run(
            src_positions=False, tgt_positions=False
        ),
        "The source has no positions.": run(src_positions=False),
        "The target has no positions.": run(tgt_positions=False),
        "The decoder looks into the future; give its layers the causal mask.": run(
            causal=False
        ),
        "Padding of the source is never masked; pass padding_mask to both stacks.": run(
            src_mask=False, memory_mask=False
        ),
        "The encoder sees the source's padding; pass it the padding mask.": run(
            src_mask=False
        ),
        "The decoder sees the source's padding; pass it the padding mask.": run(
            memory_mask=False
        ),
        "The decoder reads the source's embeddings; it reads the encoder's output.": run(
            encode=False
        ),
        "Each decoder layer reads the output of the encoder layer beside it; all read the last one's.": run(
            side_by_side=True
        ),
    }
    require_equal("The tensor of logits", found, expected, wrong)
    mine.train()
    for _ in range(3):
        if not torch.equal(mine(src, tgt), mine(src, tgt)):
            break
    else:
        raise Fault("Training has no dropout: two passes give equal logits.")
    mine.eval()
    _check_steps(mine, src, tgt, expected)
    require_gradients(mine, mine(src, tgt))


def _name_in_course(name: str) -> str:
    """Return the name that the course gives to a parameter of the book's model."""
    stack, _, rest = name.partition(".")
    if rest.startswith("embedding"):
        return rest
    return f"{stack}_{rest}"


def _repeats_layers(model: nn.Module) -> bool:
    stacks = (m for m in model.modules() if isinstance(m, nn.ModuleList))
    return any(len(set(map(id, stack))) < len(stack) for stack in stacks)


def _wrong_model(
    book: reference.Transformer, src: Tensor, tgt: Tensor, **left_out: bool
) -> Tensor:
    """Return the logits with a part of Figure 1 left out."""
    names = ("src_positions", "tgt_positions", "causal", "src_mask", "memory_mask")
    has = SimpleNamespace(**dict.fromkeys((*names, "encode"), True), side_by_side=False)
    vars(has).update(left_out)
    mask = reference.padding_mask(src, PAD)
    everything = torch.ones_like(mask)
    triangle = reference.causal_mask(tgt.size(1))
    encoder, decoder = book.encoder, book.decoder
    x, y = encoder.embedding(src), decoder.embedding(tgt)
    x = encoder.positions(x) if has.src_positions else x
    y = decoder.positions(y) if has.tgt_positions else y
    memories = [x]
    for layer in encoder.layers:
        memories.append(layer(memories[-1], mask if has.src_mask else everything))
    for number, layer in enumerate(decoder.layers, start=1):
        memory = memories[number if has.side_by_side else -1] if has.encode else x
        seen = triangle if has.causal else torch.ones_like(triangle)
        y = layer(y, memory, seen, mask if has.memory_mask else everything)
    return decoder.embedding.logits(y)


def _check_steps(mine: nn.Module, src: Tensor, tgt: Tensor, expected: Tensor) -> None:
    """Compare the model one token at a time with the model on whole targets."""
    state = mine.start(src)
    for place in range(tgt.size(1)):
        before = state
        logits, state = mine.step(tgt[:, place], state)
        try:
            mine.step(tgt[:, place] + 1, before)  # a search tries other tokens, too
            is_kept = torch.equal(mine.step(tgt[:, place], before)[0], logits)
        except (RuntimeError, IndexError, ValueError):
            is_kept = False
        require(
            is_kept,
            "step changes the state that it is given; return a new one, so that a search can go on from the old one.",
        )
        forgot = "step forgets the tokens before the newest one."
        fresh = mine.step(tgt[:, place], mine.start(src))[0]
        what = f"At position {place + 1}, the tensor of logits from step"
        try:
            wrong = {forgot: fresh} if place else {}
            require_equal(what, logits, expected[:, place], wrong)
        except Fault as fault:
            if place and str(fault) != forgot:
                raise Fault(
                    f"{fault} The first position is right, so look at the position that step adds to the embedding, and at the past."
                ) from None
            raise
