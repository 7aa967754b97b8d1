"""Multi30k, or where it is not at hand generated pairs of the same lengths."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from transformer_lite.batching import Batch, token_buckets
from transformer_lite.data.corpora import Corpus, SentencePair, load_corpus
from transformer_lite.data.prepare import prepare
from transformer_lite.data.store import PreparedCorpus

VOCAB_SIZE = 8_000
BATCH_TOKENS = 2_048
TEST = "test_2016_flickr"


class GeneratedPairs:
    """Pairs of made-up words, with Multi30k's lengths in tokens.

    Word frequencies fall as in Zipf's law. A target translates its source word by
    word, and drops or doubles some of them.
    """

    def __init__(self, seed: int, size: int) -> None:
        self.seed, self.size = seed, size

    def __iter__(self) -> Iterator[SentencePair]:
        """Yield the same pairs each time."""
        generator = np.random.default_rng(self.seed)
        chances = 1 / np.arange(1, 7_001)
        chances /= chances.sum()
        # Of Multi30k's English sides: mean 11.9 words, standard deviation 3.8.
        lengths = generator.gamma((11.9 / 3.8) ** 2, 3.8**2 / 11.9, self.size)
        for length in np.maximum(lengths.round().astype(int), 2):
            words = generator.choice(len(chances), size=length, p=chances)
            copies = generator.choice([1, 0, 2], size=length, p=[0.9, 0.05, 0.05])
            target = np.repeat(words, copies) if copies.any() else words
            yield SentencePair(
                " ".join(f"{_spelled(word)}o" for word in words.tolist()),
                " ".join(f"{_spelled(word)}en" for word in target.tolist()),
            )


def _spelled(number: int) -> str:
    syllables = []
    while True:
        number, digit = divmod(number, 60)
        syllables.append("bdfghklmnprt"[digit // 5] + "aeiou"[digit % 5])
        if not number:
            return "".join(syllables)


def load(folder: Path) -> tuple[PreparedCorpus, str]:
    """Return the prepared corpus, made at the first call, and what it is."""
    data = Path(os.environ.get("TRANSFORMER_LITE_DATA", "nowhere"))
    real = (data / "multi30k").is_dir()
    name = "multi30k" if real else "generated"
    path = folder / name
    if not path.exists():
        if real:
            corpus = load_corpus("multi30k")
        else:
            splits = {"train": 29_000, "valid": 1_014, TEST: 1_000}
            parts = enumerate(splits.items())
            corpus = Corpus(name, {s: GeneratedPairs(i, n) for i, (s, n) in parts})
        prepare(corpus, path, VOCAB_SIZE, 256, skip_unusable=True)
    described = "Multi30k English–German" if real else "generated pairs"
    return PreparedCorpus(path), described


def training_batches(corpus: PreparedCorpus, number: int) -> list[Batch]:
    """Return batches of about 2,048 target tokens, evenly spread over the lengths."""
    src, tgt = corpus.ids("train")
    epoch = token_buckets(src.lengths, tgt.lengths, BATCH_TOKENS, (1, 0))
    epoch.sort(key=lambda pairs: tgt.lengths[pairs].max())
    chosen = np.linspace(0, len(epoch) - 1, 2 * number + 1).astype(int)[1::2]
    return [
        Batch.from_ids(
            [src[i].tolist() for i in epoch[n]], [tgt[i].tolist() for i in epoch[n]]
        )
        for n in chosen.tolist()
    ]
