"""Trees are read as they are written, and come back from their tokens or not at all."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lite.parsing.trees import (
    NotATreeError,
    Tree,
    TreeForm,
    linearized,
    normalized,
    read_trees,
    tree_of,
    words_of,
)

DOG = "(S (NP (DT The) (NN dog)) (VP (VBZ sleeps)) (. .))"
WORDS = "The dog sleeps ."
WITH_TAGS = "(S (NP DT NN )NP (VP VBZ )VP . )S"
WITH_WORDS = "(S (NP The dog )NP (VP sleeps )VP . )S"

LABELS = st.sampled_from(["S", "NP", "VP", "PP", "WHADVP", "X"])
TAGS = st.sampled_from(["DT", "NN", "PRP$", ".", "``", "-LRB-", "$"])
# Random trees of several constituents.
TREES = st.recursive(
    st.builds(Tree, TAGS, st.tuples(st.text("abcé†-'.,$", min_size=1, max_size=5))),
    lambda nodes: st.builds(
        Tree, LABELS, st.lists(nodes, min_size=1, max_size=4).map(tuple)
    ),
    max_leaves=20,
).filter(lambda tree: not tree.is_tag)


def read(*lines):
    return [tree for _, tree in read_trees(lines, "x.mrg")]


def normal(text):
    (tree,) = read(text)
    return str(normalized(tree))


@settings(deadline=None)
@given(tree=TREES)
def test_a_tree_is_read_as_it_was_written(tree):
    assert read(str(tree)) == [tree]


def without_tags(tree):
    """The same tree with an empty tag on every word."""
    if tree.is_tag:
        return Tree("", tree.children)
    return Tree(tree.label, tuple(map(without_tags, tree.children)))


@settings(deadline=None)
@given(tree=TREES, closing_labels=st.booleans())
@pytest.mark.parametrize("leaves", ["tags", "words"])
def test_a_tree_comes_back_from_its_tokens(tree, leaves, closing_labels):
    form = TreeForm(leaves, closing_labels)
    tokens = form.tokens(" ".join(tree.words()), " ".join(linearized(tree)))
    found = tree_of(tokens, tree.words(), with_words=leaves == "words")
    assert found == (tree if leaves == "tags" else without_tags(tree))


@pytest.mark.parametrize(
    ("form", "tokens"),
    [
        (TreeForm(), WITH_TAGS),  # as Vinyals et al. write it
        (TreeForm("words"), WITH_WORDS),  # as Choe and Charniak
        (TreeForm("words", closing_labels=False), "(S (NP The dog ) (VP sleeps ) . )"),
    ],
)
def test_a_tree_has_the_tokens_of_its_form(form, tokens):
    (tree,) = read(DOG)
    found = form.tokens(" ".join(tree.words()), " ".join(linearized(tree)))
    assert " ".join(found) == tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"( {DOG} )", DOG),
        (f"({DOG})", DOG),
        (f"(TOP {DOG})", DOG),
        ("(TOP (NP (-NONE- *)) (VP (VB go)))", "(VP (VB go))"),
        ("(ROOT (UH Yes))", "(TOP (UH Yes))"),
        ("(UH Yes)", "(TOP (UH Yes))"),
        ("( (NP (NN a)) (. .))", "(TOP (NP (NN a)) (. .))"),
    ],
)
def test_a_root_goes_if_one_constituent_stands_under_it(text, expected):
    assert normal(text) == expected


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        *[("NP-SBJ-1", "NP"), ("NP=2", "NP"), ("PRT|ADVP", "PRT"), ("S-T-1=3", "S")],
        *[(tag, tag) for tag in ("-LRB-", "-RRB-", "PRP$", "-", ":", "``")],
    ],
)
def test_functions_and_indices_are_cut_off_labels(label, expected):
    assert normal(f"(S ({label} (NN a)) (NN b))") == f"(S ({expected} (NN a)) (NN b))"


def test_traces_and_what_is_empty_without_them_go():
    text = "(S (NP-SBJ (-NONE- *)) (VP (VB go) (SBAR (S (NP (-NONE- *T*-1))))))"
    assert normal(text) == "(S (VP (VB go)))"
    assert normal("( (S (NP (-NONE- *))))") == "None"


def test_a_tree_may_go_over_lines_and_a_line_may_have_several():
    lines = ["", "( (S", "    (NN a)", "  ) ) (NP (NN b)) (NP", " (NN c))"]
    found = [(number, str(tree)) for number, tree in read_trees(lines, "x.mrg")]
    assert found == [(2, "( (S (NN a)))"), (4, "(NP (NN b))"), (4, "(NP (NN c))")]


def test_characters_are_composed_and_a_name_with_a_space_is_one_word():
    (tree,) = read("(NP (NN cafe\u0301) (NN Xpd\u00a0†XP))")
    assert tree.words() == ["caf\u00e9", "Xpd†XP"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["(S (NN a))", "(S (NP (NN b))"], "line 2, column 1: .* never closed.* 1 clo"),
        (["(S (NN a)))"], "line 1, column 11: '\\)' closes nothing"),
        (["(S (NN a)) b"], "line 1, column 12: 'b' is outside all brackets"),
        (["(S (NP) (NN a))"], "line 1, column 4: this bracket is empty"),
        (["(S", " (NP the (NN a)))"], "line 2, column 2: the word 'the' stands beside"),
        (["(S ((NN a)))"], "line 1, column 4: this bracket has no label"),
        (["()"], "line 1, column 1: this bracket is empty"),
    ],
)
def test_what_is_no_tree_is_named_with_line_and_column(lines, message):
    with pytest.raises(ValueError, match=rf"^x\.mrg, {message}"):
        read(*lines)


@pytest.mark.parametrize(
    ("tokens", "kind"),
    [
        ("", "nothing at all"),
        ("(S (NP DT NN )NP VBZ .", "a bracket that is never closed"),
        ("(S DT NN VBZ )NP )S", "a bracket that closes another"),
        ("DT NN VBZ .", "something outside the outermost bracket"),
        ("(S DT NN )S (S VBZ . )S", "something outside the outermost bracket"),
        ("(S DT NN VBZ . NN )S", "more tags than words"),
        ("(S DT NN VBZ )S", "fewer tags than words"),
        ("(S (NP )NP DT NN VBZ . )S", "a bracket around nothing"),
        ("(S DT NN VB(Z . )S", "neither a bracket nor a tag"),
        ("( DT NN VBZ . )", "neither a bracket nor a tag"),
    ],
)
def test_a_sequence_that_is_no_tree_is_named(tokens, kind):
    with pytest.raises(NotATreeError, match=rf"^{kind} \(") as caught:
        tree_of(tokens.split(), WORDS.split())
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ("(S The cat sleeps . )S", r"another word \(token 3, cat; the .* has dog\)"),
        ("(S The dog sleeps . . )S", "more words than the sentence"),
        ("(S The dog sleeps )S", "fewer words than the sentence"),
    ],
)
def test_a_tree_over_other_words_is_named(tokens, message):
    with pytest.raises(NotATreeError, match=f"^{message}"):
        tree_of(tokens.split(), WORDS.split(), with_words=True)


@settings(deadline=None)
@given(tree=TREES, data=st.data())
def test_any_sequence_is_a_tree_over_its_words_or_named(tree, data):
    tokens = linearized(tree)
    places = st.integers(0, len(tokens) - 1)
    i, j = data.draw(places), data.draw(places)
    ways = [tokens[:i] + tokens[i + 1 :], tokens[:i] + tokens[j:], tokens + tokens[i:]]
    changed = data.draw(st.sampled_from(ways))
    try:
        found = tree_of(changed, tree.words())
    except NotATreeError:
        assert changed != tokens
    else:
        assert linearized(found) == changed
        assert found.words() == tree.words()


def test_a_tree_may_be_thousands_of_brackets_deep():
    ((_, tree),) = read_trees(["(S-1 " * 5000 + "(NN dog)" + ")" * 5000], "deep")
    tokens = ["(S"] * 5000 + ["NN"] + [")S"] * 5000
    assert linearized(normalized(tree)) == tokens
    found = tree_of(tokens, ["dog"])
    assert found.words() == ["dog"]
    assert str(found).count("(S") == 5000


def test_a_sentences_brackets_are_written_as_in_treebanks():
    found = words_of(" the dog (  cafe\u0301 ) f(x)\n")
    assert found == "the dog -LRB- caf\u00e9 -RRB- f-LRB-x-RRB-".split()
