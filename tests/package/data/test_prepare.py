"""A prepared corpus is whole, true to the text, and blind to the held-out splits."""

import pytest

from transformer_lite.data import prepare as module
from transformer_lite.data.corpora import Corpus, SentencePair, UnusablePair
from transformer_lite.data.prepare import prepare
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.tokenizer import UNK


def pairs_of(*texts):
    return [SentencePair(*pair) for pair in texts]


TRAIN = pairs_of(
    ("the dog sees the cat", "der Hund sieht die Katze"),
    ("a cat hears a dog", "eine Katze hört einen Hund"),
    ("  two  spaces ", "zwei  Leerzeichen"),
    ("개가 고양이를 본다", "狗看见猫"),
    ("one\u2028two", "eins\u0085zwei"),
    ("three\rfour", "drei\x0bvier"),
    *[("the dog", "der Hund")] * 12,
)
VALID = pairs_of(("the cat sees", "die Katze sieht"), ("zzzzz", "zzzzz"))
LONG = SentencePair("dog " * 40, "Hund")
VOCAB_SIZE = 90


def corpus_of(train=TRAIN, valid=VALID, **splits):
    return Corpus("small", {"train": train, "valid": valid, **splits}, ("en", "de"))


def prepared(folder, corpus=None, vocab_size=VOCAB_SIZE, max_length=30, skip=False):
    prepare(corpus or corpus_of(), folder / "out", vocab_size, max_length, skip)
    return PreparedCorpus(folder / "out")


def refused(folder, message, corpus, **options):
    """Expect an error after which nothing is left."""
    with pytest.raises(ValueError, match=message) as caught:
        prepared(folder, corpus, **options)
    assert not list(folder.iterdir())
    return str(caught.value)


def decoded(corpus, split):
    """Source and target sentences of a split, from their ids."""
    sides = corpus.ids(split)
    return tuple(
        [corpus.tokenizer.decode(side[i].tolist()) for i in range(len(side))]
        for side in sides
    )


def test_ids_and_text_are_those_of_every_split(tmp_path):
    valid, test = pairs_of(("the cat", "die Katze")), pairs_of(("a dog", "ein Hund"))
    splits = {"train": TRAIN, "valid": valid, "test": test}
    corpus = prepared(tmp_path, corpus_of(**splits))
    assert corpus.sizes == {"train": 18, "valid": 1, "test": 1}
    assert (corpus.name, corpus.languages) == ("small", ("en", "de"))
    assert corpus.tokenizer.vocab_size == VOCAB_SIZE
    for split, pairs in splits.items():
        sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
        assert decoded(corpus, split) == corpus.text(split) == sides


def test_the_fingerprint_is_that_of_the_training_ids(tmp_path):
    corpora = {
        "as it is": corpus_of(),
        "other validation": corpus_of(valid=VALID[:1]),
        "another pair": corpus_of([*TRAIN[:-1], TRAIN[0]]),
        "other direction": corpus_of(pairs_of(*[pair[1::-1] for pair in TRAIN])),
    }
    prints = []
    for name, corpus in corpora.items():
        (tmp_path / name).mkdir()
        prints.append(prepared(tmp_path / name, corpus).fingerprint)
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3


def test_the_vocabulary_is_learned_from_the_training_split_alone(tmp_path):
    # "heardogsee" has letters of the training text alone. "q" is no such letter.
    word = SentencePair("heardogsee", "q")
    for name, splits in (
        ("valid", {"valid": [word] * 500}),
        ("train", {"train": TRAIN + [word] * 500}),
    ):
        (tmp_path / name).mkdir()
        tokenizer = prepared(tmp_path / name, corpus_of(**splits)).tokenizer
        is_known = len(tokenizer.encode(word.source)) == 1
        assert is_known == (UNK not in tokenizer.encode("q")) == (name == "train")


def test_a_corpus_may_be_larger_than_what_is_encoded_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK_PAIRS", 5)
    corpus = prepared(tmp_path)
    assert decoded(corpus, "train")[0] == [pair.source for pair in TRAIN]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (SentencePair("a", " ", "x.de, line 7"), "x.de, line 7: empty; remove this"),
        (SentencePair("", "a"), "{split}, pair 19: empty; remove this pair"),
        (SentencePair("a\nb", "a"), "{split}, pair 19: more than one line; remove"),
        (SentencePair("a", "a\u2581b"), r"pair 19: the character U\+2581, which the"),
        (SentencePair("a", "b\0"), r"pair 19: the character U\+0000, which .*; remove"),
        (UnusablePair("not UTF-8", "x.en, line 7", "convert"), "x.en, line 7: not .*;"),
        (LONG, r"'dog dog .*: too long; give --max-length 4\d or more"),
    ],
)
@pytest.mark.parametrize("split", ["train", "valid"])
def test_a_pair_that_cannot_be_used_is_named(tmp_path, bad, message, split):
    corpus = corpus_of(**{split: [*TRAIN, bad]})
    shown = refused(tmp_path, message.format(split=split), corpus)
    assert (", or give --skip-unusable" in shown) == (split == "train")


def test_unusable_training_pairs_are_left_out_and_counted_on_demand(tmp_path):
    bad = [
        UnusablePair("not UTF-8", "", ""),
        LONG,
        *pairs_of(("", "a"), ("a", "")),
        LONG,
    ]
    corpus = prepared(tmp_path, corpus_of([*bad, *TRAIN]), skip=True)
    assert corpus.left_out == {"not UTF-8": 1, "too long": 2, "empty": 2}
    assert corpus.text("train")[0] == [pair.source for pair in TRAIN]


@pytest.mark.parametrize("bad", [LONG, SentencePair("", "a")])
def test_no_pair_of_a_held_out_split_is_left_out(tmp_path, bad):
    refused(tmp_path, "valid", corpus_of(valid=[*VALID, bad]), skip=True)


def test_a_split_without_a_pair_that_can_be_used_is_refused(tmp_path):
    message = r"train: every pair was left out \(18 too long\); give other text"
    refused(tmp_path, message, corpus_of(), max_length=1, skip=True)
