"""Reference implementations: slow, obvious, and written without the package's ideas.

Loops where the package has tensors, all outputs where it searches, and
`torch.nn` with copied weights where PyTorch has the same thing.
"""

import itertools
import math
from typing import NamedTuple

import torch
from torch import nn

# Attention, by loops over plain numbers


def attention_by_loops(query, key, value, mask):
    """Output and weights of Equation 1 for nested lists, one number at a time."""
    output, all_weights = [], []
    for q, allowed in zip(query, mask, strict=True):
        scores = [
            sum(a * b for a, b in zip(q, k, strict=True)) / math.sqrt(len(q))
            for k in key
        ]
        raised = [
            math.exp(score) if may else 0.0
            for score, may in zip(scores, allowed, strict=True)
        ]
        weights = [number / sum(raised) for number in raised]
        columns = zip(*value, strict=True)
        output.append(
            [
                sum(w * v for w, v in zip(weights, column, strict=True))
                for column in columns
            ]
        )
        all_weights.append(weights)
    return output, all_weights


def multi_head_by_slices(module, query, memory, mask):
    """MultiHead(Q, K, V) as a sum over heads, each with its own small matrices."""
    total = 0
    per_head = zip(
        module.w_q.weight.chunk(module.num_heads),
        module.w_k.weight.chunk(module.num_heads),
        module.w_v.weight.chunk(module.num_heads),
        module.w_o.weight.chunk(module.num_heads, dim=1),
        strict=True,
    )
    for w_q, w_k, w_v, w_o in per_head:
        q, k, v = query @ w_q.T, memory @ w_k.T, memory @ w_v.T
        heads = [
            attention_by_loops(a.tolist(), b.tolist(), c.tolist(), m.tolist())[0]
            for a, b, c, m in zip(q, k, v, mask, strict=True)
        ]
        total = total + torch.tensor(heads, dtype=query.dtype) @ w_o.T
    return total


# Positions, by the formula


def encoding_by_loops(length, d_model):
    """PE(pos, 2i) and PE(pos, 2i+1) of Section 3.5, entry by entry."""
    table = torch.empty(length, d_model, dtype=torch.float64)
    for position in range(length):
        for channel in range(d_model):
            i = channel // 2
            angle = position / 10_000 ** (2 * i / d_model)
            is_odd = channel % 2 == 1
            table[position, channel] = math.cos(angle) if is_odd else math.sin(angle)
    return table


# The schedule, in words


def rate_in_words(step, d_model, warmup):
    """Section 5.3 told: linear up to the peak, then with the inverse square root."""
    peak = 1 / math.sqrt(d_model * warmup)
    if step <= warmup:
        return peak * step / warmup
    return peak * math.sqrt(warmup / step)


# A Markov chain to search

BOS, EOS = 0, 1


class ChainState(NamedTuple):
    """What a chain of order two has to remember."""

    table: torch.Tensor
    """Logits by sentence, word before last, last word and next word."""
    before_last: torch.Tensor
    """Each beam's word before the last, batch × beams."""

    def reorder(self, beams):
        return self._replace(before_last=self.before_last.gather(1, beams))

    def keep(self, sentences):
        return ChainState(self.table[sentences], self.before_last[sentences])


class MarkovChain:
    """Some words and an end; each sentence of a batch has a chain of its own.

    The next word depends on the last two, so a search that loses track of which
    beam continues which, or of which sentence left, scores wrong words.
    """

    def __init__(self, sentences, seed):
        generator = torch.Generator().manual_seed(seed)
        size = 5
        self.words = range(2, size)
        self.table = 2 * torch.randn(sentences, size, size, size, generator=generator)
        self.table[..., BOS] = -math.inf  # never said
        self.batch_sizes = []

    def start(self):
        return ChainState(self.table, torch.full((len(self.table), 1), BOS))

    def step(self, last_ids, state):
        self.batch_sizes.append(len(last_ids))
        sentence = torch.arange(len(last_ids))[:, None]
        logits = state.table[sentence, state.before_last, last_ids]
        return logits, state._replace(before_last=last_ids)

    def log_prob(self, sentence, ids):
        """Log-probability of an output, its EOS included."""
        table = self.table[sentence].double().log_softmax(dim=-1)
        words = [BOS, BOS, *ids, EOS]
        triples = zip(words, words[1:], words[2:], strict=False)
        return sum(table[triple].item() for triple in triples)

    def best_output(self, sentence, max_length, score):
        """The best of all outputs of at most max_length tokens, EOS included."""
        outputs = (
            list(ids)
            for length in range(max_length)
            for ids in itertools.product(self.words, repeat=length)
        )
        return max(
            outputs,
            key=lambda ids: score(self.log_prob(sentence, ids), len(ids) + 1),
        )

    def beam_search_by_lists(self, sentence, max_length, beam_size, penalty):
        """Ids and score that a beam search finds, one output after the other."""
        table = self.table[sentence].double().log_softmax(dim=-1).tolist()
        beams, finished = [([BOS, BOS], 0.0)], []
        for length in range(1, max_length + 1):
            words = (*self.words, EOS) if length < max_length else (EOS,)
            extended = [
                ([*ids, word], log_prob + table[ids[-2]][ids[-1]][word])
                for ids, log_prob in beams
                for word in words
            ]
            extended.sort(key=lambda output: output[1], reverse=True)
            finished += [
                (ids[2:-1], log_prob / penalty(length))
                for ids, log_prob in extended[:beam_size]
                if ids[-1] == EOS
            ]
            beams = [output for output in extended if output[0][-1] != EOS][:beam_size]
            best = max((score for _, score in finished), default=-math.inf)
            if len(finished) >= beam_size or not beams:
                break
            if best >= beams[0][1] / penalty(max_length):
                break
        return max(finished, key=lambda output: output[1])


# torch.nn with our weights. Each function returns pairs: our matrices, which lie on
# top of each other in PyTorch's one, and PyTorch's.


def attention_pairs(ours, theirs):
    """Weights of our MultiHeadAttention and of nn.MultiheadAttention."""
    return [
        ([ours.w_q.weight, ours.w_k.weight, ours.w_v.weight], theirs.in_proj_weight),
        ([ours.w_o.weight], theirs.out_proj.weight),
    ]


def _feed_forward_pairs(ours, theirs):
    return [
        ([ours.w_1.weight], theirs.linear1.weight),
        ([ours.w_1.bias], theirs.linear1.bias),
        ([ours.w_2.weight], theirs.linear2.weight),
        ([ours.w_2.bias], theirs.linear2.bias),
    ]


def _norm_pairs(ours, theirs):
    return [
        ([ours.norm.weight], theirs.weight),
        ([ours.norm.bias], theirs.bias),
    ]


def encoder_layer_pairs(ours, theirs):
    """Weights of our EncoderLayer and of nn.TransformerEncoderLayer."""
    return [
        *attention_pairs(ours.self_attention, theirs.self_attn),
        *_norm_pairs(ours.after_self_attention, theirs.norm1),
        *_feed_forward_pairs(ours.feed_forward, theirs),
        *_norm_pairs(ours.after_feed_forward, theirs.norm2),
    ]


def decoder_layer_pairs(ours, theirs):
    """Weights of our DecoderLayer and of nn.TransformerDecoderLayer."""
    return [
        *attention_pairs(ours.self_attention, theirs.self_attn),
        *_norm_pairs(ours.after_self_attention, theirs.norm1),
        *attention_pairs(ours.cross_attention, theirs.multihead_attn),
        *_norm_pairs(ours.after_cross_attention, theirs.norm2),
        *_feed_forward_pairs(ours.feed_forward, theirs),
        *_norm_pairs(ours.after_feed_forward, theirs.norm3),
    ]


def transformer_pairs(ours, theirs):
    """Weights of all layers of our Transformer and of nn.Transformer."""
    encoder = zip(ours.encoder.layers, theirs.encoder.layers, strict=True)
    decoder = zip(ours.decoder.layers, theirs.decoder.layers, strict=True)
    return [
        *itertools.chain(*(encoder_layer_pairs(*layers) for layers in encoder)),
        *itertools.chain(*(decoder_layer_pairs(*layers) for layers in decoder)),
    ]


def copy_weights(pairs, theirs):
    """Fill PyTorch's module with our weights, and its attention biases with 0."""
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if name.endswith(("in_proj_bias", "out_proj.bias")):
                parameter.zero_()
        for ours, parameter in pairs:
            parameter.copy_(torch.cat(list(ours)))


def largest_gradient_gap(pairs):
    """Largest difference between a gradient of ours and PyTorch's."""
    gaps = [
        (torch.cat([matrix.grad for matrix in ours]) - theirs.grad).abs().max()
        for ours, theirs in pairs
    ]
    return max(gaps).item()


def torch_shape(config):
    """Arguments of PyTorch's layers of this shape."""
    return {
        "d_model": config.d_model,
        "nhead": config.num_heads,
        "dim_feedforward": config.d_ff,
        "dropout": 0.0,
        "batch_first": True,
        "norm_first": False,
        "dtype": torch.float64,
    }


def torch_transformer(config):
    """nn.Transformer as the paper has it: no LayerNorm behind the stacks."""
    shape = torch_shape(config)
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**shape),
        config.num_layers,
        norm=None,
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(**shape), config.num_layers, norm=None
    )
    return nn.Transformer(
        config.d_model,
        config.num_heads,
        custom_encoder=encoder,
        custom_decoder=decoder,
        batch_first=True,
    )
