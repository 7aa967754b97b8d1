"""Parse sentences with a model that translates them into trees.

An unconstrained search does not always write a tree. This one allows a token only if a
tree over the sentence is still possible after it: constrained decoding.

Paper: §6.3
Chapter: 06_3_english_constituency_parsing
Tests: tests/package/parsing/test_parser.py
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
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
    """Counts of what each beam has written so far."""

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
    """The search state of a constrained model."""

    model: SearchState
    beams: _Beams
    leaves: Int[Tensor, "batch leaves"]
    """The pieces of each sentence that become leaves, padded with PAD."""

    def reorder(self, beams: Int[Tensor, "batch beams"]) -> "_State":
        rows = torch.arange(len(beams), device=beams.device)[:, None]
        own = _Beams(*(tensor[rows, beams] for tensor in self.beams))
        return self._replace(model=self.model.reorder(beams), beams=own)

    def keep(self, sentences: Int[Tensor, " kept"]) -> "_State":
        own = _Beams(*(tensor[sentences] for tensor in self.beams))
        return _State(self.model.keep(sentences), own, self.leaves[sentences])


class _TreeModel(nn.Module):
    """A model whose search may only write trees.

    Args:
        model: A trained `Transformer`.
        tokenizer: Its own, in which every bracket is one token.
        with_words: Whether leaves are the words' pieces; else each is one token, a tag.
        most_brackets: Most brackets of a tree.
        in_a_row: Most brackets that may open one after the other.
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
        plain = ids.get("▁)", PAD)
        closing = [
            ids.get(f"▁){piece[2:]}", plain) if piece[:2] == "▁(" else PAD
            for piece in pieces
        ]
        begins = [piece[0] == "▁" and piece[1:2] not in {*"()"} for piece in pieces]
        device = model.encoder.embedding.weight.device
        self.closing = torch.tensor(closing, device=device)
        """The closing token of each opening token; PAD for all others."""
        self.closes = torch.tensor([p[:2] == "▁)" for p in pieces], device=device)
        """Whether each token closes a bracket."""
        self.begins = torch.tensor(begins, device=device)
        """Whether each token begins a word."""
        is_blank = torch.tensor([piece == "▁" for piece in pieces], device=device)
        self.tags = self.begins & ~is_blank
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
        leaves = pad([[*ids[own].tolist(), PAD] for ids, own in rows])
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
        """Return the counts after one more token."""
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
        model, tokenizer, search = (
            translator.model,
            translator.tokenizer,
            translator.search,
        )
        # An output has at most `max_extra` tokens more than its sentence: EOS, and two
        # for each bracket.
        most_brackets = (search.max_extra - 1) // 2
        if most_brackets < 1:
            raise ValueError(
                f"search.max_extra = {search.max_extra} leaves no room for the "
                "brackets of a tree; give at least 3"
            )
        only_trees = _TreeModel(model, tokenizer, with_words, most_brackets, in_a_row)
        super().__init__(only_trees, tokenizer, search)
        self.allowed = only_trees.allowed

    def _encode(self, number: int, sentence: str, search: SearchConfig) -> list[int]:
        # No training tree has an unknown character. The model reads the rarest token
        # that it knows in its place, the last of the vocabulary.
        rarest = self.tokenizer.vocab_size - 1
        ids = super()._encode(number, sentence, search)
        return [rarest if id_ == UNK else id_ for id_ in ids]


def parse(
    translator: Translator,
    lines: Iterable[str],
    warn: Callable[[str], None],
    with_words: bool = False,
    at_once: int | None = None,
) -> Iterator[str]:
    """Yield each sentence's tree in brackets, in order; empty where there is none.

    Args:
        translator: One that was trained on a treebank.
        lines: Tokenized sentences, with spaces between words and punctuation; brackets
            become -LRB- and -RRB-, as treebanks have them.
        warn: Called with a message for each line that is too long.
        with_words: Whether it writes trees with their words.
        at_once: As for `Translator.stream`.

    Raises:
        ValueError: Its `max_extra` leaves no room for a bracket.
    """
    waiting: deque[list[str]] = deque()

    def sentences() -> Iterator[str]:
        for line in lines:
            words = words_of(line.replace("▁", " "))  # as the tokenizer reads it
            waiting.append(words)
            yield " ".join(words)

    parser = Parser(translator, with_words)
    for output in parser.stream(sentences(), warn, at_once):
        words = waiting.popleft()
        if not output:
            yield ""
            continue
        tokens = with_leaves(output, words) if with_words else output.split()
        yield str(tree_of(tokens, words, with_words))


def with_leaves(output: str, leaves: Iterable[str]) -> list[str]:
    """Replace the words or tags among a tree's tokens by these leaves."""
    rest = iter(leaves)
    return [token if token[0] in "()" else next(rest) for token in output.split()]
