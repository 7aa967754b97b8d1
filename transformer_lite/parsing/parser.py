"""Parse sentences with a model that translates them into trees.

An unconstrained search does not always write a tree. This one allows a token only if a
tree over the sentence is still possible after it: constrained decoding.

Paper: §6.3
Chapter: 06_3_english_constituency_parsing
Tests: tests/package/parsing/test_parser.py
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from transformer_lite.batching import pad
from transformer_lite.config import SearchConfig
from transformer_lite.inference.translator import Translator
from transformer_lite.parsing.trees import tree_of, words_of
from transformer_lite.search import SearchState
from transformer_lite.tokenizer import EOS, PAD, UNK, Tokenizer

IN_A_ROW = 8
"""Most brackets that may open one after the other, without a word between them.

It is the largest number in the training trees of CRAFT and GUM. Without a limit a weak
model opens bracket after bracket."""


class _Beams(NamedTuple):
    leaves: Int[Tensor, "batch beams"]
    """Pieces of words written, or tags."""
    opened: Int[Tensor, "batch beams"]
    """Brackets opened since the start, including closed ones."""
    in_a_row: Int[Tensor, "batch beams"]
    """Brackets opened since the last word or closing bracket."""
    depth: Int[Tensor, "batch beams"]
    """Brackets that are open now."""
    closings: Int[Tensor, "batch beams deepest"]
    """The tokens that close the open brackets, outermost first; the rest is unused."""


class _State(NamedTuple):
    model: SearchState
    beams: _Beams
    leaves: Int[Tensor, "batch leaves"]
    """The pieces of each sentence that become leaves, padded with PAD."""

    def reorder(self, beams: Int[Tensor, "batch beams"]) -> "_State":
        rows = torch.arange(len(beams), device=beams.device)[:, None]
        counts = _Beams(*(tensor[rows, beams] for tensor in self.beams))
        return self._replace(model=self.model.reorder(beams), beams=counts)

    def keep(self, sentences: Int[Tensor, " kept"]) -> "_State":
        counts = _Beams(*(tensor[sentences] for tensor in self.beams))
        return _State(self.model.keep(sentences), counts, self.leaves[sentences])


class _TreeModel(nn.Module):
    """A model whose search may only write trees.

    Args:
        tokenizer: Its own, in which every bracket is one token.
        with_words: Whether leaves are the words' pieces; else each is one token, a tag.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Tokenizer,
        with_words: bool,
        most_brackets: int,
        in_a_row: int,
    ) -> None:
        super().__init__()
        self.model, self.encoder, self.config = model, model.encoder, model.config
        self.with_words = with_words
        self.pools_words = with_words
        """Whether the next word has the probability of all words together."""
        self.most_brackets, self.in_a_row = most_brackets, in_a_row
        pieces = tokenizer.pieces(range(tokenizer.vocab_size))
        ids = {piece: id_ for id_, piece in enumerate(pieces)}
        device = model.encoder.embedding.weight.device

        def where(holds: Callable[[str], bool]) -> Bool[Tensor, " vocab"]:
            return torch.tensor([holds(piece) for piece in pieces], device=device)

        def closing_id(piece: str) -> int:
            """Return the token that closes a bracket: with its label, else plain."""
            if not piece.startswith("▁("):
                return PAD
            return ids.get(f"▁){piece[2:]}", ids.get("▁)", PAD))

        self.closing = torch.tensor([*map(closing_id, pieces)], device=device)
        """The closing token of each opening token; PAD for all others."""
        self.closes = where(lambda piece: piece.startswith("▁)"))
        """Whether each token closes a bracket."""
        self.begins = where(lambda p: p[0] == "▁" and not p.startswith(("▁(", "▁)")))
        """Whether each token begins a word."""
        self.tags = self.begins & where(lambda piece: piece != "▁")
        """Whether each token can be a tag."""
        is_special = torch.arange(len(pieces), device=device) <= UNK
        self.words = ~self.closes & (self.closing == PAD) & ~is_special
        """Whether each token is a piece of a word."""

    @property
    def decoder(self) -> "_TreeModel":
        """Return itself, since a translator calls `model.decoder.step`."""
        return self

    def start(self, src_ids: Int[Tensor, "batch src_len"]) -> _State:
        """Read the sentences; return the state before the first token."""
        is_leaf = src_ids > UNK if self.with_words else self.begins[src_ids]
        rows = zip(src_ids, is_leaf, strict=True)
        # One PAD more, which stands after the last leaf of the longest sentence, too.
        leaves = pad([[*ids[chosen].tolist(), PAD] for ids, chosen in rows])
        nothing = src_ids.new_zeros(len(src_ids), 1)
        beams = _Beams(nothing, nothing, nothing, nothing, nothing[:, :, None])
        return _State(self.model.start(src_ids), beams, leaves.to(src_ids.device))

    def step(
        self, last_ids: Int[Tensor, "batch beams"], state: _State
    ) -> tuple[Float[Tensor, "batch beams vocab"], _State]:
        """Score the token after `last_ids`; return the state after them too."""
        logits, of_model = self.model.decoder.step(last_ids, state.model)
        beams = self._after(last_ids, state.beams)
        state = state._replace(model=of_model, beams=beams)
        if self.pools_words:
            # Which word comes next is known. So the probabilities of all words together
            # are that of the next one, and the model decides between it and brackets.
            logits = logits.float()
            words = logits.masked_fill(~self.words, -math.inf).logsumexp(-1)
            logits = logits.masked_fill(self.words, -math.inf)
            logits = logits.scatter(-1, _next_leaf(state)[..., None], words[..., None])
        return logits, state

    def _after(self, last_ids: Int[Tensor, "batch beams"], beams: _Beams) -> _Beams:
        closing = self.closing[last_ids]
        opens, closes = closing != PAD, self.closes[last_ids]
        closings = beams.closings
        if int(beams.depth.max()) == closings.size(-1):
            closings = functional.pad(closings, (0, closings.size(-1)))
        # What stands above the open brackets does not matter.
        place = beams.depth.clamp(max=closings.size(-1) - 1)[..., None]
        return _Beams(
            leaves=beams.leaves + self.words[last_ids].long(),
            opened=beams.opened + opens.long(),
            in_a_row=(beams.in_a_row + 1) * opens,
            depth=(beams.depth + opens.long() - closes.long()).clamp(min=0),
            closings=closings.scatter(-1, place, closing[..., None]),
        )

    def allowed(self, state: _State) -> Bool[Tensor, "batch beams vocab"]:
        """Return which tokens may follow so that a tree is still possible."""
        beams, next_leaf = state.beams, _next_leaf(state)
        is_left, is_open = next_leaf != PAD, beams.depth > 0
        between_words = ~is_left | self.begins[next_leaf]
        may_open = (
            (is_left & between_words & (is_open | (beams.opened == 0)))
            & (beams.in_a_row < self.in_a_row)
            & (beams.opened < self.most_brackets)
        )
        may_close = is_open & between_words & (beams.in_a_row == 0)
        may_close &= (beams.depth > 1) | ~is_left  # the outermost bracket ends it all
        allowed = may_open[..., None] & (self.closing != PAD)
        innermost = beams.closings.gather(-1, (beams.depth - 1).clamp(min=0)[..., None])
        allowed.scatter_(-1, innermost, may_close[..., None])
        may_say = (is_open & is_left)[..., None]
        if self.with_words:
            allowed.scatter_(-1, next_leaf[..., None], may_say)
        else:
            allowed |= may_say & self.tags
        allowed[..., PAD] = False
        allowed[..., EOS] = ~allowed.any(dim=-1)
        return allowed


def _next_leaf(state: _State) -> Int[Tensor, "batch beams"]:
    """Return the piece of each beam's next leaf; PAD after the last."""
    # Clamp the place: a beam that the search has given up may count too far.
    place = state.beams.leaves.clamp(max=state.leaves.size(1) - 1)
    return state.leaves.gather(1, place)


class Parser(Translator):
    """A translator whose every output is a tree over its sentence.

    Sentences are tokenized, with spaces between words and punctuation; brackets become
    -LRB- and -RRB-, as treebanks have them. `translate` returns the tokens of a tree,
    and `stream` the tree in brackets.

    Args:
        translator: One that was trained on a treebank.
        with_words: Whether it writes trees with their words.
        in_a_row: Most brackets that may open without a word between them.

    Raises:
        ValueError: Its `max_extra` leaves no room for a bracket.
    """

    def __init__(
        self, translator: Translator, with_words: bool, in_a_row: int = IN_A_ROW
    ) -> None:
        tokenizer, search = translator.tokenizer, translator.search
        # An output has at most `max_extra` tokens more than its sentence: EOS, and two
        # for each bracket.
        most_brackets = (search.max_extra - 1) // 2
        if most_brackets < 1:
            raise ValueError(
                f"search.max_extra = {search.max_extra} leaves no room for the "
                "brackets of a tree; give at least 3"
            )
        only_trees = _TreeModel(
            translator.model, tokenizer, with_words, most_brackets, in_a_row
        )
        super().__init__(only_trees, tokenizer, search)
        self.allowed, self.with_words = only_trees.allowed, with_words

    def _encode(self, number: int, sentence: str, search: SearchConfig) -> list[int]:
        # No training tree has an unknown character. The model reads the rarest token
        # that it knows in its place, the last of the vocabulary.
        rarest = self.tokenizer.vocab_size - 1
        words = " ".join(_words_of(sentence))
        ids = super()._encode(number, words, search)
        return [rarest if id_ == UNK else id_ for id_ in ids]

    def _written(self, sentence: str, ids: list[int]) -> str:
        """Return an output as a tree in brackets, with the words of the sentence."""
        if not ids:
            return ""
        output, words = self.tokenizer.decode(ids), _words_of(sentence)
        tokens = with_leaves(output, words) if self.with_words else output.split()
        return str(tree_of(tokens, words, self.with_words))


def _words_of(sentence: str) -> list[str]:
    """Return the words as the tokenizer reads them: what stands for a space, parts."""
    return words_of(sentence.replace("▁", " "))


def with_leaves(output: str, leaves: Iterable[str]) -> list[str]:
    """Replace the words or tags among a tree's tokens by these leaves."""
    rest = iter(leaves)
    return [token if token[0] in "()" else next(rest) for token in output.split()]
