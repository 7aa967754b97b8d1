"""Results of the book's long trainings, and small models that it trained.

results/runs.toml of the repository lists the trainings. Each has a file with its
configuration, commit, hardware and outputs. The small models translate the toy corpus.
They differ only in their seed. The toy grammar knows which noun each "it" stands for,
so a chapter can count how often a head attends to it.

Paper: §6, Figures 3–5
Chapter: 06_1_machine_translation, 06_2_model_variations, attention_visualizations
Tests: tests/book/test_recordings.py
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors import safe_open

from transformer_lite.batching import Batch
from transformer_lite.config import TINY, ModelConfig
from transformer_lite.data.toy import ToyPair, generate_pairs
from transformer_lite.model import Transformer
from transformer_lite.runs.weights import weights_of

FOLDER = Path(__file__).parent
DIGEST = FOLDER / "results.json"
"""Written by book/tools/make_results.py from the files in results/."""
HEADS = FOLDER / "heads.safetensors"
"""Five small translators of the toy corpus, whose script results/README.md names."""
HEADS_OFF = FOLDER / "heads_off.json"
"""Written by results/heads_off.py."""
WITHOUT_SUMS = FOLDER / "without_sums.json"
"""Written by results/without_sums.py."""
SAME_RUN = FOLDER / "same_run.json"
"""Written by results/same_run.py."""
STEP_MEMORY = FOLDER / "step_memory.json"
"""Written by results/step_memory.py."""
GRAMMAR = FOLDER / "grammar.json"
"""Written by results/grammar.py."""
MENDED = FOLDER / "mended.json"
"""Written by results/mended.py."""
LIKELIEST = FOLDER / "likeliest.json"
"""Written by results/likeliest.py."""
AS_LONG = FOLDER / "as_long.json"
"""Written by results/as_long.py."""
WITH_PENALTY = FOLDER / "with_penalty.json"
"""Written by results/with_penalty.py."""
SURENESS = FOLDER / "sureness.json"
"""Written by results/sureness.py."""
SMOOTHED = FOLDER / "smoothing.json"
"""Written by results/smoothing.py."""
SMOOTHED_TINY = FOLDER / "smoothing_tiny.json"
"""Written by results/smoothing.py as it was at the first commit that the file names."""
WITHOUT_SMOOTHING = FOLDER / "without_smoothing.json"
"""Written by results/without_smoothing.py."""
COLLAPSE = FOLDER / "collapse.json"
"""Written by results/collapse.py."""
BATCH_ORDERS = FOLDER / "batch_orders.json"
"""Written by results/batch_orders.py."""
PATHS = FOLDER / "paths.json"
"""Written by results/paths.py."""
PATHS_REVERSED = FOLDER / "paths_reversed.json"
"""Written by results/paths.py, too: the largest gap comes first."""
PATHS_TO_ALL = FOLDER / "paths_distances.json"
"""Written by results/paths.py, too: one network, and words at many distances."""
INPUT_FACTOR = FOLDER / "input_factor.json"
"""Written by results/input_factor.py."""
SECOND_CORE = FOLDER / "second_core.json"
"""Written by results/second_core.py."""
LOOPS = FOLDER / "loops.json"
"""Written by results/loops.py."""
TIED_ROWS = FOLDER / "tied_rows.json"
"""Written by results/tied_rows.py."""
APPENDING = FOLDER / "appending.json"
"""Written by results/appending.py."""
FIRST_STEPS = FOLDER / "first_steps.json"
"""Written by results/first_steps.py."""
STACKS = FOLDER / "stacks.json"
"""Written by results/stacks.py."""
GPU = FOLDER / "gpu.json"
"""Written by benchmarks/gpu.py on a GPU, and copied here; missing until then."""
TRAIN_PAIRS = 8_000
"""The small translators were trained on the first of `pronoun_pairs`, this many."""


def stored_runs(experiment: str) -> list[dict[str, Any]]:
    """Return the results of an experiment, one for each seed.

    Args:
        experiment: Its name, such as "multi30k_en_de" or "table_3/base".

    Raises:
        ValueError: There is none of this name.
    """
    return _stored("runs", experiment)


def stored_decoding(split: str) -> dict[str, dict[str, Any]]:
    """Return the scores of each way to decode one model on a split, by its name.

    Raises:
        ValueError: It was not decoded.
    """
    return _stored("decoding", split)


def gpu_measurements() -> dict[str, dict[str, Any]] | None:
    """Return what was measured on a GPU, by section and part; None if nothing was.

    Section "conditions" says when, and on which GPU. A part that failed or was left out
    has "error" or "left_out" in place of its numbers. One that the time did not reach
    is missing. A chapter says "not measured yet" for each of them.

    Raises:
        ValueError: The file is that of a trial at a tiny size.
    """
    if not GPU.exists():
        return None
    measured = _read(GPU)
    if measured["conditions"]["is_tiny"]:
        raise ValueError(f"{GPU}: a trial at a tiny size; give that of a real GPU")
    return measured


def scores_without_heads() -> dict[str, Any]:
    """Return the BLEU of a translator without some of its heads, by row and head.

    "as_trained" is with all heads. "zeros" and "mean" are without one head, by what it
    gives instead; "rows" and "rows_mean" without all heads of a row; "alone" with one
    left on, the "best" by "alone_valid", BLEU on validation sentences. "half_widths"
    say how far other sentences would move these changes. "together" and
    "random_orders" are without as many heads as "counts" says, on other sentences;
    "same_sentences" is without the first 16 of "together" on those that chose them.
    "second" is about another translator's last row. "made" names the commit and the
    machine of each part.
    """
    return _read(HEADS_OFF)


def encoders_without_sums() -> dict[str, dict[str, Any]]:
    """Return own share and BLEU of a translator, by how its encoder is changed."""
    return _read(WITHOUT_SUMS)["encoders"]


def sureness() -> dict[str, Any]:
    """Return perplexity and accuracy of a translator that is more or less sure.

    "divided" has them by what its scores were divided by. "smoothing" has the BLEU
    that ε = 0.1 gains on 0 in our runs of Table 3, and its 95 % interval over other
    captions; the commit beside them is that of this part.
    """
    return _read(SURENESS)


def runs_by_smoothing(*, tiny: bool = False) -> dict[str, Any]:
    """Return what small translators trained with and without label smoothing score.

    "runs" has for each seed and "smoothing" the "temperature" at which its perplexity
    on other captions is lowest, and how sure and how good it is, "undivided" and with
    its scores "divided" by that. "gains" has mean gains of BLEU, each with its 95 %
    interval over other captions.

    Args:
        tiny: Whether they are those that saw a few short captions, without dropout.
    """
    return _read(SMOOTHED_TINY if tiny else SMOOTHED)


def runs_that_differ() -> dict[str, Any]:
    """Return what the mean of means, and a damaged checkpoint, change in a small run.

    "means" has losses of the validation set by way and seed; "damages" by seed and by
    what was forgotten.
    """
    return _read(SAME_RUN)


def memory_of_steps() -> dict[str, dict[str, Any]]:
    """Return the bytes of a step of base and big, predicted and tracked, by part."""
    return _read(STEP_MEMORY)["models"]


def grammar_scores() -> dict[str, dict[str, float]]:
    """Return the scores of three grammars and our parser on the same 1,000 sentences.

    "as_it_is" is the grammar of the training trees, "annotated" one with parents and
    less context, "split" one with finer labels, too; "parser_test" is our parser's
    greedy output, "parser_beam_4" that of a beam; "parser_round_1" to "parser_round_3"
    are from a beam, too, after earlier rounds of its training.
    """
    return _read(GRAMMAR)["scores"]


def grammar_leads() -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return how far our parser is ahead, by grammar, by what parsed, and by score.

    Each has the difference and the two ends of its 95 % interval if other articles were
    drawn. The scores are "f1" and "complete_match".
    """
    return _read(GRAMMAR)["leads"]


def mended_outputs() -> dict[str, Any]:
    """Return the scores of free outputs that were mended, and of constrained ones.

    "greedy" has by run the "f1" and "complete_match" of the constrained search, of the
    free outputs "as_written", and "mended"; for one run also with "copied" words, with
    "matched" brackets, and with "both". "constrained_ahead" has the difference of the
    constrained search and the mended outputs, and its 95 % interval if other articles
    were drawn. "beam_of_4" has the same of 1,000 sentences for a beam.
    """
    return _read(MENDED)


def likeliest_outputs() -> dict[str, Any]:
    """Return what a translator finds likeliest, and how wider beams come to it.

    "ways" has the scores of each search on the same captions; "likeliest" went through
    all outputs, and "gave_up" on so many captions. "is_likeliest" counts how often a
    beam finds the same. "captions" has for each the tokens of its reference, and the
    log-probabilities of the reference, of the empty output, of the translation by a
    beam of 4, and of the likeliest output. "written" counts a translation's tokens. The
    translations' log-probabilities come from a second pass, of the commit in "again",
    and "written" from a third, of the commit in "lengths".
    """
    return _read(LIKELIEST)


def outputs_as_long() -> dict[str, Any]:
    """Return what wide beams find if their outputs are as long as a beam of 4's.

    "ways" has the scores of each search, with the p-value of its difference to a beam
    of 4.
    """
    return _read(AS_LONG)


def outputs_with_penalty() -> dict[str, Any]:
    """Return what wide beams find with the paper's length penalty.

    "ways" has the scores of each search, with the p-value of its difference to a beam
    of 4 with the same penalty.
    """
    return _read(WITH_PENALTY)


def runs_with_collapse() -> list[dict[str, Any]]:
    """Return how a translator of captions trains in its first steps, in five ways.

    Each run has its "way" ("with warm-up", "without", "without, half the rate", or with
    warm-up only "in the encoder" or "outside the encoder") and "seed", and for each
    "step" that was looked at: the validation "perplexity", the own shares of the
    vectors that leave the "encoder" and the "decoder", and the perplexity of some pairs
    with their "own source" and with "another's source".
    """
    return _read(COLLAPSE)["runs"]


def batches_in_two_orders() -> list[dict[str, Any]]:
    """Return how much padding the batches of Multi30k have, sorted in two orders.

    Each entry has the "limit" of a batch's cells, the "order" ("target" or "longer
    side"), the number of "batches", and the shares of "padding" in "src", "tgt" and
    "both".
    """
    return _read(BATCH_ORDERS)["cuts"]


def runs_without_smoothing() -> list[dict[str, Any]]:
    """Return what a few steps with and without label smoothing make of a translator.

    Each run has its "seed" and "smoothing", the mean log-probabilities of the "empty"
    output and of its own "translation" by a beam of 4 without a length penalty, how
    often "empty_is_likelier", and the translations' "bleu".
    """
    return _read(WITHOUT_SMOOTHING)["runs"]


def steps_by_path(
    largest_first: bool = False,
) -> dict[float, dict[str, list[int | float]]]:
    """Return after how many steps networks recall a word that is 12 words away.

    By learning rate and layer type, one number for each seed: infinity if a network has
    not learned in the 400 steps that it had. In the second recording, the convolution
    with the largest gap comes first, and only networks with gaps were trained.
    """
    path = PATHS_REVERSED if largest_first else PATHS
    runs = _read(path)["runs"]
    return {
        float(rate): {
            name: [math.inf if steps is None else steps for steps in of]
            for name, of in by_name.items()
        }
        for rate, by_name in runs.items()
    }


def steps_by_distance() -> dict[float, dict[str, dict[int, list[int | float]]]]:
    """Return after how many steps one network recalls a word at many distances.

    By learning rate, network and distance, one number for each seed: infinity if it has
    not learned in the 400 steps that it had. The network has gaps, in either order, or
    six convolutions of width 5 ("ConvS2S"), for which the distances are even.
    """
    return {
        float(rate): {
            name: {
                int(distance): [math.inf if steps is None else steps for steps in of]
                for distance, of in by_distance.items()
            }
            for name, by_distance in by_name.items()
        }
        for rate, by_name in _read(PATHS_TO_ALL)["runs"].items()
    }


def losses_by_input_factor() -> dict[str, Any]:
    """Return losses of small translators with and without √d_model at the input.

    "losses" has by kind, and in two kinds with longer or shorter positions, one list
    for each seed: the loss on unseen pairs at first and "every" so many steps.
    """
    return _read(INPUT_FACTOR)


def times_with_two_cores() -> list[dict[str, Any]]:
    """Return the times of layers with one processor core and with two, in milliseconds.

    Each entry names the "layer", its "width", how many "words" and "sentences" it read,
    and what the two cores "shared": the large "operations", the "words" or the
    "sentences". "one" and "two" are as many times each, taken in turns.
    """
    return _read(SECOND_CORE)["times"]


def sentences_of_loops() -> dict[str, list[int]]:
    """Return how many of 1,000 test sentences chapter 1's loops translate, by layer.

    There is one number for each seed.
    """
    found: dict[str, list[int]] = {}
    for run in _read(LOOPS)["runs"]:
        found.setdefault(run["layer"], []).append(run["right"])
    return found


def neighbours_in_matrices() -> dict[str, Any]:
    """Return how similar the rows of German nouns are, in one matrix and in three.

    "same_gender" has the shares of nouns whose most similar noun has their gender: of
    "one" matrix, of "three, input" and of "three, output", one for each seed; of a
    "random noun" one. "same_choice" has how often the next token's best choice stays
    the same if the decoder reads another token: the one with the most similar row in
    "one" matrix, in "three, input" or in "three, output", or a random one. "losses" has
    the last losses of "one" and of "three".
    """
    return _read(TIED_ROWS)


def appended_positions() -> dict[str, dict[str, list[float]]]:
    """Return the shares of sentences that small translators translate, for each seed.

    By the steps of training, then by how the positions come in: "added" or "appended".
    Where the way is "wider", the vectors are half as wide again; where the "output" is
    "whole", the output matrix has the positions' channels as well.
    """
    return _read(APPENDING)["right"]


def runs_by_first_steps() -> dict[str, Any]:
    """Return small trainings that begin with none, some or many steps at the peak.

    By the run's name, "end" has the last ten steps' mean loss, one for each seed. Some
    runs are there step by step: "lengths" has how far a weight moves, the mean over
    weights and seeds; "own_shares" has a list for each seed.
    """
    return _read(FIRST_STEPS)


def runs_of_stacks() -> list[dict[str, Any]]:
    """Return translators of two stacks, and of one that reads ahead or is causal.

    Each run has its "kind", "seed" and "commit", the parameters "in_layers", the share
    of unseen toy sentences that are "right" word for word, and their "bleu". By whose
    vectors came from another sentence, "transplants" says how often the article
    followed, and of how many pairs: those "before" the noun, the "noun", "both", or the
    "rest".
    """
    return _read(STACKS)["runs"]


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _stored(kind: str, name: str) -> Any:
    stored = _read(DIGEST)[kind]
    if name not in stored:
        raise ValueError(f"no result for {name}; there are {', '.join(stored)}")
    return stored[name]


def pronoun_pairs() -> Iterator[ToyPair]:
    """Yield, without end, pairs of the toy corpus in which "it" stands for a noun."""
    return (pair for pair in generate_pairs(seed=1) if pair.antecedents)


def lowered(words: Sequence[str]) -> list[str]:
    """Return the words as the models know them: in lower case."""
    return [word.lower() for word in words]


def toy_config(vocab_size: int) -> ModelConfig:
    """Return the models' shape: two layers of four heads, 48 wide."""
    shape = {"d_model": 48, "d_ff": 192, "dropout": 0.0, "max_len": 64}
    return replace(TINY, vocab_size=vocab_size, **shape)


def toy_words() -> list[str]:
    """Return the models' vocabulary: the word of each id."""
    with safe_open(HEADS, "pt") as recording:
        return json.loads(recording.metadata()["words"])


def toy_models() -> dict[int, Transformer]:
    """Load the trained models, in evaluation mode, by their seeds."""
    models = {}
    with safe_open(HEADS, "pt") as recording:
        metadata = recording.metadata()
        config = toy_config(len(json.loads(metadata["words"])))
        for seed in json.loads(metadata["seeds"]):
            model = models[seed] = Transformer(config).eval()
            for name, tensor in weights_of(model).items():
                tensor.copy_(recording.get_tensor(f"{seed}.{name}"))
    return models


def toy_batch(pairs: Sequence[ToyPair], words: Sequence[str]) -> Batch:
    """Make a batch of the pairs, with an id for each whole word.

    Raises:
        ValueError: A word is not in the vocabulary.
    """
    ids = {word: i for i, word in enumerate(words)}
    try:
        src = [[ids[word] for word in lowered(pair.source_words)] for pair in pairs]
        tgt = [[ids[word] for word in lowered(pair.target_words)] for pair in pairs]
        return Batch.from_ids(src, tgt)
    except KeyError as error:
        raise ValueError(f"no word of the toy corpus: {error}") from error
