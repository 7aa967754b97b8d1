"""Put known faults into the package, one at a time, and see that the tests notice.

    python tests/mutations.py [PART_OF_A_NAME …]

Each fault is one change of one line in a copy of the repository. The tests beside it
are those that should fail. Exit status 1 if any fault goes unnoticed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Fault(NamedTuple):
    """A change of one module that some tests should notice."""

    name: str
    module: str
    """Its file, below transformer_lite/."""
    right: str
    """The text as it stands; it occurs once."""
    wrong: str
    tests: str
    """Test files below tests/, separated by spaces."""


FAULTS = [
    # Attention (Section 3.2)
    Fault(
        "scores are not scaled",
        "attention.py",
        "query @ key.transpose(-2, -1) / math.sqrt(d_k)",
        "query @ key.transpose(-2, -1)",
        "test_attention.py",
    ),
    Fault(
        "scores are divided by d_k and not by its root",
        "attention.py",
        "/ math.sqrt(d_k)",
        "/ d_k",
        "test_attention.py",
    ),
    Fault(
        "the mask has the opposite meaning",
        "attention.py",
        "scores.masked_fill(~mask,",
        "scores.masked_fill(mask,",
        "test_attention.py",
    ),
    Fault(
        "softmax over the queries",
        "attention.py",
        "scores.softmax(dim=-1)",
        "scores.softmax(dim=-2)",
        "test_attention.py",
    ),
    Fault(
        "heads are split without a transpose",
        "attention.py",
        "unflatten(-1, (self.num_heads, -1)).transpose(1, 2)",
        "reshape(len(projected), self.num_heads, projected.size(1), -1)",
        "test_attention.py",
    ),
    Fault(
        "heads are joined without a transpose",
        "attention.py",
        "self.w_o(heads.transpose(1, 2).flatten(2))",
        "self.w_o(heads.reshape(len(heads), heads.size(2), -1))",
        "test_attention.py",
    ),
    Fault(
        "the kernel gets no mask",
        "attention.py",
        "    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)",
        "    return F.scaled_dot_product_attention(query, key, value)",
        "test_attention.py",
    ),
    Fault(
        "the values are projected as the keys",
        "attention.py",
        "self._split_heads(self.w_v(memory))",
        "self._split_heads(self.w_k(memory))",
        "test_attention.py",
    ),
    Fault(
        "the newest key comes first in the cache",
        "attention.py",
        "pairs = zip(self, newest, strict=True)",
        "pairs = zip((newest.key, self.key), (self.value, newest.value), strict=True)",
        "test_model.py test_attention.py",
    ),
    # Masks (Section 3.2.3)
    Fault(
        "a position sees its successor",
        "masks.py",
        "device=device).tril()",
        "device=device).tril(1)",
        "test_masks.py",
    ),
    Fault(
        "padding may be attended to, and nothing else",
        "masks.py",
        "(ids != pad_id)",
        "(ids == pad_id)",
        "test_masks.py",
    ),
    # Embeddings and positions (Sections 3.4 and 3.5)
    Fault(
        "embeddings are not scaled",
        "embeddings.py",
        "F.embedding(ids, self.weight) * math.sqrt(self.weight.size(1))",
        "F.embedding(ids, self.weight)",
        "test_embeddings.py",
    ),
    Fault(
        "every token stands at the first positions",
        "embeddings.py",
        "return table[start : start + length]",
        "return table[:length]",
        "test_embeddings.py",
    ),
    Fault(
        "cosines come before sines",
        "embeddings.py",
        "[angle.sin(), angle.cos()]",
        "[angle.cos(), angle.sin()]",
        "test_embeddings.py",
    ),
    Fault(
        "wavelengths are too short",
        "embeddings.py",
        "10_000 ** (even_channel / d_model)",
        "1_000 ** (even_channel / d_model)",
        "test_embeddings.py",
    ),
    # Layers (Sections 3.1 and 3.3)
    Fault(
        "the feed-forward network is linear",
        "layers.py",
        "self.w_2(self.w_1(x).relu())",
        "self.w_2(self.w_1(x))",
        "test_layers.py",
    ),
    Fault(
        "normalized before the sum",
        "layers.py",
        "self.norm(x + self.dropout(sublayer_output))",
        "x + self.norm(self.dropout(sublayer_output))",
        "test_layers.py",
    ),
    Fault(
        "no residual dropout",
        "layers.py",
        "self.norm(x + self.dropout(sublayer_output))",
        "self.norm(x + sublayer_output)",
        "test_layers.py test_model.py",
    ),
    Fault(
        "the decoder reads the source's padding",
        "layers.py",
        "self.cross_attention(x, memory, memory_mask)",
        "self.cross_attention(x, memory)",
        "test_layers.py test_model.py",
    ),
    Fault(
        "the decoder sees the future",
        "layers.py",
        "self.self_attention(x, x, causal[None, None], is_causal=True)",
        "self.self_attention(x, x)",
        "test_layers.py test_model.py",
    ),
    Fault(
        "a beam reads the tokens of the others",
        "layers.py",
        "self.self_attention.attend(x, past, ancestors)",
        "self.self_attention.attend(x, past)",
        "test_layers.py test_model.py",
    ),
    # Model (Section 3)
    Fault(
        "a decoding step is always the first position",
        "model.py",
        "self.positions(embedded, start=state.length)",
        "self.positions(embedded)",
        "test_model.py",
    ),
    Fault(
        "beams keep their old ancestors",
        "model.py",
        "ancestors=self.ancestors[sentences, beams]",
        "ancestors=self.ancestors",
        "test_model.py test_search.py",
    ),
    Fault(
        "the decoder has an embedding of its own",
        "model.py",
        "self.decoder = Decoder(config, embedding)",
        "self.decoder = Decoder(config, Embedding(config.vocab_size, config.d_model))",
        "test_model.py",
    ),
    Fault(
        "the encoder reads padding",
        "model.py",
        "            x = layer(x, mask)\n        # Deviation D6",
        "            x = layer(x, mask | True)\n        # Deviation D6",
        "test_model.py",
    ),
    # Loss (Section 5.4)
    Fault(
        "padding is counted in the loss",
        "loss.py",
        "nll = -log_probs.gather(-1, labels[..., None])[..., 0] * is_real",
        "nll = -log_probs.gather(-1, labels[..., None])[..., 0]",
        "test_loss.py",
    ),
    Fault(
        "smoothing over padding",
        "loss.py",
        "wrong * log_probs.sum(dim=-1) * is_real",
        "wrong * log_probs.sum(dim=-1)",
        "test_loss.py",
    ),
    Fault(
        "the right token gets a share of the smoothing",
        "loss.py",
        "smoothing / (logits.size(-1) - 1)",
        "smoothing / logits.size(-1)",
        "test_loss.py",
    ),
    Fault(
        "the fused loss has another gradient",
        "loss.py",
        "new_full(part_labels.shape, wrong - right)",
        "new_full(part_labels.shape, -right)",
        "test_fused_loss.py",
    ),
    # Optimizer (Section 5.3)
    Fault(
        "PyTorch's β₂",
        "optimizer.py",
        "betas=(0.9, 0.98)",
        "betas=(0.9, 0.999)",
        "test_optimizer.py",
    ),
    Fault(
        "the rate falls with the step and not with its root",
        "optimizer.py",
        "min(step**-0.5,",
        "min(1 / step,",
        "test_optimizer.py",
    ),
    Fault(
        "the schedule is one step ahead",
        "optimizer.py",
        "noam_rate(done + 1,",
        "noam_rate(done + 2,",
        "test_optimizer.py",
    ),
    Fault(
        "the cooldown begins at once",
        "optimizer.py",
        "max(0, max_steps - done) / cooldown",
        "max(0, cooldown - done) / cooldown",
        "test_optimizer.py",
    ),
    # Batches (Section 5.1)
    Fault(
        "the decoder reads what it should predict",
        "batching.py",
        "return self.tgt_ids[:, :-1]",
        "return self.tgt_ids[:, 1:]",
        "test_batching.py",
    ),
    Fault(
        "a sentence has no EOS",
        "batching.py",
        "rows[np.arange(len(rows)), lengths] = EOS",
        "pass",
        "test_batching.py",
    ),
    Fault(
        "a batch is larger than allowed",
        "batching.py",
        "(end - start + 1) * width > batch_tokens",
        "(end - start) * width > batch_tokens",
        "test_batching.py",
    ),
    Fault(
        "all processes read the same batches",
        "batching.py",
        "own = step[self._rank :: self._world_size]",
        "own = step[: len(step) // self._world_size]",
        "test_batching.py",
    ),
    Fault(
        "a resumed run repeats a batch",
        "batching.py",
        "yield DataPosition(epoch, number), pairs",
        "yield DataPosition(epoch, number - 1), pairs",
        "test_batching.py",
    ),
    Fault(
        "every epoch has the same order",
        "batching.py",
        "(self._seed, number),",
        "(self._seed, 0),",
        "test_batching.py",
    ),
    # Search (Section 6.1)
    Fault(
        "log-probabilities are not added up",
        "search.py",
        "extended = (log_probs[:, :, None] + next_log_probs).flatten(1)",
        "extended = next_log_probs.flatten(1)",
        "test_search.py",
    ),
    Fault(
        "extensions belong to the wrong beam",
        "search.py",
        "return best, index // vocab, index % vocab",
        "return best, index % log_probs.size(1), index % vocab",
        "test_search.py",
    ),
    Fault(
        "the state does not follow the beams",
        "search.py",
        "state = state.reorder(beams)",
        "state = state",
        "test_search.py",
    ),
    Fault(
        "EOS is not counted in the length penalty",
        "search.py",
        "ended.double() / length_penalty(length, alpha)",
        "ended.double() / length_penalty(length - 1, alpha)",
        "test_search.py",
    ),
    Fault(
        "a search stops at the first finished output",
        "search.py",
        "(num_finished < beam_size)",
        "(num_finished < 1)",
        "test_search.py",
    ),
    Fault(
        "a search stops while a longer output could win",
        "search.py",
        "[length_penalty(limit, alpha) for limit in limits]",
        "[1.0 for limit in limits]",
        "test_search.py",
    ),
    Fault(
        "a finished sentence goes on",
        "search.py",
        "(best > -math.inf) & is_open[:, None]",
        "(best > -math.inf)",
        "test_search.py",
    ),
    Fault(
        "outputs have no end",
        "search.py",
        "must_end = max_lengths[sentences] == length",
        "must_end = max_lengths[sentences] < 0",
        "test_search.py",
    ),
    # Training (Section 5)
    Fault(
        "each process divides by its own tokens",
        "training/step.py",
        "tokens = int(processes.sum(own))",
        "tokens = int(own) * processes.world_size",
        "training/test_distributed.py",
    ),
    Fault(
        "the mean of the processes' gradients and not the sum",
        "training/step.py",
        "torch.tensor(processes.world_size / tokens,",
        "torch.tensor(1 / tokens,",
        "training/test_distributed.py",
    ),
    Fault(
        "a step that is not finite is taken",
        "training/step.py",
        "    if report.is_finite:\n",
        "    if True:\n",
        "training/test_step.py training/test_trainer.py",
    ),
    Fault(
        "dropout repeats itself in every step",
        "training/step.py",
        "_seed_dropout((*seed, number",
        "_seed_dropout((seed[0], number",
        "training/test_step.py training/test_trainer.py",
    ),
    Fault(
        "gradients are added up from step to step",
        "training/step.py",
        "    optimizer.zero_grad()\n",
        "",
        "training/test_step.py",
    ),
    Fault(
        "validation drops out units",
        "training/step.py",
        "    model.eval()\n",
        "",
        "training/test_step.py",
    ),
    Fault(
        "a resumed run has forgotten Adam's moments",
        "training/checkpoint.py",
        '            self.optimizer.load_state_dict(training["optimizer"])\n',
        "",
        "training/test_checkpoint.py training/test_trainer.py",
    ),
    Fault(
        "a resumed run has forgotten the schedule",
        "training/checkpoint.py",
        "            self.schedule.load_state_dict(schedule | before)\n"
        "            self.schedule.step()\n",
        "",
        "training/test_checkpoint.py training/test_trainer.py",
    ),
    Fault(
        "a resumed run reads from the beginning",
        "training/checkpoint.py",
        '            self.position = DataPosition(*training["position"])\n',
        "",
        "training/test_checkpoint.py training/test_trainer.py",
    ),
    Fault(
        "checkpoints that an average needs are deleted",
        "training/checkpoint.py",
        "regular[-max(keep, RESUMABLE) :]",
        "regular[-RESUMABLE:]",
        "training/test_checkpoint.py training/test_trainer.py",
    ),
    Fault(
        "the average is divided by too many",
        "weights.py",
        "(tensor / len(paths)).float()",
        "(tensor / (len(paths) + 1)).float()",
        "test_weights.py",
    ),
    Fault(
        "a signal is not heard",
        "training/trainer.py",
        "if not self._is_done and self.processes.any(bool(received)):",
        "if False:",
        "training/test_trainer.py",
    ),
    Fault(
        "another program's folder is overwritten",
        "training/run.py",
        "if set(kept) - {folder.lock}:",
        "if False:",
        "training/test_run.py test_cli.py",
    ),
    # Data (Sections 5.1 and 6.3)
    Fault(
        "the vocabulary is learned from the validation text",
        "data/prepare.py",
        'pairs = _UsablePairs(corpus, "train", "vocabulary", skip_unusable)',
        'pairs = _UsablePairs(corpus, "valid", "vocabulary", skip_unusable)',
        "data/test_prepare.py",
    ),
    Fault(
        "a sentence that is too long is kept",
        "data/prepare.py",
        "if length <= max_length:",
        "if length <= 10 * max_length:",
        "data/test_prepare.py",
    ),
    Fault(
        "held-out sentences are trained on",
        "data/tatoeba.py",
        "[pair for pair in ranked if pair not in left_out]",
        "ranked",
        "data/test_tatoeba.py",
    ),
    Fault(
        "more of one file's lines than of the other's are read",
        "data/corpora.py",
        "            if None in lines:",
        "            if False:",
        "data/test_corpora.py",
    ),
    Fault(
        "a bracket may close another",
        "data/trees.py",
        'if token[1:] not in ("", label):',
        "if False:",
        "data/test_trees.py",
    ),
    Fault(
        "another word counts as the sentence's",
        "data/trees.py",
        "if with_words and token != word:",
        "if False:",
        "data/test_trees.py",
    ),
    Fault(
        "punctuation counts in F1",
        "inference/brackets.py",
        "[tag.label not in PUNCTUATION for tag in gold.tags()]",
        "[True for tag in gold.tags()]",
        "inference/test_brackets.py",
    ),
    Fault(
        "outputs that are no trees cost nothing",
        "inference/brackets.py",
        "f1_all=_percent(2 * correct, found + expected_of_all)",
        "f1_all=_percent(2 * correct, found + expected)",
        "inference/test_brackets.py",
    ),
    Fault(
        "translations come in the order of their lengths",
        "inference/translator.py",
        "                found[i] = output\n",
        "                found[found.index(Hypothesis([], 0.0, 0.0))] = output\n",
        "inference/test_translator.py",
    ),
]


def is_noticed(fault: Fault, folder: Path) -> bool:
    """Return whether a test fails in a copy of the repository that has the fault.

    Raises:
        ValueError: The text that the fault changes does not stand there once.
    """
    path = folder / "transformer_lite" / fault.module
    text = path.read_text(encoding="utf-8")
    if text.count(fault.right) != 1:
        raise ValueError(
            f"{fault.name}: {fault.module} has {fault.right!r} "
            f"{text.count(fault.right)} times; mend this list"
        )
    path.write_text(text.replace(fault.right, fault.wrong), encoding="utf-8")
    tests = [f"tests/{name}" for name in fault.tests.split()]
    command = [sys.executable, "-m", "pytest", "-x", "-q", *tests]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(folder)}
    try:
        ended = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=600
        )
        return ended.returncode == 1  # tests ran, and one failed
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_text(text, encoding="utf-8")


def main(parts: list[str]) -> int:
    """Try all faults, or those whose names have one of these parts."""
    chosen = [f for f in FAULTS if not parts or any(part in f.name for part in parts)]
    unnoticed = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in ("transformer_lite", "tests", "pyproject.toml", "examples"):
            source, copy = ROOT / name, folder / name
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, copy, ignore=ignored)
            else:
                shutil.copy(source, copy)
        for number, fault in enumerate(chosen, start=1):
            begun = time.monotonic()
            noticed = is_noticed(fault, folder)
            seconds = time.monotonic() - begun
            verdict = "noticed" if noticed else "UNNOTICED"
            print(
                f"{number:3}  {verdict:9}  {seconds:4.0f} s  {fault.name}", flush=True
            )
            if not noticed:
                unnoticed.append(fault.name)
    print(f"{len(chosen) - len(unnoticed)} of {len(chosen)} faults are noticed")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
