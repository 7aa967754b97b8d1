"""Wrong answers to the exercises of 6.3, by check and by mistake."""

from collections import Counter

from transformer_lite.parsing.trees import NotATreeError, tree_of


def allowed_by(left_only=True, label=True, empty=True, outermost=True):
    """The rules of the story, without one or another."""

    def candidate(tokens, words, labels):
        stack, left = [], list(words)
        for token in tokens:
            if token[0] == "(":
                stack.append(token[1:])
            elif token[0] == ")":
                stack.pop()
            else:
                left.pop(0)
        allowed = set()
        if (stack or not tokens) and (left or not left_only):
            allowed |= {f"({name}" for name in labels}
        if left and stack:
            allowed.add(left[0])
        is_empty = empty and bool(tokens) and tokens[-1][0] == "("
        if stack and not is_empty and (len(stack) > 1 or not left or not outermost):
            allowed |= {f"){name}" for name in (stack[-1:] if label else labels)}
        return allowed

    return candidate


def words_by(is_word):
    """The rules, for answers that tell words from brackets in another way."""

    def candidate(tokens, words, labels):
        stack, left = [], list(words)
        for token in tokens:
            if is_word(token):
                left.pop(0)
            elif token[0] == "(":
                stack.append(token[1:])
            else:
                stack.pop()
        allowed = set()
        if left and (stack or not tokens):
            allowed |= {f"({name}" for name in labels}
        if left and stack:
            allowed.add(left[0])
        is_empty = bool(tokens) and tokens[-1][0] == "("
        if stack and not is_empty and (len(stack) > 1 or not left):
            allowed.add(f"){stack[-1]}")
        return allowed

    return candidate


def not_at_depth(*depths):
    """Forbids new phrases while so many are open."""

    def candidate(tokens, words, labels):
        allowed = allowed_by()(tokens, words, labels)
        deep = sum({"(": 1, ")": -1}.get(token[0], 0) for token in tokens)
        return {one for one in allowed if one[0] != "(" or deep not in depths}

    return candidate


def with_limit(in_a_row=200, most=200):
    """A rule that lets so many brackets open, one after the other or in all."""

    def candidate(tokens, words, labels):
        allowed = allowed_by()(tokens, words, labels)
        is_full = sum(token[0] == "(" for token in tokens) >= most
        last = tokens[-in_a_row:]
        is_full |= len(last) == in_a_row and all(token[0] == "(" for token in last)
        return {token for token in allowed if not (is_full and token[0] == "(")}

    return candidate


def by_trial(tokens, words, labels):
    """Ask the package whether a tree is still possible."""
    allowed = set()
    for token in [*words, *(f"{side}{label}" for side in "()" for label in labels)]:
        begun, stack = [*tokens, token], []
        for one in begun:
            if one[0] == "(":
                stack.append(f"){one[1:]}")
            elif one[0] == ")" and stack:
                stack.pop()
        left = words[sum(one[0] not in "()" for one in begun) :]
        try:
            tree_of([*begun, *left, *reversed(stack)], words, with_words=True)
        except NotATreeError:
            continue
        allowed.add(token)
    return allowed


def outermost_by_label(tokens, words, labels):
    """Take every phrase with the outermost one's label for the outermost one."""
    allowed = allowed_by()(tokens, words, labels)
    is_left = sum(token[0] not in "()" for token in tokens) < len(words)
    return allowed - {f"){tokens[0][1:]}"} if tokens and is_left else allowed


def then(x_after_a, x_after_b):
    """The second token's probabilities, by the first."""
    each = {"a": x_after_a, "b": x_after_b}
    return {token: {"x": x, "y": 1 - x} for token, x in each.items()}


def f1(overlap):
    """The mended score, with another way to count what is right."""

    def candidate(golds, outputs):
        outputs = [output or Counter() for output in outputs]
        right = sum(map(overlap, golds, outputs))
        return 200 * right / sum(part.total() for part in (*golds, *outputs))

    return candidate


CLOSE = {"a": 0.502, "b": 0.498}

# fmt: off
WRONG = {
    "check_corpus_f1": {
        "different phrases": f1(lambda gold, output: len(gold & output)),
        "sets": f1(lambda gold, output: len({*gold} & {*output})),
        "an output that is no tree is left out": lambda golds, outputs: f1(lambda g, o: (g & o).total())(
            *zip(*(pair for pair in zip(golds, outputs, strict=True) if pair[1] is not None), strict=True)
        ),
    },
    "check_attachment_scores": {
        "precision and recall exchanged": lambda: (600 / 7, 100, 1200 / 13),
        "the arithmetic mean": lambda: (100, 600 / 7, (100 + 600 / 7) / 2),
        "the sentence's bracket does not count": lambda: (100, 500 / 6, 1000 / 11),
        "words count as phrases": lambda: (100, 1300 / 14, 2600 / 27),
        "shares instead of percent": lambda: (1, 6 / 7, 12 / 13),
        "each number is rounded wrongly": lambda: (99.9, 85.8, 92.4),
        "one number": lambda: 1200 / 13,
    },
    "check_may_follow": {
        "opens phrases for which no word is left": allowed_by(left_only=False),
        "closes with any label": allowed_by(label=False),
        "closes empty phrases": allowed_by(empty=False),
        "closes the outermost phrase too early": allowed_by(outermost=False),
        "finds the outermost phrase by its label": outermost_by_label,
        "begins a second tree": lambda tokens, words, labels: (
            allowed_by()(tokens, words, labels) or {f"({name}" for name in labels}
        ),
        "words have only letters": words_by(str.isalpha),
        "words have only small letters": words_by(str.islower),
        "words have letters or are a full stop": words_by(lambda token: token.isalpha() or token == "."),
        "words have one or two characters": words_by(lambda token: len(token) <= 2 and token[0] not in "()"),
        "no phrases at depths 5 to 8": not_at_depth(5, 6, 7, 8),
        "no phrases at depth 11": not_at_depth(11),
        "keeps the limit of eight": with_limit(in_a_row=8),
        "lets 13 open in a row": with_limit(in_a_row=13),
        "no phrases at depth 13": not_at_depth(13),
        "keeps the limit of 149": with_limit(most=149),
        "a limit of 151": with_limit(most=151),
        "asks the package": by_trial,
        "asks the package in a function of its own": lambda *given: (lambda: by_trial(*given))(),
        "the labels are fixed": lambda tokens, words, _: allowed_by()(tokens, words, ["S", "NP", "VP"]),
        "the labels of the treebank": lambda tokens, words, _: allowed_by()(tokens, words, ["S", "NP", "VP", "QP"]),
        "a list": lambda *given: sorted(allowed_by()(*given)),
        "words in any order": lambda tokens, words, labels: (
            allowed_by()(tokens, words, labels)
            | (set(words) if allowed_by()(tokens, words, labels) & {*words} else set())
        ),
        "nothing": lambda *_: set(),
    },
    "check_missed_tree": {
        "the likeliest tree is found": lambda: ({"a": 0.6, "b": 0.4}, then(0.9, 0.1), {"a": 0.54 / 0.58, "b": 0.04 / 0.58}),
        "both trees are equally likely": lambda: ({"a": 0.6, "b": 0.4}, then(0.4, 0.6), {"a": 0.5, "b": 0.5}),
        "the first tokens are equally likely": lambda: ({"a": 0.5, "b": 0.5}, then(0.1, 0.9), {"a": 0.1, "b": 0.9}),
        "made to sum to 1 at each step": lambda: ({"a": 0.6, "b": 0.4}, then(0.1, 0.9), {"a": 0.6, "b": 0.4}),
        "the model's own probabilities": lambda: ({"a": 0.6, "b": 0.4}, then(0.1, 0.9), {"a": 0.06, "b": 0.36}),
        "a step that does not sum to 1": lambda: ({"a": 0.6, "b": 0.4}, {"a": {"x": 0.1, "y": 0.1}, "b": {"x": 0.9, "y": 0.1}}, {"a": 0.06 / 0.42, "b": 0.36 / 0.42}),
        "a negative probability": lambda: ({"a": 1.4, "b": -0.4}, then(0.9, 0.1), {"a": 1, "b": 0}),
        "a third token, the likeliest": lambda: (
            {"a": 0.2, "b": 0.15, "c": 0.65}, {**then(0.1, 0.9), "c": {"x": 0.9, "y": 0.1}}, {"a": 0.02 / 0.155, "b": 0.135 / 0.155}
        ),
        "a third token after a": lambda: (
            {"a": 0.6, "b": 0.4}, then(0.1, 0.9) | {"a": {"x": 0.1, "y": 0.2, "z": 0.7}}, {"a": 0.06 / 0.42, "b": 0.36 / 0.42}
        ),
        "made to sum to 1, with close numbers": lambda: (CLOSE, then(0.5, 0.508), CLOSE),
        "the model's own, with close numbers": lambda: (CLOSE, then(0.99, 1.0), {"a": 0.497, "b": 0.498}),
        "the second step's probabilities": lambda: (CLOSE, then(0.4, 0.6), {"a": 0.4, "b": 0.6}),
        "the same, with other numbers": lambda: ({"a": 0.51, "b": 0.49}, then(0.001, 0.999), {"a": 0.001, "b": 0.999}),
        "the winner gets 1": lambda: ({"a": 0.9, "b": 0.1}, then(0.0, 0.5), {"a": 0, "b": 1}),
        "no shares": lambda: ({"a": 0.6, "b": 0.4}, then(0.1, 0.9)),
    },
}

RIGHT = {
    "check_missed_tree": {
        "trees by name": lambda: ({"a": 0.6, "b": 0.4}, then(0.1, 0.9), {"ax": 0.143, "bx": 0.857}),
        "close at first": lambda: ({"a": 0.55, "b": 0.45}, then(0.1, 0.9), {"a": 0.055 / 0.46, "b": 0.405 / 0.46}),
        "nearly certain at first": lambda: ({"a": 0.9, "b": 0.1}, then(0.1, 0.95), {"a": 0.09 / 0.185, "b": 0.095 / 0.185}),
    },
}
# fmt: on
