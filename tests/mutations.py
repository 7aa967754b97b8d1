"""Put known faults into the package, one at a time, and see that the tests notice.

    python tests/mutations.py [PART_OF_A_NAME …]

Each fault is one change of one line in a copy of the repository. The module's own
tests, or those named beside the fault, should fail. Exit status 1 if a fault goes
unnoticed.
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
COPIED = "transformer_lite transformer_lite_course transformer_lite_book".split()
COPIED += "tests examples results".split()


class Fault(NamedTuple):
    """A change of one module that some tests should notice: a row of the table."""

    name: str
    right: str
    """The text as it stands; it occurs once."""
    wrong: str
    tests: str = ""
    """Test files below tests/, separated by spaces; by default the module's own."""


# fmt: off
FAULTS = {
    # Attention (Section 3.2)
    "transformer_lite/attention.py": [
        ("scores are not scaled", "query @ key.transpose(-2, -1) / math.sqrt(d_k)", "query @ key.transpose(-2, -1)"),
        ("scores are divided by d_k and not by its root", "/ math.sqrt(d_k)", "/ d_k"),
        ("the mask has the opposite meaning", "scores.masked_fill(~mask,", "scores.masked_fill(mask,"),
        ("softmax over the queries", "scores.softmax(dim=-1)", "scores.softmax(dim=-2)"),
        ("heads are split without a transpose",
         "unflatten(-1, (self.num_heads, -1)).transpose(1, 2)",
         "reshape(len(projected), self.num_heads, projected.size(1), -1)"),
        ("heads are joined without a transpose",
         "self.w_o(heads.transpose(1, 2).flatten(2))", "self.w_o(heads.reshape(len(heads), heads.size(2), -1))"),
        ("the kernel gets no mask",
         "return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)",
         "return F.scaled_dot_product_attention(query, key, value)"),
        ("the values are projected as the keys",
         "self._split_heads(self.w_v(memory))", "self._split_heads(self.w_k(memory))"),
        ("the newest key comes first in the cache",
         "zip(self, newest, strict=True)", "zip((newest.key, self.key), (self.value, newest.value), strict=True)",
         "package/test_model.py"),
    ],
    # Masks (Section 3.2.3)
    "transformer_lite/masks.py": [
        ("a position sees its successor", "device=device).tril()", "device=device).tril(1)"),
        ("padding may be attended to, and nothing else", "(ids != pad_id)", "(ids == pad_id)"),
    ],
    # Embeddings and positions (Sections 3.4 and 3.5)
    "transformer_lite/embeddings.py": [
        ("embeddings are not scaled",
         "F.embedding(ids, self.weight) * math.sqrt(self.weight.size(1))", "F.embedding(ids, self.weight)"),
        ("every token stands at the first positions", "return embedded + self.encoding[start:end]",
         "return embedded + self.encoding[: embedded.size(1)]"),
        ("cosines come before sines", "[angle.sin(), angle.cos()]", "[angle.cos(), angle.sin()]"),
        ("wavelengths are too short", "10_000 ** (even_channel / d_model)", "1_000 ** (even_channel / d_model)"),
    ],
    # Layers (Sections 3.1 and 3.3)
    "transformer_lite/layers.py": [
        ("the feed-forward network is linear", "self.w_2(self.w_1(x).relu())", "self.w_2(self.w_1(x))"),
        ("normalized before the sum",
         "self.norm(x + self.dropout(sublayer_output))", "x + self.norm(self.dropout(sublayer_output))"),
        ("no residual dropout", "self.norm(x + self.dropout(sublayer_output))", "self.norm(x + sublayer_output)"),
        ("the decoder reads the source's padding",
         "self.cross_attention(x, memory, memory_mask)", "self.cross_attention(x, memory)"),
        ("the decoder sees the future",
         "self.self_attention(x, x, causal[None, None], is_causal=True)", "self.self_attention(x, x)"),
        ("a beam reads the tokens of the others",
         "self.self_attention.attend(x, past, ancestors)", "self.self_attention.attend(x, past)",
         "package/test_model.py"),
    ],
    # Model (Section 3)
    "transformer_lite/model.py": [
        ("a decoding step is always the first position",
         "self.positions(embedded, start=state.length)", "self.positions(embedded)"),
        ("beams keep their old ancestors", "ancestors=self.ancestors[sentences, beams]", "ancestors=self.ancestors"),
        ("the decoder has an embedding of its own",
         "Decoder(config, embedding)", "Decoder(config, Embedding(config.vocab_size, config.d_model))"),
        ("the encoder reads padding",
         "            x = layer(x, mask)\n        # Deviation D6",
         "            x = layer(x, mask | True)\n        # Deviation D6"),
    ],
    # Loss (Section 5.4)
    "transformer_lite/loss.py": [
        ("padding is counted in the loss",
         "nll = -log_probs.gather(-1, labels[..., None])[..., 0] * is_real",
         "nll = -log_probs.gather(-1, labels[..., None])[..., 0]"),
        ("smoothing over padding", "wrong * log_probs.sum(dim=-1) * is_real", "wrong * log_probs.sum(dim=-1)"),
        ("the right token gets a share of the smoothing",
         "smoothing / (logits.size(-1) - 1)", "smoothing / logits.size(-1)"),
        ("the fused loss has another gradient",
         "new_full(part_labels.shape, wrong - right)", "new_full(part_labels.shape, -right)",
         "package/test_fused_loss.py"),
    ],
    # Optimizer (Section 5.3)
    "transformer_lite/optimizer.py": [
        ("PyTorch's β₂", "betas=(0.9, 0.98)", "betas=(0.9, 0.999)"),
        ("the rate falls with the step and not with its root", "min(step**-0.5,", "min(1 / step,"),
        ("the schedule is one step ahead", "noam_rate(done + 1,", "noam_rate(done + 2,"),
        ("the cooldown begins at once", "max(0, max_steps - done) / cooldown", "max(0, cooldown - done) / cooldown"),
    ],
    # Batches (Section 5.1)
    "transformer_lite/batching.py": [
        ("the decoder reads what it should predict", "return self.tgt_ids[:, :-1]", "return self.tgt_ids[:, 1:]"),
        ("a sentence has no EOS", "rows[np.arange(len(rows)), lengths] = EOS", "pass"),
        ("a batch is larger than allowed",
         "(end - start + 1) * width > batch_tokens", "(end - start) * width > batch_tokens"),
        ("all processes read the same batches",
         "share = parts[self._rank :: self._world_size]", "share = parts[: len(parts) // self._world_size]"),
        ("a pair of a batch that is cut is left out", "pairs[number :: self.parts]", "pairs[number + 1 :: self.parts]"),
        ("a pair that fills an empty part counts", "real=torch.empty(0, dtype=torch.long)", "real=torch.arange(1)"),
        ("a resumed run repeats a batch",
         "yield DataPosition(epoch, number), pairs", "yield DataPosition(epoch, number - 1), pairs"),
        ("every epoch has the same order", "(self._seed, number)", "(self._seed, 0)"),
    ],
    # Search (Section 6.1)
    "transformer_lite/search.py": [
        ("log-probabilities are not added up",
         "extended = (log_probs[:, :, None] + next_log_probs).flatten(1)", "extended = next_log_probs.flatten(1)"),
        ("extensions belong to the wrong beam",
         "return Extensions(best, index // vocab, index % vocab)",
         "return Extensions(best, index % log_probs.size(1), index % vocab)"),
        ("the state does not follow the beams", "state = state.reorder(extended)", "state = state"),
        ("EOS is not counted in the length penalty",
         "ended.double() / length_penalty(beams.ids.size(2), alpha)",
         "ended.double() / length_penalty(beams.ids.size(2) - 1, alpha)"),
        ("a search stops at the first finished output",
         "is_open &= beams.num_finished < beam_size", "is_open &= beams.num_finished < 1"),
        ("a search stops while a longer output could win",
         "[length_penalty(n, alpha) for n in limits]", "[1.0 for n in limits]"),
        ("a finished sentence goes on", "& (log_probs > -math.inf) & has_room", "& (log_probs > -math.inf)"),
        ("outputs have no end",
         "must_end = max_lengths[beams.sentences] == length", "must_end = max_lengths[beams.sentences] < 0"),
        ("a search stops when the best output is sure, and not the n best",
         "at_best > beams.best_scores[:, -1]", "at_best > beams.best_scores[:, 0]"),
        ("the n best are the first n", "key=lambda o: o.score, reverse=True", "key=lambda o: 0"),
    ],
    # Training (Section 5)
    "transformer_lite/training/step.py": [
        ("each process divides by its own tokens",
         "tokens = int(processes.all_reduce(share))", "tokens = int(share) * processes.world_size",
         "package/training/test_distributed.py"),
        ("the mean of the processes' gradients and not the sum",
         "torch.tensor(processes.world_size / tokens,", "torch.tensor(1 / tokens,",
         "package/training/test_distributed.py"),
        ("a step that is not finite is taken", "    if report.is_taken:\n", "    if True:\n"),
        ("dropout repeats itself in every step", "_seed_dropout((*seed, number", "_seed_dropout((seed[0], number"),
        ("gradients are added up from step to step", "    optimizer.zero_grad()\n", ""),
        ("long gradients are not clipped", "    if clip_norm is not None:\n", "    if False:\n"),
        ("validation drops out units", "    model.eval()\n", ""),
    ],
    "transformer_lite/training/memory.py": [
        ("what the second attention of a decoder's layer keeps is forgotten",
         "decoder = encoder + read(1) + attention", "decoder = encoder + read(1)"),
        ("dropout is free", "if config.dropout else 0", "if False else 0"),
    ],
    "transformer_lite/training/checkpoint.py": [
        ("a checkpoint that has changed is resumed from", "if processes.rank == 0 and saved != read:", "if False:"),
        ("a resumed run has forgotten Adam's moments",
         '            self.optimizer.load_state_dict(training["optimizer"])\n', ""),
        ("a resumed run has forgotten the schedule", "            self.schedule = self._schedule()\n", ""),
        ("a resumed run reads from the beginning",
         '            self.position = DataPosition(*training["position"])\n', ""),
        ("checkpoints that an average needs are deleted", "regular[-max(keep, RESUMABLE) :]", "regular[-RESUMABLE:]"),
        ("a finished model without its steps is trained anew",
         "    if weights - {folder.best} or (weights and had_checkpoints):\n", "    if False:\n", "package/training/test_run.py"),
    ],
    "transformer_lite/training/distributed.py": [
        ("the others wait for a process that failed alone",
         "if self.any_rank(message is not None) else []", "if False else []"),
        ("an error is shown only when the group has been destroyed",
         "    except BaseException as error:\n        if world_size > 1:\n",
         "    except Exception as error:\n        dist.destroy_process_group()\n        if world_size > 1:\n",
         "package/training/test_ranks.py"),
    ],
    "transformer_lite/runs/weights.py": [
        ("weights of 8 bits have one scale for the whole matrix",
         "matrix.abs().amax(dim=1)", "matrix.abs().amax().expand(len(matrix))"),
        ("the average is divided by too many", "(tensor / len(paths)).float()", "(tensor / (len(paths) + 1)).float()"),
    ],
    "transformer_lite/training/trainer.py": [
        ("a signal is not heard", "if not self._is_done and processes.any_rank(stop.is_made):", "if False:"),
    ],
    # Signals
    "transformer_lite/runs/console.py": [
        ("Ctrl-C breaks into an import", "if any(file.startswith", "if False and any(file.startswith"),
        ("a signal that is ignored is heard", "is not signal.SIG_IGN", "is not None"),
    ],
    "transformer_lite/training/run.py": [
        ("another program's folder is overwritten", "if set(files) - {folder.lock}:", "if False:"),
        ("a run does not begin with the weights that it names",
         "                load_weights(model, initial)\n", "                pass\n"),
    ],
    # Data (Sections 5.1 and 6.3)
    "transformer_lite/data/prepare.py": [
        ("the vocabulary is learned from the validation text",
         '(corpus, "train", "vocabulary", skip_unusable, too_long)',
         '(corpus, "valid", "vocabulary", skip_unusable, too_long)'),
        ("the vocabulary is learned from pairs that are left out",
         '(corpus, "train", "vocabulary", skip_unusable, too_long)', '(corpus, "train", "vocabulary", skip_unusable)',
         "package/data/test_verbs.py"),
        ("a sentence that is too long is kept", "if length <= max_length:", "if length <= 10 * max_length:"),
    ],
    "transformer_lite/data/store.py": [
        ("data that have changed are read", "sha256_of(path) == self.sha256.get(path.name):", "True:"),
    ],
    "transformer_lite/data/tatoeba.py": [
        ("held-out sentences are trained on", "[pair for pair in ranked if pair not in left_out]", "ranked"),
    ],
    "transformer_lite/data/corpora.py": [
        ("more of one file's lines than of the other's are read",
         "            if None in lines:", "            if False:"),
    ],
    "transformer_lite/parsing/trees.py": [
        ("a bracket may close another", 'if token[1:] not in ("", label):', "if False:"),
        ("another word counts as the sentence's", "if with_words and token != word:", "if False:"),
    ],
    "transformer_lite/parsing/brackets.py": [
        ("punctuation counts in F1",
         "[tag.label not in PUNCTUATION for tag in gold.tags()]", "[True for tag in gold.tags()]"),
        ("outputs that are no trees cost nothing",
         "f1_all=_percent(2 * correct, written + expected_of_all)", "f1_all=_percent(2 * correct, written + expected)"),
    ],
    "transformer_lite/inference/translator.py": [
        ("translations come in the order of their lengths",
         "                outputs[i] = best\n",
         "                outputs[outputs.index([Hypothesis([], 0, 0)])] = best\n"),
    ],
    "transformer_lite/inference/lines.py": [
        ("a reader waits for more than one line", "raw.read(READ_BYTES)", "file.read(READ_BYTES)"),
    ],
    "transformer_lite/runs/files.py": [
        ("an output may replace an input",
         "if target.is_relative_to(source):", "if False:", "package/test_nothing_is_lost.py"),
        ("a link becomes a file",
         "    target = path.resolve()\n    target.parent.mkdir",
         "    target = path\n    target.parent.mkdir"),
        ("two writers share a file", "{token_hex(4)}{PARTIAL}", "{PARTIAL}"),
        ("what another process fills is deleted",
         '                with only_process(folder / LOCK, "in use"):\n                    rmtree(folder)\n',
         "                rmtree(folder)\n"),
    ],
    # The page
    "transformer_lite/page/transformer.js": [
        ("JavaScript divides the scores by d_k",
         "Math.sqrt(query.length)", "query.length", "package/page/test_transformer_js.py"),
        ("JavaScript's LayerNorm has another ε",
         "Math.sqrt(variance + 1e-5)", "Math.sqrt(variance + 1e-2)", "package/page/test_transformer_js.py"),
        ("JavaScript's beams end at the first end",
         "finished >= beamSize", "finished >= 1", "package/page/test_transformer_js.py"),
        ("a head that is switched off in JavaScript goes on",
         "output.fill(0) : output", "output : output", "package/page/test_transformer_js.py"),
    ],
    "transformer_lite/page/tokenizer.js": [
        ("JavaScript cuts a text before it is certain that it is too long",
         "known > most * this.longest", "known > most", "package/page/test_tokenizer_js.py"),
        ("JavaScript merges the last pair first",
         "if (ranks[i] < ranks[first])", "if (ranks[i] < Infinity)", "package/page/test_tokenizer_js.py"),
        ("unknown characters are one piece each in JavaScript",
         "id === UNK && last?.id === UNK", "false", "package/page/test_tokenizer_js.py"),
    ],
    # The course
    "transformer_lite_course/checks/attention.py": [
        ("the grader takes a mask of the opposite meaning",
         "mask = torch.tensor([[1, 1, 0, 0, 0], [1, 0, 1, 1, 0], [0, 1, 1, 0, 1]])", "mask = torch.ones(3, 5)",
         "course/test_checks.py"),
    ],
}
# fmt: on


def verdict_of(module: str, fault: Fault, folder: Path) -> str:
    """Say whether a test fails in a copy of the repository that has the fault.

    Raises:
        ValueError: The text that the fault changes does not stand there once.
    """
    path = folder / module
    text = path.read_text(encoding="utf-8")
    if (times := text.count(fault.right)) != 1:
        found = f"{module} has {fault.right!r} {times} times"
        raise ValueError(f"{fault.name}: {found}; mend this list")
    path.write_text(text.replace(fault.right, fault.wrong), encoding="utf-8")
    _, *folders, name = Path(module).parts
    own = "/".join(("package", *folders, f"test_{name}"))
    tests = [f"tests/{name}" for name in (fault.tests or own).split()]
    command = [sys.executable, "-m", "pytest", "-x", "-q", *tests]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(folder)}
    try:
        ended = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=900
        )
        # 1: tests ran, and one failed
        return "noticed" if ended.returncode == 1 else "UNNOTICED"
    except subprocess.TimeoutExpired:
        return "NO END"  # a fault may cause this, and so may a busy machine
    finally:
        path.write_text(text, encoding="utf-8")


def main(parts: list[str]) -> int:
    """Try all faults, or those whose names have one of these parts."""
    every = [(module, Fault(*row)) for module, rows in FAULTS.items() for row in rows]
    chosen = [
        (module, fault)
        for module, fault in every
        if not parts or any(part in fault.name for part in parts)
    ]
    num_noticed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in COPIED:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        shutil.copy(ROOT / "pyproject.toml", folder)
        for number, (module, fault) in enumerate(chosen, start=1):
            begun = time.monotonic()
            verdict = verdict_of(module, fault, folder)
            num_noticed += verdict == "noticed"
            seconds = f"{time.monotonic() - begun:4.0f} s"
            print(f"{number:3}  {verdict:9}  {seconds}  {fault.name}", flush=True)
    print(f"{num_noticed} of {len(chosen)} faults are noticed")
    return int(num_noticed < len(chosen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
