"""Constituency trees: read, normalized, written as tokens and read back from tokens.

Parsing is translation, from words into the language of trees. A tree can be written
with tags or with words. Vinyals et al. (2015, "Grammar as a Foreign Language"), and the
paper after them, write a part-of-speech tag for each word. Choe and Charniak (2016,
"Parsing as Language Modeling") write the word itself. "The dog sleeps." becomes

    (S (NP DT NN )NP (VP VBZ )VP . )S
    (S (NP The dog )NP (VP sleeps )VP . )S

Paper: §6.3
Chapter: 06_3_english_constituency_parsing
Tests: tests/package/parsing/test_trees.py
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

_PIECE = re.compile(r"[()]|[^\s()]+")
_LABEL = re.compile(r"-[^-]+-|[^-=|]+")
_TOKEN = re.compile(r"\)|[()]?[^\s()]+")


@dataclass(frozen=True)
class Tree:
    """A constituent, whose children are trees, or a tag, whose child is its word."""

    label: str
    """Category of the constituent, such as "NP", or the tag, such as "DT"; empty if
    the word's tag is not known."""
    children: "tuple[Tree | str, ...]"

    @property
    def is_tag(self) -> bool:
        """Whether this is a part-of-speech tag with its word."""
        return isinstance(self.children[0], str)

    def walk(self) -> "Iterator[tuple[str, Tree]]":
        """Yield each constituent after "(" and again after ")", each tag after "".

        Without recursion: what a model writes may be a thousand brackets deep.
        """
        stack = [("(", self)]
        while stack:
            bracket, node = stack.pop()
            if node.is_tag:
                yield "", node
                continue
            yield bracket, node
            if bracket == "(":
                stack.append((")", node))
                stack += [("(", child) for child in reversed(node.children)]

    def __str__(self) -> str:
        """Write the tree in brackets, on one line: (NP (DT the) (NN dog))."""
        parts = []
        for bracket, node in self.walk():
            if node.is_tag:
                (word,) = node.children
                parts.append(f" ({node.label} {word})" if node.label else f" {word}")
            else:
                parts.append(f" ({node.label}" if bracket == "(" else ")")
        return "".join(parts).lstrip()

    def tags(self) -> "list[Tree]":
        """List the tags with their words, in the sentence's order."""
        return [node for _, node in self.walk() if node.is_tag]

    def words(self) -> list[str]:
        """List the words of the sentence."""
        return [tag.children[0] for tag in self.tags()]


@dataclass
class _Open:
    place: str
    label: str = ""
    children: list = field(default_factory=list)


def read_trees(lines: Iterable[str], name: str) -> Iterator[tuple[int, Tree]]:
    """Yield the trees of a text in brackets, each with the line where it begins.

    A tree may go over several lines, and a line may have several trees. The outermost
    bracket may have no label, as in `( (S …))` and `((S …))`. Characters are composed
    (Unicode's NFC). Several words under one tag become one word, since some names in
    CRAFT contain a space.

    Raises:
        ValueError: The text is not a sequence of trees; the message has the text's
            name, line and column.
    """
    stack: list[_Open] = []
    first = 0
    for number, line in enumerate(lines, start=1):
        for match in _PIECE.finditer(unicodedata.normalize("NFC", line)):
            piece = match[0]
            place = f"{name}, line {number}, column {match.start() + 1}"
            if piece == "(":
                first = first if stack else number
                stack.append(_Open(place))
            elif not stack:
                is_close = piece == ")"
                problem = "closes nothing" if is_close else "is outside all brackets"
                raise ValueError(
                    f"{place}: {piece!r} {problem}; insert the bracket that is missing "
                    "before it, or remove it"
                )
            elif piece == ")":
                node = _closed(stack.pop(), is_root=not stack)
                if stack:
                    stack[-1].children.append(node)
                else:
                    yield first, node
            elif stack[-1].label or stack[-1].children:
                stack[-1].children.append(piece)
            else:
                stack[-1].label = piece
    if stack:
        raise ValueError(
            f"{stack[0].place}: this bracket is never closed; the tree lacks "
            f"{len(stack)} closing brackets"
        )


def _closed(bracket: _Open, is_root: bool) -> Tree:
    words = [child for child in bracket.children if isinstance(child, str)]
    problem = None
    if not bracket.children:
        problem = "this bracket is empty"
    elif not bracket.label and not is_root:
        problem = "this bracket has no label"
    elif words and len(words) < len(bracket.children):
        problem = (
            f"the word {words[0]!r} stands beside brackets, without a tag; in Penn "
            f"style every word has a bracket with its tag, such as (NN {words[0]})"
        )
    if problem:
        raise ValueError(f"{bracket.place}: {problem}; mend or remove this tree")
    children = ("".join(words),) if words else tuple(bracket.children)
    return Tree(bracket.label, children)


def normalized(tree: Tree) -> Tree | None:
    """Return the tree that parsers are trained and scored on; None if no word is left.

    Functions and indices are cut off the labels (NP-SBJ-1 is NP). Traces (-NONE-) and
    what is empty without them are removed. The root's label goes if one constituent
    stands under it; a tree that has none or several keeps a root, TOP.
    """
    levels: list[list[Tree]] = [[]]  # the children read so far, from the root down
    for bracket, node in tree.walk():
        if bracket == "(":
            levels.append([])
            continue
        children = node.children if node.is_tag else tuple(levels.pop())
        if children and node.label != "-NONE-":
            cut = _LABEL.match(node.label)
            label = cut[0] if cut else node.label  # "-" is the tag of a hyphen
            levels[-1].append(Tree(label, children))
    if not levels[0]:
        return None
    (root,) = levels[0]
    if not root.is_tag and tree.label not in ROOTS:
        return root
    children = (root,) if root.is_tag else root.children
    if len(children) == 1 and not children[0].is_tag:
        return children[0]
    return Tree("TOP", children)


def linearized(tree: Tree) -> list[str]:
    """Return the tree's tokens with tags: (S (NP DT NN )NP (VP VBZ )VP )S."""
    return [bracket + node.label for bracket, node in tree.walk()]


@dataclass(frozen=True)
class TreeForm:
    """How a model writes trees."""

    leaves: Literal["tags", "words"] = "tags"
    """What stands for each word: its tag, or the word itself."""
    closing_labels: bool = True
    """Whether a closing bracket has the label of the constituent that it ends."""

    @property
    def language(self) -> str:
        """What stands where a corpus has the code of its target language."""
        return TREES_WITH_WORDS if self.leaves == "words" else TREES

    def tokens(self, sentence: str, tree: str) -> list[str]:
        """Write a tree in this form, given its words and its tokens with tags."""
        words, tokens = iter(sentence.split(" ")), []
        for token in tree.split(" "):
            if token[0] not in "()":
                word = next(words)
                token = word if self.leaves == "words" else token
            elif token[0] == ")" and not self.closing_labels:
                token = ")"
            tokens.append(token)
        return tokens

    def symbols(self, tokens: Sequence[str]) -> list[str]:
        """Return the tokens that a vocabulary should keep whole: all but words."""
        if self.leaves != "words":
            return [*tokens]
        return [token for token in tokens if token[0] in "()"]


class NotATreeError(ValueError):
    """A sequence of tokens is not a tree over the words of its sentence.

    Args:
        kind: What is wrong, in words that can be counted.
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind} ({detail})")
        self.kind = kind


def tree_of(
    tokens: Sequence[str], words: Sequence[str], with_words: bool = False
) -> Tree:
    """Read the tree over a sentence's words from its tokens.

    Args:
        tokens: As `linearized` gives them, with any tags; closing labels may lack.
        with_words: Whether the tokens hold the words themselves and no tags.

    Raises:
        NotATreeError: They are no tree. Nothing is repaired.
    """
    rest = iter(words)

    def leaf(token: str, here: str) -> Tree:
        word = next(rest, None)
        if word is None:
            kind = "words than the sentence" if with_words else "tags than words"
            raise NotATreeError(f"more {kind}", f"{here}; {len(words)} words")
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
                kind = "a bracket that closes another"
                raise NotATreeError(kind, f"{here}, ({label}")
            if not children:
                raise NotATreeError("a bracket around nothing", here)
            stack[-1][1].append(Tree(label, tuple(children)))
        else:
            stack[-1][1].append(leaf(token, here))
    if len(stack) > 1:
        raise NotATreeError("a bracket that is never closed", f"({stack[-1][0]}")
    if not stack[0][1]:
        raise NotATreeError("nothing at all", "no token")
    if left := len([*rest]):
        kind = "words than the sentence" if with_words else "tags than words"
        raise NotATreeError(f"fewer {kind}", f"{left} words are left")
    return stack[0][1][0]


def words_of(sentence: str) -> list[str]:
    """Return a sentence's words as treebanks write them: brackets as -LRB-."""
    text = unicodedata.normalize("NFC", sentence)
    return text.replace("(", "-LRB-").replace(")", "-RRB-").split()
