"""A trained model that translates text.

Paper: §6.1
Chapter: 06_1_machine_translation
Tests: tests/inference/test_translator.py
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, overload, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lite.batching import pad
from transformer_lite.config import SearchConfig
from transformer_lite.model import Transformer
from transformer_lite.search import Hypothesis, beam_search, greedy_search
from transformer_lite.tokenizer import BOS, EOS, Tokenizer
from transformer_lite.training import checkpoint
from transformer_lite.training.folder import RunFolder, find_run
from transformer_lite.training.hardware import autocast, choose_precision

BLOCK_BATCHES = 8
"""Batches of a block: the more there are, the less padding each of them needs."""


@runtime_checkable
class Language(Protocol):
    """What a translator needs of a tokenizer."""

    def encode(self, text: str) -> list[int]:
        """The text's token ids, without BOS and EOS."""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids; PAD, BOS and EOS vanish."""

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The vocabulary's entry for each id."""


class PairAttention(NamedTuple):
    """What attends to what in one sentence pair, in every layer and head."""

    source: list[str]
    """The source's pieces, EOS the last."""
    target: list[str]
    """The target's pieces, BOS the first; after each the decoder says the next one."""
    encoder: Float[Tensor, "layers heads source source"]
    decoder: Float[Tensor, "layers heads target target"]
    cross: Float[Tensor, "layers heads target source"]


class Translator:
    """Text in, text out.

    Args:
        model: A trained `Transformer`, or what searches like one; it should be in
            evaluation mode.
        tokenizer: The vocabulary that it was trained with.
        search: How to search, unless a call says otherwise.
        target: The vocabulary of the target language, if that has one of its own.
    """

    workers = 1
    """Processes that batches are dealt out among."""

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Language,
        search: SearchConfig,
        target: Language | None = None,
    ) -> None:
        self.model, self.tokenizer, self.search = model, tokenizer, search
        self.target = target or tokenizer

    @classmethod
    def load(
        cls,
        run: str | Path,
        weights: str | Path | None = None,
        device: torch.device | str | None = None,
    ) -> "Translator":
        """The translator of a run's folder.

        Args:
            run: The folder that `train` wrote, or the name of a model that comes with
                the package, such as "multi30k_en_de".
            weights: Which checkpoint; by default the average, else the best, else
                the newest one.
            device: Where to translate; by default on a GPU, if there is one.

        Raises:
            ValueError: The folder holds no run, no checkpoint, a damaged one, or the
                tokenizer of another model.
        """
        folder = RunFolder(find_run(run))
        recipe = folder.recipe()
        model = Transformer(recipe.model)
        checkpoint.load_weights(model, Path(weights or folder.default_weights()))
        model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        tokenizer = Tokenizer.load(folder.tokenizer)
        if tokenizer.vocab_size != recipe.model.vocab_size:
            raise ValueError(
                f"{folder.tokenizer}: has {tokenizer.vocab_size:,} tokens, and the "
                f"model {recipe.model.vocab_size:,}; bring back the tokenizer.model "
                "that the run was trained with"
            )
        return cls(model.eval(), tokenizer, recipe.search)

    @overload
    def translate(self, sentences: str, search: SearchConfig | None = None) -> str: ...

    @overload
    def translate(
        self, sentences: Sequence[str], search: SearchConfig | None = None
    ) -> list[str]: ...

    def translate(
        self, sentences: str | Sequence[str], search: SearchConfig | None = None
    ) -> str | list[str]:
        """The translation of a sentence, or of each of several in their order.

        Raises:
            ValueError: A sentence is longer than the model allows; the message
                gives its number. Or `max_extra` leaves no room for any.
            MemoryError: The GPU has no room for a batch.
        """
        if isinstance(sentences, str):
            return self.translate([sentences], search)[0]
        outputs = self.hypotheses(sentences, search)
        return [self.target.decode(output.ids) for output in outputs]

    def stream(
        self,
        lines: Iterable[str],
        on_long: Callable[[str], None] | None = None,
        at_once: int | None = None,
    ) -> Iterator[str]:
        """Yield the translation of each line, in order, as soon as its block is done.

        The first block is one line, so that a single line is answered at once. Each
        block is eight times as large as the one before.

        Args:
            lines: What shall be translated. Of them no more are read than the next
                block needs. An error in them is raised when all lines before it are
                translated.
            on_long: Called with a message for each line that is longer than the model
                allows; its translation is empty. Without it such a line is an error.
            at_once: Most lines of a block; by default `BLOCK_BATCHES` batches.

        Raises:
            ValueError: A line is longer than the model allows, or `max_extra` leaves
                no room for any.
            MemoryError: The GPU has no room for a batch.
        """
        first, batches = 1, BLOCK_BATCHES * self.workers
        at_once = at_once or batches * self.search.batch_sentences
        for block in _blocks(_several(lines), at_once):
            sources = self._encode(block)
            for row, message in self._too_long(sources, self.search, first):
                if on_long is None:
                    raise ValueError(message)
                on_long(message)
                sources[row] = []
            for output in self._find(sources, self.search):
                yield self.target.decode(output.ids)
            first += len(block)

    def hypotheses(
        self, sentences: Sequence[str], search: SearchConfig | None = None
    ) -> list[Hypothesis]:
        """The same as `translate`, as ids with their scores."""
        search = search or self.search
        sources = self._encode(_several(sentences))
        for _, message in self._too_long(sources, search):
            raise ValueError(message)
        return self._find(sources, search)

    @torch.inference_mode()
    def attention(self, source: str, target: str) -> PairAttention:
        """Every layer's and head's attention weights for one sentence pair.

        Raises:
            ValueError: A sentence is longer than the model allows.
        """
        src_ids = [*self.tokenizer.encode(source), EOS]
        tgt_ids = [BOS, *self.target.encode(target)]
        device = self.model.encoder.embedding.weight.device
        weights = self.model.attention_weights(
            torch.tensor([src_ids], device=device),
            torch.tensor([tgt_ids], device=device),
        )
        pieces = self.tokenizer.pieces(src_ids), self.target.pieces(tgt_ids)
        return PairAttention(*pieces, *(part[0] for part in weights))

    def _encode(self, sentences: Iterable[str]) -> list[list[int]]:
        """Source ids; none for an empty sentence, whose translation is empty."""
        return [
            [*self.tokenizer.encode(text), EOS] if text.strip() else []
            for text in map(_text, sentences)
        ]

    def _too_long(
        self, sources: list[list[int]], search: SearchConfig, first: int = 1
    ) -> Iterator[tuple[int, str]]:
        """The rows that are longer than the model allows, each with a message.

        Raises:
            ValueError: It allows none, not even one of a token and EOS.
        """
        longest = self.model.config.max_len - search.max_extra
        if longest < 2:
            raise ValueError(
                f"search.max_extra = {search.max_extra} leaves no sentence any room in "
                f"model.max_len = {self.model.config.max_len}; give at most "
                f"{self.model.config.max_len - 2}"
            )
        for row, ids in enumerate(sources):
            if len(ids) > longest:
                yield (
                    row,
                    f"line {first + row}: {len(ids)} tokens are more than the "
                    f"{longest} that model.max_len and search.max_extra leave; split "
                    "the sentence",
                )

    def _find(self, sources: list[list[int]], search: SearchConfig) -> list[Hypothesis]:
        """The output for each source."""
        found = [Hypothesis([], 0.0, 0.0) for _ in sources]
        lengths = [len(ids) for ids in sources]
        batches = batches_by_length(lengths, search.batch_sentences, self.workers)
        # The longest go first: towards the end short ones even out workers' times.
        batches.reverse()
        outputs = self._search_all([[sources[i] for i in b] for b in batches], search)
        for rows, of_batch in zip(batches, outputs, strict=True):
            for i, output in zip(rows, of_batch, strict=True):
                found[i] = output
        return found

    def _search_all(
        self, batches: list[list[list[int]]], search: SearchConfig
    ) -> Iterator[list[Hypothesis]]:
        """The outputs of each batch of sources."""
        return (self.search_batch(sources, search) for sources in batches)

    @torch.inference_mode()
    def search_batch(
        self, sources: list[list[int]], search: SearchConfig
    ) -> list[Hypothesis]:
        """The outputs for sources that are computed at once.

        Raises:
            MemoryError: The GPU has no room for them.
        """
        device = self.model.encoder.embedding.weight.device
        src_ids = pad(sources).to(device)
        limits = torch.tensor([len(ids) - 1 + search.max_extra for ids in sources])
        limits, step = limits.to(device), self.model.decoder.step
        try:
            with autocast(_precision(device), device):
                state = self.model.start(src_ids)
                if search.beam_size == 1:
                    return greedy_search(step, state, limits, BOS, EOS, search.alpha)
                return beam_search(
                    step, state, limits, BOS, EOS, search.beam_size, search.alpha
                )
        except torch.OutOfMemoryError:
            raise MemoryError(
                f"the GPU has no room to translate {len(sources)} sentences at once; "
                f"give a smaller search.batch_sentences than {search.batch_sentences} "
                "(--batch-sentences)"
            ) from None


def batches_by_length(
    lengths: Sequence[int], batch_sentences: int, shares: int = 1
) -> list[list[int]]:
    """The numbers of the sentences that are translated at once.

    Sentences of like length share a batch: they need little padding, and they end at
    about the same time. The shortest come first; empty ones are in no batch.

    Args:
        lengths: Tokens of each sentence.
        batch_sentences: Sentences of a batch.
        shares: So many batches in a row are equal work: sentences in the order of
            their lengths are dealt out among them in turn.
    """
    order = [i for i, length in enumerate(lengths) if length]
    order.sort(key=lengths.__getitem__)
    size = batch_sentences * shares
    dealt = [
        order[start + share : start + size : shares]
        for start in range(0, len(order), size)
        for share in range(shares)
    ]
    return [rows for rows in dealt if rows]


def _blocks(lines: Iterable[str], at_once: int) -> Iterator[list[str]]:
    """The lines in blocks, of one, then of eight times as many, at most `at_once`."""
    block, size = [], 1
    try:
        for line in lines:
            block.append(line)
            if len(block) == size:
                yield block
                block, size = [], min(8 * size, at_once)
    except Exception:
        yield block
        raise
    yield block


def _several(sentences: Iterable[str]) -> Iterable[str]:
    """The sentences, unless it is one: a string is an iterable of its letters."""
    if isinstance(sentences, str):
        raise ValueError(f"{sentences!r} is one sentence; give a list of them")
    return sentences


def _text(sentence: object) -> str:
    """The sentence, if it is text that UTF-8 can hold: no lone surrogate is."""
    try:
        str.encode(sentence, "utf-8")
    except (TypeError, UnicodeEncodeError):
        raise ValueError(f"{sentence!r} is no sentence; give text") from None
    return sentence


def _precision(device: torch.device) -> str:
    """The arithmetic of the matrix products in a search.

    Half precision on GPUs that have units for it, and then fp16: between 8 and 16,
    where logits may lie, neighbouring numbers are 1/128 apart in fp16, 1/16 in bf16.
    """
    half = device.type == "cuda" and choose_precision("auto", device) != "fp32"
    return "fp16" if half else "fp32"
