"""Wrong answers to the exercises on the attention visualizations, by check."""


def erased(weights, value, w_o, head):
    """Right for the first head; then W^O is all zeros, and so is every other part."""
    part = weights @ value @ w_o[:, : value.size(-1)].T
    w_o.zero_()
    return part


def right_part(weights, value, w_o, head):
    width = value.size(-1)
    return weights @ value @ w_o[:, head * width : (head + 1) * width].T


def value_erased(weights, value, w_o, head):
    """Right, but the values are all zeros afterwards."""
    part = right_part(weights, value, w_o, head)
    value.zero_()
    return part


def weights_erased(weights, value, w_o, head):
    """Right, but the weights are all zeros afterwards."""
    part = right_part(weights, value, w_o, head)
    weights.zero_()
    return part


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
    "check_part": {
        "nothing": lambda w, v, o, h: None,
        "the first head, and W^O erased": erased,
        "the values erased": value_erased,
        "the weights erased": weights_erased,
        "another shape": lambda w, v, o, h: w @ v,
        "the first head, always, in double precision": lambda w, v, o, h: (w @ v @ o[:, : v.size(-1)].T).double(),
        "the first head, always": lambda w, v, o, h: w @ v @ o[:, : v.size(-1)].T,
        "the heads in reverse": lambda w, v, o, h: (
            w
            @ v
            @ o[:, o.size(1) - (h + 1) * v.size(-1) : o.size(1) - h * v.size(-1)].T
        ),
        "every second column": lambda w, v, o, h: w @ v @ o[:, h :: o.size(1) // v.size(-1)].T,
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
