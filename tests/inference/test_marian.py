"""Our model has the logits, the attention and the beams of a Marian model."""

import math
from dataclasses import replace
from functools import cache

import pytest
import torch

from transformer_lite.attention import MultiHeadAttention
from transformer_lite.config import ModelConfig
from transformer_lite.embeddings import sinusoidal_encoding
from transformer_lite.inference.marian import (
    ActivatedFeedForward,
    MarianConfig,
    add_biases,
    assemble,
)
from transformer_lite.layers import FeedForward
from transformer_lite.model import Transformer
from transformer_lite.search import beam_search, greedy_search
from transformer_lite.tokenizer import BOS, EOS, PAD

VOCAB, TARGET_VOCAB, ROOM = 37, 29, 40
SHAPE = {
    "vocab_size": VOCAB,
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "activation_function": "swish",
    "scale_embedding": True,
    "max_position_embeddings": ROOM + 10,
    "pad_token_id": VOCAB - 1,
    "decoder_start_token_id": VOCAB - 1,
    "eos_token_id": 0,
    "bos_token_id": 0,
}
"""Of the models named opus-mt, if smaller."""
TWO_VOCABULARIES = {
    "share_encoder_decoder_embeddings": False,
    "decoder_vocab_size": TARGET_VOCAB,
    "decoder_start_token_id": TARGET_VOCAB - 1,
    "pad_token_id": TARGET_VOCAB - 1,
}
CHANGES = {
    "opus-mt": {},
    "relu": {"activation_function": "relu"},
    "gelu": {"activation_function": "gelu"},
    "unscaled": {"scale_embedding": False},
    "unequal stacks": {
        "encoder_layers": 3,
        "decoder_layers": 1,
        "encoder_attention_heads": 6,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 56,
        "decoder_ffn_dim": 32,
    },
    "odd channels": {
        "d_model": 15,
        "encoder_attention_heads": 3,
        "decoder_attention_heads": 5,
    },
    "two vocabularies": TWO_VOCABULARIES,
    "own output": TWO_VOCABULARIES
    | {"tie_word_embeddings": False, "scale_embedding": False},
    "another start": {"decoder_start_token_id": 5},
}
every_kind = pytest.mark.parametrize("kind", CHANGES)


def order_of(size, start):
    """Rows of PAD, BOS, EOS and UNK, and then all others."""
    return torch.tensor([size - 1, start, 0, 1, *range(2, size - 1)])


def marian(kind):
    """A Marian model of `transformers` with random weights."""
    transformers = pytest.importorskip("transformers")
    config = transformers.MarianConfig(
        **SHAPE | CHANGES[kind], forced_eos_token_id=None, attn_implementation="eager"
    )
    torch.manual_seed(11)
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():  # biases and LayerNorms are zero and one at first
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter += 0.2 * torch.randn_like(parameter)
        model.final_logits_bias += torch.randn_like(model.final_logits_bias)
    return model


@cache
def random_pair(kind):
    return Pair(marian(kind))


@cache
def taught_pair(kind):
    """A pair that has begun to copy its source, so that outputs differ and end.

    In double precision, in which two outputs are hardly ever equally likely.
    """
    theirs = marian(kind).train()
    optimizer = torch.optim.Adam(theirs.parameters(), lr=5e-3)
    source = order_of(VOCAB, VOCAB - 1)
    for step in range(150):
        ids, real = sources(32, seed=step)
        labels = source[ids].clamp(max=theirs.final_logits_bias.size(1) - 2)
        labels = labels.masked_fill(real == 0, -100)
        theirs(source[ids], attention_mask=real, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return Pair(theirs.eval(), torch.double)


def sources(count, seed, longest=9):
    """Random sources in our ids, padded, and where they are real."""
    torch.manual_seed(seed)
    ids = torch.randint(4, VOCAB + 1, (count, longest))
    lengths = torch.randint(1, longest, (count, 1))
    places = torch.arange(longest)
    ids = ids.masked_fill(places > lengths, PAD).masked_fill(places == lengths, EOS)
    return ids, (ids != PAD).long()


def targets(pair, count, length=7):
    torch.manual_seed(2)
    tgt = torch.randint(3, len(pair.target), (count, length))
    tgt[:, 0] = BOS
    return tgt


class Pair:
    """A Marian model, and ours made of it."""

    def __init__(self, theirs, dtype=torch.float):
        self.config = MarianConfig.from_dict(theirs.config.to_dict())
        size = theirs.final_logits_bias.size(1)
        self.target = order_of(size, theirs.config.decoder_start_token_id)
        self.source = self.target
        if not self.config.share_encoder_decoder_embeddings:
            self.source = order_of(VOCAB, VOCAB - 1)
        orders = self.source.tolist(), self.target.tolist()
        ours = assemble(self.config, theirs.state_dict(), *orders)
        self.theirs, self.ours = theirs.to(dtype), ours.eval().to(dtype)

    def both(self, src, real, tgt):
        """Our logits, theirs in our order, and all else that theirs returns."""
        with torch.no_grad():
            theirs = self.theirs(
                input_ids=self.source[src],
                attention_mask=real,
                decoder_input_ids=self.target[tgt],
                output_attentions=True,
                use_cache=False,
            )
            return self.ours(src, tgt), theirs.logits[..., self.target], theirs


@every_kind
def test_logits_are_equal(kind):
    pair = random_pair(kind)
    src, real = sources(20, seed=1)
    ours, theirs, _ = pair.both(src, real, targets(pair, 20))
    assert theirs.std() > 0.5
    torch.testing.assert_close(ours[..., EOS:], theirs[..., EOS:], atol=1e-5, rtol=0)


@every_kind
def test_padding_and_the_start_are_never_put_out(kind):
    pair = random_pair(kind)
    src, real = sources(3, seed=1)
    ours, _, _ = pair.both(src, real, targets(pair, 3))
    assert (ours[..., [PAD, BOS]] == -math.inf).all()


@every_kind
def test_every_heads_attention_is_equal(kind):
    pair = random_pair(kind)
    src, real = sources(8, seed=1)
    tgt = targets(pair, 8)
    _, _, theirs = pair.both(src, real, tgt)
    with torch.no_grad():
        ours = pair.ours.attention_weights(src, tgt)
    for own, other in zip(
        ours,
        (theirs.encoder_attentions, theirs.decoder_attentions, theirs.cross_attentions),
        strict=True,
    ):
        torch.testing.assert_close(own, torch.stack(other, 1), atol=1e-5, rtol=0)


def generated(pair, src, real, beam_size):
    """What `generate` of transformers finds, in our ids, and its log-probabilities.

    None stands for an output that has not ended: the two searches end it otherwise.
    """
    found = pair.theirs.generate(
        input_ids=pair.source[src],
        attention_mask=real,
        num_beams=beam_size,
        do_sample=False,
        max_length=ROOM + 1,
        length_penalty=0.0,
        early_stopping=beam_size > 1,
        bad_words_ids=[[pair.theirs.config.pad_token_id]],
        renormalize_logits=True,
        return_dict_in_generate=True,
        output_scores=True,
    )
    number = {theirs: ours for ours, theirs in enumerate(pair.target.tolist())}
    rows = found.sequences[:, 1:].tolist()
    ended = [row[: row.index(0)] if 0 in row else None for row in rows]
    outputs = [row and [number[theirs] for theirs in row] for row in ended]
    return outputs, getattr(found, "sequences_scores", None)


def searched(pair, src, beam_size):
    state, step = pair.ours.start(src), pair.ours.decoder.step
    limits = torch.full((len(src),), ROOM)
    if beam_size == 1:
        return greedy_search(step, state, limits, BOS, EOS)
    return beam_search(step, state, limits, BOS, EOS, beam_size, alpha=0.0)


@pytest.mark.filterwarnings("ignore::UserWarning")  # about arguments of generate
@pytest.mark.parametrize("beam_size", [1, 2, 4, 6])
@every_kind
def test_outputs_of_the_search_are_equal(kind, beam_size):
    pair = taught_pair(kind)
    src, real = sources(100, seed=1000)
    theirs, scores = generated(pair, src, real, beam_size)
    ours = searched(pair, src, beam_size)
    ended = [i for i, ids in enumerate(theirs) if ids is not None]
    assert len(ended) >= 90
    assert len({tuple(theirs[i]) for i in ended}) >= 20
    equal = [i for i in ended if ours[i].ids == theirs[i]]
    # Of two unfinished outputs equally likely to 1e-7 either may be kept.
    assert len(equal) >= len(ended) - 1
    if beam_size > 1:
        found = torch.tensor([ours[i].score for i in equal])
        torch.testing.assert_close(found, scores[equal], atol=1e-4, rtol=0)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_wider_beam_finds_other_outputs():
    pair = taught_pair("opus-mt")
    src, _ = sources(100, seed=1000)
    narrow, wide = (searched(pair, src, beam_size) for beam_size in (1, 4))
    assert sum(a.ids != b.ids for a, b in zip(narrow, wide, strict=True)) >= 20


# Why that is so


def test_their_order_of_positions_is_ours_with_channels_renamed():
    theirs = random_pair("opus-mt").theirs.model.encoder.embed_positions.weight
    ours = sinusoidal_encoding(*theirs.shape)
    evens_then_odds = [*range(0, 24, 2), *range(1, 24, 2)]
    torch.testing.assert_close(ours[:, evens_then_odds], theirs)
    assert not torch.allclose(ours, theirs, atol=0.1)


def test_one_vocabulary_has_one_matrix():
    ours = random_pair("opus-mt").ours
    assert ours.encoder.embedding is ours.decoder.embedding
    assert ours.decoder.embedding.scores is ours.decoder.embedding.weight


def test_new_biases_change_nothing():
    torch.manual_seed(1)
    attention = MultiHeadAttention(12, 3)
    x = torch.randn(2, 5, 12)
    before = attention(x, x)
    add_biases(attention)
    assert torch.equal(attention(x, x), before)
    assert [attention.w_k.bias, attention.w_v.bias] == [None, None]
    assert attention.w_q.bias.shape == attention.w_o.bias.shape == (12,)


def test_an_activated_feed_forward_with_the_papers_function_is_the_papers():
    torch.manual_seed(1)
    paper, activated = FeedForward(6, 11), ActivatedFeedForward(6, 11, torch.nn.ReLU())
    activated.load_state_dict(paper.state_dict())
    x = torch.randn(2, 5, 6)
    assert torch.equal(activated(x), paper(x))


# What is refused


def test_a_configuration_has_the_formats_defaults():
    transformers = pytest.importorskip("transformers")
    theirs = transformers.MarianConfig()
    ours = MarianConfig.from_dict({"model_type": "marian"})
    for name in MarianConfig.__dataclass_fields__:
        if name not in ("decoder_vocab_size", "decoder_start_token_id"):
            assert getattr(ours, name) == getattr(theirs, name), name


def test_the_sides_are_in_our_words():
    config = MarianConfig(
        d_model=24,
        vocab_size=37,
        encoder_layers=3,
        encoder_ffn_dim=56,
        encoder_attention_heads=6,
        decoder_layers=1,
        decoder_ffn_dim=32,
        decoder_attention_heads=2,
        max_position_embeddings=64,
        dropout=0.0,
    )
    encoder = ModelConfig(
        vocab_size=38,
        num_layers=3,
        d_model=24,
        d_ff=56,
        num_heads=6,
        dropout=0.0,
        max_len=64,
    )
    assert config.side("encoder") == encoder
    assert config.side("decoder") == replace(
        encoder, num_layers=1, d_ff=32, num_heads=2
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "bart"}, "model_type = 'bart' is not computed here"),
        ({"model_type": None}, "model_type = None is not"),
        ({"activation_function": "tanh"}, "'tanh' is not.*'swish' or 'silu' or 'gelu'"),
        ({"normalize_before": True}, "normalize_before = True is not.*only False"),
        ({"normalize_embedding": True}, "normalize_embedding = True is not"),
        ({"add_final_layer_norm": True}, "add_final_layer_norm = True is not"),
        ({"static_position_embeddings": False}, "embeddings = False is not.*only True"),
        ({"encoder_layers": "6"}, "encoder_layers = '6' is impossible"),
        ({"d_model": 24.0}, "d_model = 24.0 is impossible"),
        ({"encoder_layers": True}, "encoder_layers = True is impossible"),
        ({"scale_embedding": 1}, "scale_embedding = 1 is impossible"),
        ({"d_model": 0}, "d_model = 0 is impossible; get"),
        ({"decoder_layers": 0}, "decoder_layers = 0 is impossible; get"),
        ({"encoder_ffn_dim": -1}, "encoder_ffn_dim = -1 is impossible; get"),
        ({"vocab_size": 3}, "vocab_size = 3 is impossible; get"),
        ({"decoder_vocab_size": 0}, "decoder_vocab_size = 0 is impossible; get"),
        ({"decoder_start_token_id": VOCAB}, "decoder_start_token_id = 37 is imp"),
        ({"max_position_embeddings": 1}, "max_position_embeddings = 1 is imposs"),
        ({"dropout": 1.0}, "dropout = 1.0 is impossible; get"),
        *(
            ({name: heads}, f"{name} = {heads} is impossible with d_model = 24; get")
            for name in ("encoder_attention_heads", "decoder_attention_heads")
            for heads in (0, 7)
        ),
    ],
)
def test_another_model_is_named(changes, message):
    given = {"model_type": "marian", **SHAPE, **changes}
    with pytest.raises(ValueError, match=message):
        MarianConfig.from_dict(given)


@pytest.fixture(scope="module")
def made():
    """A shape, its tensors and the numbering, to be damaged."""
    pair = random_pair("opus-mt")
    return pair.config, pair.theirs.state_dict(), pair.target.tolist()


NAME = "model.decoder.layers.1.encoder_attn.q_proj.weight"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({NAME: None}, f"there is no {NAME}"),
        (
            {NAME: torch.zeros(24, 23)},
            rf"{NAME} has the shape \(24, 23\).*not \(24, 24",
        ),
        ({"model.shared.weight": torch.zeros(38, 24)}, None),
        ({"model.encoder.layernorm_embedding.bias": torch.zeros(24)}, "has no place"),
        ({"model.encoder.layers.2.fc1.bias": torch.zeros(40)}, "fc1.bias has no place"),
        ({"model.encoder.embed_positions.weight": torch.ones(50, 24)}, "sinusoidal"),
        ({"final_logits_bias": torch.zeros(1, 36)}, r"not \(37,\)"),
    ],
)
def test_weights_of_another_model_are_named(made, changes, message):
    config, tensors, order = made
    changed = {n: t for n, t in (tensors | changes).items() if t is not None}
    if message is None:  # the matrix has other names, and the first one counts
        assemble(config, changed, order, order)
        changed = {n: t for n, t in changed.items() if "embed_tokens" not in n}
        message = r"shared.weight has the shape \(38, 24\)"
    with pytest.raises(ValueError, match=message):
        assemble(config, changed, order, order)


@pytest.mark.parametrize("kept", ["model.shared.weight", "lm_head.weight"])
def test_a_file_may_keep_one_name_of_the_shared_matrix(made, kept):
    config, tensors, order = made
    matrices = [n for n, t in tensors.items() if t.shape == (VOCAB, 24)]
    assert len(matrices) == 4
    fewer = {n: t for n, t in tensors.items() if n == kept or n not in matrices}
    model = assemble(config, fewer, order, order)
    expected = assemble(config, tensors, order, order)
    assert torch.equal(
        model.encoder.embedding.weight, expected.encoder.embedding.weight
    )
    assert isinstance(model, Transformer)


def test_half_precision_is_read_as_single(made):
    config, tensors, order = made
    halves = {name: tensor.half() for name, tensor in tensors.items()}
    model = assemble(config, halves, order, order)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float}
