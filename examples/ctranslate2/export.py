"""Write a trained model in CTranslate2's format, which serves it fast on CPUs and GPUs.

    python examples/ctranslate2/export.py RUN OUT

CTranslate2 searches nearly as `search.beam_search` does:

- Its `length_penalty` b divides a log-probability by length^b, where Wu et al. divide
  by ((5 + length) / 6)^α. The two rank alike only without a penalty, b = α = 0.
- It goes on until the likeliest output of all is finished, ours until as many are as
  there are beams or until none can win (D13). So it may find another, likelier one.
- By its `min_decoding_length` of 1 it finds no empty translation.
- What reaches its longest length is cut off there; ours ends (Deviation D10).

The scores of an output are equal, and so are nearly all translations without a penalty.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

try:
    import ctranslate2  # before torch: see README.md, "PyTorch in the same process"
    import numpy as np
    import torch
    from torch import Tensor, nn

    from transformer_lite.inference.translator import Translator
    from transformer_lite.layers import AddAndNorm, DecoderLayer, EncoderLayer
    from transformer_lite.model import Decoder, Encoder
    from transformer_lite.runs.files import renamed_when_whole
    from transformer_lite.tokenizer import BOS, EOS, UNK
except ImportError as error:
    sys.exit(
        f"export.py: error: {error}; from the repository's root: pip install . "
        "-r examples/ctranslate2/requirements.txt"
    )


def export_ctranslate2(translator: Translator, out: Path) -> None:
    """Write a folder that `ctranslate2.Translator` loads, and the tokenizer.

    Raises:
        ValueError: `out` exists, or CTranslate2 does not compute a model of this shape.
    """
    model, config = translator.model, translator.model.config
    d_head = config.d_model // config.num_heads
    if {config.d_k or d_head, config.d_v or d_head} != {d_head}:
        raise ValueError(
            f"d_k = {config.d_k}, d_v = {config.d_v}: CTranslate2 computes heads of "
            f"width d_model / num_heads = {d_head} alone; train a model of such heads"
        )
    spec = ctranslate2.specs.TransformerSpec.from_config(
        config.num_layers, config.num_heads, pre_norm=False
    )
    _fill_stack(spec.encoder, spec.encoder.embeddings[0], model.encoder)
    _fill_stack(spec.decoder, spec.decoder.embeddings, model.decoder)
    spec.decoder.projection.weight = _array(model.decoder.embedding.weight)
    pieces = translator.tokenizer.pieces(range(config.vocab_size))
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.bos_token = spec.config.decoder_start_token = pieces[BOS]
    spec.config.eos_token, spec.config.unk_token = pieces[EOS], pieces[UNK]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = nn.LayerNorm(1).eps
    spec.validate()
    spec.optimize()
    with renamed_when_whole(out) as partial:
        spec.save(str(partial))
        translator.tokenizer.save(partial / "tokenizer.model")


def _fill_stack(spec: Any, embedding: Any, stack: Encoder | Decoder) -> None:
    embedding.weight = _array(stack.embedding.weight)
    spec.scale_embeddings = True  # by √d_model
    # Written out: CTranslate2's own are those of the authors' code (Deviation D3),
    # counted from 1.
    spec.position_encodings.encodings = _array(stack.positions.encoding)
    for layer_spec, layer in zip(spec.layer, stack.layers, strict=True):
        _fill_layer(layer_spec, layer)


def _fill_layer(spec: Any, layer: EncoderLayer | DecoderLayer) -> None:
    own = layer.self_attention
    _fill_linear(spec.self_attention.linear[0], own.w_q, own.w_k, own.w_v)
    _fill_linear(spec.self_attention.linear[1], own.w_o)
    _fill_norm(spec.self_attention.layer_norm, layer.after_self_attention)
    if isinstance(layer, DecoderLayer):
        cross = layer.cross_attention
        _fill_linear(spec.attention.linear[0], cross.w_q)
        _fill_linear(spec.attention.linear[1], cross.w_k, cross.w_v)
        _fill_linear(spec.attention.linear[2], cross.w_o)
        _fill_norm(spec.attention.layer_norm, layer.after_cross_attention)
    _fill_linear(spec.ffn.linear_0, layer.feed_forward.w_1)
    _fill_linear(spec.ffn.linear_1, layer.feed_forward.w_2)
    _fill_norm(spec.ffn.layer_norm, layer.after_feed_forward)


def _fill_linear(spec: Any, *side_by_side: nn.Linear) -> None:
    spec.weight = _array(torch.cat([linear.weight for linear in side_by_side]))
    if side_by_side[0].bias is not None:
        spec.bias = _array(torch.cat([linear.bias for linear in side_by_side]))


def _fill_norm(spec: Any, add_and_norm: AddAndNorm) -> None:
    spec.gamma = _array(add_and_norm.norm.weight)
    spec.beta = _array(add_and_norm.norm.bias)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().cpu().numpy()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("run", help="a run's folder, or a model of the package")
    options.add_argument("out", type=Path, help="folder to make")
    given = options.parse_args()
    try:
        export_ctranslate2(Translator.load(given.run, device="cpu"), given.out)
    except ValueError as error:
        options.error(str(error))
