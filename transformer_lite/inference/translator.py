"""A trained model that translates text.

Paper: §6.1
Chapter: 06_1_machine_translation
Tests: tests/inference/test_translator.py
"""

from collections.abc import Sequence
from pathlib import Path

import torch

from transformer_lite.batching import pad
from transformer_lite.config import SearchConfig
from transformer_lite.model import Transformer
from transformer_lite.search import Hypothesis, beam_search, greedy_search
from transformer_lite.tokenizer import BOS, EOS, Tokenizer
from transformer_lite.training import checkpoint
from transformer_lite.training.folder import RunFolder


class Translator:
    """Text in, text out.

    Args:
        model: A trained model; it should be in evaluation mode.
        tokenizer: The vocabulary that it was trained with.
        search: How to search, unless a call says otherwise.
    """

    def __init__(
        self, model: Transformer, tokenizer: Tokenizer, search: SearchConfig
    ) -> None:
        self.model, self.tokenizer, self.search = model, tokenizer, search

    @classmethod
    def load(cls, run: Path, weights: Path | None = None) -> "Translator":
        """The translator of a run's folder.

        Args:
            run: The folder that `train` wrote.
            weights: Which checkpoint; by default the average, else the best, else
                the newest one.

        Raises:
            ValueError: The folder holds no run, no checkpoint or a damaged one.
        """
        folder = RunFolder(run)
        recipe = folder.recipe()
        model = Transformer(recipe.model)
        checkpoint.load_weights(model, weights or folder.default_weights())
        if torch.cuda.is_available():
            model.cuda()
        tokenizer = Tokenizer.load(folder.tokenizer)
        return cls(model.eval(), tokenizer, recipe.search)

    def translate(
        self, sentences: Sequence[str], search: SearchConfig | None = None
    ) -> list[str]:
        """The translation of each sentence, in their order.

        Raises:
            ValueError: A sentence is longer than the model allows; the message
                gives its number.
        """
        return [
            self.tokenizer.decode(output.ids)
            for output in self.hypotheses(sentences, search)
        ]

    def hypotheses(
        self, sentences: Sequence[str], search: SearchConfig | None = None
    ) -> list[Hypothesis]:
        """The same as `translate`, as ids with their scores."""
        search = search or self.search
        # An empty sentence has an empty translation.
        found = [Hypothesis([], 0.0, 0.0) for _ in sentences]
        for rows in self.batches(sentences, search):
            sources = [[*self.tokenizer.encode(sentences[i]), EOS] for i in rows]
            for i, output in zip(rows, self._search(sources, search), strict=True):
                found[i] = output
        return found

    def batches(
        self,
        sentences: Sequence[str],
        search: SearchConfig | None = None,
        shares: int = 1,
    ) -> list[list[int]]:
        """The numbers of the sentences that are translated at once.

        Sentences of like length share a batch: they need little padding, and they end
        at about the same time. The shortest come first; empty ones are in no batch.

        Args:
            sentences: What shall be translated.
            search: How, unless as the translator's own `search` says.
            shares: So many batches in a row are equal work: sentences in the order of
                their lengths are dealt out among them in turn.

        Raises:
            ValueError: A sentence is longer than the model allows; the message
                gives its number.
        """
        search = search or self.search
        lengths = [len(self.tokenizer.encode(text)) + 1 for text in sentences]
        self._check_lengths(lengths, search)
        order = [i for i, text in enumerate(sentences) if text.strip()]
        order.sort(key=lengths.__getitem__)
        size = search.batch_sentences * shares
        dealt = [
            order[start + share : start + size : shares]
            for start in range(0, len(order), size)
            for share in range(shares)
        ]
        return [rows for rows in dealt if rows]

    @torch.inference_mode()
    def _search(
        self, sources: list[list[int]], search: SearchConfig
    ) -> list[Hypothesis]:
        device = self.model.encoder.embedding.weight.device
        src_ids = pad(sources).to(device)
        limits = torch.tensor([len(ids) - 1 + search.max_extra for ids in sources])
        state, step = self.model.start(src_ids), self.model.decoder.step
        if search.beam_size == 1:
            return greedy_search(step, state, limits.to(device), BOS, EOS)
        return beam_search(
            step, state, limits.to(device), BOS, EOS, search.beam_size, search.alpha
        )

    def _check_lengths(self, lengths: list[int], search: SearchConfig) -> None:
        longest = self.model.config.max_len - search.max_extra
        for number, length in enumerate(lengths, start=1):
            if length > longest:
                raise ValueError(
                    f"line {number}: {length} tokens are more than the {longest} "
                    "that model.max_len and search.max_extra leave; split the sentence"
                )
