"""Treebanks are read as parallel text, and published ones are what was published."""

import gzip
import hashlib
import io
import zipfile
from dataclasses import replace

import pytest

from transformer_lite.data import downloads, treebanks
from transformer_lite.data.downloads import DATA_VARIABLE
from transformer_lite.data.pairs import Fault
from transformer_lite.data.prepare import prepare
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.data.treebanks import (
    CRAFT_ADDRESSES,
    GUM_ADDRESSES,
    NLTK_ADDRESSES,
    TREEBANKS,
    TreeFiles,
    load_treebank,
    treebank_of_files,
)
from transformer_lite.data.trees import (
    TREES,
    TREES_WITH_WORDS,
    TreeForm,
    tree_of,
)

DOG = "( (S (NP-SBJ (DT The) (NN dog)) (VP (VBZ sleeps)) (. .)))"
DOG_PAIR = ("The dog sleeps .", "(S (NP DT NN )NP (VP VBZ )VP . )S")
YES = "(ROOT (UH Yes))"
YES_PAIR = ("Yes", "(TOP UH )TOP")


def write(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_a_tree_becomes_its_words_and_its_tokens(tmp_path):
    one = write(tmp_path / "one.mrg", DOG)
    two = tmp_path / "two.mrg.gz"
    two.write_bytes(gzip.compress(f"\n\n{YES}".encode()))
    split = TreeFiles((one, two))
    assert list(split) == list(split) == [DOG_PAIR, YES_PAIR]


def test_a_tree_that_cannot_be_used_is_a_fault(tmp_path):
    path = write(tmp_path / "x.mrg", "(S (NP (-NONE- *)))", DOG, "(NP (NN a▁b))")
    first, dog, last = TreeFiles((path,))
    assert str(first) == f"{path}, line 1: no word; remove this tree"
    assert dog == DOG_PAIR
    assert isinstance(last, Fault)
    assert f"{path}, line 3: has the character U+2581" in str(last)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "x.mrg: empty; give a file with trees"),
        (b"(S (NN a)\n", "x.mrg, line 1, column 1: this bracket is never closed"),
        (b"(S\n(NN f\xfcr))", "x.mrg, line 2: not UTF-8; see byte 6"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path, content, message):
    (tmp_path / "x.mrg").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(TreeFiles((tmp_path / "x.mrg",)))


def test_a_treebank_of_ones_own_has_trees_for_its_target_language(tmp_path):
    path = write(tmp_path / "x.mrg", DOG)
    corpus = treebank_of_files((path,), (path, path), language="en")
    assert corpus.languages == ("en", TREES)
    assert {split: len(list(pairs)) for split, pairs in corpus.splits.items()} == {
        "train": 1,
        "valid": 2,
    }
    assert corpus.encodable(DOG_PAIR) == DOG_PAIR


def test_dropped_tags_are_left_out_of_the_ids_and_not_of_the_text(tmp_path):
    path = write(tmp_path / "x.mrg", DOG)
    corpus = treebank_of_files((path,), (path,), form=TreeForm("XX"))
    assert list(corpus.splits["train"]) == [DOG_PAIR]
    dropped = "(S (NP XX XX )NP (VP XX )VP XX )S"
    assert corpus.encodable(DOG_PAIR) == (DOG_PAIR[0], dropped)
    kept = treebank_of_files((path,), (path,))
    assert kept.origin != corpus.origin


def test_silver_trees_follow_the_training_trees_alone(tmp_path):
    gold, silver = write(tmp_path / "a.mrg", DOG), write(tmp_path / "b.mrg", YES)
    corpus = treebank_of_files((gold,), (gold,), silver=(str(silver),))
    assert list(corpus.splits["train"]) == [DOG_PAIR, YES_PAIR]
    assert list(corpus.splits["valid"]) == [DOG_PAIR]
    assert corpus.name == f"trees + {silver}"


def test_silver_trees_that_are_nowhere_are_named_with_what_there_is(tmp_path):
    gold = write(tmp_path / "a.mrg", DOG)
    message = "--silver gumm: neither a treebank nor a file; give .*, craft, gum, or a"
    with pytest.raises(ValueError, match=message):
        treebank_of_files((gold,), (gold,), silver=("gumm",))


# Prepared


TAGS = TreeForm("tags")
MANY = [
    "(S (NP (DT The) (NN dog)) (VP (VBZ sees) (NP (DT the) (NN cat))) (. .))",
    "(S (NP (DT The) (NN cat)) (VP (VBZ sleeps)) (. .))",
    "(NP (DT The) (NN dog) (PP (IN with) (NP (DT the) (NN cat))))",
] * 5
STRANGE = "(SBARQ (WHNP (WP Who)) (SQ (VBZ sees)))"


def prepared(folder, form=TAGS, vocab_size=55):
    train = write(folder / "train.mrg", *MANY)
    valid = write(folder / "valid.mrg", MANY[0], STRANGE)
    corpus = treebank_of_files((train,), (valid,), form=form)
    prepare(corpus, folder / "out", vocab_size, 60, skip_unusable=False)
    return PreparedCorpus(folder / "out")


@pytest.mark.parametrize("leaves", ["tags", "XX"])
def test_each_bracket_and_each_tag_is_one_token(tmp_path, leaves):
    corpus = prepared(tmp_path, TreeForm(leaves))
    _, targets = corpus.text("train")
    _, ids = corpus.ids("train")
    for target, of_target in zip(targets, [ids[i] for i in range(15)], strict=True):
        tokens = target.split(" ")
        assert len(of_target) == len(tokens)
        decoded = corpus.tokenizer.decode(of_target.tolist()).split(" ")
        if leaves == "XX":
            tokens = [t if t[0] in "()" else "XX" for t in tokens]
        assert decoded == tokens


@pytest.mark.parametrize("closing_labels", [True, False])
def test_words_in_trees_are_spelled_as_in_the_sentence(tmp_path, closing_labels):
    corpus = prepared(tmp_path, TreeForm("words", closing_labels))
    assert corpus.languages == ("", TREES_WITH_WORDS)
    sentences, targets = corpus.text("train")
    src, tgt = corpus.ids("train")
    for number, (sentence, target) in enumerate(zip(sentences, targets, strict=True)):
        decoded = corpus.tokenizer.decode(tgt[number].tolist())
        words = sentence.split(" ")
        tree = tree_of(decoded.split(" "), words, with_words=True)
        assert tree.words() == words
        gold = tree_of(target.split(" "), words)
        assert brackets(tree, gold) == brackets(gold, gold)
        pieces = corpus.tokenizer.pieces(tgt[number])
        copied = [piece for piece in pieces if "(" not in piece and ")" not in piece]
        assert copied == corpus.tokenizer.pieces(src[number])
        assert (")" in decoded.split(" ")) is not closing_labels


def test_a_tree_that_is_too_long_is_named_by_its_file_and_line(tmp_path):
    first = write(tmp_path / "first.mrg", *MANY)
    second = write(tmp_path / "second.mrg", DOG, "", "(S", *MANY[:2], *MANY[:2], ")")
    corpus = treebank_of_files((first, second), (first,))
    message = f"^{second}, line 3: more tokens than --max-length 20; give at least"
    with pytest.raises(ValueError, match=message):
        prepare(corpus, tmp_path / "out", 60, 20, skip_unusable=False)


def test_words_are_made_of_ordinary_pieces(tmp_path):
    corpus = prepared(tmp_path)
    ids = corpus.tokenizer.encode("The dog sleeps")
    assert corpus.tokenizer.decode(ids) == "The dog sleeps"
    assert not any("(" in piece for piece in corpus.tokenizer.pieces(ids))


def test_the_text_has_the_treebanks_tags_whether_they_are_dropped_or_not(tmp_path):
    (sentence, *_), (target, *_) = prepared(tmp_path, TreeForm("XX")).text("valid")
    assert str(tree_of(target.split(" "), sentence.split(" "))) == MANY[0]


def test_labels_that_training_lacks_do_no_harm(tmp_path):
    corpus = prepared(tmp_path)
    assert corpus.text("valid")[1][1] == "(SBARQ (WHNP WP )WHNP (SQ VBZ )SQ )SBARQ"
    assert len(corpus.ids("valid")[1][1]) >= 8


# Published treebanks


def no_network(*_, **__):
    raise AssertionError("nothing is to be downloaded here")


def fake(monkeypatch, texts):
    """Let each treebank's published text be this."""
    for name, published in TREEBANKS.items():
        sums = {
            split: hashlib.sha256("".join(text.split()).encode()).hexdigest()
            for split, text in texts.items()
        }
        monkeypatch.setitem(TREEBANKS, name, replace(published, sha256=sums))


TEXTS = {"train": f"{DOG}\n{YES}\n", "valid": f"{YES}\n", "test": f"{DOG}\n"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder that the environment names, with all three treebanks."""
    for published in TREEBANKS.values():
        (tmp_path / published.folder).mkdir()
        for split, text in TEXTS.items():
            path = tmp_path / published.folder / f"{split}.mrg.gz"
            path.write_bytes(gzip.compress(text.encode()))
    fake(monkeypatch, TEXTS)
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    monkeypatch.setattr(downloads.pooch, "retrieve", no_network)
    return tmp_path


@pytest.mark.parametrize("name", TREEBANKS)
def test_a_treebank_is_read_from_the_folder_that_the_environment_names(folder, name):
    corpus = load_treebank(name)
    found = {split: list(pairs) for split, pairs in corpus.splits.items()}
    assert found == {
        "train": [DOG_PAIR, YES_PAIR],
        "valid": [YES_PAIR],
        "test": [DOG_PAIR],
    }
    assert corpus.languages == ("en", TREES)
    assert corpus.name == name


def test_gums_training_split_can_be_added_to_another_treebank(folder):
    corpus = load_treebank("craft", silver=("gum",))
    paths = corpus.splits["train"].paths
    assert [path.parent.name for path in paths] == [
        "treebank-craft",
        "treebank-gum-silver",
    ]
    assert len(list(corpus.splits["train"])) == 4
    assert len(list(corpus.splits["valid"])) == 1
    assert corpus.name == "craft + gum"


def test_text_that_is_not_the_published_is_named(folder):
    path = folder / "treebank-craft" / "valid.mrg.gz"
    path.write_bytes(gzip.compress(f"{DOG}\n".encode()))
    message = f"{path}: valid has not the published text .* or unset {DATA_VARIABLE}"
    with pytest.raises(ValueError, match=message):
        load_treebank("craft")


def test_a_file_that_the_folder_lacks_is_named(folder):
    path = folder / "treebank-craft" / "test.mrg.gz"
    path.unlink()
    with pytest.raises(ValueError, match=f"{path}: no such file; .*{DATA_VARIABLE}"):
        load_treebank("craft")


def test_there_is_a_checksum_for_every_split_of_every_treebank():
    sums = [sum_ for t in TREEBANKS.values() for sum_ in t.sha256.values()]
    assert len(set(sums)) == 3 * 3
    assert {len(sum_) for sum_ in sums} == {64}
    assert {len(t.sha256) for t in TREEBANKS.values()} == {3}


def laid_out(text):
    """The same tree as its publishers indent it."""
    return text.replace(" (", "\n    (").replace("))", ") )") + "\n\n"


@pytest.fixture
def network(tmp_path, monkeypatch):
    """A stand-in for the network, with its list of what was asked for."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        for number, text in ((1, DOG), (159, YES), (160, YES), (199, DOG)):
            name = f"wsj_{number:04d}.mrg"
            packed.writestr(f"treebank/combined/{name}", laid_out(text))
            packed.writestr(f"treebank/raw/{name}", "not a tree")
    ids, trees = "articles/ids/craft-ids", "structural-annotation/treebank/penn"
    page = (
        "# Splits\n\n## dev\n\n  * GUM_news_iodine\n  * GUM_reddit_pandas\n\n"
        "## test\n\n  * GUM_bio_dvorak\n\n## test2\n\n  * GENTLE_legal_abortion\n\n"
        "## train\n\n  * GUM_academic_art\n  * GUM_voyage_york\n  * GUM_vlog_wine\n"
    )
    files = {
        f"{NLTK_ADDRESSES[0]}treebank.zip": archive.getvalue(),
        f"{CRAFT_ADDRESSES[0]}{ids}-train.txt": b"11\n12\n",
        f"{CRAFT_ADDRESSES[0]}{ids}-dev.txt": b"13\n",
        f"{CRAFT_ADDRESSES[0]}{ids}-test.txt": b"14\n",
        f"{GUM_ADDRESSES[0]}splits.md": page.encode(),
    }
    names = ["GUM_academic_art", "GUM_voyage_york", "GUM_news_iodine", "GUM_bio_dvorak"]
    for article, document, text in zip(
        (11, 12, 13, 14), names, (DOG, YES, YES, DOG), strict=True
    ):
        content = laid_out(text).encode()
        files[f"{CRAFT_ADDRESSES[0]}{trees}/{article}.tree"] = content
        files[f"{GUM_ADDRESSES[0]}const/{document}.ptb"] = content
    asked = []

    def retrieve(url, fname, path, **_):
        asked.append(url)
        if url not in files:
            raise ConnectionError
        (tmp_path / path.name).mkdir(exist_ok=True)
        (tmp_path / path.name / fname).write_bytes(files[url])
        return str(tmp_path / path.name / fname)

    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.setattr(downloads.pooch, "retrieve", retrieve)
    fake(monkeypatch, TEXTS)
    return files, asked


@pytest.mark.parametrize("name", TREEBANKS)
def test_a_downloaded_treebank_is_the_same_as_one_that_is_there(network, name):
    splits = load_treebank(name).splits
    found = {split: list(pairs) for split, pairs in splits.items()}
    assert found == {
        "train": [DOG_PAIR, YES_PAIR],
        "valid": [YES_PAIR],
        "test": [DOG_PAIR],
    }


@pytest.mark.parametrize("name", TREEBANKS)
def test_a_download_that_is_not_the_published_text_is_refused(
    network, monkeypatch, name
):
    fake(monkeypatch, {**TEXTS, "test": YES})
    # The folder of all that was downloaded: an archive would be unpacked once more.
    folder = downloads.download_folder(TREEBANKS[name].folder)
    message = f"test has not the published text .*; delete {folder} and start again"
    with pytest.raises(ValueError, match=message):
        load_treebank(name)


@pytest.mark.parametrize(
    ("name", "address", "file"),
    [
        ("penn_treebank_sample", NLTK_ADDRESSES[0], "treebank.zip"),
        ("craft", CRAFT_ADDRESSES[0], "articles/ids/craft-ids-dev.txt"),
        ("craft", CRAFT_ADDRESSES[0], "structural-annotation/treebank/penn/14.tree"),
        ("gum", GUM_ADDRESSES[0], "splits.md"),
        ("gum", GUM_ADDRESSES[0], "const/GUM_bio_dvorak.ptb"),
    ],
)
def test_a_web_page_in_the_place_of_a_file_is_named(network, name, address, file):
    files, asked = network
    files[f"{address}{file}"] = b"\n<!DOCTYPE html><html>Please sign in</html>"
    message = rf"{file} could not be downloaded \({address}: a web page in its place"
    with pytest.raises(ValueError, match=message):
        load_treebank(name)
    kept = downloads.download_folder(TREEBANKS[name].folder) / file.split("/")[-1]
    assert not kept.exists()  # or it would be taken for the file the next time
    assert asked[-1].endswith(file)  # and nothing is asked for that the page names


@pytest.mark.parametrize("content", [b"error 502", b"11\n\xff\xfe\n"])
def test_what_is_no_list_of_crafts_articles_is_named(network, content):
    files, _ = network
    files[f"{CRAFT_ADDRESSES[0]}articles/ids/craft-ids-dev.txt"] = content
    message = r"craft-ids-dev\.txt: not a list of articles, .*; delete it and start"
    with pytest.raises(ValueError, match=message):
        load_treebank("craft")


@pytest.mark.parametrize("content", [b"error 502", b"\xff\xfe"])
def test_what_is_no_page_of_gums_splits_is_named(network, content):
    files, _ = network
    files[f"{GUM_ADDRESSES[0]}splits.md"] = content
    with pytest.raises(ValueError, match=r"has no trees for \w+; delete .*gum-silver"):
        load_treebank("gum")


def test_an_archive_that_is_none_is_named(network):
    files, _ = network
    files[f"{NLTK_ADDRESSES[0]}treebank.zip"] = b"no archive"
    with pytest.raises(ValueError, match=r"treebank\.zip: not a zip file .*delete it"):
        load_treebank("penn_treebank_sample")


def test_a_download_tries_every_address_and_then_says_so(network):
    files, asked = network
    files.clear()
    message = rf"splits\.md could not .*under treebank-gum-silver/.*{DATA_VARIABLE}"
    with pytest.raises(ValueError, match=message):
        load_treebank("gum")
    assert asked == [f"{address}splits.md" for address in GUM_ADDRESSES]


def test_addresses_are_pinned_to_one_version():
    for addresses in (NLTK_ADDRESSES, CRAFT_ADDRESSES, GUM_ADDRESSES):
        assert len(addresses) >= 2
        commits = {part for a in addresses for part in a.split("/") if len(part) == 40}
        assert len(commits) == 1


def test_only_gums_genres_of_free_licences_are_asked_for(network):
    _, asked = network
    load_treebank("gum")
    assert not any("reddit" in url or "vlog" in url for url in asked)
    assert sum("const/" in url for url in asked) == 4
    assert treebanks.GUM_GENRES == tuple(sorted(treebanks.GUM_GENRES))
