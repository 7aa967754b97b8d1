"""A trained model that translates text.

Paper: §6.1
Chapter: 06_1_machine_translation
Tests: tests/package/inference/test_translator.py
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lite.batching import pad
from transformer_lite.config import SearchConfig
from transformer_lite.model import Transformer
from transformer_lite.precision import (
    Precision,
    autocast,
    choose_device,
    choose_precision,
    memory_error_on_full_gpu,
)
from transformer_lite.runs.folder import find_run
from transformer_lite.runs.weights import load_weights
from transformer_lite.search import Hypothesis, beam_search
from transformer_lite.tokenizer import BOS, EOS, Tokenizer, is_blank


class TooLongError(ValueError):
    """A sentence has more tokens than the model allows."""


class Output(NamedTuple):
    """A translation."""

    text: str
    log_prob: float
    """Its log-probability in nats."""
    score: float
    """The log-probability over the length penalty."""


class PairAttention(NamedTuple):
    """What attends to what in one sentence pair, in every layer and head."""

    source: list[str]
    """The source's pieces, ending with EOS."""
    target: list[str]
    """The target's pieces, starting with BOS."""
    encoder: Float[Tensor, "layers heads source source"]
    decoder: Float[Tensor, "layers heads target target"]
    cross: Float[Tensor, "layers heads target source"]


class Translator:
    """Text in, text out.

    Args:
        model: A trained `Transformer`, or a model with the same `start` and
            `decoder.step`, in evaluation mode.
        search: How to search, unless a call says otherwise.
    """

    precision: Precision | None = None
    """Arithmetic of the matrix products; by default fp16 on GPUs, otherwise fp32."""
    allowed: Callable[[Any], Tensor] | None = None
    """Which tokens may follow in a state, as for `beam_search`; by default all."""

    def __init__(
        self, model: nn.Module, tokenizer: Tokenizer, search: SearchConfig
    ) -> None:
        self.model, self.tokenizer, self.search = model, tokenizer, search

    @classmethod
    def load(
        cls,
        run: str | Path,
        weights: str | Path | None = None,
        device: torch.device | str | None = None,
    ) -> "Translator":
        """Load the translator of a run's folder.

        Args:
            run: The folder that `train` wrote, or the name of a model that comes with
                the package, such as "multi30k_en_de".
            weights: The checkpoint; by default the average, else the best, else the
                newest one.
            device: Where to translate; by default a GPU, if there is one.

        Raises:
            ValueError: The folder holds no run, no checkpoint, a damaged one, or the
                tokenizer of another model; or there is no such device.
        """
        device, folder = choose_device(device), find_run(run)
        recipe = folder.recipe()
        model = Transformer(recipe.model)
        load_weights(model, Path(weights or folder.default_weights()))
        checksum = folder.training_data().get("tokenizer_sha256")
        tokenizer = Tokenizer.load(folder.tokenizer, checksum)
        if tokenizer.vocab_size != recipe.model.vocab_size:
            raise ValueError(
                f"{folder.tokenizer}: has {tokenizer.vocab_size:,} tokens, and the "
                f"model {recipe.model.vocab_size:,}; bring back the tokenizer.model "
                "that the run was trained with"
            )
        return cls(model.to(device).eval(), tokenizer, recipe.search)

    def translate(
        self, sentences: str | Sequence[str], search: SearchConfig | None = None
    ) -> str | list[str]:
        """Translate one sentence, or several and keep their order.

        Raises:
            TooLongError: A sentence is longer than the model allows; the message gives
                its number.
            ValueError: A sentence is no text, or `max_extra` leaves no room for any.
            MemoryError: The GPU has no room for a batch.
        """
        if isinstance(sentences, str):
            return self.translate([sentences], search)[0]
        outputs = self.hypotheses(sentences, search)
        return [self.tokenizer.decode(output.ids) for output in outputs]

    def hypotheses(
        self, sentences: Sequence[str], search: SearchConfig | None = None
    ) -> list[Hypothesis]:
        """Translate as `translate` does, but return token ids and their scores."""
        search = search or self.search
        if isinstance(sentences, str):
            raise ValueError(f"{sentences!r} is one sentence; give a list of them")
        sources = [self._encode(*one, search) for one in enumerate(sentences, start=1)]
        return [best for (best,) in self._find(sources, search, 1)]

    def stream(
        self,
        blocks: Iterable[Sequence[str]],
        on_long: Callable[[str], None],
        n_best: int = 1,
    ) -> Iterator[list[Output]]:
        """Yield the translations of each line, in order, as soon as its block is done.

        Args:
            blocks: Sentences that are translated together. Of a large block, sentences
                of like length share a batch.
            on_long: Called with a message for each line that is longer than the model
                allows; its translation is empty.
            n_best: Translations of each line, the best first; an empty line has one.

        Raises:
            ValueError: A line is no text, `max_extra` leaves no room for any, or
                `n_best` is larger than the beam.
            MemoryError: The GPU has no room for a batch.
        """
        numbers = count(1)
        for block in blocks:
            sources = []
            for line, number in zip(block, numbers):  # noqa: B905  (they are endless)
                try:
                    sources.append(self._encode(number, line, self.search))
                except TooLongError as error:
                    on_long(str(error))
                    sources.append([])
            outputs = self._find(sources, self.search, n_best)
            for line, best in zip(block, outputs, strict=True):
                yield [
                    Output(self._written(line, ids), log_prob, score)
                    for ids, log_prob, score in best
                ]

    def _written(self, sentence: str, ids: list[int]) -> str:
        return self.tokenizer.decode(ids)

    @torch.inference_mode()
    def attention(self, source: str, target: str) -> PairAttention:
        """Return the attention weights of every head for one sentence pair.

        Raises:
            ValueError: A sentence is longer than the model allows.
        """
        src_ids = [*self.tokenizer.encode(source), EOS]
        tgt_ids = [BOS, *self.tokenizer.encode(target)]
        device = self.model.encoder.embedding.weight.device
        weights = self.model.attention_weights(
            torch.tensor([src_ids], device=device),
            torch.tensor([tgt_ids], device=device),
        )
        pieces = self.tokenizer.pieces(src_ids), self.tokenizer.pieces(tgt_ids)
        return PairAttention(*pieces, *(part[0] for part in weights))

    def _encode(self, number: int, sentence: str, search: SearchConfig) -> list[int]:
        """Return the source ids of a line; an empty line has none, not even EOS."""
        max_len = self.model.config.max_len
        longest = max_len - search.max_extra
        if longest < 2:  # a token and EOS
            raise ValueError(
                f"search.max_extra = {search.max_extra} leaves no room for a sentence "
                f"in model.max_len = {max_len}; give at most {max_len - 2}"
            )
        try:
            str.encode(sentence, "utf-8")
        except (TypeError, UnicodeEncodeError):  # no string, or a lone surrogate in it
            raise ValueError(
                f"{sentence!r} is not a string of text; give one"
            ) from None
        ids = [] if is_blank(sentence) else [*self.tokenizer.encode(sentence), EOS]
        if len(ids) > longest:
            raise TooLongError(
                f"line {number}: {len(ids)} tokens are more than the {longest} that "
                "model.max_len and search.max_extra leave; split the sentence"
            )
        return ids

    def _find(
        self, sources: list[list[int]], search: SearchConfig, n_best: int
    ) -> list[list[Hypothesis]]:
        """Return the best outputs for each source; an empty one for an empty one."""
        outputs = [[Hypothesis([], 0.0, 0.0)] for _ in sources]
        lengths = [len(ids) for ids in sources]
        for rows in batches_by_length(lengths, search.batch_sentences):
            batch = self._search([sources[i] for i in rows], search, n_best)
            for i, best in zip(rows, batch, strict=True):
                outputs[i] = best
        return outputs

    @torch.inference_mode()
    def _search(
        self, sources: list[list[int]], search: SearchConfig, n_best: int
    ) -> list[list[Hypothesis]]:
        device = self.model.encoder.embedding.weight.device
        limits = torch.tensor([len(ids) - 1 + search.max_extra for ids in sources])
        no_room = (
            f"the GPU has no room to translate {len(sources)} sentences at once; give "
            f"a smaller search.batch_sentences than {search.batch_sentences} "
            "(--batch-sentences)"
        )
        precision, step = self.precision or _precision(device), self.model.decoder.step
        with memory_error_on_full_gpu(no_room), autocast(precision, device):
            state = self.model.start(pad(sources).to(device))
            return beam_search(
                step,
                state,
                limits.to(device),
                BOS,
                EOS,
                search.beam_size,
                search.alpha,
                allowed=self.allowed,
                n_best=n_best,
            )


def batches_by_length(lengths: Sequence[int], batch_sentences: int) -> list[list[int]]:
    """Return the numbers of the sentences in each batch; empty ones are in none.

    Sentences of about the same length share a batch: they need little padding and end
    at about the same time.
    """
    order = [i for i, length in enumerate(lengths) if length]
    order.sort(key=lengths.__getitem__)
    size = batch_sentences
    return [order[start : start + size] for start in range(0, len(order), size)]


def _precision(device: torch.device) -> Precision:
    """Return the precision of matrix products in a search: fp16 on GPUs, else fp32.

    fp16 and not bf16, because logits may lie between 8 and 16, where neighbouring
    numbers are 1/128 apart in fp16 and 1/16 in bf16. Old GPUs have no units for either.
    """
    half = device.type == "cuda" and choose_precision("auto", device) != "fp32"
    return "fp16" if half else "fp32"
