"""Switch heads of a trained translator off, one by one, and score what is left.

python -m results.heads_off
"""

from typing import Any

import torch
from torch import Tensor, nn

from results.live_sweeps import attention_sublayers, without_heads
from results.provenance import conditions, require_clean
from results.storage import write_json
from transformer_lite import Translator
from transformer_lite.config import SearchConfig
from transformer_lite.data.corpora import load_corpus
from transformer_lite.inference.scores import bleu_of
from transformer_lite_book.recordings import HEADS_OFF

MODEL = "tatoeba_en_de"
PAIRS = 500
"""So many test pairs are scored, and so many validation pairs give the means."""
GREEDY = SearchConfig(beam_size=1, batch_sentences=100)


def pairs_of(split: str) -> tuple[list[str], list[str]]:
    """Return the first sentences of a split of Tatoeba and their translations."""
    pairs = list(load_corpus("tatoeba").splits[split])[:PAIRS]
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def means_of(translator: Translator, modules: list[nn.Module]) -> list[Tensor]:
    """Return what each head gives on average over the words of validation sentences."""
    sums = [torch.zeros(module.w_o.in_features) for module in modules]
    counts = [0] * len(modules)
    hooks = []
    for i, module in enumerate(modules):

        def add(_: nn.Module, given: tuple[Tensor], i: int = i) -> None:
            sums[i] += given[0].flatten(0, -2).sum(0)
            counts[i] += given[0].flatten(0, -2).size(0)

        hooks.append(module.w_o.register_forward_pre_hook(add))
    one_by_one = SearchConfig(beam_size=1, batch_sentences=1)  # no padding
    translator.translate(pairs_of("valid")[0], one_by_one)
    for hook in hooks:
        hook.remove()
    parts = zip(sums, counts, modules, strict=True)
    return [(s / n).view(m.num_heads, -1) for s, n, m in parts]


def main() -> None:
    """Score the model without each head, and without each sub-layer's heads."""
    translator = Translator.load(MODEL, device="cpu")
    modules = list(attention_sublayers(translator.model).values())
    means = means_of(translator, modules)
    sources, references = pairs_of("test")

    def bleu() -> float:
        outputs = translator.translate(sources, GREEDY)
        return round(bleu_of("de").corpus_score(outputs, [references]).score, 2)

    result: dict[str, Any] = {"model": MODEL, "pairs": PAIRS, "split": "test"}
    result |= {"commit": require_clean(), **conditions(), "as_trained": bleu()}
    result |= {"zeros": [], "mean": [], "rows": []}
    for module, mean in zip(modules, means, strict=True):
        every = list(range(module.num_heads))
        for name, instead in {"zeros": None, "mean": mean}.items():
            result[name].append([])
            for head in every:
                with without_heads(module, [head], instead):
                    result[name][-1].append(bleu())
            print(name, result[name][-1], flush=True)
        with without_heads(module, every):
            result["rows"].append(bleu())
        write_json(HEADS_OFF, result)


if __name__ == "__main__":
    main()
