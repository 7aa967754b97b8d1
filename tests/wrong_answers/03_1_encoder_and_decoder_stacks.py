"""Wrong answers to the exercises of 3.1, by check and by mistake."""

import torch
from torch.nn import functional as F


def mean_square(x):
    return x.square().mean(-1, keepdim=True)


def decoder_layer_with(**changed):
    """The package's decoder layer, but for one part."""

    def look(layer, x, causal):
        return layer.self_attention(x, x, causal[None, None])

    parts = {
        "look": look,
        "mask": lambda memory_mask: memory_mask,
        "read": lambda layer, x, memory, mask: layer.cross_attention(x, memory, mask),
        "first": lambda layer, x, out: layer.after_self_attention(x, out),
        "second": lambda layer, x, out: layer.after_cross_attention(x, out),
        "third": lambda layer, x, out: layer.after_feed_forward(x, out),
    } | changed

    def candidate(layer, x, memory, causal, memory_mask):
        x = parts["first"](layer, x, parts["look"](layer, x, causal))
        mask = parts["mask"](memory_mask)
        x = parts["second"](layer, x, parts["read"](layer, x, memory, mask))
        return parts["third"](layer, x, layer.feed_forward(x))

    return candidate


def cross_attention_first(layer, x, memory, causal, memory_mask):
    x = layer.after_cross_attention(x, layer.cross_attention(x, memory, memory_mask))
    x = layer.after_self_attention(x, layer.self_attention(x, x, causal[None, None]))
    return layer.after_feed_forward(x, layer.feed_forward(x))


WRONG = {
    "check_norm": {
        "PyTorch's own": lambda x, g, e: F.rms_norm(x, x.shape[-1:], g, e),
        "no epsilon": lambda x, g, e: g * x / mean_square(x).sqrt(),
        "epsilon outside": lambda x, g, e: g * x / (mean_square(x).sqrt() + e),
        "epsilon of its own": lambda x, g, e: g * x / (mean_square(x) + 1e-5).sqrt(),
        "no gain": lambda x, g, e: x / (mean_square(x) + e).sqrt(),
        "the gain's size alone": lambda x, g, e: (
            g.abs() * x / (mean_square(x) + e).sqrt()
        ),
        "no root": lambda x, g, e: g * x / (mean_square(x) + e),
        "a sum for a mean": lambda x, g, e: (
            g * x / (x.square().sum(-1, keepdim=True) + e).sqrt()
        ),
        "LayerNorm": lambda x, g, e: F.layer_norm(x, x.shape[-1:], g, None, e),
        "the standard deviation": lambda x, g, e: g * x / (x.var(-1, keepdim=True) + e),
        "over everything": lambda x, g, e: g * x / (x.square().mean() + e).sqrt(),
        "another axis": lambda x, g, e: (
            g * x / (x.square().mean(0, keepdim=True) + e).sqrt()
        ),
        "the input": lambda x, g, e: x,
        "no gradient through the root": lambda x, g, e: (
            g * x / (mean_square(x.detach()) + e).sqrt()
        ),
        "no gradient at all": lambda x, g, e: (
            g * x / (mean_square(x) + e).sqrt()
        ).detach(),
        "epsilon as a floor": lambda x, g, e: (
            g * x / mean_square(x).clamp(min=e).sqrt()
        ),
        "the gain beside 1": lambda x, g, e: (1 + g) * x / (mean_square(x) + e).sqrt(),
        "the mean taken off first": lambda x, g, e: (
            g * (x - x.mean(-1, keepdim=True)) / (mean_square(x) + e).sqrt()
        ),
        "a gain that is averaged": lambda x, g, e: (
            g.mean() * x / (mean_square(x) + e).sqrt()
        ),
        "epsilon squared": lambda x, g, e: g * x / (mean_square(x) + e * e).sqrt(),
    },
    "check_layer": {
        "ignores the memory's mask": decoder_layer_with(mask=lambda mask: None),
        "ignores the causal mask": decoder_layer_with(
            look=lambda layer, x, causal: layer.self_attention(x, x, None)
        ),
        "sees the future alone": decoder_layer_with(
            look=lambda layer, x, causal: layer.self_attention(
                x, x, causal.T[None, None]
            )
        ),
        "reads itself instead of the memory": decoder_layer_with(
            read=lambda layer, x, memory, mask: layer.cross_attention(x, x, None)
        ),
        "asks with the memory": decoder_layer_with(
            read=lambda layer, x, memory, mask: layer.cross_attention(memory, x, None)
        ),
        "one norm for all": decoder_layer_with(
            second=lambda layer, x, out: layer.after_self_attention(x, out)
        ),
        "no residual connection": decoder_layer_with(
            third=lambda layer, x, out: layer.after_feed_forward(
                torch.zeros_like(x), out
            )
        ),
        "no norm": decoder_layer_with(second=lambda layer, x, out: x + out),
        "no cross-attention": decoder_layer_with(second=lambda layer, x, out: x),
        "the wrong order": cross_attention_first,
        "the input": lambda layer, x, *others: x,
        "calls the layer itself": lambda layer, *others: layer(*others),
        "a mask of its own": decoder_layer_with(
            look=lambda layer, x, causal: layer.self_attention(
                x, x, torch.ones_like(causal).tril()[None, None]
            )
        ),
        "no dropout": decoder_layer_with(
            first=lambda layer, x, out: layer.after_self_attention.norm(x + out)
        ),
        "the first sentence's mask for all": decoder_layer_with(
            mask=lambda mask: mask[:1]
        ),
        "the network reads the layer's input": lambda layer, x, memory, causal, mask: (
            layer.after_feed_forward(
                layer.after_cross_attention(
                    layer.after_self_attention(
                        x, layer.self_attention(x, x, causal[None, None])
                    ),
                    layer.cross_attention(x, memory, mask),
                ),
                layer.feed_forward(x),
            )
        ),
        "two sums from the first input": decoder_layer_with(
            third=lambda layer, x, out: layer.after_feed_forward(x + x, out)
        ),
    },
}
