"""Wrong answers to the exercises of 5.1, by check and by mistake."""

from functools import partial
from itertools import pairwise

import torch
from torch.nn import functional as F

from transformer_lite.batching import Batch, cut_to_fit, pad


def in_order(word, learned, places=None, backwards=False):
    """The merges one after the other, as often as `places` says."""
    pieces = list(word)
    for new in learned:
        joined, done = [], 0
        for piece in reversed(pieces) if backwards else pieces:
            both = piece + joined[-1] if backwards and joined else ""
            both = joined[-1] + piece if joined and not backwards else both
            if both == new and done != places:
                joined[-1] = new
                done += 1
            else:
                joined.append(piece)
        pieces = joined[::-1] if backwards else joined
    return pieces


def longest_first(word, learned, from_the_end=False):
    """The longest known piece, and then the rest."""
    if not word:
        return []
    for n in range(len(word), 0, -1):
        piece = word[-n:] if from_the_end else word[:n]
        if n == 1 or piece in learned:
            break
    if from_the_end:
        return [*longest_first(word[:-n], learned, from_the_end), piece]
    return [piece, *longest_first(word[n:], learned)]


def any_that_fits(word, learned):
    """Whatever neighbours can be joined, from the left."""
    pieces = []
    for letter in word:
        if pieces and pieces[-1] + letter in learned:
            pieces[-1] += letter
        else:
            pieces.append(letter)
    return pieces


def until_one_does_not_fit(word, learned):
    pieces = list(word)
    for number in range(len(learned)):
        after = in_order(word, learned[: number + 1])
        if after == pieces and number > 3:
            break
        pieces = after
    return pieces


def four(source, target, src_begin=(), src_end=(2,), begin=(), end=(2,), shifted=True):
    """Source, decoder input, labels, and the labels that count."""

    def filled(rows):
        width = max(map(len, rows))
        return torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])

    labels = filled([[*begin, *row, *end] for row in target])
    inputs = torch.cat([torch.ones_like(labels[:, :1]), labels[:, :-1]], dim=1)
    src = filled([[*src_begin, *row, *src_end] for row in source])
    return src, inputs if shifted else labels, labels, labels != 0


def without_ends(source, target):
    """The decoder reads no EOS, as if each row were cut before it was filled."""
    src, inputs, labels, real = four(source, target)
    return src, inputs.masked_fill(inputs == 2, 0), labels, real


def counted(source, target, which):
    src, inputs, labels, _ = four(source, target)
    return src, inputs, labels, which(labels)


def the_package_s(source, target):
    batch = Batch.from_ids(source, target)
    return batch.src_ids, batch.tgt_input, batch.labels, batch.labels != 0


def by_pytorch_s_pad(source, target):
    """Right: PyTorch's own function fills the rows and makes the shift."""

    def filled(rows):
        width = 1 + max(map(len, rows))
        rows = [torch.tensor([*row, 2]) for row in rows]
        return torch.stack([F.pad(row, (0, width - len(row))) for row in rows])

    labels = filled(target)
    return filled(source), F.pad(labels[:, :-1], (1, 0), value=1), labels, labels != 0


def padded_by_the_package(source, target):
    src, labels = (pad([[*row, 2] for row in side]) for side in (source, target))
    return src, F.pad(labels[:, :-1], (1, 0), value=1), labels, labels != 0


def in_place(source, target):
    """The marks are appended to the caller's sentences."""
    for row in source + target:
        row.append(2)
    return four(source, target, src_end=[], end=[])


def cut(fits=lambda cells, limit: cells <= limit, start=None, last=False):
    """Batches of pairs, with one thing changed."""

    def candidate(order, longest, limit):
        batches, batch, width = [], [], 0
        for pair in order:
            width = longest[pair] if last else max(width, longest[pair])
            if batch and not fits(width * (len(batch) + 1), limit):
                batches.append(batch)
                batch, width = [], longest[pair] if start is None else start
            batch.append(pair)
        return [*batches, batch] if batch else batches

    return candidate


def by_tokens(order, longest, limit):
    """The tokens without their padding are counted."""
    batches, batch, used = [], [], 0
    for pair in order:
        if used + longest[pair] > limit:
            batches.append(batch)
            batch, used = [], 0
        batch.append(pair)
        used += longest[pair]
    return [*batches, batch] if batch else batches


def moved(order, longest, limit):
    """Each batch's last pair moves to the next one where it fits."""
    batches = cut()(order, longest, limit)
    for one, after in pairwise(batches):
        width = max(longest[pair] for pair in [one[-1], *after])
        if len(one) > 1 and width * (len(after) + 1) <= limit:
            after.insert(0, one.pop())
    return batches


# fmt: off
WRONG = {
    "check_rectangles": {
        "nothing": lambda source, target: None,
        "without the mask": lambda source, target: four(source, target)[:3],
        "no EOS in the source": lambda source, target: four(source, target, src_end=[]),
        "BOS in the source": lambda source, target: four(source, target, src_begin=[1]),
        "the labels as input": lambda source, target: four(source, target, shifted=False),
        "no EOS in the labels": lambda source, target: four(source, target, end=[]),
        "BOS in the labels": lambda source, target: four(source, target, begin=[1]),
        "the last EOS cut off before padding": without_ends,
        "PAD on the left": lambda source, target: [side.flip(1) for side in four(source, target)],
        "all cells have a loss": lambda source, target: counted(source, target, lambda labels: labels >= 0),
        "EOS has no loss": lambda source, target: counted(source, target, lambda labels: labels > 2),
        "the input that is not PAD": lambda source, target: (*(parts := four(source, target))[:3], parts[1] != 0),
        "UNK has no loss": lambda source, target: counted(source, target, lambda labels: (labels != 0) & (labels != 3)),
        "ids of one byte": lambda source, target: [part if part.dtype == torch.bool else part.byte() for part in four(source, target)],
        "ids of two bytes": lambda source, target: [part if part.dtype == torch.bool else part.short() for part in four(source, target)],
        "the package's padding": padded_by_the_package,
        "numbers for booleans": lambda source, target: counted(source, target, lambda labels: (labels != 0).long()),
        "the package's batch": the_package_s,
        "ids that are floats": lambda source, target: [part if part.dtype == torch.bool else part.float() for part in four(source, target)],
        "labels that are floats": lambda source, target: (*(parts := four(source, target))[:2], parts[2].double(), parts[3]),
        "the caller's lists are changed": in_place,
        "a row for each sentence alone": lambda source, target: four(source[:1], target[:1]),
    },
    "check_cut_word": {
        "the longest piece first": longest_first,
        "the longest piece first, from the end": lambda word, learned: longest_first(word, learned, from_the_end=True),
        "the merges by length": lambda word, learned: in_order(word, sorted(learned, key=len)),
        "the longest merges first": lambda word, learned: in_order(word, sorted(learned, key=len, reverse=True)),
        "the merges in alphabetical order": lambda word, learned: in_order(word, sorted(learned)),
        "each merge at one place only": lambda word, learned: in_order(word, learned, places=1),
        "each merge at two places only": lambda word, learned: in_order(word, learned, places=2),
        "from the right": lambda word, learned: in_order(word, learned, backwards=True),
        "a number": lambda word, learned: 3,
        "without the last merge": lambda word, learned: in_order(word, learned[:-1]),
        "the first ten merges": lambda word, learned: in_order(word, learned[:10]),
        "whatever fits, from the left": any_that_fits,
        "ends where a merge does not fit": until_one_does_not_fit,
        "without the mark": lambda word, learned: in_order(word[1:], learned),
        "the mark stays alone": lambda word, learned: [word[0], *in_order(word[1:], learned)],
        "one string": lambda word, learned: " ".join(in_order(word, learned)),
        "characters": lambda word, learned: list(word),
        "the whole word": lambda word, learned: [word],
        "in reverse": lambda word, learned: in_order(word, learned)[::-1],
    },
    "check_batches": {
        "nothing": lambda order, longest, limit: None,
        "the tokens without padding": by_tokens,
        "the last pair's width": cut(last=True),
        "a new batch has no width": cut(start=0),
        "less than the limit": cut(lambda cells, limit: cells < limit),
        "a limit of 500": cut(lambda cells, limit: cells <= 500),
        "half of the limit": cut(lambda cells, limit: cells <= limit // 2),
        "the last pair moved on": moved,
        "pairs left out": lambda order, longest, limit: cut()(order[:-1], longest, limit),
        "an empty batch for no pairs": lambda order, longest, limit: cut()(order, longest, limit) or [[]],
        "the package's": lambda order, longest, limit: cut_to_fit(order, longest, limit),
        "the package's, by another name": lambda *given: (lambda alias: alias(*given))(cut_to_fit),
        "the package's, with nothing around it": cut_to_fit,
    },
}
# fmt: on

RIGHT = {
    "check_rectangles": {"PyTorch's pad": by_pytorch_s_pad},
    "check_batches": {
        "a partial function": partial(lambda fits, *given: fits(*given), cut())
    },
}
