"""Run a trained encoder without adding x, and without averaging, and score the rest.

python -m results.without_sums
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from results.interventions import GREEDY, faded_encoder, german_bleu, pairs_of
from results.provenance import conditions, require_clean
from results.storage import write_json
from transformer_lite import Translator
from transformer_lite.tokenizer import EOS
from transformer_lite_book.recordings import WITHOUT_SUMS

MODEL, CORPUS, SPLIT = "multi30k_en_de", "multi30k", "test_2016_flickr"
PAIRS = 300
"""So many test captions are translated."""
ENCODERS = {
    "as trained": (1, True),
    "without x": (0, True),
    "without x, no averaging": (0, False),
    "with x, no averaging": (1, False),
}
"""Part of x that is added, and whether a token reads all tokens or only itself."""


def changed_encoder(
    encoder: Any, part: float, averaging: bool
) -> Callable[[Tensor, Tensor], Tensor]:
    """Return an encoder's `forward` that adds only a part of x, or reads no others."""
    faded = faded_encoder(encoder, part)

    def forward(ids: Tensor, mask: Tensor) -> Tensor:
        itself = torch.eye(ids.size(1), dtype=torch.bool)[None, None]
        return faded(ids, mask if averaging else itself)

    return forward


@torch.inference_mode()
def main() -> None:
    """Measure each encoder's own share at the top, and score its translations."""
    translator = Translator.load(MODEL, device="cpu")
    encoder, tokenizer = translator.model.encoder, translator.tokenizer
    sources, references = pairs_of(CORPUS, SPLIT, PAIRS)
    ids = [torch.tensor([[*tokenizer.encode(source), EOS]]) for source in sources]
    result: dict[str, Any] = {"model": MODEL, "pairs": PAIRS}
    result |= {"split": SPLIT, "search": "greedy"}
    result |= {"commit": require_clean(), **conditions(), "encoders": {}}
    for name, (part, averaging) in ENCODERS.items():
        encoder.forward = changed_encoder(encoder, part, averaging)
        tops = [encoder(one, torch.ones_like(one)[:, None, None] > 0)[0] for one in ids]
        shares = torch.stack([(h - h.mean(dim=0)).norm() / h.norm() for h in tops])
        low, high = shares.quantile(torch.tensor([0.05, 0.95])).tolist()
        outputs = translator.translate(sources, GREEDY)
        result["encoders"][name] = {
            "share": round(shares.mean().item(), 3),
            "share_of_90_percent": [round(low, 3), round(high, 3)],
            "bleu": german_bleu(outputs, references),
        }
        print(name, result["encoders"][name], flush=True)
    write_json(WITHOUT_SUMS, result)


if __name__ == "__main__":
    main()
