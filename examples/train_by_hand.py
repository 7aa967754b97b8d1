"""The whole of training in one loop, for those who come from nanoGPT.

The package's trainer adds checkpoints, several processes, half precision, validation.
Here is only the paper: model (§3), batches (§5.1), learning rate (§5.3), smoothed loss
(§5.4) and search (§6.1).
"""

import argparse
import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

# Threads that never sleep while they wait for each other stand still beside other work.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # read when PyTorch is loaded

import torch
from torch import nn

from transformer_lite.batching import Batch
from transformer_lite.config import TINY
from transformer_lite.data.toy import generate_pairs
from transformer_lite.loss import label_smoothed_loss
from transformer_lite.model import Transformer
from transformer_lite.optimizer import adam, noam_schedule
from transformer_lite.search import beam_search
from transformer_lite.tokenizer import BOS, EOS, PAD, Tokenizer


def batches(pairs: list, size: int) -> Iterator[Batch]:
    """Random batches without end."""
    while True:
        rows = [pairs[i] for i in torch.randint(len(pairs), (size,)).tolist()]
        yield Batch.from_ids(*zip(*rows, strict=True))


def translate(model: nn.Module, tokenizer: Tokenizer, sentence: str) -> str:
    """The likeliest token at each step."""
    src_ids = torch.tensor([[*tokenizer.encode(sentence), EOS]])
    with torch.inference_mode():
        start, limit = model.start(src_ids), torch.tensor([50])
        ((best,),) = beam_search(model.decoder.step, start, limit, BOS, EOS)
    return tokenizer.decode(best.ids)


def main(num_pairs: int, steps: int, batch_size: int) -> float:
    """Train on the toy grammar; return the last loss in nats per token."""
    torch.manual_seed(1)
    text = [(p.source, p.target) for p in islice(generate_pairs(seed=1), num_pairs)]
    tokenizer = Tokenizer.train((line for pair in text for line in pair), 300)
    pairs = [(tokenizer.encode(src), tokenizer.encode(tgt)) for src, tgt in text]
    config = replace(TINY, vocab_size=tokenizer.vocab_size)
    model = Transformer(config)
    optimizer = adam(model.parameters(), rate=0.5)
    schedule = noam_schedule(optimizer, config.d_model, warmup=150)
    for step, batch in enumerate(islice(batches(pairs, batch_size), steps), start=1):
        logits = model(batch.src_ids, batch.tgt_input)
        sums = label_smoothed_loss(logits, batch.labels, 0.1, PAD)
        loss = sums.loss / sums.tokens
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step in (1, steps) or step % 50 == 0:
            print(f"step {step:4}   loss {loss.item():.3f}")
    model.eval()
    for source, target in text[:3]:
        print(f"source       {source}\nreference    {target}")
        print(f"translation  {translate(model, tokenizer, source)}")
    return loss.item()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--num-pairs", type=int, default=2000)
    options.add_argument("--steps", type=int, default=300)
    options.add_argument("--batch-size", type=int, default=64)
    numbers = vars(options.parse_args())
    if min(numbers.values()) < 1:
        options.error("give at least 1")
    main(**numbers)
