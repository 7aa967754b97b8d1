import torch


def greedy_search(next_log_probs, bos_id, eos_id, max_length):
    ids = [bos_id]
    for _ in range(max_length):
        token = next_log_probs(torch.tensor([ids]))[0].argmax().item()
        if token == eos_id:
            break
        ids.append(token)
    return ids[1:]


def beam_search(next_log_probs, bos_id, eos_id, max_length, beam_size, alpha):
    beams, finished = [([bos_id], 0.0)], []
    for length in range(1, max_length + 1):
        log_probs = next_log_probs(torch.tensor([ids for ids, _ in beams]))
        extended = []
        for (ids, before), row in zip(beams, log_probs.tolist(), strict=True):
            for token, log_prob in enumerate(row):
                if length < max_length or token == eos_id:
                    extended.append(([*ids, token], before + log_prob))
        extended.sort(key=lambda output: output[1], reverse=True)
        beams = []
        for ids, log_prob in extended[:beam_size]:
            if ids[-1] == eos_id:
                score = log_prob / ((5 + length) / 6) ** alpha
                finished.append((score, ids[1:-1]))
            else:
                beams.append((ids, log_prob))
        if not beams:
            break
    return max(finished)[1]
