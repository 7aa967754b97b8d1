import heapq
import math

import torch


def greedy_search(next_log_probs, bos_id, eos_id, max_length):
    ids = torch.full((1, 1), bos_id)
    while ids.size(1) <= max_length:
        token = next_log_probs(ids).argmax(-1, keepdim=True)
        if token.item() == eos_id:
            break
        ids = torch.cat([ids, token], dim=1)
    return ids[0, 1:].tolist()


def beam_search(next_log_probs, bos_id, eos_id, max_length, beam_size, alpha):
    """Keeps as many unfinished outputs as the beam is wide, until none can win."""
    going, best, best_score = [(0.0, (bos_id,))], (), -math.inf
    for length in range(1, max_length + 1):
        rows = next_log_probs(torch.tensor([ids for _, ids in going])).tolist()
        candidates = [
            (log_prob + row[token], (*ids, token))
            for (log_prob, ids), row in zip(going, rows, strict=False)
            for token in range(len(row))
        ]
        for log_prob, ids in heapq.nlargest(beam_size, candidates):
            score = log_prob / math.pow((5 + length) / 6, alpha)
            if ids[-1] == eos_id and score > best_score:
                best, best_score = ids[1:-1], score
        if length == max_length - 1:  # what comes next has to end
            rest = [c for c in candidates if c[1][-1] != eos_id]
            going = heapq.nlargest(beam_size, rest)
            rows = next_log_probs(torch.tensor([ids for _, ids in going])).tolist()
            for (log_prob, ids), row in zip(going, rows, strict=False):
                score = (log_prob + row[eos_id]) / ((5 + max_length) / 6) ** alpha
                if score > best_score:
                    best, best_score = ids[1:], score
            break
        going = heapq.nlargest(beam_size, [c for c in candidates if c[1][-1] != eos_id])
    return list(best)
