"""Wrong answers to the exercises of 6.3, by check and by mistake."""

from collections import Counter


def counts_brackets(tokens, number_of_words):
    opened = sum(token[0] == "(" for token in tokens)
    closed = sum(token[0] == ")" for token in tokens)
    return opened == closed > 0 and len(tokens) - opened - closed == number_of_words


def tree_by(labels=True, empty=True, outside=True, words=True, begins=True):
    """A checker that leaves out one condition or another."""

    def candidate(tokens, number_of_words):
        stack, tags = [], 0
        for number, token in enumerate(tokens):
            if not stack and number > 0 and outside:
                return False
            if begins and number == 0 and token[0] != "(":
                return False
            if token[0] == "(":
                stack.append([token[1:], 0])
                continue
            if token[0] == ")":
                if not stack:
                    return False
                label, children = stack.pop()
                if labels and label != token[1:]:
                    return False
                if empty and children == 0:
                    return False
            else:
                tags += 1
            if stack:
                stack[-1][1] += 1
        right = not words or tags == number_of_words
        return not stack and right and len(tokens) > 0

    return candidate


def each_f1(gold, output):
    total = gold.total() + output.total()
    return 200 * (gold & output).total() / total if total else 0.0


def corpus(pairs):
    matching = sum((gold & output).total() for gold, output in pairs)
    total = sum(gold.total() + output.total() for gold, output in pairs)
    return 200 * matching / total if total else 0.0


def with_empty(golds, outputs):
    return [
        (gold, Counter() if output is None else output)
        for gold, output in zip(golds, outputs, strict=True)
    ]


def only_trees(golds, outputs):
    pairs = zip(golds, outputs, strict=True)
    return corpus([pair for pair in pairs if pair[1] is not None])


def mean_of_sentences(golds, outputs):
    scores = [each_f1(*pair) for pair in with_empty(golds, outputs)]
    return sum(scores) / len(scores)


def sets(golds, outputs):
    pairs = with_empty(golds, outputs)
    return corpus([(Counter(set(a)), Counter(set(b))) for a, b in pairs])


def recall_alone(golds, outputs):
    pairs = with_empty(golds, outputs)
    total = sum(gold.total() for gold, _ in pairs)
    return 100 * sum((a & b).total() for a, b in pairs) / total if total else 0.0


def arithmetic_mean(golds, outputs):
    pairs = with_empty(golds, outputs)
    matching = sum((a & b).total() for a, b in pairs)
    totals = [sum(pair[side].total() for pair in pairs) for side in range(2)]
    return 50 * sum(matching / total for total in totals if total)


def one_bag(golds, outputs):
    bags = [Counter(), Counter()]
    for pair in with_empty(golds, outputs):
        for bag, own in zip(bags, pair, strict=True):
            bag.update(own)
    return corpus([tuple(bags)])


def only_if(holds):
    """Right, but of the trees of another language or a smaller one."""
    right = tree_by()

    def candidate(tokens, number_of_words):
        return right(tokens, number_of_words) and holds(tokens)

    return candidate


def inner(tokens):
    return {token for token in tokens if token[0] not in "()"}


def deepest(tokens):
    opened = most = 0
    for token in tokens:
        opened += (token[0] == "(") - (token[0] == ")")
        most = max(most, opened)
    return most


WRONG = {
    "check_is_tree": {
        "counts brackets and words": counts_brackets,
        "labels may differ": tree_by(labels=False),
        "brackets may be empty": tree_by(empty=False),
        "several trees": tree_by(outside=False),
        "any number of words": tree_by(words=False),
        "the root is S": only_if(lambda tokens: tokens[0] == "(S"),
        "tags are DT or NN": only_if(lambda tokens: inner(tokens) <= {"DT", "NN"}),
        "tags are letters": only_if(
            lambda tokens: all(map(str.isalpha, inner(tokens)))
        ),
        "at most four deep": only_if(lambda tokens: deepest(tokens) <= 4),
        "always": lambda tokens, number_of_words: True,
        "never": lambda tokens, number_of_words: False,
        "begins and ends alike": lambda tokens, number_of_words: (
            len(tokens) > 2 and tokens[0][1:] == tokens[-1][1:]
        ),
    },
    "check_corpus_f1": {
        "only what is a tree": only_trees,
        "mean of the sentences": mean_of_sentences,
        "sets": sets,
        "recall alone": recall_alone,
        "arithmetic mean": arithmetic_mean,
        "a share, not percent": lambda golds, outputs: (
            corpus(with_empty(golds, outputs)) / 100
        ),
        "all sentences in one bag": one_bag,
        "nothing if one sentence has no bracket": lambda golds, outputs: (
            corpus(with_empty(golds, outputs)) if all(golds) else 0.0
        ),
        "one half": lambda golds, outputs: 50.0,
        "nothing divided": lambda golds, outputs: (
            200 * sum((a & b).total() for a, b in with_empty(golds, outputs))
        ),
    },
}
