"""Wrong answers to the exercises of 7, by check and by mistake."""

import torch
from torch.nn import functional as F

from transformer_lite.masks import causal_mask


def patches_with(order):
    """Split into squares as it should be, then with the axes in another order."""

    def candidate(images, side):
        split = images.unflatten(3, (-1, side)).unflatten(2, (-1, side))
        return split.permute(order).flatten(3).flatten(1, 2)

    return candidate


WRONG = {
    "check_patches": {
        "unfold after all": lambda images, side: F.unfold(images, side, stride=side).mT,
        "strips of rows": lambda images, side: images.reshape(
            len(images), -1, images.size(1) * side * side
        ),
        "squares column by column": patches_with((0, 4, 2, 1, 3, 5)),
        "channels last": patches_with((0, 2, 4, 3, 5, 1)),
        "rows and columns of a square exchanged": patches_with((0, 2, 4, 1, 5, 3)),
        "unfold without its transpose": lambda images, side: F.unfold(
            images, side, stride=side
        ),
        "images turned over first": lambda images, side: (
            F.unfold(images.mT, side, stride=side).mT
        ),
        "as many squares as their side is long": lambda images, side: torch.stack(
            [
                square.flatten(1)
                for strip in images.chunk(side, 2)
                for square in strip.chunk(side, 3)
            ],
            dim=1,
        ),
        "a list": lambda images, side: list(F.unfold(images, side, stride=side).mT),
        "squares that overlap": lambda images, side: F.unfold(images, side).mT,
        "zeros, and the images made zero": lambda images, side: torch.zeros_like(
            F.unfold(images.zero_(), side, stride=side).mT
        ),
    },
    "check_prefix": {
        "causal everywhere": lambda length, prefix: causal_mask(length),
        "everything": lambda length, prefix: torch.ones(length, length).bool(),
        "queries for keys": lambda length, prefix: (
            causal_mask(length) | (torch.arange(length) < prefix)[:, None]
        ),
        "one word too many": lambda length, prefix: (
            causal_mask(length) | (torch.arange(length) <= prefix)
        ),
        "later words without the prompt": lambda length, prefix: (
            causal_mask(length)
            & ~(
                (torch.arange(length) < prefix)
                & (torch.arange(length) >= prefix)[:, None]
            )
            | (torch.arange(length) < prefix) & (torch.arange(length) < prefix)[:, None]
        ),
        "half of the words": lambda length, prefix: (
            causal_mask(length) | (torch.arange(length) < length // 2)
        ),
        "turned over": lambda length, prefix: (
            (causal_mask(length) | (torch.arange(length) < prefix)).mT
        ),
        "a list": lambda length, prefix: (
            causal_mask(length) | (torch.arange(length) < prefix)
        ).tolist(),
        "numbers": lambda length, prefix: causal_mask(length).int(),
    },
}
