"""Wrong answers to the exercises on the attention visualizations, by check."""

import torch


def change(weights, other, value, w_o):
    """The right answer."""
    columns = w_o.unflatten(1, (len(value), -1)).permute(1, 2, 0)
    return (other - weights) @ value @ columns


def erasing(at):
    """Right, but the given tensor of this number is all zeros afterwards."""

    def answer(*given):
        found = change(*given)
        given[at].zero_()
        return found

    return answer


def whole(weights, value, w_o):
    return (weights @ value).transpose(0, 1).flatten(1) @ w_o.T


def with_first_columns(weights, other, value, w_o):
    """Right for the first head; all others have its part of W^O."""
    return (other - weights) @ value @ w_o[:, : value.size(-1)].T


def with_mixed_columns(weights, other, value, w_o):
    """The columns of W^O belong to the heads in turn."""
    columns = w_o.unflatten(1, (-1, len(value))).permute(2, 1, 0)
    return (other - weights) @ value @ columns


def with_square_rows(weights, other, value, w_o):
    """The rows of W^O instead of its columns."""
    return (other - weights) @ value @ w_o.reshape(len(value), -1, len(w_o))


def weights_at(pair, model, layer, head):
    return model.attention_weights(*pair).decoder[0, layer, head]


def moved(model, layer, head, donor, receiver, *, mistake=""):
    """The right answer, but for a mistake."""
    attention = model.decoder.layers[layer].self_attention
    width = 1 if mistake == "width" else 12
    part = slice(width * head, width * head + 12)
    of_weights = receiver if mistake == "own weights" else donor
    weights, values = weights_at(of_weights, model, layer, head), []

    def keep(_, inputs):
        values.append(attention.keys_and_values(inputs[0]).value[0, head])

    def put(_, inputs):
        heads = inputs[0].clone()
        at = slice(None) if mistake == "everywhere" else -1
        of_row = -2 if mistake == "the row before" else at
        heads[0, at, part] = weights[of_row] @ values[0]
        return (heads,)

    hooks = [attention.register_forward_pre_hook(keep)]
    if "values" in mistake or mistake == "own weights":
        model(*donor)
    hooks.append(attention.w_o.register_forward_pre_hook(put))
    logits = model(*receiver)[0, -1]
    kept = {"hook": 1, "recording hook": 0}.get(mistake)
    for i, hook in enumerate(hooks):
        if i != kept:
            hook.remove()
    if mistake == "training":
        model.train()
    if mistake == "frozen":
        model.requires_grad_(False)
    if mistake == "method":
        usual_way = attention.attend
        attention.attend = lambda *given, **more: usual_way(*given, **more)
    if mistake == "function":
        usual = attention.attention
        attention.attention = lambda *given: usual(*given)
    return logits


def every_head(model, layer, head, donor, receiver):
    attention = model.decoder.layers[layer].self_attention
    weights, values = model.attention_weights(*donor).decoder[0, layer, :, -1:], []

    def keep(_, inputs):
        values.append(attention.keys_and_values(inputs[0]).value[0])

    def put(_, inputs):
        heads = inputs[0].clone()
        heads[0, -1] = (weights @ values[0]).flatten()
        return (heads,)

    with (
        attention.register_forward_pre_hook(keep),
        attention.w_o.register_forward_pre_hook(put),
    ):
        return model(*receiver)[0, -1]


# fmt: off
WRONG = {
    "check_change": {
        "nothing": lambda w, other, v, o: None,
        "the other weights erased": erasing(1),
        "the values erased": erasing(2),
        "the weights erased": erasing(0),
        "W^O erased": erasing(3),
        "another shape": lambda w, other, v, o: (other - w) @ v,
        "the wrong sign": lambda w, other, v, o: change(other, w, v, o),
        "all heads together": lambda w, other, v, o: (whole(other, v, o) - whole(w, v, o)).expand(len(w), -1, -1),
        "outputs instead of changes": lambda w, other, v, o: change(w, other, v, o) + whole(w, v, o),
        "the parts with the other weights": lambda w, other, v, o: change(0 * w, other, v, o),
        "the first head's columns, always": with_first_columns,
        "every second column": with_mixed_columns,
        "rows instead of columns": with_square_rows,
        "three heads at most": lambda w, other, v, o: torch.cat(
            [change(w, other, v, o)[:3], 0 * change(w, other, v, o)[3:]]
        ),
        "the heads in reverse": lambda w, other, v, o: change(w, other, v, o).flip(0),
    },
    "check_weights": {
        "nothing": lambda *given: None,
        "the receiver as it is": lambda m, i, h, donor, receiver: m(*receiver)[0, -1],
        "the donor": lambda m, i, h, donor, receiver: m(*donor)[0, -1],
        "the other way round": lambda m, i, h, donor, receiver: moved(m, i, h, receiver, donor),
        "weights and values": lambda *given: moved(*given, mistake="donor's values"),
        "the values alone": lambda *given: moved(*given, mistake="own weights"),
        "all heads": every_head,
        "the next layer": lambda m, i, *rest: moved(m, 1 - i, *rest),
        "the next head": lambda m, i, h, *rest: moved(m, i, (h + 1) % 4, *rest),
        "always the first head": lambda m, i, h, *rest: moved(m, i, 0, *rest),
        "a head's place without its width": lambda *given: moved(*given, mistake="width"),
        "the row before": lambda *given: moved(*given, mistake="the row before"),
        "at all positions": lambda *given: moved(*given, mistake="everywhere"),
        "the hook stays": lambda *given: moved(*given, mistake="hook"),
        "the recording hook stays": lambda *given: moved(*given, mistake="recording hook"),
        "another function stays": lambda *given: moved(*given, mistake="function"),
        "another method stays": lambda *given: moved(*given, mistake="method"),
        "parameters stay frozen": lambda *given: moved(*given, mistake="frozen"),
        "logarithms of probabilities": lambda *given: moved(*given).log_softmax(-1),
        "left in training mode": lambda *given: moved(*given, mistake="training"),
        "all logits": lambda m, i, h, donor, receiver: m(*receiver),
        "probabilities": lambda *given: moved(*given).softmax(-1),
    },
}
# fmt: on
