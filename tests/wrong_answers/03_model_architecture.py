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


def seen(model, src, tgt):
    """Every encoder layer's output, and every memory that a decoder layer reads."""
    written, read = [], []
    hooks = [
        layer.register_forward_hook(lambda _, inputs, out: written.append(out))
        for layer in model.encoder.layers
    ]
    hooks += [
        layer.cross_attention.register_forward_pre_hook(lambda _, a: read.append(a[1]))
        for layer in model.decoder.layers
    ]
    model(src, tgt)
    for hook in hooks:
        hook.remove()
    return written, read


def compares(which=slice(None), equal=torch.equal, top=-1):
    def candidate(model, src, tgt):
        written, read = seen(model, src, tgt)
        return all(equal(memory, written[top]) for memory in read[which])

    return candidate


def notices_the_top(model, src, tgt):
    """A signal on the top changes what every decoder layer reads."""
    _, before = seen(model, src, tgt)
    top = model.encoder.layers[-1]
    hook = top.register_forward_hook(lambda _, inputs, out: out + 1)
    _, after = seen(model, src, tgt)
    hook.remove()
    pairs = zip(before, after, strict=True)
    return all(not torch.equal(a, b) for a, b in pairs)


def all_read_the_same(model, src, tgt):
    _, read = seen(model, src, tgt)
    return all(torch.equal(memory, read[0]) for memory in read)


def logits_notice_the_top(model, src, tgt):
    before = model(src, tgt)
    top = model.encoder.layers[-1]
    hook = top.register_forward_hook(lambda _, inputs, out: out + 1)
    after = model(src, tgt)
    hook.remove()
    return not torch.allclose(before, after)


def same_shape(memory, written):
    return memory.shape == written.shape


def about_the_same(memory, written):
    return torch.allclose(memory, written, rtol=0.1, atol=0.1)


WRONG = {
    "check_formula": {
        "the paper's number": lambda c: 65_000_000,
        "the matrix twice": count(embeddings=2),
        "the matrix three times": count(embeddings=3),
        "no cross-attention": count(attentions=2),
        "biases in attention": count(biases=4),
        "no biases in the network": count(inner=False),
        "no LayerNorm": count(norms=0),
        "a LayerNorm too few": count(norms=4),
        "one table of positions": count(tables=1),
        "no table of positions": count(tables=0),
        "no widths of heads": count(widths=lambda c: (None, None)),
        "values as wide as keys": count(widths=lambda c: (c.d_k, c.d_k)),
        "keys as wide as values": count(widths=lambda c: (c.d_v, c.d_v)),
        "built and counted": lambda c: Transformer(c).num_parameters(),
    },
    "check_writer": {
        "no padding mask": search(encoder_mask=False, decoder_mask=False),
        "no mask in the encoder": search(encoder_mask=False),
        "no mask in the decoder": search(decoder_mask=False),
        "encodes every time": search(once=False),
        "BOS included": search(shown=slice(None)),
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
        "cut off where all have ended": lambda model, src, steps: (
            lambda ids: (
                ids[:, : 1 + int((ids == EOS).int().argmax(1).max())]
                if bool((ids == EOS).any(1).all())
                else ids
            )
        )(search()(model, src, steps)),
    },
    "check_wire": {
        "always": lambda model, src, tgt: True,
        "never": lambda model, src, tgt: False,
        "the first decoder layer alone": compares(slice(1)),
        "the last decoder layer alone": compares(slice(-1, None)),
        "the first and the last": compares(slice(None, None, 4)),
        "the shape alone": compares(equal=same_shape),
        "about the same": compares(equal=about_the_same),
        "the layer below the top": compares(top=-2),
        "the first layer": compares(top=0),
        "all the same": all_read_the_same,
        "each notices the top": notices_the_top,
        "the logits notice the top": logits_notice_the_top,
        "the number of layers": lambda model, src, tgt: len(model.decoder.layers) == 2,
        "the very same tensor": compares(
            equal=lambda memory, written: memory is written
        ),
        "the first sentence alone": compares(
            equal=lambda a, b: torch.equal(a[0], b[0])
        ),
        "the last sentence alone": compares(
            equal=lambda a, b: torch.equal(a[-1], b[-1])
        ),
        "the first and the last place": compares(
            equal=lambda a, b: torch.equal(a[:, [0, -1]], b[:, [0, -1]])
        ),
        "the first channel alone": compares(
            equal=lambda a, b: torch.equal(a[..., 0], b[..., 0])
        ),
        "the first two decoder layers": compares(slice(2)),
        "the mean over the batch": compares(
            equal=lambda a, b: torch.allclose(a.mean(0), b.mean(0))
        ),
        "each vector sorted": compares(
            equal=lambda a, b: torch.equal(a.sort(-1).values, b.sort(-1).values)
        ),
    },
}
