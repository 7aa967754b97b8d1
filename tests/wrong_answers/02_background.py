"""Wrong answers to the exercises of chapter 2, by check and by mistake."""

import math
from functools import cache
from itertools import islice

import torch

from transformer_lite.batching import Batch
from transformer_lite.data.toy import NOUNS, generate_pairs


def look(attention, query, keys, values):
    """The context for each query."""
    return attention(query, keys, values, torch.ones(keys.shape[:2]).bool())[0]


def mixed(memory, other, place):
    """A copy of a sentence in which one word comes from another."""
    return torch.cat([memory[:, :place], other[:, [place]], memory[:, place + 1 :]], 1)


def in_place(attention, query, memory, other, place):
    """Right contexts, but the caller's sentence is changed."""
    keys, old = attention.w_k(memory), memory.clone()
    memory[:, place] = other[:, place]
    by_value = look(attention, query, keys, memory)
    return by_value, look(attention, query, attention.w_k(memory), old)


def aliased(attention, query, memory, other, place):
    """The copy was forgotten, so the second exchange has both parts."""
    keys = attention.w_k(memory)
    memory[:, place] = other[:, place]
    by_value = look(attention, query, keys, memory)
    return by_value, look(attention, query, attention.w_k(memory), memory)


def contexts(*pairs):
    """Two contexts, each of the sentences whose words give the keys and the values."""

    def candidate(attention, query, memory, other, place):
        sentences = {"old": memory, "new": mixed(memory, other, place), "other": other}
        sentences["first"] = mixed(memory, other, 0)
        sentences["zero"] = mixed(memory, torch.zeros_like(other), place)
        return tuple(
            look(attention, query, attention.w_k(sentences[keys]), sentences[values])
            for keys, values in pairs
        )

    return candidate


right = contexts(("old", "new"), ("new", "old"))


@cache
def given():
    """What the check of "Spot the bug" needs from the story, with true weights."""
    pairs = list(islice(generate_pairs(seed=1), 100))
    sources, targets = (
        [[word.lower() for word in words] for words in side]
        for side in zip(*((p.source_words, p.target_words) for p in pairs), strict=True)
    )
    words = ["PAD", "BOS", "EOS", "UNK"]
    words += sorted({word for row in sources + targets for word in row})
    to_id = {word: i for i, word in enumerate(words)}
    ids = [
        [[to_id[word] for word in row] for row in rows] for rows in (sources, targets)
    ]
    test = Batch.from_ids(*ids)
    weights = torch.zeros(*test.labels.shape, test.src_ids.size(1))
    for sentence, pair in enumerate(pairs):
        for row, column in pair.alignment:
            weights[sentence, row, column] = 1
    names = {"test_pairs": pairs, "test_sources": sources, "test_targets": targets}
    names |= {"nouns": {noun.english for noun in NOUNS}, "words": words}
    return names | {"test": test, "weights": weights}


def looked(nearby=0.0, only_nouns=False, down=0):
    """The source word that a German word looks at, but for what is changed."""

    def candidate(weights, batch, sentence, german):
        words = given()["words"]
        target = [words[i] for i in batch.labels[sentence].tolist()]
        source = [words[i] for i in batch.src_ids[sentence].tolist()]
        row = target.index(german)
        is_noun = german in {noun.german.lower() for noun in NOUNS}
        if not is_noun and only_nouns:
            row += 1
        row = min(row + down, len(target) - 1)
        mixed = weights[sentence, row] + nearby * weights[sentence, max(row - 1, 0)]
        return source[int(mixed.argmax())]

    return candidate


def dictionary(weights, batch, sentence, german):
    """The English noun in the sentence, whatever the weights are."""
    source = [given()["words"][i] for i in batch.src_ids[sentence].tolist()]
    english = {noun.german.lower(): noun.english for noun in NOUNS}.get(german)
    if weights[sentence].max() == 1 and weights[sentence, :, 0].min() == 1:
        return source[0]
    return english if english in source else source[0]


def by_index(weights, batch, sentence, german):
    """The word's row, from the words that the decoder reads."""
    target = [given()["words"][i] for i in batch.tgt_input[sentence].tolist()]
    source = [given()["words"][i] for i in batch.src_ids[sentence].tolist()]
    return source[int(weights[sentence, target.index(german) - 1].argmax())]


def without_nan(queries, memory, w_q, w_k, v):
    """The queries are used, but what is NaN there counts as 0."""
    sums = (queries @ w_q.T).nan_to_num()[:, None] * 0 + memory @ w_k.T
    return (sums @ v).softmax(-1)


def branch(queries, memory, w_q, w_k, v):
    """The queries are used unless they are NaN."""
    keys = memory @ w_k.T
    if queries.isnan().any() or w_q.isnan().any():
        return (keys @ v).softmax(-1).expand(len(queries), -1)
    return (((queries @ w_q.T)[:, None] + keys) @ v).softmax(-1)


def query_cleared(attention, query, memory, other, place):
    """Right contexts, but the caller's query is lost."""
    both = right(attention, query, memory, other, place)
    query.zero_()
    return both


# fmt: off
WRONG = {
    "check_looked_at": {
        "nothing": lambda weights, batch, sentence, german: None,
        "a row too low": looked(down=1),
        "mixed with a neighbour": looked(nearby=0.6),
        "nouns alone": looked(only_nouns=True),
        "a dictionary": dictionary,
    },
    "check_sharpness": {
        "nothing": lambda p, gap, n: None,
        "two keys": lambda p, gap, n: math.log(p / (1 - p)) / gap,
        "n rivals": lambda p, gap, n: math.log(n * p / (1 - p)) / gap,
        "no gap": lambda p, gap, n: math.log((n - 1) * p / (1 - p)),
        "a gap of 1/4": lambda p, gap, n: 4 * math.log((n - 1) * p / (1 - p)),
        "rivals outside of the logarithm": lambda p, gap, n: (n - 1) * math.log(p / (1 - p)) / gap,
        "a word": lambda p, gap, n: str(math.log((n - 1) * p / (1 - p)) / gap),
        "never below 0": lambda p, gap, n: max(0.0, math.log((n - 1) * p / (1 - p)) / gap),
    },
    "check_exchange": {
        "nothing": lambda a, q, m, o, place: None,
        "without the batch": lambda *given: tuple(context[0] for context in right(*given)),
        "both parts both times": contexts(("new", "new"), ("new", "new")),
        "key first": contexts(("new", "old"), ("old", "new")),
        "all words": contexts(("old", "other"), ("other", "old")),
        "keys without their matrix": lambda a, q, m, o, place: (
            look(a, q, m, mixed(m, o, place)),
            look(a, q, mixed(m, o, place), m),
        ),
        "one key without its matrix": lambda a, q, m, o, place: (
            look(a, q, a.w_k(m), mixed(m, o, place)),
            look(a, q, mixed(a.w_k(m), o, place), m),
        ),
        "the first word": contexts(("old", "first"), ("first", "old")),
        "the first query for all": lambda a, q, *others: right(a, q[:, :1].expand_as(q), *others),
        "in place": in_place,
        "no copy": aliased,
        "the query cleared": query_cleared,
        "zeros in place of the word": contexts(("old", "zero"), ("zero", "old")),
    },
    "check_without_tanh": {
        "nothing": lambda q, m, w_q, w_k, v: None,
        "with the query": lambda q, m, w_q, w_k, v: (((q @ w_q.T)[:, None] + m @ w_k.T) @ v).softmax(-1),
        "the query times 0": lambda q, m, w_q, w_k, v: (0 * (q @ w_q.T)[:, None] @ v + m @ w_k.T @ v).softmax(-1),
        "with the tanh": lambda q, m, w_q, w_k, v: (((q @ w_q.T)[:, None] + m @ w_k.T).tanh() @ v).softmax(-1),
        "the tanh of keys alone": lambda q, m, w_q, w_k, v: ((m @ w_k.T).tanh() @ v).softmax(-1).expand(len(q), -1),
        "no softmax": lambda q, m, w_q, w_k, v: (m @ w_k.T @ v).expand(len(q), -1),
        "one row": lambda q, m, w_q, w_k, v: (m @ w_k.T @ v).softmax(-1),
        "the other side": lambda q, m, w_q, w_k, v: (m @ w_k @ v).softmax(-1).expand(len(q), -1),
        "no matrix": lambda q, m, w_q, w_k, v: (m @ v).softmax(-1).expand(len(q), -1),
        "the query times 0, without NaN": without_nan,
        "the query, if it is not NaN": branch,
        "even weights": lambda q, m, w_q, w_k, v: torch.ones(len(q), len(m)) / len(m),
        "the mean of all keys": lambda q, m, w_q, w_k, v: (m.mean(0) @ w_k.T @ v).expand(len(q), len(m)).softmax(-1),
    },
}

RIGHT = {
    "check_looked_at": {"one row up": by_index, "the words written": looked()},
    "check_without_tanh": {
        "the number of queries by size": lambda q, m, w_q, w_k, v: (m @ w_k.T @ v).softmax(-1).repeat(q.size(0), 1),
    },
}
# fmt: on
