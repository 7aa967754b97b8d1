def label_smoothed_loss(logits, labels, smoothing, pad_id):
    log_probs = logits.log_softmax(dim=-1)
    real = labels != pad_id
    right = log_probs.gather(-1, labels[..., None])[..., 0]
    wrong = log_probs.sum(dim=-1) - right
    share = smoothing / (logits.size(-1) - 1)
    loss = -(1 - smoothing) * right - share * wrong
    return (loss * real).sum(), real.sum()
