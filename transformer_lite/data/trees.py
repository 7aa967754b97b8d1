"""Constituency trees: read, normalized, written as tokens, read back from them.

Parsing is translation, from words into the language of trees. A tree can be written
with tags or with words. Vinyals et al. (2015, "Grammar as a Foreign Language"), and the
paper after them, write a part-of-speech tag for each word. Choe and Charniak (2016,
"Parsing as Language Modeling") write the word itself. "The dog sleeps." becomes

    (S (NP DT NN )NP (VP VBZ )VP . )S
    (S (NP The dog )NP (VP sleeps )VP . )S

Paper: §6.3
Chapter: 06_3_english_constituency_parsing
Tests: tests/data/test_trees.py
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

TREES = "trees"
"""Code of the target language of a corpus whose trees are written with tags."""

TREES_WITH_WORDS = "trees-with-words"
"""Code of the target language of a corpus whose trees are written with words."""

ROOTS = {"", "TOP", "ROOT", "S1"}
"""How treebanks label the outermost bracket, which says nothing about the sentence."""

_MORE_TAGS, _FEWER_TAGS = "more tags than words", "fewer tags than words"

_PIECE = re.compile(r"[()]|[^\s()]+")
_LABEL = re.compile(r"-[^-]+-|[^-=|]+")
_TOKEN = re.compile(r"\)|[()]?[^\s()]+")


@dataclass(frozen=True)
class Tree:
    """A constituent, whose children are trees, or a tag, whose child is its word."""

    label: str
    """Category of the constituent, such as "NP", or the tag, such as "DT"; empty for a
    word whose tag is not known."""
    children: "tuple[Tree | str, ...]"

    @property
    def is_tag(self) -> bool:
        """Whether this is a part-of-speech tag with its word."""
        return isinstance(self.children[0], str)

    def __str__(self) -> str:
        """Write the tree in brackets, on one line: (NP (DT the) (NN dog))."""
        parts: list[str] = []
        # Without recursion: what a model says may be a thousand brackets deep.
        stack: list[Tree | str] = [self]
        while stack:
            match stack.pop():
                case str() as text:
                    parts.append(text)
                case Tree("", (str() as word,)):
                    parts.append(f" {word}")
                case Tree(label, (str() as word,)):
                    parts.append(f" ({label} {word})")
                case node:
                    parts.append(f" ({node.label}")
                    stack += [")", *reversed(node.children)]
        return "".join(parts).lstrip()

    def tags(self) -> "list[Tree]":
        """List the tags with their words, in the sentence's order."""
        stack, found = [self], []
        while stack:
            node = stack.pop()
            if node.is_tag:
                found.append(node)
            else:
                stack += reversed(node.children)
        return found

    def words(self) -> list[str]:
        """List the words of the sentence."""
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
    """Make the tree of a bracket that is closed."""
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
    """Return the tree that parsers are trained and scored on; None if no word is left.

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
    """Return the tree's tokens with tags: (S (NP DT NN )NP (VP VBZ )VP )S."""
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


@dataclass(frozen=True)
class TreeForm:
    """How a model writes trees."""

    leaves: Literal["tags", "XX", "words"] = "tags"
    """What stands for each word: its tag, XX, or the word itself."""
    closing_labels: bool = True
    """Whether a closing bracket has the label of the constituent that it ends."""

    @property
    def language(self) -> str:
        """What stands where a corpus has the code of its target language."""
        return TREES_WITH_WORDS if self.leaves == "words" else TREES

    def tokens(self, sentence: str, tree: str) -> list[str]:
        """Write a tree in this form.

        Args:
            sentence: Its words, with spaces between them.
            tree: Its tokens with tags, with spaces between them.
        """
        words = iter(sentence.split(" "))
        return [
            self._bracket(token) if token[0] in "()" else self._leaf(token, next(words))
            for token in tree.split(" ")
        ]

    def _bracket(self, token: str) -> str:
        return ")" if token[0] == ")" and not self.closing_labels else token

    def _leaf(self, tag: str, word: str) -> str:
        return {"tags": tag, "XX": "XX", "words": word}[self.leaves]

    def symbols(self, tokens: Sequence[str]) -> list[str]:
        """Return the tokens that a vocabulary should keep whole: all but words."""
        if self.leaves != "words":
            return [*tokens]
        return [token for token in tokens if token[0] in "()"]


class NotATreeError(ValueError):
    """A sequence of tokens is no tree over its words.

    Args:
        kind: What is wrong, in words that can be counted.
        detail: Where.
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind} ({detail})")
        self.kind = kind


def tree_of(
    tokens: Sequence[str], words: Sequence[str], with_words: bool = False
) -> Tree:
    """Read the tree over a sentence's words from its tokens.

    Args:
        tokens: As `linearized` gives them, with any tags. A closing bracket may have a
            label or none.
        words: The sentence.
        with_words: Whether the tokens hold the words themselves and no tags.

    Raises:
        NotATreeError: They are no tree. Nothing is repaired.
    """
    rest = iter(words)

    def leaf(token: str, here: str) -> Tree:
        word = next(rest, None)
        if word is None:
            kind = "more words than the sentence" if with_words else _MORE_TAGS
            raise NotATreeError(kind, f"{here}; {len(words)} words")
        if with_words and token != word:
            raise NotATreeError("another word", f"{here}; the sentence has {word}")
        return Tree("" if with_words else token, (word,))

    stack: list[tuple[str, list[Tree]]] = [("", [])]
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
            if token[1:] not in ("", label):
                raise NotATreeError(
                    "a bracket that closes another", f"{here}, ({label}"
                )
            if not children:
                raise NotATreeError("a bracket around nothing", here)
            stack[-1][1].append(Tree(label, tuple(children)))
        else:
            stack[-1][1].append(leaf(token, here))
    if len(stack) > 1:
        raise NotATreeError("a bracket that is never closed", f"({stack[-1][0]}")
    if not stack[0][1]:
        raise NotATreeError("nothing at all", "no token")
    if (left := sum(1 for _ in rest)) > 0:
        kind = "fewer words than the sentence" if with_words else _FEWER_TAGS
        raise NotATreeError(kind, f"{left} words are left")
    return stack[0][1][0]


def words_of(sentence: str) -> list[str]:
    """Return a sentence's words as treebanks write them: brackets as -LRB-."""
    text = unicodedata.normalize("NFC", sentence)
    return text.replace("(", "-LRB-").replace(")", "-RRB-").split()
