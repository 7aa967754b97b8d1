"""Outputs of a parser are scored by their brackets, those of a translator by BLEU."""

from types import SimpleNamespace

import pytest

from transformer_lite.config import ModelConfig, SearchConfig
from transformer_lite.data.corpora import SentencePair
from transformer_lite.data.prepare import prepare
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference.scores import score
from transformer_lite.model import Transformer
from transformer_lite.parsing.brackets import score_brackets
from transformer_lite.parsing.evaluation import score_outputs, validation_samples
from transformer_lite.parsing.treebank import TreeCorpus
from transformer_lite.parsing.trees import TreeForm

SENTENCES, TAGGED = ["the dog", "rain"], ["(NP DT NN )NP", "(NP NN )NP"]
# In each form a tree, and what is none.
WRITTEN = {"tags": [TAGGED[0], "(NP"], "words": ["(NP the dog )NP", "(NP snow )NP"]}


@pytest.mark.parametrize("leaves", WRITTEN)
def test_trees_are_scored_by_their_brackets_as_they_are_written(leaves):
    language, outputs = TreeForm(leaves).language, WRITTEN[leaves]
    found = score_outputs(SENTENCES, TAGGED, outputs, language)
    assert found == score_brackets(SENTENCES, TAGGED, outputs, leaves == "words")
    assert found.f1 == 100  # of the one that is a tree
    assert found.f1_all == pytest.approx(100 * 2 / 3)


def test_text_is_scored_by_bleu():
    assert score_outputs(TAGGED, TAGGED, SENTENCES, "de") == score(SENTENCES, TAGGED)


@pytest.mark.parametrize("leaves", WRITTEN)
def test_validation_of_a_parser_scores_brackets(tmp_path, leaves):
    pairs, form = list(map(SentencePair, SENTENCES, TAGGED)), TreeForm(leaves)
    splits = {"train": pairs * 9, "valid": pairs}
    corpus = TreeCorpus("trees", splits, ("en", form.language), form)
    prepare(corpus, tmp_path / "data", 22, 64, skip_unusable=False)
    shape = {"vocab_size": 22, "num_layers": 1, "d_model": 6, "num_heads": 2}
    prepared = PreparedCorpus(tmp_path / "data")
    model = Transformer(ModelConfig(**shape))
    samples = validation_samples(model, prepared, SearchConfig())
    samples.translator = SimpleNamespace(translate=lambda _: WRITTEN[leaves])
    assert samples() == {
        "valid_well_formed": 50,
        "valid_f1": pytest.approx(100 * 2 / 3),
        "translations": WRITTEN[leaves],
    }
