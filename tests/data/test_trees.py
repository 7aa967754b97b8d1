"""Trees are read as they are written, and come back from their tokens or not at all."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import trees

from transformer_lite.data.trees import (
    NotATreeError,
    linearized,
    normalized,
    read_trees,
    TreeForm,
    tree_of,
    words_of,
)

DOG = "(S (NP (DT The) (NN dog)) (VP (VBZ sleeps)) (. .))"
DOG_TOKENS = "(S (NP DT NN )NP (VP VBZ )VP . )S"

TREES = trees(
    labels=["S", "NP", "VP", "PP", "WHADVP", "X"],
    tags=["DT", "NN", "PRP$", ".", "``", "-LRB-", "$"],
    words=st.text("abcé†-'.,$", min_size=1, max_size=5),
)


def read(*lines):
    return [tree for _, tree in read_trees(lines, "x.mrg")]


def normal(text):
    (tree,) = read(text)
    return str(normalized(tree))


@settings(deadline=None)
@given(tree=TREES)
def test_a_tree_is_read_as_it_was_written(tree):
    assert read(str(tree)) == [tree]


@settings(deadline=None)
@given(tree=TREES)
def test_a_tree_comes_back_from_its_tokens(tree):
    assert tree_of(linearized(tree), tree.words()) == tree


def test_a_tree_has_its_words_and_tags():
    (tree,) = read(DOG)
    assert tree.words() == ["The", "dog", "sleeps", "."]
    assert [tag.label for tag in tree.tags()] == ["DT", "NN", "VBZ", "."]


@pytest.mark.parametrize(
    "text", [f"( {DOG} )", f"({DOG})", f"(TOP {DOG})", f"(ROOT {DOG})", DOG]
)
def test_a_root_around_one_constituent_goes(text):
    assert normal(text) == DOG


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(ROOT (UH Yes))", "(TOP (UH Yes))"),
        ("(UH Yes)", "(TOP (UH Yes))"),
        ("( (NP (NN a)) (. .))", "(TOP (NP (NN a)) (. .))"),
        ("(TOP (NP (-NONE- *)) (VP (VB go)))", "(VP (VB go))"),
    ],
)
def test_a_tree_without_one_constituent_at_its_top_keeps_a_root(text, expected):
    assert normal(text) == expected


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("NP-SBJ-1", "NP"),
        ("NP=2", "NP"),
        ("PRT|ADVP", "PRT"),
        ("S-TPC-1=3", "S"),
        ("WHNP", "WHNP"),
    ],
)
def test_functions_and_indices_are_cut_off(label, expected):
    assert normal(f"(S ({label} (NN a)) (NN b))") == f"(S ({expected} (NN a)) (NN b))"


@pytest.mark.parametrize("tag", ["-LRB-", "-RRB-", "PRP$", "-", ":", "``"])
def test_tags_that_look_like_functions_stay(tag):
    assert normal(f"(NP ({tag} x))") == f"(NP ({tag} x))"


def test_traces_and_what_is_empty_without_them_go():
    text = "(S (NP-SBJ (-NONE- *)) (VP (VB go) (SBAR (S (NP (-NONE- *T*-1))))))"
    assert normal(text) == "(S (VP (VB go)))"
    (tree,) = read("( (S (NP (-NONE- *))))")
    assert normalized(tree) is None


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
        (["(S (NN a)))"], "line 1, column 11: this bracket closes nothing"),
        (["(S (NN a)) b"], "line 1, column 12: 'b' stands outside all brackets"),
        (["(S (NP) (NN a))"], "line 1, column 4: this bracket holds nothing"),
        (["(S", " (NP the (NN a)))"], "line 2, column 2: the word 'the' stands beside"),
        (["(S ((NN a)))"], "line 1, column 4: this bracket has no label"),
        (["()"], "line 1, column 1: this bracket holds nothing"),
    ],
)
def test_what_is_no_tree_is_named_with_line_and_column(lines, message):
    with pytest.raises(ValueError, match=rf"^x\.mrg, {message}"):
        read(*lines)


def test_tokens_are_those_of_vinyals_et_al():
    (tree,) = read(DOG)
    assert " ".join(linearized(tree)) == DOG_TOKENS
    dropped = " ".join(TreeForm("XX").tokens("The dog sleeps .", DOG_TOKENS))
    assert dropped == "(S (NP XX XX )NP (VP XX )VP XX )S"


@pytest.mark.parametrize(
    ("tokens", "kind"),
    [
        ("", "nothing at all"),
        ("(S (NP DT NN )NP VBZ .", "a bracket that is never closed"),
        ("(S DT NN VBZ )NP )S", "a bracket that closes another"),
        ("DT NN VBZ .", "something outside the outermost bracket"),
        ("(S DT NN )S (S VBZ . )S", "something outside the outermost bracket"),
        ("(S DT NN VBZ . )S )S", "something outside the outermost bracket"),
        (")S", "something outside the outermost bracket"),
        ("(S DT NN VBZ . NN )S", "more tags than words"),
        ("(S DT NN VBZ )S", "fewer tags than words"),
        ("(S (NP )NP DT NN VBZ . )S", "a bracket around nothing"),
        ("(S DT NN VB(Z . )S", "neither a bracket nor a tag"),
        ("( DT NN VBZ . )", "neither a bracket nor a tag"),
    ],
)
def test_a_sequence_that_is_no_tree_is_named(tokens, kind):
    with pytest.raises(NotATreeError) as caught:
        tree_of(tokens.split(), "The dog sleeps .".split())
    assert caught.value.kind == kind
    assert str(caught.value).startswith(f"{kind} (")


@settings(deadline=None)
@given(tree=TREES, data=st.data())
def test_any_sequence_is_a_tree_over_its_words_or_named(tree, data):
    tokens = linearized(tree)
    places = st.integers(0, len(tokens) - 1)
    i, j = data.draw(places), data.draw(places)
    changed = data.draw(
        st.sampled_from(
            [tokens[:i] + tokens[i + 1 :], tokens[:i] + tokens[j:], tokens + tokens[i:]]
        )
    )
    try:
        found = tree_of(changed, tree.words())
    except NotATreeError:
        assert changed != tokens
    else:
        assert linearized(found) == changed
        assert found.words() == tree.words()


def test_a_tree_of_any_depth_is_normalized():
    text = "(S-1 " * 5000 + "(NN dog) (-NONE- *)" + ")" * 5000
    ((_, tree),) = read_trees([text], "deep")
    tokens = linearized(normalized(tree))
    assert tokens == ["(S"] * 5000 + ["NN"] + [")S"] * 5000


def test_a_thousand_brackets_inside_each_other_are_a_tree():
    tokens = ["(NP"] * 2000 + ["NN"] + [")NP"] * 2000
    tree = tree_of(tokens, ["dog"])
    assert linearized(tree) == tokens
    assert str(tree).count("(NP") == 2000
    assert tree.words() == ["dog"]


def test_a_sentences_brackets_are_written_as_in_treebanks():
    found = words_of(" the dog (  cafe\u0301 ) f(x)\n")
    assert found == "the dog -LRB- caf\u00e9 -RRB- f-LRB-x-RRB-".split()
