"""What live figures show at each place of their controls, computed beforehand.

python -m results.live_sweeps
"""

import json
import tomllib
from collections.abc import Collection, Sequence
from functools import partial
from itertools import islice, product
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from results.interventions import (
    attention_sublayers,
    faded_encoder,
    with_each_unit,
    with_units,
    without_heads,
)
from results.provenance import ROOT
from transformer_lite import Translator
from transformer_lite.batching import Batch
from transformer_lite.data.toy import split_words
from transformer_lite.runs.files import write_whole
from transformer_lite.tokenizer import EOS, PAD
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

UNITS = (260, 206, 617, 744, 10, 126, 111, 389, 456, 793, 379)
"""Units of the last decoder layer, for Section 3.3."""

UNIT_VALUES = (0, 2, 4, 6, 8, 10)
HIGH = 8
"""The value to which each unit of the network is set, those of no card too."""

SHUFFLES = 100
"""Shuffled answers that are compared with a unit's own."""

TURNED = (
    "The dog bites the man.",
    "He forgot to close the window.",
    "I have lost my keys.",
    "I gave her the letter that my father had written.",
    "Please close the door.",
    "She is sleeping.",
    "Good morning! How are you?",
)


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


def raised(model: Any) -> Tensor:
    """Return how much each unit of the last decoder layer raises each token's logit.

    Vocabulary × units: for a value of 1, against the mean of all tokens, and before
    LayerNorm divides by the standard deviation.
    """
    last = model.decoder.layers[-1]
    columns = last.feed_forward.w_2.weight  # d_model × units
    columns = (columns - columns.mean(dim=0)) * last.after_feed_forward.norm.weight[
        :, None
    ]
    logits = model.decoder.embedding.weight @ columns
    return logits - logits.mean(dim=0)


def fired(
    translator: Translator, pairs: Sequence[tuple[str, str]]
) -> tuple[Tensor, list[tuple[int, int, str, str]]]:
    """Return the last decoder layer's units at each place of some translations.

    Returns:
        The values, places × units, and of each place: the sentence's number, the id of
        the token that comes next, what is written before it, and that token.
    """
    model, tokenizer, found = translator.model, translator.tokenizer, []
    batch = Batch.from_ids(
        *([*map(tokenizer.encode, side)] for side in zip(*pairs, strict=True))
    )
    first = model.decoder.layers[-1].feed_forward.w_1
    hook = first.register_forward_hook(lambda _, given, output: found.append(output))
    with torch.inference_mode():
        model(batch.src_ids, batch.tgt_input)
    hook.remove()
    is_place = batch.labels != PAD
    places = []
    for row, at in is_place.nonzero().tolist():
        before, label = batch.tgt_input[row, 1 : at + 1].tolist(), batch.labels[row, at]
        (piece,) = tokenizer.pieces([label.item()])
        places.append((row, label.item(), tokenizer.decode(before), piece.strip("▁")))
    return found[0][is_place].relu(), places


@torch.inference_mode()
def decided(
    translator: Translator, pairs: Sequence[tuple[str, str]], values: Tensor
) -> tuple[list[tuple[int, int]], int]:
    """Switch off each unit of the last decoder layer at each place where it fires.

    By teacher forcing: what comes before the place stays as it is. The network is the
    last sub-layer, so nothing changes there but what the unit adds.

    Args:
        values: Places × units, as `fired` returns them.

    Returns:
        Each sentence's number with a unit that changes the most likely next token at
        one of its places; and the number of places where a unit does.
    """
    model, tokenizer, found = translator.model, translator.tokenizer, []
    batch = Batch.from_ids(
        *([*map(tokenizer.encode, side)] for side in zip(*pairs, strict=True))
    )
    last = model.decoder.layers[-1]
    norm, columns = last.after_feed_forward.norm, last.feed_forward.w_2.weight
    hook = norm.register_forward_pre_hook(lambda _, given: found.append(given[0]))
    is_place = batch.labels != PAD
    best = model(batch.src_ids, batch.tgt_input)[is_place].argmax(-1)
    hook.remove()
    rows, decides, places = is_place.nonzero()[:, 0].tolist(), {}, set()
    for place, x in enumerate(found[0][is_place]):
        firing = values[place].nonzero().flatten()
        without = norm(x - (values[place, firing] * columns[:, firing]).T)
        tokens = model.decoder.embedding.logits(without).argmax(-1)
        for number in firing[tokens != best[place]].tolist():
            decides[rows[place], number] = None
            places.add(place)
    return [*decides], len(places)


def unit_cards(
    translator: Translator, values: Tensor, places: list[tuple[int, int, str, str]]
) -> list[dict[str, Any]]:
    """Return what each chosen unit asks and answers: where it fires, what it raises."""
    rises, cards = raised(translator.model), []
    for number in UNITS:
        top, strongest = rises[:, number].topk(8), values[:, number].topk(4)
        pieces = translator.tokenizer.pieces(top.indices.tolist())
        cards.append(
            {
                "unit": number,
                "fires": round(100 * (values[:, number] > 0).float().mean().item()),
                "largest": round(strongest.values[0].item(), 1),
                "answers": [
                    [piece.replace("▁", ""), round(rise, 2)]
                    for piece, rise in zip(pieces, top.values.tolist(), strict=True)
                ],
                "asks": [
                    [*places[at][::2], places[at][3], round(value, 1)]
                    for value, at in zip(*map(Tensor.tolist, strongest), strict=True)
                ],
            }
        )
    return cards


@torch.inference_mode()
def unit_sentence(translator: Translator, source: str) -> dict[str, Any]:
    """Set each chosen unit to each value, and each unit of the network to 0 and `HIGH`.

    Returns:
        outputs: Each translation, the first as trained.
        set: Which of them each chosen unit gives, by value.
        alike: How many of a chosen unit's shuffled answers give the same as it does at
            `HIGH`; None where no word changes.
        given: How many units of the network give each translation at `HIGH`.
        off: Each unit that changes a word when it is switched off, and the translation.
    """
    each, step = [n for n in UNITS for _ in UNIT_VALUES], len(UNIT_VALUES)
    found = with_units(translator, source, each, UNIT_VALUES * len(UNITS))
    texts = [*dict.fromkeys([translator.translate(source), *found])]
    answers = translator.model.decoder.layers[-1].feed_forward.w_2.weight
    alike: list[int | None] = []
    for number, text in zip(UNITS, found[UNIT_VALUES.index(HIGH) :: step], strict=True):
        alike.append(None)
        if text != texts[0]:
            columns = shuffled(answers[:, number], number)
            same = [number] * SHUFFLES, [HIGH] * SHUFFLES
            alike[-1] = with_units(translator, source, *same, columns).count(text)
    high = with_each_unit(translator, source, HIGH)
    off = enumerate(with_each_unit(translator, source, 0))
    starts = range(0, len(each), step)
    return {
        "source": source,
        "outputs": [{"text": text, "gloss": GLOSSES[text]} for text in texts],
        "set": [[texts.index(text) for text in found[i : i + step]] for i in starts],
        "alike": alike,
        "given": [high.count(text) for text in texts],
        "off": [[number, text] for number, text in off if text != texts[0]],
    }


@torch.inference_mode()
def unit() -> dict[str, Any]:
    """Turn units of the last decoder layer up, and switch them off, for Section 3.3.

    All 1,024 units are switched off in each sentence that the figure shows. In the
    other short sentences, teacher forcing chooses the units that are tried: those that
    change the most likely next token somewhere. So more units than `off` names may
    change a translation.
    """
    translator = Translator.load("tatoeba_en_de_wide", device="cpu")
    everyday = json.loads((ROOT / "results/everyday.json").read_text("utf-8"))
    probes = [sentence["source"] for sentence in everyday["sentences"][:48]]
    probes += [source for source in TURNED if source not in probes]
    pairs = [*zip(probes, translator.translate(probes), strict=True)]
    values, places = fired(translator, pairs)
    decides, num_places = decided(translator, pairs, values)
    off = []
    for row, (source, text) in enumerate(pairs):
        units = sorted(number for of, number in decides if of == row)
        if units:
            changed = with_units(translator, source, units, [0] * len(units))
            each = zip(units, changed, strict=True)
            off += [[row, number, new] for number, new in each if new != text]
    return {
        "values": UNIT_VALUES,
        "high": HIGH,
        "shuffles": SHUFFLES,
        "units": values.size(1),
        "most": round(values.max().item(), 1),
        "probes": pairs,
        "decisive": {
            "units": len({number for _, number in decides}),
            "places": num_places,
            "off": off,
        },
        "cards": unit_cards(translator, values, places),
        "sentences": [unit_sentence(translator, source) for source in TURNED],
    }


def shuffled(column: Tensor, seed: int) -> Tensor:
    """Return columns with the same entries in random orders, one in a row."""
    generator = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(len(column), generator=generator) for _ in range(SHUFFLES)]
    return column[torch.stack(orders)]


def main() -> None:
    """Write what each figure shows beside its script."""
    for compute in (residual, heads, transplant, unit):
        text = json.dumps(compute(), ensure_ascii=False, separators=(",", ":")) + "\n"
        path = SOURCES / f"{compute.__name__}.json"
        write_whole(path, lambda partial, text=text: partial.write_text(text, "utf-8"))


if __name__ == "__main__":
    main()
