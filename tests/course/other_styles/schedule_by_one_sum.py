def noam_rate(step, d_model, warmup):
    if step < warmup:
        return step / (d_model * warmup**3) ** 0.5
    return 1 / (d_model * step) ** 0.5


def take_step(loss_of, batches, optimizer, schedule):
    optimizer.zero_grad(set_to_none=True)
    found = [loss_of(batch) for batch in batches]
    mean = sum(loss for loss, _ in found) / sum(tokens for _, tokens in found)
    mean.backward()
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    return mean.item()
