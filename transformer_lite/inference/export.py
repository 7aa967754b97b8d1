"""A trained model in CTranslate2's format, which serves it fast on CPUs and GPUs.

CTranslate2 searches nearly as `search.beam_search` does:

- Its `length_penalty` b divides a log-probability by length^b, where Wu et al. divide
  by ((5 + length) / 6)^α. The two rank alike only without a penalty, b = α = 0.
- It goes on until the likeliest output of all is finished, ours until as many are as
  there are beams or until none can win (D13). So it may find another, likelier one.
- By its `min_decoding_length` of 1 it finds no empty translation.
- What reaches its longest length is cut off there; ours ends (Deviation D10).

The scores of an output are equal, and so are nearly all translations without a penalty.

Paper: §6.1
Chapter: 06_1_machine_translation
Tests: tests/inference/test_export.py
"""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from transformer_lite.attention import MultiHeadAttention
from transformer_lite.files import new_folder
from transformer_lite.inference.translator import Translator
from transformer_lite.layers import AddAndNorm, FeedForward
from transformer_lite.model import Decoder, Encoder
from transformer_lite.tokenizer import BOS, EOS, UNK, Tokenizer

README = """\
# A Transformer for CTranslate2

Exported by transformer-lite, in float32. `pip install ctranslate2 sentencepiece`, then:

```python
import ctranslate2
import sentencepiece

tokenizer = sentencepiece.SentencePieceProcessor(model_file="tokenizer.model")
translator = ctranslate2.Translator(".", device="cpu")  # or device="cuda"

sources = [tokenizer.encode(line, out_type=str) for line in ["A dog runs."]]
results = translator.translate_batch(
    sources,
    beam_size={beam_size},
    length_penalty=0,
    min_decoding_length=0,
    max_input_length={max_len},
)
for result in results:
    print(tokenizer.decode(result.hypotheses[0]))
```

`length_penalty` divides by length ** length_penalty. The paper's penalty, which
transformer-lite uses, is another function of the length: with 0 here and
`--alpha 0` there the translations are equal, but for a few where the two searches
end at different moments. `compute_type="int8"` makes the model smaller and faster,
and its translations a little different.
"""


def export_ctranslate2(translator: Translator, out: Path) -> None:
    """Write a folder that `ctranslate2.Translator` loads, with its tokenizer.

    Raises:
        ValueError: `out` exists, CTranslate2 is not installed, or it cannot compute
            a model of this shape, or the model is not one of ours.
    """
    if not isinstance(translator.tokenizer, Tokenizer):
        raise ValueError(
            "a published model is not exported; CTranslate2 reads it itself, by its "
            "program ct2-transformers-converter"
        )
    specs = _specs()
    config = translator.model.config
    d_head = config.d_model // config.num_heads
    if {config.d_k or d_head, config.d_v or d_head} != {d_head}:
        raise ValueError(
            f"d_k = {config.d_k}, d_v = {config.d_v}: CTranslate2 computes heads of "
            f"width d_model / num_heads = {d_head} alone; train a model of such heads"
        )
    spec = specs.TransformerSpec.from_config(
        config.num_layers, config.num_heads, pre_norm=False
    )
    _encoder(spec.encoder, translator.model.encoder)
    _decoder(spec.decoder, translator.model.decoder)
    pieces = translator.tokenizer.pieces(range(config.vocab_size))
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.bos_token = spec.config.decoder_start_token = pieces[BOS]
    spec.config.eos_token, spec.config.unk_token = pieces[EOS], pieces[UNK]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = nn.LayerNorm(1).eps
    spec.validate()
    spec.optimize()
    with new_folder(out) as partial:
        spec.save(str(partial))
        translator.tokenizer.save(partial / "tokenizer.model")
        readme = README.format(
            beam_size=translator.search.beam_size, max_len=config.max_len
        )
        (partial / "README.md").write_text(readme, encoding="utf-8")


def _specs() -> ModuleType:
    try:
        import ctranslate2  # by this verb alone
    except ImportError:
        raise ValueError(
            "CTranslate2 is not installed; run pip install ctranslate2"
        ) from None
    return ctranslate2.specs


def _encoder(spec: Any, encoder: Encoder) -> None:
    (embedding,) = spec.embeddings
    _embed(spec, embedding, encoder)
    for layer_spec, layer in zip(spec.layer, encoder.layers, strict=True):
        _self_attention(layer_spec.self_attention, layer.self_attention)
        _norm(layer_spec.self_attention, layer.after_self_attention)
        _feed_forward(layer_spec.ffn, layer.feed_forward)
        _norm(layer_spec.ffn, layer.after_feed_forward)


def _decoder(spec: Any, decoder: Decoder) -> None:
    _embed(spec, spec.embeddings, decoder)
    spec.projection.weight = _array(decoder.embedding.weight)
    for layer_spec, layer in zip(spec.layer, decoder.layers, strict=True):
        _self_attention(layer_spec.self_attention, layer.self_attention)
        _norm(layer_spec.self_attention, layer.after_self_attention)
        _cross_attention(layer_spec.attention, layer.cross_attention)
        _norm(layer_spec.attention, layer.after_cross_attention)
        _feed_forward(layer_spec.ffn, layer.feed_forward)
        _norm(layer_spec.ffn, layer.after_feed_forward)


def _embed(spec: Any, embedding: Any, stack: Encoder | Decoder) -> None:
    embedding.weight = _array(stack.embedding.weight)
    spec.scale_embeddings = True  # by √d_model
    # Written out: CTranslate2's own are those of the authors' code (Deviation D3),
    # counted from 1.
    spec.position_encodings.encodings = _array(stack.positions.encoding)


def _self_attention(spec: Any, attention: MultiHeadAttention) -> None:
    _linear(spec.linear[0], attention.w_q, attention.w_k, attention.w_v)
    _linear(spec.linear[1], attention.w_o)


def _cross_attention(spec: Any, attention: MultiHeadAttention) -> None:
    _linear(spec.linear[0], attention.w_q)
    _linear(spec.linear[1], attention.w_k, attention.w_v)
    _linear(spec.linear[2], attention.w_o)


def _feed_forward(spec: Any, feed_forward: FeedForward) -> None:
    _linear(spec.linear_0, feed_forward.w_1)
    _linear(spec.linear_1, feed_forward.w_2)


def _norm(spec: Any, add_and_norm: AddAndNorm) -> None:
    spec.layer_norm.gamma = _array(add_and_norm.norm.weight)
    spec.layer_norm.beta = _array(add_and_norm.norm.bias)


def _linear(spec: Any, *side_by_side: nn.Linear) -> None:
    spec.weight = _array(torch.cat([linear.weight for linear in side_by_side]))
    if side_by_side[0].bias is not None:
        spec.bias = _array(torch.cat([linear.bias for linear in side_by_side]))


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().cpu().numpy()
