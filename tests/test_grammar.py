"""The grammar of results/grammar.py finds the likeliest tree, and its scores hold."""

import math
from itertools import product

import pytest

from results.grammar import Chart, Grammar, classes_of, rules_of, split
from transformer_lite.parsing.trees import Tree, read_trees

TREEBANK = """
(S (NP (PRP We)) (VP (VBD saw) (NP (DT the) (NN man)) (PP (IN with) (NP (NN care)))))
(S (NP (PRP We))
  (VP (VBD saw) (NP (NP (DT the) (NN man)) (PP (IN with) (NP (NN care))))))
(S (NP (PRP We)) (VP (VBD saw) (NP (NP (DT a) (NN cat)) (PP (IN of) (NP (NN tea))))))
(S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (DT a) (JJ red) (NN man))))
"""


def treebank():
    return [tree for _, tree in read_trees(TREEBANK.split("\n"), "trees")]


def test_rules_carry_parents_and_the_siblings_before():
    (tree,) = (t for _, t in read_trees(["(S (A (B b) (C c) (D d) (E e)))"], "tree"))
    assert list(rules_of(tree, 1, 1)) == [
        ("^", ("S^",)),
        ("S^", ("A^S",)),
        ("A^S", ("B^A", "A^S|B")),
        ("A^S|B", ("C^A", "A^S|C")),
        ("A^S|C", ("D^A", "E^A")),
        *[(f"{tag}^A", ("", tag.lower())) for tag in "EDCB"],
    ]
    whole = dict(rules_of(tree, 0, 99))
    assert whole["A|B"] == ("C", "A|B|C")


def test_split_labels_say_what_is_in_a_phrase():
    texts = [
        "(S (NP (PRP We)) (VP (MD may) (VP (VB be) (PP (IN of) (NP (NN use))))))",
        "(NP (NP (NP (NN cat) (POS 's)) (NN tail)) (SBAR (IN that) (S (VP (VBZ is)))))",
    ]
    split_ones = [str(split(tree)) for _, tree in read_trees(texts, "trees")]
    assert split_ones == [
        "(S~ (NP~UB (PRP~ We)) (VP~F (MD~ may) (VP~VB (VB~be be) "
        "(PP~ (IN~of of) (NP~UB (NN~ use))))))",
        "(NP~v (NP~ (NP~BP (NN~ cat) (POS~ 's)) (NN~ tail)) "
        "(SBAR~v (IN~that that) (S~U (VP~UF (VBZ~be is)))))",
    ]
    (tree,) = (t for _, t in read_trees(texts[:1], "trees"))
    found = Chart(Grammar([split(tree)], 1, 1), tree.words()).tree()
    assert str(found) == str(tree)


def log_probability(grammar, tree, annotation):
    """Add up the logarithms of a tree's rules, slowly."""
    tables = {
        tuple(grammar.names[i] for i in ids): score
        for table in (grammar.one, grammar.two)
        for *ids, score in zip(*table, strict=True)
    }
    total = 0.0
    for left, right in rules_of(tree, *annotation):
        if right[0]:
            total += tables.get((left, *right), -math.inf)
        else:
            total += grammar.tag_scores(right[1])[grammar.ids[left]]
    return total


@pytest.mark.parametrize("annotation", [(1, 1), (0, 99)])
def test_the_tree_is_the_likeliest_one(annotation):
    grammar = Grammar(treebank(), *annotation)
    for words in product(["We", "the"], ["man", "cat"], ["saw"], ["a"], ["care", "x"]):
        found = Chart(grammar, words)
        best = found.scores[0, -1, 0]
        if best > -math.inf:
            score = log_probability(grammar, found.tree(), annotation)
            assert score == pytest.approx(best, rel=1e-5)
    for tree in treebank():
        found = Chart(grammar, tree.words())
        assert (
            found.scores[0, -1, 0] >= log_probability(grammar, tree, annotation) - 1e-4
        )
        score = log_probability(grammar, found.tree(), annotation)
        assert score == pytest.approx(found.scores[0, -1, 0], rel=1e-5)
        assert found.tree().words() == tree.words()


def test_the_more_frequent_attachment_wins():
    with_verb, with_object, *_ = treebank()
    for often, seldom in ((with_verb, with_object), (with_object, with_verb)):
        grammar = Grammar([often, often, often, seldom], 1, 1)
        assert str(Chart(grammar, seldom.words()).tree()) == str(often)


def test_a_word_that_is_new_has_the_tags_of_its_class():
    trees = [
        Tree("S", (Tree("VBD", (f"{letter}ed",)), Tree("NN", (f"{letter}tion",))))
        for letter in "abcdefghijklm"
    ]
    grammar = Grammar(trees, 0, 1)
    (likely,) = (grammar.tag_scores("walked") > 0).nonzero()
    assert [grammar.names[number] for number in likely] == ["VBD"]
    assert classes_of("IL-2s")[0] == ("A-0a", "-2s")


def test_a_sentence_without_a_derivation_gets_a_flat_tree():
    tree = Chart(Grammar(treebank(), 0, 99), ["saw", "saw"]).tree()
    assert [child.words() for child in tree.children] == [["saw"], ["saw"]]
