"""Train the reader's own Transformer on the toy corpus, and watch it translate.

Batches, model, loss, steps and search are the reader's, where they are written.

Paper: §5, 6.1
Chapter: 03_model_architecture
Tests: tests/course/test_grading.py
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor

from transformer_lite.config import Recipe
from transformer_lite.data.corpora import load_corpus
from transformer_lite.optimizer import adam
from transformer_lite.tokenizer import BOS, EOS, PAD, Tokenizer
from transformer_lite_course.parts import PARTS, is_written, load_parts

VOCAB_SIZE = 500
SHOWN_STEPS = 100
"""Steps between two looks at what the model translates."""
TESTED = 100
"""Sentences that are translated at the end."""


def train(folder: Path, recipe: Recipe) -> None:
    """Train by the recipe `toy`; print how the model learns to translate.

    Args:
        folder: The reader's files. The book's stand in for those that are not written.
        recipe: Widths, steps and rates.

    Raises:
        ValueError: A file is missing or is no Python, or the loss is not finite.
    """
    written = {name for name in PARTS if is_written(folder / f"{name}.py")}
    own = ", ".join(name for name in PARTS if name in written)
    print(
        f"yours: {own} (not checked here; `grade` does)"
        if own
        else "yours: nothing yet"
    )
    if rest := [name for name in PARTS if name not in written]:
        print(f"the book's: {', '.join(rest)}")
    parts = SimpleNamespace(**load_parts(folder, written))
    corpus = load_corpus("toy")
    pairs = [(pair.source, pair.target) for pair in corpus.splits["train"]]
    tokenizer = Tokenizer.train((text for pair in pairs for text in pair), VOCAB_SIZE)
    torch.manual_seed(recipe.train.seed)
    model = parts.model.Transformer(replace(recipe.model, vocab_size=VOCAB_SIZE))
    optimizer = adam(model.parameters(), recipe.train.rate_scale)
    rate = parts.schedule.noam_rate
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda done: rate(done + 1, recipe.model.d_model, recipe.train.warmup_steps),
    )

    def loss_of(batch: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        src_ids, read, labels = batch
        logits = model(src_ids, read)
        smoothing = recipe.train.label_smoothing
        return parts.loss.label_smoothed_loss(logits, labels, smoothing, PAD)[:2]

    ids = [tuple(tokenizer.encode_all(list(pair))) for pair in pairs]
    batches = _batches(parts, ids, recipe.train.batch_tokens)
    examples = [(p.source, p.target) for p in corpus.splits["test"]][:TESTED]
    for step, batch in enumerate(islice(batches, recipe.train.max_steps), start=1):
        loss = parts.schedule.take_step(loss_of, [batch], optimizer, schedule)
        if not math.isfinite(loss):
            raise ValueError(
                f"step {step}: the loss is {loss}; find the cause with "
                f"transformer-lite grade {folder}"
            )
        if step % SHOWN_STEPS == 0:
            source, _ = examples[step // SHOWN_STEPS % TESTED]
            output = _translated(parts, model, tokenizer, source, beam_size=1)
            output = output or "(nothing)"
            print(f"step {step:,}: loss {loss:.3f}\n  {source}\n  {output}", flush=True)
    right = sum(
        _translated(parts, model, tokenizer, source, beam_size=4) == target
        for source, target in examples
    )
    print(f"{right} of {TESTED} test sentences are translated as in the corpus")


def _batches(
    parts: SimpleNamespace, ids: list[tuple[list[int], list[int]]], batch_tokens: int
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield batches without end: sources, what the decoder reads, and labels."""
    lengths = [1 + max(map(len, pair)) for pair in ids]
    for epoch in count():
        for numbers in parts.batching.token_batches(lengths, batch_tokens, epoch):
            sources = [[*ids[number][0], EOS] for number in numbers]
            targets = [ids[number][1] for number in numbers]
            both = parts.batching.teacher_forcing(targets, BOS, EOS, PAD)
            yield parts.batching.pad(sources, PAD), *both


@torch.inference_mode()
def _translated(
    parts: SimpleNamespace,
    model: torch.nn.Module,
    tokenizer: Tokenizer,
    source: str,
    beam_size: int,
) -> str:
    """Translate one sentence by the reader's search."""
    model.eval()
    ids = torch.tensor([[*tokenizer.encode(source), EOS]])

    def next_log_probs(prefixes: Tensor) -> Tensor:
        logits = model(ids.expand(len(prefixes), -1), prefixes)
        return logits[:, -1].log_softmax(dim=-1)

    search = (next_log_probs, BOS, EOS, ids.size(1) + 20)
    if beam_size == 1:
        output = parts.search.greedy_search(*search)
    else:
        output = parts.search.beam_search(*search, beam_size, 0.6)
    model.train()
    return tokenizer.decode(output)
