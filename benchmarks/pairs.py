"""Multi30k, prepared once, and batches of it."""

from pathlib import Path

import numpy as np

from transformer_lite.batching import Batch, token_buckets
from transformer_lite.data.corpora import load_corpus
from transformer_lite.data.prepare import prepare
from transformer_lite.data.store import PreparedCorpus

VOCAB_SIZE = 8_000
BATCH_TOKENS = 2_048
TEST = "test_2016_flickr"


def load(folder: Path) -> PreparedCorpus:
    """Return the prepared corpus, made at the first call."""
    if not folder.exists():
        prepare(load_corpus("multi30k"), folder, VOCAB_SIZE, 256, skip_unusable=True)
    return PreparedCorpus(folder)


def training_batches(corpus: PreparedCorpus, number: int) -> list[Batch]:
    """Return batches of about 2,048 target tokens, evenly spread over the lengths."""
    src, tgt = corpus.ids("train")
    epoch = token_buckets(src.lengths, tgt.lengths, BATCH_TOKENS, (1, 0))
    epoch.sort(key=lambda pairs: tgt.lengths[pairs].max())
    chosen = np.linspace(0, len(epoch) - 1, 2 * number + 1).astype(int)[1::2]
    return [Batch.of_pairs(src, tgt, epoch[n]) for n in chosen]
