"""Batches of about equal size in tokens, with little padding.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/package/test_batching.py, tests/package/training/test_any_number.py
"""

import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from transformer_lite.config import TrainConfig
from transformer_lite.tokenizer import BOS, EOS, PAD

POOL_PAIRS = 65_536
"""Pairs that are sorted by length together; Multi30k fits in one pool."""


class Sequences:
    """Many sequences of token ids in one flat array, in memory or on disk.

    Args:
        ids: The ids of all sequences, one after the other.
        offsets: The start of each sequence, and the end of the last one.
    """

    def __init__(
        self, ids: Int[np.ndarray, " tokens"], offsets: Int[np.ndarray, " len_plus_1"]
    ) -> None:
        self.ids, self.offsets = ids, offsets
        self.lengths = np.diff(offsets)
        """The length of every sequence, in tokens."""

    @classmethod
    def from_lists(cls, lists: Iterable[list[int]]) -> "Sequences":
        """Copy lists of ids into one array in memory."""
        arrays = [np.asarray(ids, dtype=np.int32) for ids in lists]
        offsets = np.cumsum([0, *(len(ids) for ids in arrays)], dtype=np.int64)
        flat = np.concatenate(arrays) if arrays else np.empty(0, dtype=np.int32)
        return cls(flat, offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Int[np.ndarray, " tokens"]:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def padded(self, numbers: Int[np.ndarray, " batch"]) -> Int[np.ndarray, "batch n"]:
        """Return these sequences as rows, each with EOS after it and then PAD."""
        starts, lengths = self.offsets[numbers], self.lengths[numbers]
        places = np.arange(lengths.max() + 1)
        is_token = places < lengths[:, None]
        rows = np.full(is_token.shape, PAD, dtype=np.int64)
        rows[is_token] = self.ids[(starts[:, None] + places)[is_token]]
        rows[np.arange(len(rows)), lengths] = EOS
        return rows


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as ids, shorter ones filled up with PAD."""

    src_ids: Int[Tensor, "batch src_len"]
    """Source tokens and EOS."""
    tgt_ids: Int[Tensor, "batch tgt_len"]
    """BOS, target tokens and EOS."""
    real: Int[Tensor, " tokens"]
    """Indices into the flattened `labels` of those that are not padding."""

    @classmethod
    def from_ids(
        cls,
        src: Sequence[Sequence[int] | np.ndarray],
        tgt: Sequence[Sequence[int] | np.ndarray],
    ) -> "Batch":
        """Make a batch of plain token ids; BOS, EOS and PAD are added here.

        Raises:
            ValueError: There are none, sources and targets differ in number, or ids
                hold BOS, EOS or PAD already.
        """
        _require_pairs(src, tgt)
        sides = [Sequences.from_lists(side) for side in (src, tgt)]
        for side in sides:
            if np.isin(side.ids, (PAD, BOS, EOS)).any():
                raise ValueError(
                    "ids hold PAD, BOS or EOS; give the text's own ids, the batch adds "
                    "the others"
                )
        return cls.of_pairs(*sides, np.arange(len(src)))

    @classmethod
    def of_pairs(
        cls, src: Sequences, tgt: Sequences, pairs: Int[np.ndarray, " batch"]
    ) -> "Batch":
        """Make a batch of these pairs of two sides."""
        src_rows, tgt_rows = src.padded(pairs), tgt.padded(pairs)
        # Deviation D16: the authors begin with a vector of zeros.
        begin = np.full((len(pairs), 1), BOS)
        return cls(
            torch.from_numpy(src_rows),
            torch.from_numpy(np.concatenate([begin, tgt_rows], axis=1)),
            torch.from_numpy(np.flatnonzero(tgt_rows != PAD)),
        )

    @property
    def tgt_input(self) -> Int[Tensor, "batch steps"]:
        """The decoder's input: the target shifted right, from BOS on (§3.1)."""
        return self.tgt_ids[:, :-1]

    @property
    def labels(self) -> Int[Tensor, "batch steps"]:
        """The right next token for each token of the decoder's input."""
        return self.tgt_ids[:, 1:]

    @property
    def tokens(self) -> int:
        """Number of labels that are not padding."""
        return len(self.real)

    @property
    def padding(self) -> float:
        """The share of padding among all source and target ids."""
        sides = (self.src_ids, self.tgt_ids)
        real = sum(int((ids != PAD).sum()) for ids in sides)
        return 1 - real / sum(ids.numel() for ids in sides)

    def to(self, device: torch.device) -> "Batch":
        """Copy the batch to another device."""
        return Batch(*(t.to(device) for t in (self.src_ids, self.tgt_ids, self.real)))


def _require_pairs(src: Sized, tgt: Sized) -> None:
    if not len(src) == len(tgt) > 0:
        raise ValueError(
            f"{len(src)} sources and {len(tgt)} targets; give at least one source, and "
            "one target for each"
        )


def pad(rows: Sequence[Sequence[int]]) -> Int[Tensor, "batch len"]:
    """Return the rows as one tensor, shorter ones filled up with PAD at the end."""
    length = max(len(row) for row in rows)
    return torch.tensor([[*row, *[PAD] * (length - len(row))] for row in rows])


def token_buckets(
    src_lengths: Int[np.ndarray, " pairs"],
    tgt_lengths: Int[np.ndarray, " pairs"],
    batch_tokens: int,
    seed: Sequence[int],
) -> list[Int[np.ndarray, " batch"]]:
    """Return the batches of one epoch, each as the numbers of its pairs (Section 5.1).

    The pairs are shuffled and cut into pools. Inside a pool they are sorted by
    length, so that neighbours need little padding, and cut into batches; the
    batches are shuffled again. The same seed gives the same epoch.

    Args:
        src_lengths: Length of each source, without BOS and EOS.
        tgt_lengths: Length of each target, without BOS and EOS.
        batch_tokens: Most tokens of a batch on either side, with EOS and padding.
        seed: Numbers that together seed the generator, such as (seed, epoch).

    Raises:
        ValueError: A pair is longer than a whole batch.
    """
    longest = np.maximum(src_lengths, tgt_lengths) + 1  # with EOS
    if len(longest) and longest.max() > batch_tokens:
        raise ValueError(
            f"batch_tokens = {batch_tokens} has no room for pair "
            f"{longest.argmax() + 1}, which has {longest.max()} tokens; "
            "give a larger one, or prepare with a smaller --max-length"
        )
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(longest))
    batches = []
    for start in range(0, len(order), POOL_PAIRS):
        pool = order[start : start + POOL_PAIRS]
        by_length = np.lexsort((src_lengths[pool], tgt_lengths[pool]))
        batches += cut_to_fit(pool[by_length], longest, batch_tokens)
    return [batches[i] for i in generator.permutation(len(batches))]


def cut_to_fit(
    pairs: Int[np.ndarray, " pairs"],
    longest: Int[np.ndarray, " all_pairs"],
    batch_tokens: int,
) -> list[Int[np.ndarray, " batch"]]:
    """Cut a list of pairs into batches, each with as many neighbours as fit.

    Args:
        pairs: Numbers of the pairs, in their order.
        longest: Tokens of the longer side of each pair of the corpus, with EOS.
        batch_tokens: Most tokens of a batch on either side, with EOS and padding.
    """
    batches, start, width = [], 0, 0
    for end, length in enumerate(longest[pairs].tolist()):
        width = max(width, length)
        if (end - start + 1) * width > batch_tokens:
            batches.append(pairs[start:end])
            start, width = end, length
    return [*batches, pairs[start:]] if len(pairs) else []


def batches_per_step(config: TrainConfig) -> int:
    """Return the number of batches of a step over all processes (Section 5.1).

    It depends on the recipe alone: a run that resumes with another number of processes
    takes the same steps.

    Raises:
        ValueError: A step is smaller than a batch.
    """
    wanted = config.global_batch_tokens or config.batch_tokens
    if wanted < config.batch_tokens:
        raise ValueError(
            f"train.global_batch_tokens = {wanted} is less than train.batch_tokens = "
            f"{config.batch_tokens}; give at least as much, or smaller batches"
        )
    return round(wanted / config.batch_tokens)


class DataPosition(NamedTuple):
    """How much of the data a run has read."""

    epoch: int = 0
    """Number of complete epochs."""
    batches: int = 0
    """Number of batches read in the current epoch."""


START = DataPosition()


class StepBatches(NamedTuple):
    """One process's data for one step of the optimizer."""

    batches: list[Batch]
    position: DataPosition
    """The position after the step; the same on all processes."""


class BatchStream:
    """Batches without end, epoch after epoch, from an exact position on.

    All processes share one stream: each takes its part of a step's batches, and no
    pair is read twice or left out. Where the batches of a step are no multiple of the
    processes, each batch is cut into as many parts as make them one.

    Args:
        batch_tokens: Most tokens of a batch on either side, with padding.
        batches_per_step: Batches over all processes.

    Raises:
        ValueError: There are no pairs, or sources and targets differ in number.
    """

    def __init__(
        self,
        src: Sequences,
        tgt: Sequences,
        batch_tokens: int,
        seed: int,
        batches_per_step: int = 1,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        _require_pairs(src, tgt)
        self._src, self._tgt, self._seed = src, tgt, seed
        longest = 1 + max(int(side.lengths.max()) for side in (src, tgt))
        self.batch_tokens = min(batch_tokens, min(len(src), POOL_PAIRS) * longest)
        """Most tokens of a batch on either side, no more than its pool has."""
        self._batches_per_step = batches_per_step
        self._rank, self._world_size = rank, world_size
        self.parts = world_size // math.gcd(batches_per_step, world_size)
        """Into how many parts each batch is cut."""

    def mean_lengths(self) -> tuple[float, float]:
        """Return the mean length of sources and of targets, in tokens with EOS."""
        return 1 + self._src.lengths.mean(), 1 + self._tgt.lengths.mean()

    def epoch(self, number: int) -> list[Int[np.ndarray, " batch"]]:
        """Return the numbers of the pairs in each batch of one epoch."""
        lengths, seed = (self._src.lengths, self._tgt.lengths), (self._seed, number)
        return token_buckets(*lengths, self.batch_tokens, seed)

    def steps(self, start: DataPosition = START) -> Iterator[StepBatches]:
        """Yield this process's part of every step, from a position on."""
        stream = self._stream(start)
        while True:
            step = list(islice(stream, self._batches_per_step))
            parts = [(pairs, n) for _, pairs in step for n in range(self.parts)]
            share = parts[self._rank :: self._world_size]
            yield StepBatches([self._part(*part) for part in share], step[-1][0])

    def _part(self, pairs: Int[np.ndarray, " batch"], number: int) -> Batch:
        """Return one of the parts of a batch, about equal in pairs and in lengths."""
        if len(pairs) > number:
            return self.batch(pairs[number :: self.parts])
        # No pair is left. Every process has to compute something, so this one computes
        # the first pair once more, and none of its tokens counts.
        return replace(self.batch(pairs[:1]), real=torch.empty(0, dtype=torch.long))

    def _stream(
        self, start: DataPosition
    ) -> Iterator[tuple[DataPosition, Int[np.ndarray, " batch"]]]:
        """Yield all processes' batches, each with the position that follows it."""
        epoch, first = start
        while True:
            for number, pairs in enumerate(self.epoch(epoch)[first:], start=first + 1):
                yield DataPosition(epoch, number), pairs
            epoch, first = epoch + 1, 0

    def batch(self, pairs: Int[np.ndarray, " batch"]) -> Batch:
        """Return the batch of these pairs."""
        return Batch.of_pairs(self._src, self._tgt, pairs)


def fixed_batches(src: Sequences, tgt: Sequences, batch_tokens: int) -> list[Batch]:
    """Return batches of all pairs, the same ones at every call, for validation."""
    stream = BatchStream(src, tgt, batch_tokens, seed=0)
    return [stream.batch(pairs) for pairs in stream.epoch(0)]
