"""A treebank becomes sentences and trees in the form that a model writes."""

import gzip

import pytest

from transformer_lite.data.corpora import SentencePair
from transformer_lite.data.prepare import prepare
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.parsing.treebank import TreeFiles, corpus_of_trees
from transformer_lite.parsing.trees import (
    TREES,
    TREES_WITH_WORDS,
    TreeForm,
    tree_of,
)

DOG = "( (S (NP-SBJ (DT The) (NN dog)) (VP (VBZ sleeps)) (. .)))"
DOG_PAIR = SentencePair("The dog sleeps .", "(S (NP DT NN )NP (VP VBZ )VP . )S")


def test_a_tree_becomes_its_words_and_its_tokens(tmp_path):
    one, two = tmp_path / "one.mrg", tmp_path / "two.mrg.gz"
    one.write_text(f"{DOG}\n(S (NP (-NONE- *)))\n", encoding="utf-8")
    two.write_bytes(gzip.compress(b"\n\n(ROOT (UH Yes))"))
    dog, unusable, yes = TreeFiles((one, two))
    assert dog == DOG_PAIR._replace(place=f"{one}, line 1")
    assert str(unusable) == f"{one}, line 2: no word; remove this tree"
    assert yes == ("Yes", "(TOP UH )TOP", f"{two}, line 3")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\n", "x.mrg: no tree; give a file with trees"),
        (b"(S (NN a)\n", "x.mrg, line 1, column 1: this bracket is never closed"),
        (b"(S\n(NN f\xfcr))", "x.mrg, line 2, byte 6: not UTF-8; convert"),
    ],
)
def test_a_file_of_trees_that_cannot_be_read_is_refused(tmp_path, content, message):
    (tmp_path / "x.mrg").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(TreeFiles((tmp_path / "x.mrg",)))


def test_a_corpus_of_trees_writes_them_in_its_form(tmp_path):
    given = {"train": [tmp_path / "a"], "valid": [tmp_path / "b", tmp_path / "c"]}
    for name in "abc":
        (tmp_path / name).touch()
    corpus = corpus_of_trees(given, "en")
    assert corpus.languages == ("en", TREES)
    assert corpus.splits["valid"] == TreeFiles((tmp_path / "b", tmp_path / "c"))
    assert corpus.encodable(DOG_PAIR) == DOG_PAIR[:2]
    with_words = corpus_of_trees(given, "en", TreeForm("words"))
    written = "(S (NP The dog )NP (VP sleeps )VP . )S"
    assert with_words.encodable(DOG_PAIR) == (DOG_PAIR.source, written)


BANK = [
    "(S (NP (DT The) (NN dog)) (VP (VBZ sees) (NP (DT the) (NN cat))) (. .))",
    "(S (NP (DT The) (NN cat)) (VP (VBZ sleeps)) (. .))",
    "(NP (DT The) (NN dog) (PP (IN with) (NP (DT the) (NN cat))))",
] * 5
UNSEEN = "(SBARQ (WHNP (WP Who)) (SQ (VBZ sees)))"


def bank(folder, form):
    """A prepared treebank, whose validation has labels that training lacks."""
    files = {"train": BANK, "valid": [BANK[0], UNSEEN]}
    for split, trees in files.items():
        (folder / split).write_text("\n".join(trees), encoding="utf-8")
    corpus = corpus_of_trees({split: [folder / split] for split in files}, "en", form)
    prepare(corpus, folder / "data", 55, 60, skip_unusable=False)
    return PreparedCorpus(folder / "data")


def decoded_trees(corpus):
    """The training trees, back from their ids."""
    trees = corpus.ids("train")[1]
    return [corpus.tokenizer.decode(trees[i].tolist()) for i in range(len(trees))]


def test_each_bracket_and_each_tag_is_one_token(tmp_path):
    form = TreeForm("tags")
    corpus = bank(tmp_path, form)
    sentences, trees = corpus.text("train")
    assert str(tree_of(trees[0].split(), sentences[0].split())) == BANK[0]
    tokens = [*map(form.tokens, sentences, trees)]
    assert decoded_trees(corpus) == [" ".join(row) for row in tokens]
    assert corpus.ids("train")[1].lengths.tolist() == [len(row) for row in tokens]


@pytest.mark.parametrize("closing_labels", [True, False])
def test_words_in_trees_are_spelled_as_in_the_sentence(tmp_path, closing_labels):
    form = TreeForm("words", closing_labels)
    corpus = bank(tmp_path, form)
    assert corpus.languages == ("en", TREES_WITH_WORDS)
    tokens = map(form.tokens, *corpus.text("train"))
    assert decoded_trees(corpus) == [" ".join(row) for row in tokens]
    sources, targets = corpus.ids("train")
    for number in range(len(BANK)):
        pieces = corpus.tokenizer.pieces(targets[number].tolist())
        copied = [piece for piece in pieces if not set("()") & set(piece)]
        assert copied == corpus.tokenizer.pieces(sources[number].tolist())


def test_labels_that_training_lacks_do_no_harm(tmp_path):
    corpus = bank(tmp_path, TreeForm("tags"))
    assert corpus.text("valid")[1][1] == "(SBARQ (WHNP WP )WHNP (SQ VBZ )SQ )SBARQ"
    assert len(corpus.ids("valid")[1][1]) >= 8
