"""What live figures show at each place of their controls, computed beforehand.

python -m results.live_sweeps
"""

import json
import tomllib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice, product
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from results.provenance import ROOT
from transformer_lite import Translator
from transformer_lite.data.toy import split_words
from transformer_lite.runs.files import write_whole
from transformer_lite.tokenizer import EOS
from transformer_lite_book.live_figures import SOURCES
from transformer_lite_book.recordings import (
    TRAIN_PAIRS,
    lowered,
    pronoun_pairs,
    toy_batch,
    toy_models,
    toy_words,
)

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


SHORT = (
    (
        "The dog finds the can because it is hungry.",
        "Der Hund findet die Dose, weil er",
    ),
    (
        "The dog finds the can because it is broken.",
        "Der Hund findet die Dose, weil sie",
    ),
    (
        "The woman buys the coat because it is new.",
        "Die Frau kauft den Mantel, weil er",
    ),
    (
        "The woman buys the cup because it is new.",
        "Die Frau kauft die Tasse, weil sie",
    ),
    ("The woman buys the book because it is new.", "Die Frau kauft das Buch, weil es"),
    (
        "The sheep sees the lamp because it is sad.",
        "Das Schaf sieht die Lampe, weil es",
    ),
)
"""Sentences of the toy corpus, with their German up to the pronoun: seven words."""

GENDER = {"er": 0, "ihn": 0, "sie": 1, "es": 2}
UNSEEN = 500
"""Sentences over which the transplants are counted."""


class PronounRows:
    """A batch of the toy corpus, of which only the rows matter that write a pronoun."""

    def __init__(self, model: Any, src: Tensor, tgt: Tensor, rows: Tensor) -> None:
        self.decoder, self.tgt, self.rows = model.decoder, tgt, rows
        self.mask = (src != 0)[:, None, None]
        self.memory = model.encoder(src, self.mask)
        self.every = torch.arange(len(src))

    def logits(self, layer: int = 0, head: int = 0, new: Any = None) -> Tensor:
        """Return the rows' logits, with `new(output)` in place of a head's output."""
        w_o = self.decoder.layers[layer].self_attention.w_o
        part = slice(12 * head, 12 * head + 12)

        def replace(_: Any, given: tuple[Tensor]) -> tuple[Tensor]:
            outputs = given[0].clone()
            if new:
                own = outputs[self.every, self.rows, part]
                outputs[self.every, self.rows, part] = new(own)
            return (outputs,)

        hook = w_o.register_forward_pre_hook(replace)
        try:
            logits = self.decoder(self.tgt, self.memory, self.mask)
        finally:
            hook.remove()
        return logits[self.every, self.rows]

    def outputs(self, layer: int, head: int) -> Tensor:
        """Return what a head gives in these rows."""
        found = []
        self.logits(layer, head, lambda own: found.append(own) or own)
        return found[0]


@torch.inference_mode()
def transplant() -> dict[str, Any]:
    """Put one head's output from a sentence into another, for the visualizations."""
    words, models = toy_words(), toy_models()
    ids = {word: i for i, word in enumerate(words)}
    pairs = list(islice(pronoun_pairs(), TRAIN_PAIRS, TRAIN_PAIRS + UNSEEN))
    batch = toy_batch(pairs, words)
    rows = []
    for pair in pairs:
        of_source = {source: target for target, source in pair.alignment}
        rows.append(of_source[pair.antecedents[0][0]])
    pronouns = [p.target_words[row] for p, row in zip(pairs, rows, strict=True)]
    genders = [GENDER[pronoun] for pronoun in pronouns]
    of_word = torch.tensor([GENDER.get(word, 3) for word in words])  # 3: no pronoun

    source = [[*lowered(split_words(english)), "EOS"] for english, _ in SHORT]
    target = [["BOS", *lowered(split_words(german))[:-1]] for _, german in SHORT]
    src = torch.tensor([[ids[word] for word in sentence] for sentence in source])
    tgt = torch.tensor([[ids[word] for word in sentence] for sentence in target])

    shown = []
    for seed in (1, 3):
        model, last = models[seed], torch.full((len(SHORT),), 7)
        many = PronounRows(model, batch.src_ids, batch.tgt_input, torch.tensor(rows))
        six = PronounRows(model, src, tgt, last)
        weights = model.attention_weights(src, tgt).decoder[:, :, :, -1]
        chances = partial(chances_of, [ids[word] for word in ("er", "sie", "es")])
        found = {"seed": seed, "own": chances(six.logits()), "heads": []}
        for place in product(range(2), range(4)):
            mean = many.outputs(*place).mean(0)
            given = six.outputs(*place)
            head = {
                "name": f"{place[0] + 1}.{place[1] + 1}",
                "weights": (100 * weights[:, *place]).round().int().tolist(),
                "zeros": chances(six.logits(*place, torch.zeros_like)),
                "mean": chances(six.logits(*place, mean.expand_as)),
                # by donor, then by the sentence that gets its numbers
                "from": [chances(six.logits(*place, one.expand_as)) for one in given],
                "counts": count_transplants(many, place, genders, of_word),
            }
            found["heads"].append(head)
        shown.append(found)
    sentences = []
    for english, german in SHORT:
        *read, pronoun = split_words(german)
        sentences.append({"source": english, "words": read, "pronoun": pronoun})
    return {"sentences": sentences, "models": shown}


def chances_of(spoken: list[int], logits: Tensor) -> list[list[int]]:
    """Return the chances of these words in thousandths."""
    return (1000 * logits.softmax(-1)[:, spoken]).round().int().tolist()


def count_transplants(
    many: PronounRows, place: tuple[int, int], genders: list[int], of_word: Tensor
) -> list[list[int]]:
    """Count what is written with a head's numbers from a noun of another gender.

    Returns:
        For each gender that is put in, the pronouns that are written, by gender; last,
        other words.
    """
    donors, counts = next_of_each_gender(genders), []
    for gender in range(3):
        of, others = donors[:, gender], torch.tensor(genders) != gender
        logits = many.logits(*place, lambda own, of=of: own[of])
        written = of_word[logits.argmax(-1)][others]
        counts.append(written.bincount(minlength=4).tolist())
    return counts


def next_of_each_gender(genders: list[int]) -> Tensor:
    """Return for each sentence the next masculine, feminine and neuter ones."""
    size = len(genders)
    return torch.tensor(
        [
            [
                next(
                    j % size
                    for j in range(i + 1, i + size)
                    if genders[j % size] == gender
                )
                for gender in range(3)
            ]
            for i in range(size)
        ]
    )


def main() -> None:
    """Write what each figure shows beside its script."""
    for compute in (residual, heads, transplant):
        text = json.dumps(compute(), ensure_ascii=False, separators=(",", ":")) + "\n"
        path = SOURCES / f"{compute.__name__}.json"
        write_whole(path, lambda partial, text=text: partial.write_text(text, "utf-8"))


if __name__ == "__main__":
    main()
