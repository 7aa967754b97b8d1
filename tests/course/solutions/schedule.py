def noam_rate(step, d_model, warmup):
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def take_step(loss_of, batches, optimizer, schedule):
    optimizer.zero_grad()
    total, tokens = 0, 0
    for batch in batches:
        loss, number = loss_of(batch)
        loss.backward()
        total += loss.item()
        tokens += number.item()
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad /= tokens
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    return total / tokens
