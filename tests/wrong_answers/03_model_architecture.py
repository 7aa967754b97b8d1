"""Wrong answers to the exercises of Section 3, by check and by mistake."""

import torch
from torch.nn import functional as F

from transformer_lite.masks import causal_mask, padding_mask
from transformer_lite.model import Transformer
from transformer_lite.tokenizer import BOS, EOS, PAD, UNK


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
    decoder_mask=lambda mask: mask,
    once=True,
    shown=slice(1, None),
    seen=lambda ids: ids,
    taken=lambda logits, ids: logits[:, -1].argmax(-1, True),
):
    """A greedy search that does one thing in another way."""

    @torch.no_grad()
    def candidate(model, src, steps):
        real = padding_mask(src, PAD)
        inner = real if encoder_mask else torch.ones_like(real)
        memory = model.encoder(src, inner)
        ids = torch.full((len(src), 1), BOS)
        for _ in range(steps):
            memory = memory if once else model.encoder(src, inner)
            logits = model.decoder(seen(ids), memory, decoder_mask(real))
            ids = torch.cat([ids, taken(logits, ids)], dim=1)
        return ids[:, shown]

    return candidate


def eos_for_ever(logits, ids):
    has_ended = (ids == EOS).any(1, keepdim=True)
    return logits[:, -1].argmax(-1, True).masked_fill(has_ended, EOS)


@torch.no_grad()
def all_places_at_once(model, src, steps):
    ids = torch.full((len(src), steps), BOS)
    return model(src, ids).argmax(-1)


def one_stack(change=lambda mask, n: mask, real=lambda real: real):
    """A mask that is right but for one change; n is the source's length."""

    def candidate(src, tgt):
        both = torch.cat([src, tgt], dim=1)
        mask = causal_mask(both.size(1))
        mask[:, : src.size(1)] = True
        return change(mask, src.size(1)) & real(padding_mask(both, PAD))

    return candidate


def order_by_ids(src, tgt):
    """Places in the order of their ids, not of the sentence."""
    both = torch.cat([src, tgt], dim=1)
    of_source = torch.arange(both.size(1)) < src.size(1)
    later = both[:, None, :, None] >= both[:, None, None, :]
    mask = of_source | (~of_source[:, None] & later)
    return mask & padding_mask(both, PAD)


def hides(*special):
    """A mask that hides special tokens, too."""

    def candidate(src, tgt):
        both = torch.cat([src, tgt], dim=1)
        is_special = torch.isin(both, torch.tensor(special))
        return one_stack()(src, tgt) & ~is_special[:, None, None]

    return candidate


def without_source(mask, n):
    mask[n:, :n] = False
    return mask


# fmt: off
WRONG = {
    "check_formula": {
        "the paper's number": lambda c: 65_000_000,
        "the matrix twice": count(embeddings=2),
        "no cross-attention": count(attentions=2),
        "biases in attention": count(biases=4),
        "no biases in the network": count(inner=False),
        "a LayerNorm too few": count(norms=4),
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
        "no padding mask": search(encoder_mask=False, decoder_mask=torch.ones_like),
        "no mask in the encoder": search(encoder_mask=False),
        "no mask in the decoder": search(decoder_mask=torch.ones_like),
        "encodes every time": search(once=False),
        "without the last piece": search(shown=slice(None, -1)),
        "all places at once": all_places_at_once,
        "the first place again and again": search(taken=lambda logits, ids: logits[:, :1].argmax(-1)),
        "forgets its past": search(seen=lambda ids: ids[:, -1:]),
        "the source": lambda model, src, steps: src[:, :steps],
        "hides the source's last column from the decoder": search(decoder_mask=lambda mask: mask & mask.roll(-1, -1)),
        "the source's last piece hidden in every row": search(decoder_mask=lambda mask: mask & F.pad(mask, (-1, 1))),
        "EOS for ever after EOS": search(taken=eos_for_ever),
    },
    "check_mask": {
        "none": lambda src, tgt: None,
        "an unknown name": lambda src, tgt: src.no_such_mask,
        "no axis for heads": lambda src, tgt: one_stack()(src, tgt)[:, 0],
        "numbers": lambda src, tgt: one_stack()(src, tgt).long(),
        "causal": one_stack(lambda mask, n: mask.tril()),
        "open everywhere": one_stack(lambda mask, n: mask | True),
        "transposed": one_stack(lambda mask, n: mask.T),
        "inverted": lambda src, tgt: ~one_stack()(src, tgt),
        "not itself": one_stack(lambda mask, n: mask & ~torch.eye(len(mask)).bool()),
        "the target without the source": one_stack(without_source),
        "the next target token, too": one_stack(lambda mask, n: mask | torch.ones_like(mask).tril(1)),
        "padding read": one_stack(real=lambda real: real | True),
        "the first pair's padding": one_stack(real=lambda real: real[:1].expand_as(real)),
        "the order of the ids": order_by_ids,
        "BOS hidden": hides(BOS),
        "EOS hidden": hides(EOS),
        "special tokens hidden": hides(PAD, BOS, EOS, UNK),
    },
}
# fmt: on
