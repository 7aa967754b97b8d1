"""Translate with a published Marian model, computed by the package's own Transformer.

echo "A dog runs." | python examples/marian/marian.py Helsinki-NLP/opus-mt-en-de
"""

import argparse
import json
import sys
from pathlib import Path

try:
    import torch
    from huggingface_hub import snapshot_download
    from marian_model import marian_transformer
    from marian_tokenizer import MarianTokenizer
    from safetensors.torch import load_file
    from torch import Tensor

    from transformer_lite.config import SearchConfig
    from transformer_lite.inference.lines import lines_in
    from transformer_lite.inference.translator import PairAttention, Translator
    from transformer_lite.precision import choose_device
    from transformer_lite.tokenizer import BOS, EOS
except ImportError as error:
    sys.exit(
        f"marian.py: error: {error}; from the repository's root: pip install '.[book]' "
        "-r examples/marian/requirements.txt"
    )

REVISIONS = {
    "Helsinki-NLP/opus-mt-de-en": "1a922f3b32a8e809e17a47d4b32142d8105924e5",
    "Helsinki-NLP/opus-mt-en-de": "6183067f769a302e3861815543b9f312c71b0ca4",
    "Helsinki-NLP/opus-mt-en-zh": "408d9bc410a388e1d9aef112a2daba955b945255",
}
"""The commit of each model that is known here."""

SAFE, PICKLED = "model.safetensors", "pytorch_model.bin"
FILES = ["config.json", "vocab.json", "source.spm", "target.spm", SAFE, PICKLED]
"""The files that are downloaded; of the weights a model has one or both."""


class MarianTranslator(Translator):
    """A translator whose target language has a sentencepiece model of its own."""

    @torch.inference_mode()
    def attention(self, source: str, target: str) -> PairAttention:
        """Return every head's attention weights for one sentence pair."""
        src_ids = [*self.tokenizer.encode(source), EOS]
        tgt_ids = [BOS, *self.tokenizer.encode_target(target)]
        device = self.model.encoder.embedding.weight.device
        weights = self.model.attention_weights(
            torch.tensor([src_ids], device=device),
            torch.tensor([tgt_ids], device=device),
        )
        pieces = self.tokenizer.pieces(src_ids), self.tokenizer.pieces(tgt_ids)
        return PairAttention(*pieces, *(part[0] for part in weights))


def load_marian(
    model: str | Path,
    revision: str | None = None,
    device: torch.device | str | None = None,
) -> MarianTranslator:
    """Load the translator of a Marian model, which searches as the paper does.

    Args:
        model: A repository of Hugging Face, which is downloaded once, or a folder with
            the same files.
        revision: The repository's commit; one of `REVISIONS` needs none.
        device: Where to translate; by default on a GPU, if there is one.

    Raises:
        ValueError: The commit is not known, or the model is not computed here.
    """
    folder = Path(model)
    if not folder.is_dir():
        revision = revision or REVISIONS.get(str(model))
        if revision is None:
            raise ValueError(
                f"{model}: no commit is known here; take one from "
                f"https://huggingface.co/{model}/commits/main and give it as revision"
            )
        folder = Path(snapshot_download(model, revision=revision, allow_patterns=FILES))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tokenizer = MarianTokenizer.load(folder)
    transformer = marian_transformer(config, _tensors(folder), tokenizer.rows)
    transformer.to(choose_device(device)).eval()
    return MarianTranslator(transformer, tokenizer, SearchConfig())


def _tensors(folder: Path) -> dict[str, Tensor]:
    """Return the weights by their names."""
    if (folder / SAFE).exists():
        return load_file(folder / SAFE)
    return torch.load(folder / PICKLED, map_location="cpu", weights_only=True)


def main() -> None:
    """Translate the lines of standard input."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("model", help="repository of Hugging Face, or a folder")
    options.add_argument("--revision", help="its commit, if it is not known here")
    given = options.parse_args()
    try:
        translator = load_marian(given.model, given.revision)

        def warn(message: str) -> None:
            print(message, file=sys.stderr)

        blocks = lines_in(sys.stdin.buffer, 1000, warn)
        for (best,) in translator.stream(blocks, warn):
            print(best.text, flush=True)
    except (ValueError, OSError) as error:
        options.error(str(error))


if __name__ == "__main__":
    main()
