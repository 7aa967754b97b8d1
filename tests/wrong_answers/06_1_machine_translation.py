"""Wrong answers to the exercises of 6.1, by check and by mistake."""

import math
from collections import Counter
from functools import cache
from heapq import heappop, heappush

import nbformat
import numpy as np
import sacrebleu
import torch
from loading import ROOT

from transformer_lite import Translator
from transformer_lite.batching import pad
from transformer_lite.config import SearchConfig
from transformer_lite.tokenizer import BOS, EOS


def grams(words, n):
    return Counter(zip(*(words[i:] for i in range(n)), strict=False))


def matches(allowed_of):
    """Clipped matches with another way to say how often an n-gram may count."""
    return lambda words, references, n: (
        grams(words, n) & allowed_of([grams(r, n) for r in references])
    ).total()


def beam(next_log_probs, size, stop=False):
    """Beam search, which may miss the likeliest output."""
    beams, best = [(0.0, ())], (-math.inf, (EOS,))
    while beams:
        found = [
            (log_prob + p, (*tokens, token))
            for log_prob, tokens in beams
            for token, p in next_log_probs(tokens).items()
        ]
        found = sorted(found, reverse=True)[:size]
        best = max([best, *(one for one in found if one[1][-1] == EOS)])
        beams = [one for one in found if one[1][-1] != EOS and one[0] > best[0]]
        if stop and best[1] != (EOS,):
            break
    return best[1]


def everything(next_log_probs, limit, tokens=()):
    """The best of all outputs up to a length, without cutting anything off."""

    def outputs(tokens, log_prob):
        for token, p in next_log_probs(tokens).items():
            if token == EOS:
                yield log_prob + p, (*tokens, token)
            elif len(tokens) < limit:
                yield from outputs((*tokens, token), log_prob + p)

    return max(outputs((), 0.0), default=(0, (EOS,)))[1]


def cheapest_first(next_log_probs, mean=False):
    """The right search, if it does not compare means."""
    begun = [(0.0, 0.0, ())]
    while True:
        _, log_prob, tokens = heappop(begun)
        if tokens and tokens[-1] == EOS:
            return tokens
        for token, p in next_log_probs(tokens).items():
            total = log_prob + p
            order = -total / (len(tokens) + 1) if mean else -total
            heappush(begun, (order, total, (*tokens, token)))


def every_gram_of_a_reference(words, references, n):
    known = set().union(*(grams(reference, n) for reference in references))
    return sum(gram in known for gram in grams(words, n).elements())


def different_grams(words, references, n):
    known = set().union(*(grams(reference, n) for reference in references))
    return len(known & set(grams(words, n)))


def by_key(words, references, n, key):
    """The right clipped matches, of n-grams that are compared by a key."""
    allowed = Counter()
    for reference in references:
        allowed |= Counter(map(key, grams(reference, n).elements()))
    return (Counter(map(key, grams(words, n).elements())) & allowed).total()


def level_by_level(next_log_probs, margin):
    """The right search, but it goes on from what is behind by less than a margin."""
    begun, best = [(0.0, ())], (-math.inf, ())
    while begun:
        found = [
            (log_prob + p, (*tokens, token))
            for log_prob, tokens in begun
            for token, p in next_log_probs(tokens).items()
        ]
        best = max([best, *(one for one in found if one[1][-1] == EOS)])
        begun = [
            one for one in found if one[1][-1] != EOS and one[0] > best[0] - margin
        ]
    return best[1]


def asking_twice(next_log_probs):
    """The right search, which asks for EOS and then once more for the others."""
    begun, best = [(0.0, ())], (-math.inf, ())
    while begun:
        log_prob, tokens = begun.pop()
        if log_prob <= best[0]:
            continue
        ended = log_prob + next_log_probs(tokens).get(EOS, -math.inf)
        best = max(best, (ended, (*tokens, EOS)))
        nexts = next_log_probs(tokens).items()
        found = [(log_prob + p, (*tokens, t)) for t, p in nexts if t != EOS]
        begun += sorted(one for one in found if one[0] > best[0])
    return best[1]


def for_ever(next_log_probs):
    """Never goes on from where it begins."""
    while EOS in next_log_probs(()):
        pass


def until_stopped(next_log_probs):
    """Goes through everything, and returns its best when the check stops it."""
    begun, best = [(0.0, ())], (-math.inf, (EOS,))
    try:
        while begun:
            log_prob, tokens = begun.pop(0)
            for token, p in next_log_probs(tokens).items():
                one = (log_prob + p, (*tokens, token))
                if token == EOS:
                    best = max(best, one)
                else:
                    begun.append(one)
    except Exception:
        pass
    return best[1]


@cache
def translator():
    return Translator.load("multi30k_en_de", device="cpu")


def greedy(sources):
    return translator().translate(sources, SearchConfig(beam_size=1))


@torch.inference_mode()
def forced(sources, references, own_length=False):
    """What the model writes while it reads the references."""
    encode, decode = translator().tokenizer.encode, translator().tokenizer.decode
    src_ids = pad([[*encode(text), EOS] for text in sources])
    targets = [[BOS, *encode(text)] for text in references]
    rows = translator().model(src_ids, pad(targets)).argmax(-1).tolist()
    cut = [row[: len(ids) - 1] for row, ids in zip(rows, targets, strict=True)]
    if own_length:
        cut = [row[: row.index(EOS)] if EOS in row else row for row in rows]
    return [decode(ids) for ids in cut]


def of_the_references_length(sources, references):
    encode, decode = translator().tokenizer.encode, translator().tokenizer.decode
    pairs = zip(greedy(sources), references, strict=True)
    return [decode(encode(own)[: len(encode(human))]) for own, human in pairs]


def with_limit(limit):
    """Greedy outputs of at most so many tokens, by the reference's tokens."""

    def candidate(sources, references):
        encode, decode = translator().tokenizer.encode, translator().tokenizer.decode
        pairs = zip(greedy(sources), references, strict=True)
        return [decode(encode(own)[: limit(len(encode(r)))]) for own, r in pairs]

    return candidate


def the_better_one(sources, references):
    """Of the greedy output and a beam's, the one nearer to the reference."""
    both = zip(greedy(sources), translator().translate(sources), strict=True)
    score = sacrebleu.sentence_bleu
    return [
        max(two, key=lambda own, human=human: score(own, [human]).score)
        for two, human in zip(both, references, strict=True)
    ]


def sentences():
    """The sources and references that the chapter has written itself."""
    path = ROOT / "notebooks" / "06_1_machine_translation.ipynb"
    cells = nbformat.read(path, as_version=4).cells
    (source,) = [of.source for of in cells if 'sentences = """' in of.source]
    text = source.partition('sentences = """')[2].partition('"""')[0]
    pairs = [line.split(" | ") for line in text.strip().splitlines()]
    return [list(side) for side in zip(*pairs, strict=True)]


SOURCES, REFERENCES = sentences()


def given():
    """What the check of "Spot the bug" takes from the story."""
    return {
        "sources": SOURCES,
        "references": REFERENCES,
        "measure": sacrebleu.BLEU(),
    }


# fmt: off
WRONG = {
    "check_outputs": {
        "the reference up to each word": forced,
        "the same, with the model's own end": lambda s, r: forced(s, r, own_length=True),
        "as long as the reference": of_the_references_length,
        "at most twice as long as the reference": with_limit(lambda tokens: 2 * tokens),
        "five tokens more than the reference": with_limit(lambda tokens: tokens + 5),
        "at most 18 tokens": with_limit(lambda tokens: 18),
        "the references": lambda s, r: r,
        "a beam of 4": lambda s, r: translator().translate(s),
        "the better of two outputs": the_better_one,
        "the same whatever the sources": lambda s, r: greedy(SOURCES),
        "known sentences only": lambda s, r: [dict(zip(SOURCES, greedy(SOURCES), strict=True))[text] for text in s],
        "sorted": lambda s, r: sorted(greedy(s)),
        "one text": lambda s, r: " ".join(greedy(s)),
        "nothing": lambda s, r: None,
    },
    "check_likeliest": {
        "greedy": lambda f: beam(f, 1),
        "a beam of 2": lambda f: beam(f, 2),
        "a beam of 64": lambda f: beam(f, 64),
        "a beam of 100": lambda f: beam(f, 100),
        "a beam of 1,000": lambda f: beam(f, 1000),
        "at most fifty tokens": lambda f: level_by_level(lambda t: f(t) if len(t) < 50 else {EOS: -99.0}, 0),
        "beginnings that are a little behind": lambda f: level_by_level(f, 1),
        "beginnings half as likely as the best": lambda f: level_by_level(f, 0.69),
        "beginnings that are 10 % behind": lambda f: level_by_level(f, 0.1),
        "the first step for ever": for_ever,
        "everything until the check stops it": until_stopped,
        "the first that ends": lambda f: beam(f, 64, stop=True),
        "at most seven tokens": lambda f: everything(f, 7),
        "every output": lambda f: everything(f, 40),
        "nothing at all": lambda f: (EOS,),
        "without the end": lambda f: cheapest_first(f)[:-1],
        "the log-probability of each token": lambda f: cheapest_first(f, mean=True),
        "a list": lambda f: list(cheapest_first(f)),
        "no answer": lambda f: None,
    },
    "check_matches": {
        "no clipping": every_gram_of_a_reference,
        "each n-gram once": different_grams,
        "the first reference alone": matches(lambda counts: counts[0]),
        "the best single reference": lambda words, references, n: max(
            (grams(words, n) & grams(reference, n)).total() for reference in references
        ),
        "the references' counts, the words' own forgotten": (
            lambda words, references, n: sum(
                max(grams(reference, n)[gram] for reference in references)
                for gram in grams(words, n)
            )
        ),
        "many numbers": lambda words, references, n: torch.ones(3),
        "a float": lambda words, references, n: float(by_key(words, references, n, tuple)),
        "the longest reference": matches(lambda counts: max(counts, key=Counter.total)),
        "a constant": lambda words, references, n: 2,
        "substrings": lambda words, references, n: sum(
            min(count, max(" ".join(r).count(" ".join(gram)) for r in references))
            for gram, count in grams(words, n).items()
        ),
        "at most trigrams": lambda words, references, n: by_key(words, references, min(n, 3), tuple),
        "the first two words of each": lambda words, references, n: by_key(words, references, n, lambda gram: gram[:2]),
        "the last two words of each": lambda words, references, n: by_key(words, references, n, lambda gram: gram[-2:]),
        "words joined": lambda words, references, n: by_key(words, references, n, "".join),
        "case ignored": lambda words, references, n: by_key(words, references, n, lambda gram: " ".join(gram).lower()),
        "at most twice": lambda words, references, n: sum(
            min(count, 2, max(grams(r, n)[gram] for r in references))
            for gram, count in grams(words, n).items()
        ),
    },
    "check_can_still_win": {
        "no penalty": lambda f, m, u, L, alpha: u > f,
        "a penalty of at most 1": lambda f, m, u, L, alpha: (
            u / ((5 + L) / 6) ** min(alpha, 1) > f / ((5 + m) / 6) ** min(alpha, 1)
        ),
        "1 and 0": lambda f, m, u, L, alpha: int(u / ((5 + L) / 6) ** alpha > f / ((5 + m) / 6) ** alpha),
        "the penalty of its present length": lambda f, m, u, L, alpha: (
            u / ((5 + m) / 6) ** alpha > f / ((5 + m) / 6) ** alpha
        ),
        "divided by the length": lambda f, m, u, L, alpha: u / L > f / m,
        "powers of the length": lambda f, m, u, L, alpha: u / L**alpha > f / m**alpha,
        "0.6 whatever α": lambda f, m, u, L, alpha: u / ((5 + L) / 6) ** (0.6 * (alpha > 0)) > f / ((5 + m) / 6) ** 0.6,
        "half of the way": lambda f, m, u, L, alpha: u / ((5 + (L + m) // 2) / 6) ** alpha > f / ((5 + m) / 6) ** alpha,
        "one token more": lambda f, m, u, L, alpha: u / ((6 + L) / 6) ** alpha > f / ((5 + m) / 6) ** alpha,
        "or as good": lambda f, m, u, L, alpha: u / ((5 + L) / 6) ** alpha >= f / ((5 + m) / 6) ** alpha,
        "always": lambda f, m, u, L, alpha: True,
        "many truths": lambda f, m, u, L, alpha: torch.ones(3),
        "a word": lambda f, m, u, L, alpha: "yes",
        "4 for 5": lambda f, m, u, L, alpha: u / ((4 + L) / 6) ** alpha > f / ((4 + m) / 6) ** alpha,
        "α squared": lambda f, m, u, L, alpha: u / ((5 + L) / 6) ** alpha**2 > f / ((5 + m) / 6) ** alpha**2,
        "a little more than α": lambda f, m, u, L, alpha: (
            u / ((5 + L) / 6) ** (1.05 * alpha) > f / ((5 + m) / 6) ** (1.05 * alpha)
        ),
        "at most 20 tokens": lambda f, m, u, L, alpha: u / ((5 + min(L, 20)) / 6) ** alpha > f / ((5 + m) / 6) ** alpha,
    },
}
# fmt: on

RIGHT = {
    "check_outputs": {"by the package": lambda sources, references: greedy(sources)},
    "check_likeliest": {"asking twice": asking_twice},
    "check_matches": {
        "by NumPy": lambda words, references, n: np.int64(
            by_key(words, references, n, tuple)
        )
    },
    "check_can_still_win": {
        "by NumPy": lambda f, m, u, L, alpha: (
            u / np.power((5 + L) / 6, alpha) > f / np.power((5 + m) / 6, alpha)
        )
    },
}
