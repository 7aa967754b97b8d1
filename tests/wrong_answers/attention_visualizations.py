"""Wrong answers to the exercises on the attention visualizations, by check."""


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


def transplanted(model, layer, head, donor, receiver, *, mistake=""):
    """The right answer, but for a mistake."""
    w_o = model.decoder.layers[layer].self_attention.w_o
    first = head if mistake == "width" else 12 * head
    part, kept = slice(first, first + 12), []

    def keep(_, inputs):
        at = -2 if mistake == "of another" else -1
        kept.append(inputs[0][0, at, part].clone())

    def put(_, inputs):
        heads = inputs[0].clone()
        at = slice(None) if mistake == "everywhere" else -1
        heads[0, at, part] = kept[0]
        return (heads,)

    hook = w_o.register_forward_pre_hook(keep)
    model(*donor)
    if mistake != "recording hook":
        hook.remove()
    hook = w_o.register_forward_pre_hook(put)
    logits = model(*receiver)[0, -1]
    if mistake != "hook":
        hook.remove()
    if mistake == "training":
        model.train()
    return logits


def every_head(model, layer, head, donor, receiver):
    w_o = model.decoder.layers[layer].self_attention.w_o
    kept = []
    with w_o.register_forward_pre_hook(lambda _, given: kept.append(given[0][0, -1])):
        model(*donor)

    def put(_, inputs):
        heads = inputs[0].clone()
        heads[0, -1] = kept[0]
        return (heads,)

    with w_o.register_forward_pre_hook(put):
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
        "the rows of W^O": lambda w, other, v, o: (other - w) @ v @ o.reshape(len(v), v.size(-1), -1),
        "the heads in reverse": lambda w, other, v, o: change(w, other, v, o).flip(0),
    },
    "check_transplant": {
        "nothing": lambda *given: None,
        "the receiver as it is": lambda m, i, h, donor, receiver: m(*receiver)[0, -1],
        "the donor": lambda m, i, h, donor, receiver: m(*donor)[0, -1],
        "the other way round": lambda m, i, h, donor, receiver: transplanted(m, i, h, receiver, donor),
        "all heads": every_head,
        "the next layer": lambda m, i, *rest: transplanted(m, 1 - i, *rest),
        "the next head": lambda m, i, h, *rest: transplanted(m, i, (h + 1) % 4, *rest),
        "always the first head": lambda m, i, h, *rest: transplanted(m, i, 0, *rest),
        "a head's place without its width": lambda *given: transplanted(*given, mistake="width"),
        "the donor's last position but one": lambda *given: transplanted(*given, mistake="of another"),
        "at all positions": lambda *given: transplanted(*given, mistake="everywhere"),
        "the hook stays": lambda *given: transplanted(*given, mistake="hook"),
        "the recording hook stays": lambda *given: transplanted(*given, mistake="recording hook"),
        "left in training mode": lambda *given: transplanted(*given, mistake="training"),
        "all logits": lambda m, i, h, donor, receiver: m(*receiver),
    },
}
# fmt: on
