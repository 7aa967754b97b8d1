"""How fast the package trains and searches on a GPU beside its peers, in what memory.

A section yields its parts, what matters most first, so that an early end loses little.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from gpu_workload import Setup, lengths_like_wmt14, random_batches, useful_flops
from peers import Marian, Naive, NaiveStep, Peer, marian

from transformer_lite.batching import Batch
from transformer_lite.config import ModelConfig, SearchConfig
from transformer_lite.inference.translator import Translator
from transformer_lite.loss import fused_label_smoothed_loss
from transformer_lite.model import Transformer
from transformer_lite.optimizer import adam
from transformer_lite.precision import autocast
from transformer_lite.tokenizer import UNK
from transformer_lite.training.step import Objective, train_step

Step = Callable[[Batch], object]
Part = tuple[str, Callable[[], dict]]
"""The name of a part, and what measures it."""
SMOOTHING = 0.1


# What takes the steps


def ours(setup: Setup, model: Transformer, compiled: bool) -> Step:
    """Return our step, as the trainer takes it."""
    if compiled:
        for layer in [*model.encoder.layers, *model.decoder.layers]:
            layer.compile(dynamic=True, backend=setup.backend)
    objective = Objective(model, SMOOTHING, "bf16")
    optimizer = adam(model.parameters(), 1e-4)
    return lambda batch: train_step(
        objective, [batch], optimizer, seed=(1, 1), processes=setup.processes
    )


def in_bf16(trainer: Peer) -> Step:
    """Return a peer's step, in bf16."""
    trainer.precision = "bf16"
    return trainer.step


def nn_transformer(setup: Setup, model: Transformer) -> Step:
    """Take the steps of `torch.nn.Transformer`, used as a tutorial would."""
    return in_bf16(NaiveStep(Naive(model).to(setup.device)))


def hugging_face_marian(setup: Setup, model: Transformer) -> Step:
    """Take the steps of Hugging Face's Marian of the same shape."""
    return in_bf16(Marian(marian(model.cpu(), "sdpa").to(setup.device).train()))


SYSTEMS = {
    "ours": partial(ours, compiled=False),
    "torch.nn.Transformer": nn_transformer,
    "Marian": hugging_face_marian,
    "ours, compiled": partial(ours, compiled=True),  # the slowest to begin
}


# Training


def training_speed(setup: Setup) -> Iterator[Part]:
    """Measure peaks, then memory by part, then steps of every system and model."""
    peaks = measure_peaks(setup)
    yield "peaks", lambda: peaks
    for name, config in setup.models.items():
        yield f"memory, {name}", partial(memory_by_part, setup, config)
    for system, make in SYSTEMS.items():
        for name, config in setup.models.items():
            measure = partial(measure_training, setup, config, make)
            yield f"{name}, {system}", partial(measure, peaks["bf16_tflops"])


def measure_peaks(setup: Setup) -> dict:
    """Measure a large product in bf16, and a large copy: what the hardware gives."""
    generator = torch.Generator(setup.device).manual_seed(1)
    square = (setup.matrix, setup.matrix)
    one, two = (
        torch.randn(square, generator=generator, device=setup.device).bfloat16()
        for _ in range(2)
    )
    source = torch.randn(8 * setup.matrix**2, device=setup.device)
    copy = torch.empty_like(source)
    product = setup.seconds_of(lambda: [torch.mm(one, two) for _ in range(10)]) / 10
    copying = setup.seconds_of(lambda: [copy.copy_(source) for _ in range(10)]) / 10
    return {
        "matrix": setup.matrix,
        "bf16_tflops": 2 * setup.matrix**3 / product / 1e12,
        "copy_gb_per_second_read_and_written": 2 * 4 * len(source) / copying / 1e9,
    }


def measure_training(
    setup: Setup, config: ModelConfig, system: Callable, peak: float
) -> dict:
    """Measure one system's tokens a second, FLOPs utilization, and most memory."""
    torch.manual_seed(1)
    batches = random_batches(setup, config)
    setup.peak()
    step = system(setup, Transformer(config).to(setup.device))
    start = time.perf_counter()
    for batch in batches:  # compiles, chooses kernels, fills the allocator
        step(batch)
    setup.wait()
    first_pass = time.perf_counter() - start
    passes, start = 0, time.perf_counter()
    while not passes or time.perf_counter() - start < setup.seconds:
        for batch in batches:
            step(batch)
        passes += 1
        setup.wait()
    seconds = (time.perf_counter() - start) / passes
    flops = sum(useful_flops(config, batch) for batch in batches) / seconds
    return {
        "target_tokens_per_second": sum(batch.tokens for batch in batches) / seconds,
        "tflops": flops / 1e12,
        "model_flops_utilization": flops / 1e12 / peak,
        "milliseconds_per_step": 1e3 * seconds / len(batches),
        "target_tokens_per_step": sum(b.tokens for b in batches) / len(batches),
        "first_pass_seconds": first_pass,
        "memory_bytes": setup.peak(),
    }


def memory_by_part(setup: Setup, config: ModelConfig) -> dict:
    """Measure what fills the memory in our step, in bytes, on its widest batch."""
    torch.manual_seed(1)
    batch = max(random_batches(setup, config), key=lambda batch: batch.tgt_ids.numel())
    model = Transformer(config).to(setup.device)
    objective = Objective(model, SMOOTHING, "bf16")
    optimizer = adam(model.parameters(), 1e-4)
    train_step(objective, [batch], optimizer, processes=setup.processes)
    weights = sum(weight.nbytes for weight in model.parameters())
    state = (v for kept in optimizer.state.values() for v in kept.values())
    batch, before = batch.to(setup.device), setup.allocated()
    setup.peak()
    with autocast("bf16", setup.device):
        hidden = model.hidden(batch.src_ids, batch.tgt_input)
        activations = setup.allocated() - before
        setup.peak()
        loss = fused_label_smoothed_loss(
            hidden, model.decoder.embedding.weight, batch.labels, SMOOTHING, batch.real
        ).loss
    logits = setup.peak() - before - activations
    loss.backward()
    return {
        "weights": weights,
        "gradients": weights,  # as many numbers, as wide
        "moments": sum(v.nbytes for v in state if v.numel() > 1),
        "activations": activations,
        "logits": logits,
        "most_in_forward_and_backward": setup.peak() - before,
        "all_logits_in_fp32_would_take": 4 * batch.tokens * config.vocab_size,
        "target_tokens": batch.tokens,
    }


# Search


class Numbers:
    """A tokenizer of text that is numbers: "17 4" has the ids 17 and 4."""

    def encode(self, text: str) -> list[int]:
        """Return the numbers."""
        return [int(number) for number in text.split()]


def search_speed(setup: Setup) -> Iterator[Part]:
    """Measure beam search, as the Translator does it: on a GPU in fp16."""
    for name, config in setup.models.items():
        yield name, partial(measure_search, setup, config)


def measure_search(setup: Setup, config: ModelConfig) -> dict:
    """Measure sentences a second of beam 4, with weights that nothing has trained.

    Such a model hardly ever ends by itself. Each output is as long as its source may
    make it: a token more.
    """
    torch.manual_seed(1)
    model = Transformer(config).to(setup.device).eval()
    translator = Translator(model, Numbers(), SearchConfig(max_extra=1))
    generator = np.random.default_rng(2)
    sentences = [
        " ".join(map(str, generator.integers(UNK + 1, config.vocab_size, length)))
        for length in lengths_like_wmt14(setup.sentences, seed=2)[:, 0].tolist()
    ]
    translator.hypotheses(sentences[:128])
    start = time.perf_counter()
    tokens = sum(len(found.ids) for found in translator.hypotheses(sentences))
    took = time.perf_counter() - start
    return {
        "sentences": len(sentences),
        "sentences_per_second": len(sentences) / took,
        "output_tokens_per_second": tokens / took,
        "output_tokens_per_sentence": tokens / len(sentences),
        "batch_sentences": translator.search.batch_sentences,
    }
