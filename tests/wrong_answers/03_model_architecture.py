"""Wrong answers to the exercises of Section 3, by check and by mistake."""

import torch

from transformer_lite.masks import padding_mask
from transformer_lite.model import Transformer
from transformer_lite.tokenizer import BOS, EOS, PAD


def count(
    embeddings=1, attentions=3, biases=0, inner=True, norms=5, tables=2, widths=None
):
    """A count that is right but for what is changed."""

    def candidate(c):
        d, default = c.d_model, c.d_model // c.num_heads
        d_k, d_v = (widths or (lambda c: (c.d_k, c.d_v)))(c)
        d_k, d_v = d_k or default, d_v or default
        attention = 2 * d * c.num_heads * (d_k + d_v) + biases * d
        network = 2 * d * c.d_ff + (c.d_ff + d if inner else 0)
        layer = attentions * attention + 2 * network + norms * 2 * d
        learned = tables * c.max_len * d if c.positions == "learned" else 0
        return embeddings * c.vocab_size * d + c.num_layers * layer + learned

    return candidate


def search(
    encoder_mask=True,
    decoder_mask=True,
    once=True,
    shown=slice(1, None),
    hide=lambda mask: mask,
):
    """A greedy search that leaves something out."""

    @torch.no_grad()
    def candidate(model, src, steps):
        real = padding_mask(src, PAD)
        everything = torch.ones_like(real)
        inner = real if encoder_mask else everything
        outer = real if decoder_mask else everything
        memory = model.encoder(src, inner)
        ids = torch.full((len(src), 1), BOS)
        for _ in range(steps):
            memory = memory if once else model.encoder(src, inner)
            best = model.decoder(ids, memory, hide(outer))[:, -1].argmax(-1, True)
            ids = torch.cat([ids, best], dim=1)
        return ids[:, shown]

    return candidate


@torch.no_grad()
def ends_at_eos(model, src, steps):
    real = padding_mask(src, PAD)
    memory, ids = model.encoder(src, real), torch.full((len(src), 1), BOS)
    for _ in range(steps):
        best = model.decoder(ids, memory, real)[:, -1].argmax(-1, keepdim=True)
        best = best.where(~(ids == EOS).any(1, keepdim=True), torch.tensor(EOS))
        ids = torch.cat([ids, best], dim=1)
    return ids[:, 1:]


@torch.no_grad()
def all_places_at_once(model, src, steps):
    ids = torch.full((len(src), steps), BOS)
    return model(src, ids).argmax(-1)


@torch.no_grad()
def first_place_again_and_again(model, src, steps):
    real = padding_mask(src, PAD)
    memory, ids = model.encoder(src, real), torch.full((len(src), 1), BOS)
    for _ in range(steps):
        best = model.decoder(ids, memory, real)[:, :1].argmax(-1)
        ids = torch.cat([ids, best], dim=1)
    return ids[:, 1:]


@torch.no_grad()
def forgets_its_past(model, src, steps):
    real = padding_mask(src, PAD)
    memory, ids = model.encoder(src, real), torch.full((len(src), 1), BOS)
    for _ in range(steps):
        best = model.decoder(ids[:, -1:], memory, real)[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, best], dim=1)
    return ids[:, 1:]


def agree(*names):
    """A rule that asks for equality of these fields."""
    return lambda left, right: all(
        getattr(left, name) == getattr(right, name) for name in names
    )


def width_of_heads(c):
    return c.d_k or c.d_model // c.num_heads


def width_of_all_heads(c):
    return c.num_heads * (c.d_v or c.d_model // c.num_heads)


WRONG = {
    "check_formula": {
        "the paper's number": lambda c: 65_000_000,
        "the matrix twice": count(embeddings=2),
        "one table of positions": count(tables=1),
        "no table of positions": count(tables=0),
        "no widths of heads": count(widths=lambda c: (None, None)),
        "values as wide as keys": count(widths=lambda c: (c.d_k, c.d_k)),
        "built and counted": lambda c: Transformer(c).num_parameters(),
        "a division by zero": lambda c: c.d_model // 0,
    },
    "check_writer": {
        "none": lambda model, src, steps: None,
        "an unknown name": lambda model, src, steps: model.no_such_part,
        "no padding mask": search(encoder_mask=False, decoder_mask=False),
        "no mask in the encoder": search(encoder_mask=False),
        "no mask in the decoder": search(decoder_mask=False),
        "encodes every time": search(once=False),
        "without the last piece": search(shown=slice(None, -1)),
        "all places at once": all_places_at_once,
        "the first place again and again": first_place_again_and_again,
        "forgets its past": forgets_its_past,
        "the source": lambda model, src, steps: src[:, :steps],
        "hides the source's last column from the decoder": search(
            hide=lambda mask: mask & torch.cat([mask[..., 1:], mask[..., :1]], dim=-1)
        ),
        "the source's last piece hidden in every row": search(
            hide=lambda mask: (
                mask
                & mask.roll(-1, -1).index_fill(
                    -1, torch.tensor([mask.size(-1) - 1]), False
                )
            )
        ),
        "EOS for ever after EOS": ends_at_eos,
    },
    "check_pair": {
        "none": lambda left, right: None,
        "an unknown name": lambda left, right: left.no_such_size,
        "always": lambda left, right: True,
        "never": lambda left, right: False,
        "all settings": lambda left, right: left == right,
        "layers, too": agree("d_model", "num_layers"),
        "heads, too": agree("d_model", "num_heads"),
        "inner width, too": agree("d_model", "d_ff"),
        "d_k, too": agree("d_model", "d_k"),
        "d_v, too": agree("d_model", "d_v"),
        "positions, too": agree("d_model", "positions"),
        "inner width alone": agree("d_ff"),
        "width of a head": lambda left, right: (
            width_of_heads(left) == width_of_heads(right)
        ),
        "width of a head, too": lambda left, right: (
            left.d_model == right.d_model
            and width_of_heads(left) == width_of_heads(right)
        ),
        "width of all heads": lambda left, right: (
            width_of_all_heads(left) == width_of_all_heads(right)
        ),
        "the decoder at least as wide": lambda left, right: (
            left.d_model <= right.d_model
        ),
        "the encoder at least as wide": lambda left, right: (
            left.d_model >= right.d_model
        ),
    },
}
