"""Recurrent translation before the Transformer, without and with attention.

`RecurrentModel` has the interface of `model.Transformer`, so the same training step and
the same search serve both.

Paper: §1–2
Chapter: 01_introduction, 02_background
Tests: tests/book/test_recurrent.py
"""

import json
import math
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from transformer_lite.embeddings import Embedding
from transformer_lite.tokenizer import PAD

RECORDING = Path(__file__).with_name("recurrent.json")
"""Trainings of `RecurrentModel`, without and with attention, and of the Transformer.

results/README.md names the script.
"""


def recorded_runs() -> dict[str, dict[str, dict]]:
    """Return what each recorded training gave, by the model's name and the seed."""
    return json.loads(RECORDING.read_text(encoding="utf-8"))["runs"]


class AdditiveAttention(nn.Module):
    """Attention that compares by a small network (Bahdanau et al. 2015)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, d_model)
        self.v = nn.Linear(d_model, 1, bias=False)

    def forward(
        self,
        query: Float[Tensor, "batch q_len d_model"],
        keys: Float[Tensor, "batch src_len d_model"],
        memory: Float[Tensor, "batch src_len d_model"],
        mask: Bool[Tensor, "batch src_len"],
    ) -> tuple[
        Float[Tensor, "batch q_len d_model"], Float[Tensor, "batch q_len src_len"]
    ]:
        """Return the weighted sum of the memory for each query, and the weights.

        Args:
            keys: `w_k(memory)`, the same for all queries of a sentence.
            memory: The values.
            mask: True where the memory may be read.
        """
        hidden = torch.tanh(self.w_q(query)[:, :, None] + keys[:, None])
        energy = self.v(hidden).squeeze(-1)  # batch × q_len × src_len
        weights = energy.masked_fill(~mask[:, None], -math.inf).softmax(dim=-1)
        return weights @ memory, weights


class RecurrentEncoder(nn.Module):
    """Two GRUs that read the source, one from each end, each half of d_model wide."""

    def __init__(self, embedding: Embedding, d_model: int, dropout: float) -> None:
        super().__init__()
        self.embedding, self.dropout = embedding, nn.Dropout(dropout)
        self.gru = nn.GRU(d_model, d_model // 2, batch_first=True, bidirectional=True)

    def forward(
        self, src_ids: Int[Tensor, "batch src_len"]
    ) -> tuple[Float[Tensor, "batch src_len d_model"], Float[Tensor, "batch d_model"]]:
        """Return a vector for each source token, and one for the whole sentence.

        The one vector joins the states in which the two directions end.
        """
        # Packed, the backward direction begins at each sentence's last real token.
        packed = pack_padded_sequence(
            self.dropout(self.embedding(src_ids)),
            lengths=(src_ids != PAD).sum(dim=1).cpu(),
            batch_first=True,
            enforce_sorted=False,
        )
        outputs, last = self.gru(packed)
        memory, _ = pad_packed_sequence(outputs, True, total_length=src_ids.size(1))
        return memory, torch.cat([last[0], last[1]], dim=-1)


class RecurrentState(NamedTuple):
    """All that the decoder keeps from one generated token to the next."""

    memory: Float[Tensor, "batch src_len d_model"]
    """The encoder's vectors; without attention a single one, as if src_len were 1."""
    keys: Float[Tensor, "batch src_len d_model"]
    """Attention's keys, one for each vector of the memory."""
    mask: Bool[Tensor, "batch src_len"]
    hidden: Float[Tensor, "batch beams d_model"]
    """The state of the decoder's GRU."""

    def reorder(self, beams: Int[Tensor, "batch beams"]) -> "RecurrentState":
        """Return the state in which beam j of sentence i continues beam beams[i, j]."""
        sentences = torch.arange(len(beams), device=beams.device)[:, None]
        return self._replace(hidden=self.hidden[sentences, beams])

    def keep(self, sentences: Int[Tensor, " kept"]) -> "RecurrentState":
        """Return the state of these sentences alone."""
        return RecurrentState(*(part[sentences] for part in self))


class RecurrentDecoder(nn.Module):
    """A GRU that writes the target: at each step it looks, then it writes a token."""

    def __init__(
        self, embedding: Embedding, d_model: int, attention: bool, dropout: float
    ) -> None:
        super().__init__()
        self.embedding, self.dropout = embedding, nn.Dropout(dropout)
        self.attention = AdditiveAttention(d_model) if attention else None
        self.first = nn.Linear(d_model, d_model)
        self.cell = nn.GRUCell(2 * d_model, d_model)
        self.output = nn.Linear(3 * d_model, d_model)

    def start(
        self,
        memory: Float[Tensor, "batch src_len d_model"],
        summary: Float[Tensor, "batch d_model"],
        mask: Bool[Tensor, "batch src_len"],
    ) -> RecurrentState:
        """Return the state before the first token, with one beam for each sentence."""
        hidden = torch.tanh(self.first(summary))[:, None]
        if self.attention is None:
            context = summary[:, None]
            return RecurrentState(context, context, mask[:, :1], hidden)
        return RecurrentState(memory, self.attention.w_k(memory), mask, hidden)

    def look(
        self, state: RecurrentState
    ) -> tuple[
        Float[Tensor, "batch beams d_model"], Float[Tensor, "batch beams src_len"]
    ]:
        """Return the context that each beam reads from the source, and the weights."""
        if self.attention is None:  # the same vector at every step
            context = state.memory.expand_as(state.hidden)
            return context, torch.ones_like(context[..., :1])
        return self.attention(state.hidden, state.keys, state.memory, state.mask)

    def step(
        self, last_ids: Int[Tensor, "batch beams"], state: RecurrentState
    ) -> tuple[Float[Tensor, "batch beams vocab"], RecurrentState]:
        """Score the token after `last_ids`; return the state after them too."""
        output, state = self.advance(last_ids, state)
        return self.embedding.logits(output), state

    def advance(
        self, last_ids: Int[Tensor, "batch beams"], state: RecurrentState
    ) -> tuple[Float[Tensor, "batch beams d_model"], RecurrentState]:
        """Return the vectors that are scored, and the state after `last_ids`."""
        context, _ = self.look(state)
        read = torch.cat([self.dropout(self.embedding(last_ids)), context], dim=-1)
        hidden = self.cell(read.flatten(0, 1), state.hidden.flatten(0, 1))
        hidden = hidden.view_as(state.hidden)
        output = torch.tanh(self.output(torch.cat([hidden, read], dim=-1)))
        return self.dropout(output), state._replace(hidden=hidden)


class RecurrentModel(nn.Module):
    """A recurrent encoder–decoder (Cho et al. 2014; Bahdanau et al. 2015).

    Args:
        vocab_size: Entries of the vocabulary shared by source and target.
        d_model: Width of embeddings and states; an even number.
        attention: Whether the decoder looks at every source token. If not, it knows
            the source by one vector of fixed size.
        dropout: Share of embeddings and outputs that training drops.
    """

    def __init__(
        self, vocab_size: int, d_model: int, attention: bool, dropout: float = 0.1
    ) -> None:
        super().__init__()
        embedding = Embedding(vocab_size, d_model)
        self.encoder = RecurrentEncoder(embedding, d_model, dropout)
        self.decoder = RecurrentDecoder(embedding, d_model, attention, dropout)

    def forward(
        self,
        src_ids: Int[Tensor, "batch src_len"],
        tgt_ids: Int[Tensor, "batch tgt_len"],
    ) -> Float[Tensor, "batch tgt_len vocab"]:
        """Score the next token at each target position, teacher-forced."""
        return self.decoder.embedding.logits(self.hidden(src_ids, tgt_ids))

    def hidden(
        self,
        src_ids: Int[Tensor, "batch src_len"],
        tgt_ids: Int[Tensor, "batch tgt_len"],
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """Return the vectors that `forward` scores, for a loss that scores them."""
        state, outputs = self.start(src_ids), []
        for last_ids in tgt_ids.split(1, dim=1):
            output, state = self.decoder.advance(last_ids, state)
            outputs.append(output)
        return torch.cat(outputs, dim=1)

    def start(self, src_ids: Int[Tensor, "batch src_len"]) -> RecurrentState:
        """Read the source; return the decoder's state before the first token."""
        return self.decoder.start(*self.encoder(src_ids), src_ids != PAD)

    def weights(
        self,
        src_ids: Int[Tensor, "batch src_len"],
        tgt_ids: Int[Tensor, "batch tgt_len"],
    ) -> Float[Tensor, "batch tgt_len memory_len"]:
        """Return the attention weights before each next token, for a figure."""
        state, weights = self.start(src_ids), []
        for last_ids in tgt_ids.split(1, dim=1):
            weights.append(self.decoder.look(state)[1])
            _, state = self.decoder.advance(last_ids, state)
        return torch.cat(weights, dim=1)


class LoopThenAttention(nn.Module):
    """A recurrent encoder–decoder whose attention feeds nothing back into a state.

    PyTorch's own layer computes all states; then attention serves all words at once.

    Args:
        layer: nn.GRU or nn.LSTM.
        vocab_size: Entries of the vocabulary shared by source and target.
        d_model: Width of embeddings and states; an even number.
        dropout: Share of embeddings and outputs that training drops.
    """

    def __init__(
        self,
        layer: type[nn.GRU] | type[nn.LSTM],
        vocab_size: int,
        d_model: int,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.embedding = Embedding(vocab_size, d_model)
        self.dropout = nn.Dropout(dropout)
        self.forwards = layer(d_model, d_model // 2, batch_first=True)
        self.backwards = layer(d_model, d_model // 2, batch_first=True)
        self.decoder = layer(2 * d_model, d_model, batch_first=True)
        self.output = nn.Linear(3 * d_model, d_model)

    def forward(
        self,
        src_ids: Int[Tensor, "batch src_len"],
        tgt_ids: Int[Tensor, "batch tgt_len"],
    ) -> Float[Tensor, "batch tgt_len vocab"]:
        """Score the next token at each target position, teacher-forced."""
        mask = src_ids != PAD
        lengths = mask.sum(dim=1, keepdim=True)
        # Each sentence reversed, and its padding behind it; twice gives it back.
        reverse = (
            lengths - 1 - torch.arange(src_ids.size(1), device=src_ids.device)
        ) % src_ids.size(1)
        x = self.dropout(self.embedding(src_ids))
        ahead = self.forwards(x)[0]
        back = self.backwards(_in_order(x, reverse))[0]
        memory = torch.cat([ahead, _in_order(back, reverse)], dim=-1)
        ends = [_in_order(states, lengths - 1) for states in (ahead, back)]
        read = self.dropout(self.embedding(tgt_ids))
        context = torch.cat(ends, dim=-1).expand_as(read)
        states = self.decoder(torch.cat([read, context], dim=-1))[0]
        energy = (states @ memory.mT).masked_fill(~mask[:, None], -math.inf)
        found = energy.softmax(dim=-1) @ memory
        output = torch.tanh(self.output(torch.cat([states, read, found], dim=-1)))
        return self.embedding.logits(self.dropout(output))


def _in_order(
    states: Float[Tensor, "batch len width"], places: Int[Tensor, "batch chosen"]
) -> Float[Tensor, "batch chosen width"]:
    """Return the states at these places of each sentence."""
    return states.gather(1, places[..., None].expand(-1, -1, states.size(-1)))
