"""Search with wide beams and the paper's length penalty.

Without a penalty, wide beams write less than a beam of 4, and get less BLEU.

python -m results.with_penalty
"""

from typing import Any

import torch

from results.bleu import compare
from results.likeliest import ALPHA, CORPUS, MODEL, SPLIT, scores_of, searched
from results.provenance import conditions, require_clean
from results.storage import write_json
from transformer_lite import Translator
from transformer_lite.data.store import PreparedCorpus
from transformer_lite_book.recordings import WITH_PENALTY

BEAMS = (4, 16, 64)


@torch.inference_mode()
def main() -> None:
    """Search with each beam, and write the scores down."""
    translator = Translator.load(MODEL, device="cpu")
    sources, references = PreparedCorpus(CORPUS).text(SPLIT)
    result: dict[str, Any] = {"model": MODEL, "split": SPLIT, "alpha": ALPHA}
    result |= {"commit": require_clean(), **conditions(), "ways": {}}
    texts = {}
    for beam in BEAMS:
        found, name = searched(translator, sources, beam, ALPHA), f"beam {beam}"
        texts[name] = [translator.tokenizer.decode(output.ids) for output in found]
        result["ways"][name] = scores_of(translator, found, references)
    for name, comparison in compare(texts, references, "de").items():
        result["ways"][name]["p_value"] = comparison.p_value
        result["signature"] = comparison.signature
    write_json(WITH_PENALTY, result)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
