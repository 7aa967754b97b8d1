"""Our model has the logits, the attention and the beams of transformers' Marian."""

import math
from functools import cache

import pytest
import torch
from marian_model import DEFAULTS, marian_transformer
from transformers import MarianConfig, MarianMTModel

from transformer_lite.search import beam_search
from transformer_lite.tokenizer import BOS, EOS, PAD

VOCAB, ROOM = 37, 40
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
    "forced_eos_token_id": None,
}
"""The shape of the models named opus-mt, but smaller."""
CHANGES = {
    "opus-mt": {},
    "relu": {"activation_function": "relu"},
    "gelu": {"activation_function": "gelu"},
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
    "another start": {"decoder_start_token_id": 5},
}
ROWS = [VOCAB - 1, VOCAB - 1, 0, 1, *range(2, VOCAB - 1)]
"""PAD, BOS, EOS and UNK, then all others."""
every_kind = pytest.mark.parametrize("kind", CHANGES)


def marian(kind):
    """Return a Marian model of transformers with random weights."""
    config = MarianConfig(**SHAPE | CHANGES[kind], attn_implementation="eager")
    torch.manual_seed(11)
    model = MarianMTModel(config).eval()
    with torch.no_grad():  # biases and LayerNorms are zero and one at first
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter += 0.2 * torch.randn_like(parameter)
        model.final_logits_bias += torch.randn_like(model.final_logits_bias)
    return model


def sources(count, seed, longest=9):
    """Return random sources in our ids, padded, and where they are real."""
    torch.manual_seed(seed)
    ids = torch.randint(4, VOCAB + 1, (count, longest))
    lengths, places = torch.randint(1, longest, (count, 1)), torch.arange(longest)
    ids = ids.masked_fill(places > lengths, PAD).masked_fill(places == lengths, EOS)
    return ids, (ids != PAD).long()


class Pair:
    """A Marian model, and ours made of it."""

    def __init__(self, theirs, dtype=torch.float):
        self.config = theirs.config.to_dict()
        ours = marian_transformer(self.config, theirs.state_dict(), ROWS)
        self.theirs, self.ours = theirs.to(dtype), ours.eval().to(dtype)
        start = theirs.config.decoder_start_token_id
        self.rows = torch.tensor([ROWS[PAD], start, *ROWS[EOS:]])


@cache
def random_pair(kind):
    return Pair(marian(kind))


@cache
def taught_pair(kind):
    """Return a pair that has begun to copy its source, so that outputs differ and end.

    It computes in double precision, in which hardly two outputs are equally likely.
    """
    theirs = marian(kind).train()
    optimizer = torch.optim.Adam(theirs.parameters(), lr=5e-3)
    rows = torch.tensor(ROWS)
    for step in range(150):
        ids, real = sources(32, seed=step)
        labels = rows[ids].masked_fill(real == 0, -100)
        theirs(rows[ids], attention_mask=real, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return Pair(theirs.eval(), torch.double)


@every_kind
@torch.no_grad()
def test_logits_and_attention_weights_are_equal(kind):
    pair = random_pair(kind)
    src, real = sources(20, seed=1)
    tgt = torch.randint(3, VOCAB + 1, (20, 7))
    tgt[:, 0] = BOS
    theirs = pair.theirs(
        input_ids=pair.rows[src],
        attention_mask=real,
        decoder_input_ids=pair.rows[tgt],
        output_attentions=True,
    )
    logits = pair.ours(src, tgt)
    expected = theirs.logits[..., pair.rows]
    assert expected.std() > 0.5
    torch.testing.assert_close(
        logits[..., EOS:], expected[..., EOS:], atol=1e-5, rtol=0
    )
    assert (logits[..., [PAD, BOS]] == -math.inf).all()
    for own, other in zip(
        pair.ours.attention_weights(src, tgt),
        (theirs.encoder_attentions, theirs.decoder_attentions, theirs.cross_attentions),
        strict=True,
    ):
        torch.testing.assert_close(own, torch.stack(other, 1), atol=1e-5, rtol=0)


def generated(pair, src, real, beam_size):
    """Return what `generate` of transformers finds, in our ids.

    None stands for an output that has not ended: the two searches end it otherwise.
    """
    found = pair.theirs.generate(
        input_ids=pair.rows[src],
        attention_mask=real,
        num_beams=beam_size,
        do_sample=False,
        max_length=ROOM + 1,
        length_penalty=0.0,
        early_stopping=beam_size > 1,
        bad_words_ids=[[VOCAB - 1]],  # PAD
        renormalize_logits=True,
    )
    number = {theirs: ours for ours, theirs in enumerate(pair.rows.tolist())}
    rows = found[:, 1:].tolist()
    ended = [row[: row.index(0)] if 0 in row else None for row in rows]
    return [row and [number[theirs] for theirs in row] for row in ended]


@pytest.mark.filterwarnings("ignore::UserWarning")  # about arguments of generate
@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("kind", ["opus-mt", "unequal stacks", "another start"])
def test_outputs_of_the_search_are_equal(kind, beam_size):
    pair = taught_pair(kind)
    src, real = sources(100, seed=1000)
    theirs = generated(pair, src, real, beam_size)
    step, limits = pair.ours.decoder.step, torch.full((len(src),), ROOM)
    with torch.no_grad():
        state = pair.ours.start(src)
    found = beam_search(step, state, limits, BOS, EOS, beam_size)
    ours = [best.ids for (best,) in found]
    ended = [i for i, ids in enumerate(theirs) if ids is not None]
    assert len(ended) >= 90
    assert len({tuple(theirs[i]) for i in ended}) >= 20
    # Of two unfinished outputs equally likely to 1e-7 either may be kept.
    assert sum(ours[i] != theirs[i] for i in ended) <= 1


def test_defaults_are_those_of_the_format():
    theirs = MarianConfig().to_dict()
    assert {name: theirs[name] for name in DEFAULTS} == DEFAULTS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model_type", "bart"),
        ("activation_function", "tanh"),
        ("scale_embedding", False),
        ("normalize_before", True),
        ("share_encoder_decoder_embeddings", False),
    ],
)
def test_a_model_that_is_not_computed_is_refused(name, value):
    pair = random_pair("opus-mt")
    with pytest.raises(ValueError, match=f"{name} = {value!r} is not computed here"):
        marian_transformer(pair.config | {name: value}, {}, ROWS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.encoder.layers.1.fc1.bias": None}, "Missing.*w_1.bias"),
        ({"model.encoder.layers.2.fc1.bias": torch.zeros(40)}, "Unexpected.*w_1.bias"),
        ({"model.encoder.layers.1.fc1.bias": torch.zeros(41)}, "size mismatch"),
    ],
)
def test_weights_of_another_shape_are_refused(changes, message):
    pair = random_pair("opus-mt")
    tensors = pair.theirs.state_dict() | changes
    tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    with pytest.raises(RuntimeError, match=rf"(?s){message}"):
        marian_transformer(pair.config, tensors, ROWS)
