"""A translator into the language of trees, as a parser: sentences in, trees out.

Paper: §6.3
Chapter: 06_3_english_constituency_parsing
Tests: tests/inference/test_parser.py
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from transformer_lite.data.trees import NotATreeError, tree_of, words_of
from transformer_lite.inference.translator import Translator


def parse(
    translator: Translator,
    lines: Iterable[str],
    warn: Callable[[str], None],
    with_words: bool = False,
    at_once: int | None = None,
) -> Iterator[str]:
    """Yield each sentence's tree in brackets, in order; empty where there is none.

    Args:
        translator: One that was trained on a treebank.
        lines: Tokenized sentences, with spaces between words and punctuation; brackets
            become -LRB- and -RRB-, as treebanks have them.
        warn: Called with a message for each line that is too long, or whose output is
            no tree. Nothing is repaired.
        with_words: Whether it writes trees with their words.
        at_once: As for `Translator.stream`.
    """
    waiting: deque[list[str]] = deque()
    too_long: set[str] = set()

    def warn_of_long(message: str) -> None:
        too_long.add(message.partition(":")[0])
        warn(message)

    def sentences() -> Iterator[str]:
        for line in lines:
            waiting.append(words_of(line))
            yield " ".join(waiting[-1])

    outputs = translator.stream(sentences(), warn_of_long, at_once)
    for number, output in enumerate(outputs, start=1):
        words, tree = waiting.popleft(), ""
        if words and f"line {number}" not in too_long:
            try:
                tree = str(tree_of(output.split(), words, with_words))
            except NotATreeError as error:
                warn(f"line {number}: the output is no tree: {error}")
        yield tree
