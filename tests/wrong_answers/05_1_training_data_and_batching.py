"""Wrong answers to the exercises of 5.1, by check and by mistake."""


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


# fmt: off
WRONG = {
    "check_overweight": {
        "the share of the step": lambda tokens: [n / sum(tokens) for n in tokens],
        "upside down": lambda tokens: [n * len(tokens) / sum(tokens) for n in tokens],
        "without the number of batches": lambda tokens: [sum(tokens) / n for n in tokens],
        "the weight, not the factor": lambda tokens: [1 / n / len(tokens) for n in tokens],
        "two batches always": lambda tokens: [sum(tokens) / 2 / n for n in tokens],
        "in order of size": lambda tokens: [sum(tokens) / len(tokens) / n for n in sorted(tokens, reverse=True)],
        "one number": lambda tokens: [sum(tokens) / len(tokens) / min(tokens)],
        "equal batches counted once": lambda tokens: [sum(set(tokens)) / len(set(tokens)) / n for n in tokens],
        "rounded": lambda tokens: [round(sum(tokens) / len(tokens) / n, 2) for n in tokens],
        "nothing": lambda tokens: None,
        "lists of unequal length": lambda tokens: [[1.0], [1.0, 2.0]],
    },
    "check_cut_word": {
        "the longest piece first": longest_first,
        "the longest piece first, from the end": lambda word, learned: longest_first(word, learned, from_the_end=True),
        "the merges by length": lambda word, learned: in_order(word, sorted(learned, key=len)),
        "the longest merges first": lambda word, learned: in_order(word, sorted(learned, key=len, reverse=True)),
        "the merges in alphabetical order": lambda word, learned: in_order(word, sorted(learned)),
        "each merge at one place only": lambda word, learned: in_order(word, learned, places=1),
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
}
# fmt: on
