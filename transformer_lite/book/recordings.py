"""What the book's long trainings gave, for chapters to show.

The trainings are listed in results/runs.py of the repository. Each has a file with
its configuration, commit, hardware and outputs. The small translators differ in nothing
but their seed. The toy grammar knows which noun each "it" stands for, so that what a
head attends to can be counted.

Paper: §6, Figures 3–5
Chapter: 06_1_machine_translation, 06_2_model_variations, attention_visualizations
Tests: tests/book/test_recordings.py
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from safetensors import safe_open

from transformer_lite.batching import Batch
from transformer_lite.config import ModelConfig
from transformer_lite.data.toy import ToyPair, generate_pairs
from transformer_lite.model import Transformer

FOLDER = Path(__file__).parent
DIGEST = FOLDER / "results.json"
"""Written by book/tools/make_results.py from the files in results/."""


def stored_runs(experiment: str) -> list[dict[str, Any]]:
    """Return the results of an experiment, one for each seed.

    Args:
        experiment: Its name, such as "multi30k_en_de" or "table_3/base".

    Raises:
        ValueError: There is none of this name.
    """
    runs = _digest()["runs"]
    if experiment not in runs:
        raise ValueError(f"{experiment}: no result; there are {', '.join(runs)}")
    return runs[experiment]


def stored_decoding(split: str) -> dict[str, dict[str, Any]]:
    """Return the scores of each way to decode one model on a split, by its name.

    Raises:
        ValueError: It was not decoded.
    """
    splits = _digest()["decoding"]
    if split not in splits:
        raise ValueError(f"{split}: not decoded; there are {', '.join(splits)}")
    return splits[split]


def _digest() -> dict[str, Any]:
    return json.loads(DIGEST.read_text(encoding="utf-8"))


HEADS = FOLDER / "heads.safetensors"
"""Five small translators of the toy corpus, trained by results/heads.py."""
TRAIN_PAIRS = 8_000
"""So many of the first `pronoun_pairs` they were trained on, and on no later ones."""


def pronoun_pairs() -> Iterator[ToyPair]:
    """Endless pairs of the toy corpus in which an "it" stands for a noun."""
    return (pair for pair in generate_pairs(seed=1) if pair.antecedents)


def lowered(words: Sequence[str]) -> list[str]:
    """Words as the models know them: in lower case."""
    return [word.lower() for word in words]


def toy_config(vocab_size: int) -> ModelConfig:
    """Return the models' shape: two layers of four heads, 48 wide."""
    return ModelConfig(
        vocab_size=vocab_size,
        num_layers=2,
        d_model=48,
        d_ff=192,
        num_heads=4,
        dropout=0.0,
        max_len=64,
    )


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
            model = Transformer(config)
            state = model.state_dict()
            model.load_state_dict(
                {
                    name: recording.get_tensor(f"{seed}.{own_name(name)}").float()
                    for name in state
                }
            )
            models[seed] = model.eval()
    return models


def own_name(name: str) -> str:
    """Return the name that a tensor has in the file; the shared one is there once."""
    return name.replace("decoder.embedding", "encoder.embedding")


def toy_batch(pairs: Sequence[ToyPair], words: Sequence[str]) -> Batch:
    """Pairs as a batch of whole words' ids.

    Raises:
        ValueError: A word is not in the vocabulary.
    """
    ids = {word: i for i, word in enumerate(words)}
    try:
        return Batch.from_ids(
            *(
                [[ids[word] for word in lowered(side(pair))] for pair in pairs]
                for side in (lambda p: p.source_words, lambda p: p.target_words)
            )
        )
    except KeyError as error:
        raise ValueError(f"no word of the toy corpus: {error}") from error
