"""Brackets are counted as EVALB counts them."""

from collections import Counter

import pytest

from transformer_lite.parsing.brackets import brackets, score_brackets
from transformer_lite.parsing.trees import Tree, TreeForm, linearized, read_trees

CAT = "(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat))) (. .))"

# Trees made up for this test. The numbers are those of EVALB (evalb.c with
# COLLINS.prm): brackets that match, brackets of the treebank, brackets of the output.
EVALB = [
    (CAT, CAT, (4, 4, 4)),
    (CAT, CAT.replace("(NP (DT a)", "(PP (DT a)"), (3, 4, 4)),
    (
        CAT,
        "(S (NP (DT the) (NN dog)) (VP (VBZ sees) (DT a) (NN cat)) (. .))",
        (3, 4, 3),
    ),
    (
        CAT,
        "(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat)) (. .)))",
        (4, 4, 4),
    ),
    (CAT, f"(TOP {CAT})", (4, 4, 4)),
    (
        "(S (NP (NN she)) (VP (VBZ gives) (PRT (RP up))))",
        "(S (NP (NN she)) (VP (VBZ gives) (ADVP (RP up))))",
        (4, 4, 4),
    ),
    (
        "(S (NP (NN she)) (VP (VBZ gives) (ADVP (RB up)) (PRT (RP in))))",
        "(S (NP (NN she)) (VP (VBZ gives) (PRT (ADVP (RB up))) (RP in)))",
        (4, 5, 5),
    ),
    ("(NP (NP (NP (NN rain))))", "(NP (NP (NN rain)))", (2, 3, 2)),
    ("(NP (NP (NN rain)))", "(NP (NP (NP (NP (NN rain)))))", (2, 2, 4)),
    (
        "(S (PRN (: -) (: -)) (NP (NN rain)) (VP (VBZ falls)))",
        "(S (X (: -) (: -)) (NP (NN rain)) (VP (VBZ falls)))",
        (3, 3, 3),
    ),
    (
        "(S (`` ``) (NP (NN rain) (, ,) ('' '')) (VP (VBZ falls)) (. .))",
        "(S (NP (`` ``) (NN rain)) (, ,) ('' '') (VP (VBZ falls) (. .)))",
        (3, 3, 3),
    ),
    (
        "(S (NP (NN snow) (, ,) (NN rain)) (VP (VBZ falls)))",
        "(S (NP (NN snow)) (, ,) (VP (NP (NN rain)) (VBZ falls)))",
        (1, 3, 4),
    ),
    (
        "(NP ($ $) (CD 5) (-LRB- -LRB-) (NN tax) (-RRB- -RRB-))",
        "(NP (QP ($ $) (CD 5)) (PRN (-LRB- -LRB-) (NN tax) (-RRB- -RRB-)))",
        (1, 1, 3),
    ),
    (
        "(S (NP (DT the) (NN dog)) (VP (VBZ sees) "
        "(NP (NP (DT a) (NN cat)) (PP (IN with) (NP (NNS eyes))))))",
        "(S (NP (DT the) (NN dog)) (VP (VBZ sees) "
        "(NP (DT a) (NN cat)) (PP (IN with) (NP (NNS eyes)))))",
        (6, 7, 6),
    ),
]
OF_ALL = {"recall": 86.27, "precision": 83.02, "f1": 84.62, "complete_match": 42.86}
"""EVALB's summary of the same trees."""


def read(text):
    ((_, tree),) = read_trees([text], "x.mrg")
    return tree


def tokens(tree):
    return " ".join(linearized(tree))


def sentences(trees):
    return [" ".join(tree.words()) for tree in trees]


def score(golds, outputs):
    """Score trees; an output may also be a text of tokens."""
    outputs = [tokens(o) if isinstance(o, Tree) else o for o in outputs]
    return score_brackets(sentences(golds), list(map(tokens, golds)), outputs)


@pytest.mark.parametrize(("gold", "output", "expected"), EVALB)
def test_brackets_of_a_sentence_are_those_of_evalb(gold, output, expected):
    gold, output = read(gold), read(output)
    of_gold, of_output = brackets(gold, gold), brackets(output, gold)
    matching = of_gold & of_output
    assert tuple(map(Counter.total, (matching, of_gold, of_output))) == expected


@pytest.mark.parametrize("leaves", ["tags", "words"])
def test_scores_of_many_sentences_are_those_of_evalb(leaves):
    golds, outputs = ([read(case[side]) for case in EVALB] for side in range(2))
    words, form = sentences(golds), TreeForm(leaves, closing_labels=False)
    written = [
        " ".join(form.tokens(sentence, tokens(tree)))
        for sentence, tree in zip(words, outputs, strict=True)
    ]
    # What is punctuation is known from the treebank.
    references, with_words = list(map(tokens, golds)), leaves == "words"
    found = score_brackets(words, references, written, with_words)
    assert {n: round(getattr(found, n), 2) for n in OF_ALL} == OF_ALL
    assert found.f1 == found.f1_all
    assert found.well_formed == 100
    assert found.sentences == len(EVALB)
    assert found.ill_formed == {}


def test_the_treebanks_tags_and_not_the_outputs_say_what_is_punctuation():
    gold = read(CAT)
    output = read(CAT.replace("(. .)", "(NN .)").replace("(NN dog)", "(. dog)"))
    assert brackets(output, gold) == brackets(gold, gold)


def test_an_output_that_is_no_tree_lacks_all_brackets_of_its_sentence():
    golds = [read(CAT), read("(NP (NN rain))"), read("(NP (NP (NN rain)))")]
    found = score(golds, [golds[0], "(NP NN NN )NP", "(NP NN"])
    assert found.well_formed == pytest.approx(100 / 3)
    assert (found.precision, found.recall, found.f1) == (100, 100, 100)
    assert found.complete_match == 100
    # 4 of 4 brackets of outputs are right, 4 of the treebank's 7 are found.
    assert found.f1_all == pytest.approx(100 * 2 * 4 / (4 + 7))
    assert found.ill_formed == {
        "more tags than words": 1,
        "a bracket that is never closed": 1,
    }


def test_nothing_but_ill_formed_outputs_is_zero():
    found = score([read(CAT)], [""])
    assert (found.f1, found.f1_all, found.well_formed) == (0, 0, 0)


def test_a_sentence_of_punctuation_alone_counts_nothing():
    dash = read("(NP (: -))")
    found = score([read(CAT), dash], [read(CAT), read("(X (: -))")])
    assert (found.f1, found.complete_match, found.sentences) == (100, 100, 2)


def test_a_reference_that_is_no_tree_is_refused():
    with pytest.raises(ValueError, match="fewer tags than words"):
        score_brackets(["the dog"], ["(NP DT )NP"], ["(NP DT )NP"])
