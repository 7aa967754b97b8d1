"""Decoding: sentences a second with beam 4, ours and the peers' from equal weights.

Nobody has a length penalty here, because everybody's is another function of the
length: then all search for the same thing, and can be compared sentence by sentence.
Ours is one process that uses all cores; CTranslate2 can also share them out.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from peers import marian
from training import load, rate
from turns import in_turn

from transformer_lite.batching import pad
from transformer_lite.inference.translator import Translator
from transformer_lite.tokenizer import BOS, EOS, PAD

BEAM = 4
OUR_BATCH, BATCH = 256, 64  # ours and the others': what is fastest for each
EXTRA = 50
EVERY = 4  # sentence of the test set
CORES = 2
MODEL = "tatoeba_en_de_wide"  # 3 + 3 layers of width 256, as in training.py
Decode = Callable[[], list[list[int]]]


def ids_of(rows: torch.Tensor) -> list[list[int]]:
    """Return the ids of each output up to its end."""
    outputs = [[id_ for id_ in row if id_ not in (BOS, PAD)] for row in rows.tolist()]
    return [ids[: ids.index(EOS)] if EOS in ids else ids for ids in outputs]


class Peers:
    """Every system's way to translate the same sorted sentences."""

    def __init__(self, sentences: list[str]) -> None:
        self.translator = Translator.load(MODEL, device="cpu")
        self.translator.search = replace(
            self.translator.search,
            beam_size=BEAM,
            alpha=0.0,
            max_extra=EXTRA,
            batch_sentences=OUR_BATCH,
        )
        self.tokenizer = self.translator.tokenizer
        self.sentences = sorted(sentences, key=lambda s: len(self.tokenizer.encode(s)))
        self.sources = [[*self.tokenizer.encode(s), EOS] for s in self.sentences]

    def batches(self) -> list[torch.Tensor]:
        """Return the source ids, padded."""
        starts = range(0, len(self.sources), BATCH)
        return [pad(self.sources[start : start + BATCH]) for start in starts]

    def ours(self) -> Decode:
        """Return ours: one process with all cores."""
        translator, sentences = self.translator, self.sentences
        return lambda: [list(found.ids) for found in translator.hypotheses(sentences)]

    def hugging_face(self) -> Decode:
        """Return Hugging Face's `generate`."""
        model = marian(self.translator.model, "sdpa").eval()

        def decode() -> list[list[int]]:
            outputs = []
            for src_ids in self.batches():
                rows = model.generate(
                    input_ids=src_ids,
                    attention_mask=(src_ids != PAD).long(),
                    num_beams=BEAM,
                    do_sample=False,
                    length_penalty=0.0,
                    max_new_tokens=src_ids.size(1) - 1 + EXTRA,
                )
                outputs += ids_of(rows)
            return outputs

        return decode

    def ctranslate2(self, workers: int) -> Decode:
        """Return our export in CTranslate2, whose workers share the cores."""
        import ctranslate2

        from examples.ctranslate2.export import export_ctranslate2

        with TemporaryDirectory() as folder:
            model = Path(folder) / "model"
            export_ctranslate2(self.translator, model)
            served = ctranslate2.Translator(
                str(model), inter_threads=workers, intra_threads=CORES // workers
            )
        vocabulary = self.tokenizer.pieces(range(self.tokenizer.vocab_size))
        numbers = {piece: number for number, piece in enumerate(vocabulary)}
        pieces = [[vocabulary[id_] for id_ in ids[:-1]] for ids in self.sources]
        longest = max(len(source) for source in pieces)

        def decode() -> list[list[int]]:
            results = served.translate_batch(
                pieces,
                max_batch_size=BATCH,
                beam_size=BEAM,
                length_penalty=0,
                min_decoding_length=0,
                max_decoding_length=longest + EXTRA - 1,
            )
            return [[numbers[p] for p in result.hypotheses[0]] for result in results]

        return decode


SYSTEMS: dict[str, Callable[[Peers], Decode]] = {
    "ours, 1 process × 2 threads": Peers.ours,
    "CTranslate2, 1 worker × 2 threads": lambda peers: peers.ctranslate2(1),
    "CTranslate2, 2 workers × 1 thread": lambda peers: peers.ctranslate2(2),
    "Hugging Face generate": Peers.hugging_face,
}


def begin(sentences: list[str], system: str) -> Callable[[], tuple[float, list]]:
    """Make a system ready; each turn gives the seconds that it took and the outputs."""
    decode = SYSTEMS[system](Peers(sentences))

    def turn() -> tuple[float, list]:
        start = time.perf_counter()
        outputs = decode()
        return time.perf_counter() - start, outputs

    return turn


def measure(folder: Path, passes: int) -> dict:
    """Measure sentences a second of each; count the outputs that equal ours."""
    sentences = load(folder).text("test_2016_flickr")[0][::EVERY]
    given, missing = in_turn(partial(begin, sentences), SYSTEMS, passes)
    times = {name: [taken for taken, _ in turns] for name, turns in given.items()}
    outputs = {name: turns[-1][1] for name, turns in given.items()}
    (ours, *_), count = times.values(), len(sentences)
    own, *_ = outputs.values()
    return {
        "unit": "sentences/s",
        "passes": passes,
        "sentences": count,
        "output_tokens_per_sentence": sum(map(len, own)) / count,
        "rates": {
            name: rate(count, taken, ours)
            | {"equal": sum(a == b for a, b in zip(outputs[name], own, strict=True))}
            for name, taken in times.items()
        },
        "missing": missing,
    }
