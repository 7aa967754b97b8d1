"""What live figures show at each place of their controls, computed beforehand.

python -m results.live_sweeps
"""

import json
import tomllib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from results.provenance import ROOT
from transformer_lite import Translator
from transformer_lite.runs.files import write_whole
from transformer_lite.tokenizer import EOS
from transformer_lite_book.live_figures import SOURCES

PARTS = 20
"""Steps of r from 0 to 1."""

GLOSSES = tomllib.loads((ROOT / "results/glosses.toml").read_text("utf-8"))

CAPTIONS = (
    "A small dog runs after a red ball.",
    "A girl in a blue dress is eating an apple.",
    "A black cat sleeps on the bed.",
    "Three children play soccer in the park.",
)

EVERYDAY = (
    "I gave her the letter that my father had written.",
    "A dog runs on the beach.",
    "I have lost my keys.",
)


def faded_encoder(encoder: Any, part: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Return an encoder's `forward` that adds `part` of x in each sub-layer."""

    def forward(ids: Tensor, mask: Tensor) -> Tensor:
        x = encoder.positions(encoder.embedding(ids))
        for layer in encoder.layers:
            attended = layer.self_attention(x, x, mask)
            x = layer.after_self_attention.norm(part * x + attended)
            x = layer.after_feed_forward.norm(part * x + layer.feed_forward(x))
        return x

    return forward


@torch.inference_mode()
def residual() -> dict[str, Any]:
    """Fade the residual connections of the encoder, for Section 3.1."""
    translator = Translator.load("multi30k_en_de", device="cpu")
    encoder, tokenizer = translator.model.encoder, translator.tokenizer
    sentences = []
    for source in CAPTIONS:
        ids = torch.tensor([[*tokenizer.encode(source), EOS]])
        mask = torch.ones(1, 1, 1, ids.size(1), dtype=torch.bool)
        texts, steps = [], []
        for number in range(PARTS + 1):
            encoder.forward = faded_encoder(encoder, number / PARTS)
            text, top = translator.translate(source), encoder(ids, mask)[0]
            if text not in texts:
                texts.append(text)
            unit, own = F.normalize(top, dim=-1), top - top.mean(dim=0)
            steps.append(
                {
                    "output": texts.index(text),
                    "cosines": (100 * unit @ unit.T).round().int().flatten().tolist(),
                    "share": round((own.norm() / top.norm()).item(), 3),
                }
            )
        tokens = [token.strip("▁") for token in tokenizer.pieces(ids[0].tolist())]
        outputs = [{"text": text, "gloss": GLOSSES[text]} for text in texts]
        shown = {"source": source, "tokens": tokens, "outputs": outputs, "steps": steps}
        sentences.append(shown)
    return {"sentences": sentences}


@contextmanager
def without_heads(attention: Any, heads: Collection[int]) -> Iterator[None]:
    """Let these heads of an attention sub-layer give zeros inside the block."""

    def zeros(_: Any, given: tuple[Tensor]) -> tuple[Tensor]:
        outputs = given[0].unflatten(-1, (attention.num_heads, -1)).clone()
        outputs[..., sorted(heads), :] = 0
        return (outputs.flatten(-2),)

    hook = attention.w_o.register_forward_pre_hook(zeros)
    try:
        yield
    finally:
        hook.remove()


def attention_sublayers(model: Any) -> dict[str, Any]:
    """Return a Transformer's attention sub-layers by name, from the source up."""
    sublayers = {}
    for stack, kind, of in (
        ("encoder", "self_attention", "encoder, layer {}"),
        ("decoder", "self_attention", "decoder, layer {}"),
        ("decoder", "cross_attention", "cross, layer {}"),
    ):
        for number, layer in enumerate(getattr(model, stack).layers, start=1):
            sublayers[of.format(number)] = getattr(layer, kind)
    return sublayers


def heads() -> dict[str, Any]:
    """Switch heads off: one, all but one of a sub-layer, or all; for Section 3.2.2."""
    translator = Translator.load("tatoeba_en_de", device="cpu")
    sublayers = attention_sublayers(translator.model)
    every = {*range(translator.model.config.num_heads)}
    sentences = []
    for source in EVERYDAY:
        texts = [translator.translate(source)]

        def output(
            attention: Any,
            off: Collection[int],
            source: str = source,
            texts: list = texts,
        ) -> int:
            with without_heads(attention, off):
                text = translator.translate(source)
            if text not in texts:
                texts.append(text)
            return texts.index(text)

        outputs = {
            "without": [[output(a, {h}) for h in every] for a in sublayers.values()],
            "alone": [
                [output(a, every - {h}) for h in every] for a in sublayers.values()
            ],
            "none": [output(attention, every) for attention in sublayers.values()],
        }
        outputs["outputs"] = [{"text": text, "gloss": GLOSSES[text]} for text in texts]
        sentences.append({"source": source, "trained": 0, **outputs})
    return {"rows": [*sublayers], "heads": len(every), "sentences": sentences}


def main() -> None:
    """Write what each figure shows beside its script."""
    for compute in (residual, heads):
        text = json.dumps(compute(), ensure_ascii=False, separators=(",", ":")) + "\n"
        path = SOURCES / f"{compute.__name__}.json"
        write_whole(path, lambda partial, text=text: partial.write_text(text, "utf-8"))


if __name__ == "__main__":
    main()
