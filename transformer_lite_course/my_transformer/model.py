"""The whole Transformer (Figure 1).

Chapter: https://transformer-lite.github.io/transformer-lite/notebooks/03_model_architecture.html
"""

from typing import Any

from torch import Tensor, nn

from transformer_lite.config import ModelConfig
from transformer_lite.tokenizer import PAD  # noqa: F401  (you will need it)

from .embeddings import Embedding  # noqa: F401
from .layers import DecoderLayer, EncoderLayer  # noqa: F401
from .masks import causal_mask, padding_mask  # noqa: F401
from .positions import sinusoidal_encoding  # noqa: F401


class Transformer(nn.Module):
    """Encoder and decoder, with one matrix for both embeddings and the output layer.

    Make one `embedding`, and two `nn.ModuleList`s of `num_layers` layers each,
    `encoder_layers` and `decoder_layers`. Add the encoding of positions up to
    `config.max_len` to the embeddings, and then apply dropout, on both sides. Draw the
    weights of the linear maps by `nn.init.xavier_uniform_`.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        raise NotImplementedError

    def forward(self, src_ids: Tensor, tgt_ids: Tensor) -> Tensor:
        """Score the next token at each target position: batch × tgt_len × vocab_size.

        Args:
            src_ids: Source tokens, batch × src_len, each row ended by EOS and filled up
                with PAD.
            tgt_ids: Target tokens, batch × tgt_len, from BOS on, filled up with PAD.
        """
        raise NotImplementedError

    def start(self, src_ids: Tensor) -> Any:
        """Read the source; return a state from which `step` goes on.

        It holds each decoder layer's projected memory, and an empty past: keys and
        values of no position, `keys_and_values(memory[:, :0])`.
        """
        raise NotImplementedError

    def step(self, last_ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Score the token after `last_ids`; return the scores and the next state.

        Args:
            last_ids: The newest token of each output, batch.
            state: What `start` or the step before returned; do not change it.

        Returns:
            The scores, batch × vocab_size, equal to those of `forward` at the last
            position, and the next state.
        """
        raise NotImplementedError
