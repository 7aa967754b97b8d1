"""Cut Multi30k into batches in two orders, and count their padding.

The package sorts by the target's length and, among equal ones, by the source's. The
other order is by the longer side of each pair.

python -m results.batch_orders
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from results.likeliest import CORPUS
from results.provenance import checksums, conditions, require_clean
from results.storage import write_json
from transformer_lite.batching import cut_to_fit
from transformer_lite.data.store import SIDES, PreparedCorpus
from transformer_lite_book.recordings import BATCH_ORDERS

LIMITS = (1_000, 25_000)
"""Cells of a batch on either side: of our recipe, and near those of the paper."""


def padding_of(
    sides: Sequence[np.ndarray], batches: Sequence[np.ndarray]
) -> dict[str, float]:
    """Return the share of padding of each side ("src", "tgt") and of "both".

    Args:
        sides: For each side, the lengths of its sentences, with EOS: (pairs,).
        batches: The numbers of each batch's pairs.
    """
    real = np.array([side.sum() for side in sides])
    cells = np.array(
        [sum(len(pairs) * side[pairs].max() for pairs in batches) for side in sides]
    )
    shares = [*(1 - real / cells), 1 - real.sum() / cells.sum()]
    return {
        name: round(float(share), 4)
        for name, share in zip((*SIDES, "both"), shares, strict=True)
    }


def main() -> None:
    """Cut the pairs in both orders at each limit, and write the shares down."""
    corpus = PreparedCorpus(CORPUS)
    src, tgt = sides = [side.lengths + 1 for side in corpus.ids("train")]
    longest = np.maximum(src, tgt)
    orders = {
        "target": np.lexsort((src, tgt)),
        "longer side": np.lexsort((src, tgt, longest)),
    }
    result: dict[str, Any] = {"commit": require_clean(), **conditions()}
    result |= {"sha256": checksums(corpus), "cuts": []}
    for limit in LIMITS:
        for name, order in orders.items():
            batches = cut_to_fit(order, longest, limit)
            cut = {"limit": limit, "order": name, "batches": len(batches)}
            result["cuts"].append(cut | {"padding": padding_of(sides, batches)})
    write_json(BATCH_ORDERS, result)


if __name__ == "__main__":
    main()
