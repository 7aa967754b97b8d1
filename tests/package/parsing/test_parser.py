"""A sentence becomes a tree over its words, whatever the model says."""

from dataclasses import replace

import pytest
import torch

from transformer_lite.config import ModelConfig, SearchConfig
from transformer_lite.inference.translator import Translator
from transformer_lite.model import Transformer
from transformer_lite.parsing.parser import Parser
from transformer_lite.parsing.trees import tree_of
from transformer_lite.tokenizer import BOS, EOS, Tokenizer

SENTENCES = ["the dog barks", "a", "-LRB- the cat -RRB- sees a doggedly barking dog"]
LABELLED = ["(NP", "(S", ")NP", ")S"]
FORMS = {
    "tags": ([*LABELLED, "DT", "NN"], False),
    "words": (LABELLED, True),
    "plain": (["(NP", "(S", ")"], True),
}


def untrained(form, seed=0):
    """A translator whose weights are random, and whether it writes words."""
    torch.manual_seed(seed)
    symbols, with_words = FORMS[form]
    tokenizer = Tokenizer.train(40 * SENTENCES, 44, symbols=symbols)
    shape = {"num_layers": 1, "d_model": 16, "d_ff": 16, "num_heads": 2}
    model = Transformer(ModelConfig(vocab_size=44, **shape)).eval()
    search = SearchConfig(beam_size=1, alpha=0.0, max_extra=60)
    return Translator(model, tokenizer, search), with_words


def trees_of(translator, with_words, lines, warn=print):
    """The trees of some lines, in brackets."""
    outputs = Parser(translator, with_words).stream([lines], warn)
    return [best.text for (best,) in outputs]


def in_a_row(tokens):
    opened = "".join("(" if token[0] == "(" else " " for token in tokens)
    return max(map(len, opened.split()))


@pytest.mark.parametrize("form", FORMS)
def test_a_word_that_the_tokenizer_reads_as_two_is_two_leaves(form):
    lines = ["▁the dog▁cat ▁ barks▁", "a dog"]
    first, second = trees_of(*untrained(form), lines)
    leaves = [word for word in first.replace(")", " ) ").split() if word[0] not in "()"]
    assert [word for word in leaves if word in "the dog cat barks".split()] == [
        *"the dog cat barks".split()
    ]
    assert "dog" in second


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("beam_size", [1, 3])
def test_whatever_is_found_is_a_tree(form, beam_size):
    for seed in range(4):
        translator, with_words = untrained(form, seed)
        search = replace(translator.search, beam_size=beam_size)
        parser = Parser(translator, with_words, in_a_row=3)
        for sentence, output in zip(
            SENTENCES, parser.translate(SENTENCES, search), strict=True
        ):
            assert tree_of(output.split(), sentence.split(), with_words)
            assert in_a_row(output.split()) <= 3


def may_follow(tokens, words, known, most):
    """The tokens of a tree's beginning after which it can still become one."""
    stack, left, opened = [], list(words), 0
    for token in tokens:
        opened = opened + 1 if token[0] == "(" else 0
        if token[0] == "(":
            stack.append(token)
        elif token[0] == ")":
            stack.pop()
        else:
            left.pop(0)
    found = []
    if left and opened < most and (stack or not tokens):
        found += [token for token in known if token[0] == "("]
    if stack and left:
        found += [token for token in known if token[0] not in "()"]
    if stack and tokens[-1][0] != "(" and (len(stack) > 1 or not left):
        found += [t for t in known if t == ")" + stack[-1][1:]]
    return found


def test_greedy_search_takes_the_likeliest_token_of_those_that_may_follow():
    for seed in range(2):
        translator, _ = untrained("tags", seed)
        model, tokenizer = translator.model, translator.tokenizer
        known = [p[1:] for p in tokenizer.pieces(range(44)) if p[0] == "▁" and p[1:]]
        for sentence in SENTENCES:
            ids, tokens = [BOS], []
            source = torch.tensor([[*tokenizer.encode(sentence), EOS]])
            while allowed := may_follow(tokens, sentence.split(), known, 2):
                scores = model(source, torch.tensor([ids]))[0, -1].tolist()
                best = max(allowed, key=lambda t: scores[tokenizer.encode(t)[0]])
                tokens.append(best)
                ids += tokenizer.encode(best)
            output = Parser(translator, False, in_a_row=2).translate(sentence)
            assert output == " ".join(tokens)


@torch.no_grad()
def test_the_next_word_has_the_probability_of_all_words():
    translator, _ = untrained("words")
    ids = translator.tokenizer.encode("(S")
    source = torch.tensor([[*translator.tokenizer.encode("a dog"), EOS]])
    expected = translator.model(source, torch.tensor([[BOS, *ids]]))[0, -1].softmax(-1)
    model = Parser(translator, True).model
    _, state = model.step(torch.tensor([[BOS]]), model.start(source))
    logits, state = model.step(torch.tensor([ids]), state)
    found = logits[0, 0].softmax(-1)
    assert found[source[0, 0]] == pytest.approx(expected[model.words].sum().item())
    brackets = model.closes | (model.closing > 0)
    torch.testing.assert_close(found[brackets], expected[brackets])
    model.pools_words = False  # the control of chapter 6.3
    _, state = model.step(torch.tensor([[BOS]]), model.start(source))
    logits, _ = model.step(torch.tensor([ids]), state)
    torch.testing.assert_close(logits[0, 0].softmax(-1), expected)


def test_a_beam_is_scored_by_the_model_alone():
    translator, _ = untrained("tags")
    parser = Parser(translator, False)
    search = replace(translator.search, beam_size=3)
    (found,) = parser.hypotheses(["the dog barks"], search)
    source = torch.tensor([[*translator.tokenizer.encode("the dog barks"), EOS]])
    scores = translator.model(source, torch.tensor([[BOS, *found.ids]]))[0]
    chosen = torch.tensor([*found.ids, EOS])[:, None]
    expected = scores.log_softmax(-1).gather(1, chosen).sum().item()
    assert found.log_prob == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_a_tree_keeps_words_whose_characters_are_not_known(form):
    translator, with_words = untrained(form)
    warnings = []
    lines = ["the (dög) barks", "", "a 犬", "  "]
    trees = trees_of(translator, with_words, lines, warnings.append)
    assert [tree == "" for tree in trees] == [False, True, False, True]
    assert warnings == []
    words = [tree.replace("(", " ( ").replace(")", " ) ").split() for tree in trees]
    for shown, sentence in zip(
        words[::2], ("the -LRB-dög-RRB- barks", "a 犬"), strict=True
    ):
        assert [word for word in shown if word in sentence.split()] == sentence.split()


def test_a_line_that_is_too_long_is_named_and_left_empty():
    translator, with_words = untrained("words")
    translator.model.config = replace(translator.model.config, max_len=70)
    warnings = []
    lines = ["the " * 20, "a dog"]
    trees = trees_of(translator, with_words, lines, warnings.append)
    assert trees[0] == ""
    assert trees[1].startswith("(")
    assert len(warnings) == 1
    assert warnings[0].startswith("line 1: 21 tokens are more than the 10")


def test_a_search_without_room_for_a_bracket_is_refused():
    translator, _ = untrained("tags")
    translator.search = replace(translator.search, max_extra=2)
    with pytest.raises(ValueError, match="no room for the brackets of a tree; give"):
        Parser(translator, False)
    translator.search = replace(translator.search, max_extra=3)
    output = Parser(translator, False).translate(SENTENCES[-1])
    assert output.count("(") == 1
