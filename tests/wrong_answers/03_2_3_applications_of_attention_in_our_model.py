"""Wrong answers to the exercises of 3.2.3, by check and by mistake."""

import torch


def places(lengths, max_len):
    return torch.arange(max_len) < lengths[:, None]


def triangle(num_queries, num_keys, shift=0):
    return torch.ones(num_queries, num_keys, dtype=torch.bool).tril(shift)


WRONG = {
    "check_lengths": {
        "loops": lambda n, width: torch.tensor(
            [[[[j < k for j in range(width)]]] for k in n]
        ),
        "loops over a list": lambda n, width: torch.tensor(
            [[[[j < k for j in range(width)]]] for k in n.tolist()]
        ),
        "takes the longest sentence for the batch's width": lambda n, width: places(
            n, n.max()
        )[:, None, None],
        "counts from 1": lambda n, width: (torch.arange(1, width + 1) < n[:, None])[
            :, None, None
        ],
        "reads one place of padding": lambda n, width: (
            torch.arange(width) <= n[:, None]
        )[:, None, None],
        "hides the real tokens": lambda n, width: ~places(n, width)[:, None, None],
        "hides queries": lambda n, width: places(n, width)[:, None, :, None],
        "has no axes for heads and queries": places,
        "is a number mask": lambda n, width: places(n, width)[:, None, None].long(),
        "pads at the start": lambda n, width: places(n, width).flip(-1)[:, None, None],
        "hides nothing": lambda n, width: torch.ones(len(n), 1, 1, width).bool(),
        "has one length for all": lambda n, width: places(n[:1].expand(len(n)), width)[
            :, None, None
        ],
        "sorts the sentences": lambda n, width: places(n.sort()[0], width)[
            :, None, None
        ],
        "hides EOS as well": lambda n, width: places(n - 1, width)[:, None, None],
        "has one row per query": lambda n, width: places(n, width)[
            :, None, None
        ].expand(-1, 1, width, -1),
        "lays the axes out the wrong way round": lambda n, width: (
            torch.arange(width)[:, None] < n
        ).reshape(len(n), 1, 1, width),
    },
    "check_cache": {
        "counts from the left corner": triangle,
        "counts from the left corner, from 1": lambda q, k: triangle(q, k, 1),
        "does not read itself": lambda q, k: triangle(q, k, k - q - 1),
        "reads one too far": lambda q, k: triangle(q, k, k - q + 1),
        "hides nothing": lambda q, k: torch.ones(q, k).bool(),
        "takes the oldest queries": lambda q, k: triangle(k, k)[:q],
        "is transposed": lambda q, k: triangle(k, k)[k - q :].T,
        "hides what may be read": lambda q, k: ~triangle(q, k, k - q),
        "is square": lambda q, k: triangle(k, k),
        "lets all new ones read each other": lambda q, k: triangle(q, k, k),
        "reads all old ones and itself only": lambda q, k: torch.cat(
            [torch.ones(q, k - q), torch.eye(q)], dim=1
        ).bool(),
        "gives each query the newest one's row": lambda q, k: triangle(k, k)[
            -1:
        ].expand(q, k),
    },
}
