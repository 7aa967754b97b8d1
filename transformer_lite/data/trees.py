"""Constituency trees: read, normalized, written as tokens, read back from them.

A tree becomes a sequence as Vinyals et al. (2015, "Grammar as a Foreign Language")
write it, and the paper after them: brackets with their labels, and in the place of each
word its part-of-speech tag. "The dog sleeps." becomes

    (S (NP DT NN )NP (VP VBZ )VP . )S

so that parsing is translation, from words into the language of trees.

Paper: §6.3
Chapter: 06_3_english_constituency_parsing
Tests: tests/data/test_trees.py
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

TREES = "trees"
"""Stands where a corpus has the code of its target language."""

DROPPED_TAG = "XX"
"""What Vinyals et al. (2015) write in the place of every part-of-speech tag."""

ROOTS = {"", "TOP", "ROOT", "S1"}
"""How treebanks label the outermost bracket, which says nothing about the sentence."""

_PIECE = re.compile(r"[()]|[^\s()]+")
_LABEL = re.compile(r"-[^-]+-|[^-=|]+")
_TOKEN = re.compile(r"[()]?[^\s()]+")


@dataclass(frozen=True)
class Tree:
    """A constituent, whose children are trees, or a tag, whose child is its word."""

    label: str
    """Category of the constituent, such as "NP", or the tag, such as "DT"."""
    children: "tuple[Tree | str, ...]"

    @property
    def is_tag(self) -> bool:
        """Whether this is a part-of-speech tag with its word."""
        return isinstance(self.children[0], str)

    def __str__(self) -> str:
        """The tree in brackets, on one line: (NP (DT the) (NN dog))."""
        parts: list[str] = []
        # Without recursion: what a model says may be a thousand brackets deep.
        stack: list[Tree | str] = [self]
        while stack:
            match stack.pop():
                case str() as text:
                    parts.append(text)
                case Tree(label, (str() as word,)):
                    parts.append(f" ({label} {word})")
                case node:
                    parts.append(f" ({node.label}")
                    stack += [")", *reversed(node.children)]
        return "".join(parts).lstrip()

    def tags(self) -> "list[Tree]":
        """The tags with their words, in the sentence's order."""
        stack, found = [self], []
        while stack:
            node = stack.pop()
            if node.is_tag:
                found.append(node)
            else:
                stack += reversed(node.children)
        return found

    def words(self) -> list[str]:
        """The words of the sentence."""
        return [tag.children[0] for tag in self.tags()]


@dataclass
class _Open:
    """A bracket that is not closed yet."""

    place: str
    label: str = ""
    children: list = field(default_factory=list)


def read_trees(lines: Iterable[str], name: str) -> Iterator[tuple[int, Tree]]:
    """Yield the trees of a text in brackets, each with the line where it begins.

    A tree may go over several lines, and a line may have several trees. The outermost
    bracket may have no label, as in `( (S …))` and `((S …))`. Characters are composed
    (Unicode's NFC). Words under one tag are one word: no tag has two, but some of
    CRAFT's names have a space in them.

    Args:
        lines: The text.
        name: Its name, for errors.

    Raises:
        ValueError: A bracket is missing, or something else is no tree; the message
            names line and column.
    """
    stack: list[_Open] = []
    first = 0
    for number, line in enumerate(lines, start=1):
        for match in _PIECE.finditer(unicodedata.normalize("NFC", line)):
            place = f"{name}, line {number}, column {match.start() + 1}"
            match match[0]:
                case "(":
                    first = first if stack else number
                    stack.append(_Open(place))
                case ")" if stack:
                    node = _closed(stack.pop(), is_root=not stack)
                    if not stack:
                        yield first, node
                    else:
                        stack[-1].children.append(node)
                case ")":
                    raise ValueError(
                        f"{place}: this bracket closes nothing; a bracket that opens "
                        "is missing before it, or remove it"
                    )
                case word if not stack:
                    raise ValueError(
                        f"{place}: {word!r} stands outside all brackets; a bracket is "
                        "missing, or this is no file of trees"
                    )
                case label if not stack[-1].label and not stack[-1].children:
                    stack[-1].label = label
                case word:
                    stack[-1].children.append(word)
    if stack:
        raise ValueError(
            f"{stack[0].place}: this bracket is never closed; the tree that begins "
            f"here lacks {len(stack)} closing brackets"
        )


def _closed(bracket: _Open, is_root: bool) -> Tree:
    """The tree of a bracket that is closed."""
    words = [child for child in bracket.children if isinstance(child, str)]
    problem = None
    if not bracket.children:
        problem = "this bracket holds nothing"
    elif not bracket.label and not is_root:
        problem = "this bracket has no label"
    elif words and len(words) < len(bracket.children):
        problem = f"the word {words[0]!r} stands beside brackets, without a tag"
    if problem:
        raise ValueError(f"{bracket.place}: {problem}; mend or remove this tree")
    children = ("".join(words),) if words else tuple(bracket.children)
    return Tree(bracket.label, children)


def normalized(tree: Tree) -> Tree | None:
    """The tree as parsers are trained and scored on it; None if no word is left.

    Functions and indices are cut off the labels (NP-SBJ-1 is NP), traces (-NONE-) and
    what is empty without them are removed. The root's label goes if one constituent
    stands under it; a tree that has none or several keeps a root, TOP.
    """
    stripped = _without_traces(tree)
    if stripped is None:
        return None
    if not stripped.is_tag and tree.label not in ROOTS:
        return stripped
    children = (stripped,) if stripped.is_tag else stripped.children
    if len(children) == 1 and not children[0].is_tag:
        return children[0]
    return Tree("TOP", children)


def _without_traces(tree: Tree) -> Tree | None:
    nodes = [tree]
    for node in nodes:  # without recursion, and it finds what it has added
        if not node.is_tag:
            nodes += node.children
    stripped: dict[int, Tree | None] = {}
    for node in reversed(nodes):  # children before their parents
        children = node.children
        if not node.is_tag:
            found = (stripped[id(child)] for child in children)
            children = tuple(child for child in found if child is not None)
        cut = _LABEL.match(node.label)
        label = cut[0] if cut else node.label  # "-" is the tag of a hyphen
        is_left = children and node.label != "-NONE-"
        stripped[id(node)] = Tree(label, children) if is_left else None
    return stripped[id(tree)]


def linearized(tree: Tree) -> list[str]:
    """The tree's tokens, words left out: (S (NP DT NN )NP (VP VBZ )VP )S."""
    tokens: list[str] = []
    stack: list[Tree | str] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            tokens.append(node)
        elif node.is_tag:
            tokens.append(node.label)
        else:
            tokens.append(f"({node.label}")
            stack += [f"){node.label}", *reversed(node.children)]
    return tokens


def tokens_with_tags(text: str) -> list[str]:
    """The tokens of a linearized tree."""
    return text.split(" ")


def tokens_without_tags(text: str) -> list[str]:
    """The same with XX for every tag, as Vinyals et al. (2015) have it."""
    tokens = tokens_with_tags(text)
    return [token if token[0] in "()" else DROPPED_TAG for token in tokens]


class NotATreeError(ValueError):
    """A sequence of tokens is no tree over its words.

    Args:
        kind: What is wrong, in words that can be counted.
        detail: Where.
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind} ({detail})")
        self.kind = kind


def tree_of(tokens: Sequence[str], words: Sequence[str]) -> Tree:
    """The tree that these tokens make of these words.

    Args:
        tokens: As `linearized` gives them, with any tags.
        words: One for each tag.

    Raises:
        NotATreeError: They are no tree. Nothing is repaired.
    """
    stack: list[tuple[str, list[Tree]]] = [("", [])]
    rest = iter(words)
    for number, token in enumerate(tokens, start=1):
        here = f"token {number}, {token}"
        if not _TOKEN.fullmatch(token):
            raise NotATreeError("neither a bracket nor a tag", here)
        if len(stack) == 1 and (stack[0][1] or token[0] != "("):
            raise NotATreeError("something outside the outermost bracket", here)
        if token[0] == "(":
            stack.append((token[1:], []))
        elif token[0] == ")":
            label, children = stack.pop()
            if label != token[1:]:
                raise NotATreeError(
                    "a bracket that closes another", f"{here}, ({label}"
                )
            if not children:
                raise NotATreeError("a bracket around nothing", here)
            stack[-1][1].append(Tree(label, tuple(children)))
        else:
            word = next(rest, None)
            if word is None:
                raise NotATreeError(
                    "more tags than words", f"{here}; {len(words)} words"
                )
            stack[-1][1].append(Tree(token, (word,)))
    if len(stack) > 1:
        raise NotATreeError("a bracket that is never closed", f"({stack[-1][0]}")
    if not stack[0][1]:
        raise NotATreeError("nothing at all", "no token")
    if (left := sum(1 for _ in rest)) > 0:
        raise NotATreeError("fewer tags than words", f"{left} words are left")
    return stack[0][1][0]


def words_of(sentence: str) -> list[str]:
    """The words of a tokenized sentence as treebanks write them: brackets as -LRB-."""
    text = unicodedata.normalize("NFC", sentence)
    return text.replace("(", "-LRB-").replace(")", "-RRB-").split()
