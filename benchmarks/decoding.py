"""Decoding: sentences a second with beam 4, ours and the peers' from equal weights.

Nobody has a length penalty here, because everybody's is another function of the
length: then all search for the same thing, and can be compared sentence by sentence.
Ours is one process that uses all cores; CTranslate2 can also share them out.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from pairs import TEST
from peers import joeynmt, joeynmt_batch, marian
from tqdm import tqdm

from examples.ctranslate2.export import export_ctranslate2
from transformer_lite.batching import pad
from transformer_lite.config import load_recipe
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference.translator import Translator
from transformer_lite.tokenizer import BOS, EOS, PAD
from transformer_lite.training.run import train_recipe

BEAM = 4
OUR_BATCH, BATCH = 256, 64  # ours and the others': what is fastest for each
EXTRA = 50
CORES = 2
RECIPE = """\
data = "{data}"

[model]
num_layers = 3
d_model = 256
d_ff = 1024
num_heads = 8
max_len = 512

[train]
batch_tokens = 1200
max_steps = 1200
warmup_steps = 300
rate_scale = 0.4
validate_every = 1200
checkpoint_every = 1200
"""

Decode = Callable[[], list[list[int]]]


def trained_run(corpus: PreparedCorpus, folder: Path) -> Path:
    """Train for some minutes, so that outputs end as they should; return the folder."""
    run = folder / f"run-{corpus.folder.name}"
    if not (run / "checkpoints" / "average.safetensors").exists():
        recipe = folder / "decoding.toml"
        recipe.write_text(RECIPE.format(data=corpus.folder))
        train_recipe(load_recipe(recipe), run)
    return run


def ids_of(rows: torch.Tensor | list, count: int) -> list[list[int]]:
    """Return the ids of each output up to its end."""
    outputs = rows.tolist() if isinstance(rows, torch.Tensor) else rows
    assert len(outputs) == count
    cut = []
    for output in outputs:
        ids = [int(id_) for id_ in output if int(id_) not in (BOS, PAD)]
        cut.append(ids[: ids.index(EOS)] if EOS in ids else ids)
    return cut


class Peers:
    """Every system's way to translate the same sorted sentences."""

    def __init__(self, run: Path, sentences: list[str]) -> None:
        self.translator = Translator.load(run)
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
                outputs += ids_of(rows, len(src_ids))
            return outputs

        return decode

    def joeynmt(self) -> Decode:
        """Return JoeyNMT's `search`."""
        from joeynmt.search import search

        model = joeynmt(self.translator.model).eval()

        def decode() -> list[list[int]]:
            outputs = []
            for src_ids in self.batches():
                rows, _, _ = search(
                    model,
                    joeynmt_batch(src_ids),
                    max_output_length=src_ids.size(1) - 1 + EXTRA,
                    beam_size=BEAM,
                    beam_alpha=0.0,
                )
                outputs += ids_of(rows, len(src_ids))
            return outputs

        return decode

    def ctranslate2(self, workers: int) -> Decode:
        """Return our export in CTranslate2, whose workers share the cores."""
        import ctranslate2

        with TemporaryDirectory() as folder:
            model = Path(folder) / "model"
            export_ctranslate2(self.translator, model)
            served = ctranslate2.Translator(
                str(model), inter_threads=workers, intra_threads=CORES // workers
            )
        pieces = [self.tokenizer.pieces(ids[:-1]) for ids in self.sources]
        vocabulary = self.tokenizer.pieces(range(self.tokenizer.vocab_size))
        numbers = {piece: number for number, piece in enumerate(vocabulary)}
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


def measure(corpus: PreparedCorpus, passes: int, folder: Path) -> dict:
    """Measure sentences a second of each; count the outputs that equal ours."""
    run = trained_run(corpus, folder)
    sentences = corpus.text(TEST)[0]
    peers = Peers(run, sentences)
    systems = {
        "ours, 1 process × 2 threads": peers.ours(),
        "CTranslate2, 1 worker × 2 threads": peers.ctranslate2(1),
        "CTranslate2, 2 workers × 1 thread": peers.ctranslate2(2),
        "Hugging Face generate": peers.hugging_face(),
        "JoeyNMT": peers.joeynmt(),
    }
    times = {name: [] for name in systems}
    outputs = {}
    for _ in tqdm(range(passes), desc="decoding"):
        for name, decode in systems.items():
            start = time.perf_counter()
            outputs[name] = decode()
            times[name].append(time.perf_counter() - start)
    count, own = len(sentences), next(iter(outputs.values()))
    return {
        "unit": "sentences/s",
        "passes": passes,
        "sentences": count,
        "output_tokens_per_sentence": sum(map(len, own)) / count,
        "rates": {
            name: {
                "best": count / min(taken),
                "median": count / statistics.median(taken),
                "equal": sum(a == b for a, b in zip(outputs[name], own, strict=True)),
            }
            for name, taken in times.items()
        },
    }
