"""What a token of the output costs, by the number of tokens before it."""

import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from tqdm import tqdm
from training import CONFIG

from transformer_lite.data.store import PreparedCorpus
from transformer_lite.masks import padding_mask
from transformer_lite.model import Transformer
from transformer_lite.tokenizer import PAD

SENTENCES = 16
SOURCE = 20
LENGTH = 480
EVERY = 40
FIGURE = Path(__file__).with_name("length_cost.png")


@torch.inference_mode()
def measure(corpus: PreparedCorpus, passes: int, folder: Path) -> dict:
    """Measure milliseconds a step at several lengths, with the cache and without."""
    del corpus, folder
    torch.manual_seed(1)
    model = Transformer(CONFIG).eval()
    src_ids = torch.randint(4, CONFIG.vocab_size, (SENTENCES, SOURCE))
    tgt_ids = torch.randint(4, CONFIG.vocab_size, (SENTENCES, LENGTH))
    mask = padding_mask(src_ids, PAD)
    memory = model.encoder(src_ids, mask)
    cached = []
    for _ in tqdm(range(passes + 1), desc="length"):
        state, times = model.start(src_ids), []
        for last_ids in tgt_ids.T:
            start = time.perf_counter()
            _, state = model.decoder.step(last_ids[:, None], state)
            times.append(time.perf_counter() - start)
        cached.append(times)
    groups = np.min(cached[1:], axis=0).reshape(-1, EVERY)
    lengths = list(range(EVERY, LENGTH + 1, EVERY))
    whole = []
    for length in lengths:
        times = []
        for _ in range(passes):
            start = time.perf_counter()
            model.decoder.hidden(tgt_ids[:, :length], memory, mask)
            times.append(time.perf_counter() - start)
        whole.append(min(times) * 1e3)
    result = {
        "unit": "ms a step",
        "sentences": SENTENCES,
        "lengths": lengths,
        "cached": (np.median(groups, axis=1) * 1e3).tolist(),
        "whole_prefix": whole,
    }
    result["cached_last_over_first"] = result["cached"][-1] / result["cached"][0]
    draw(result)
    return result


def draw(result: dict) -> None:
    """Draw the two curves; the cached one must not rise faster than a line."""
    lengths, cached = np.array(result["lengths"]), np.array(result["cached"])
    # At most linear: the second half may not be steeper than twice the whole.
    slope = np.polyfit(lengths, cached, 1)[0]
    half = len(lengths) // 2
    late = np.polyfit(lengths[half:], cached[half:], 1)[0]
    assert late < 2 * max(slope, cached[0] / lengths[-1]), (slope, late)
    figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
    ax.plot(lengths, result["whole_prefix"], "s--", label="whole prefix each time")
    ax.plot(lengths, cached, "o-", label="with the cache (ours)")
    ax.set_xlabel("tokens before")
    ax.set_ylabel(f"ms a token, {result['sentences']} sentences at once")
    ax.set_ylim(bottom=0)
    ax.legend()
    figure.savefig(FIGURE, dpi=150)
    plt.close(figure)
