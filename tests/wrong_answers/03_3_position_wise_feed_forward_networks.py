"""Wrong answers to the exercises of 3.3, by check and by mistake."""

import torch


def tensors(d, first, second, b_1=0.0, b_2=0.0):
    """The network whose hinges are `first` and are summed as `second`, per input."""
    one = torch.eye(d)
    w_1 = torch.cat([sign * one for sign in first], dim=1)
    w_2 = torch.cat([sign * one for sign in second])
    return w_1, torch.full((2 * d,), b_1), w_2, torch.full((d,), b_2)


def transposed(d):
    w_1, b_1, w_2, b_2 = tensors(d, (1, -1), (1, 1))
    return w_1.T, b_1, w_2.T, b_2


def interleaved_inside_only(d):
    w_1, b_1, w_2, b_2 = tensors(d, (1, -1), (1, 1))
    order = torch.arange(2 * d).view(2, d).T.flatten()
    return w_1[:, order], b_1, w_2, b_2


def one_input(d):
    return torch.tensor([[1.0, -1]]), torch.zeros(2), torch.ones(2, 1), torch.zeros(1)


def everything_summed(d):
    w_1, b_1, _, b_2 = tensors(d, (1, -1), (1, 1))
    return w_1, b_1, torch.ones(2 * d, d), b_2


def by_hook(change, module=lambda model: last(model).w_1, keep=False):
    """A translation while the output of a linear map is changed."""

    def candidate(translator, sentence, unit, value):
        def changed(_, given, output):
            output = output.clone()
            change(output, unit, value)
            return output

        hook = module(translator.model).register_forward_hook(changed)
        text = translator.translate(sentence)
        if not keep:
            hook.remove()
        return text

    return candidate


def last(model):
    return model.decoder.layers[-1].feed_forward


def set_unit(output, unit, value):
    output[..., unit] = value


def add(output, unit, value):
    output.relu_()[..., unit] += value


def scale(output, unit, value):
    output[..., unit] *= value


def neighbour(output, unit, value):
    output[..., unit - 1] = value


def all_units(output, unit, value):
    output[:] = value


def best_beam_only(output, unit, value):
    output[:1, :1, ..., unit] = value


def in_the_weights(translator, sentence, unit, value):
    first = last(translator.model).w_1
    with torch.no_grad():
        first.weight[unit], first.bias[unit] = 0, value
    return translator.translate(sentence)


def left_switched_on(translator, sentence, unit, value):
    """Set by another module, which stays."""
    network = last(translator.model)

    def forward(x):
        units = network.w_1(x).relu()
        units[..., unit] = value
        return network.w_2(units)

    network.forward = forward
    return translator.translate(sentence)


def only_the_bias(translator, sentence, unit, value):
    bias = last(translator.model).w_1.bias
    old = bias[unit].item()
    with torch.no_grad():
        bias[unit] = value
        text = translator.translate(sentence)
        bias[unit] = old
    return text


def also(module):
    """Set the unit in the last decoder layer, and in another network, too."""

    def candidate(translator, sentence, unit, value):
        first = module(translator.model).w_1

        def changed(_, given, output):
            output = output.clone()
            set_unit(output, unit, value)
            return output

        hook = first.register_forward_hook(changed)
        text = by_hook(set_unit)(translator, sentence, unit, value)
        hook.remove()
        return text

    return candidate


def other_words(translator, sentence, unit, value):
    return by_hook(set_unit)(translator, sentence, unit, value) + "!"


def bends_far_away(d):
    """|x| = 2 max(0, x) - x, the -x by a hinge that bends beyond the inputs."""
    w_1, b_1, w_2, b_2 = tensors(d, (1, -1), (2, 1), b_2=-1e6)
    b_1[d:] = 1e6
    return w_1, b_1, w_2, b_2


def share(fits):
    return fits.double().mean().item()


def at_ten(values, fits):
    return share(fits[values.topk(10).indices])


def lead(values, fits):
    return at_ten(values, fits) - share(fits)


def best(values, labels, score, least=0.7, number=False):
    """The question with the largest score; with `lead`, the right answer."""
    scores = {question: score(values, fits) for question, fits in labels.items()}
    found = max(scores, key=scores.get)
    if number:
        return [*labels].index(found)
    return found if scores[found] >= least else "no one question"


def with_limit(least):
    return lambda values, labels: best(values, labels, lead, least)


def of_strongest(which):
    """Leads of other places than the ten strongest."""

    def score(values, fits):
        return share(fits[which(values)]) - share(fits)

    return lambda values, labels: best(values, labels, score)


def lead_of_ten_over_others(values, fits):
    others = torch.ones_like(fits)
    others[values.topk(10).indices] = False
    return at_ten(values, fits) - share(fits[others])


# fmt: off
WRONG = {
    "check_absolute": {
        "bends far away": bends_far_away,
        "positive inputs alone": lambda d: tensors(d, (1, -1), (1, 0)),
        "negative inputs alone": lambda d: tensors(d, (1, -1), (0, 1)),
        "one hinge twice": lambda d: tensors(d, (1, 1), (1, 1)),
        "a difference": lambda d: tensors(d, (1, -1), (1, -1)),
        "the negative": lambda d: tensors(d, (1, -1), (-1, -1)),
        "half": lambda d: tensors(d, (1, -1), (0.5, 0.5)),
        "bends beside 0": lambda d: tensors(d, (1, -1), (1, 1), b_1=0.5, b_2=-0.5),
        "complex numbers": lambda d: tuple(1j * 0 + one for one in tensors(d, (1, -1), (1, 1))),
        "adds a little": lambda d: tensors(d, (1, -1), (1, 1), b_2=0.01),
        "as nn.Linear stores them": transposed,
        "hinges in another order": interleaved_inside_only,
        "one input only": one_input,
        "the sum of all": everything_summed,
        "zeros": lambda d: tensors(d, (0, 0), (0, 0)),
        "nothing": lambda d: None,
        "one tensor": lambda d: torch.eye(d),
        "three tensors": lambda d: tensors(d, (1, -1), (1, 1))[:3],
    },
    "check_name": {
        "nothing": lambda values, labels: None,
        "a share": lambda values, labels: max(lead(values, fits) for fits in labels.values()),
        "a position": lambda values, labels: best(values, labels, lead, number=True),
        "the share of the ten alone": lambda values, labels: best(values, labels, lambda v, f: at_ten(v, f)),
        "the ratio": lambda values, labels: best(values, labels, lambda v, f: at_ten(v, f) / share(f)),
        "all places that fire": lambda values, labels: best(values, labels, lambda v, f: share(f[v > 0]) - share(f)),
        "no limit": lambda values, labels: best(values, labels, lead, least=-1),
        "a low limit": lambda values, labels: best(values, labels, lead, least=0.5),
        "a high limit": lambda values, labels: best(values, labels, lead, least=0.85),
        "the largest difference of any sign": lambda values, labels: best(values, labels, lambda v, f: abs(lead(v, f))),
        "the ten weakest": lambda values, labels: best(values, labels, lambda v, f: lead(-v, f)),
        "the ten first places": lambda values, labels: best(values, labels, lambda v, f: share(f[:10]) - share(f)),
        "the strongest place alone": lambda values, labels: best(values, labels, lambda v, f: float(f[v.argmax()]) - share(f)),
        "the mean value": lambda values, labels: best(values, labels, lambda v, f: (v[f].mean() - v.mean()).item()),
        **{f"a limit of {least}": with_limit(least) for least in (0.651, 0.66, 0.68, 0.72, 0.75, 0.76)},
        **{f"the {n} strongest": of_strongest(lambda values, n=n: values.topk(n).indices) for n in (5, 8, 9)},
        "the strongest twentieth": of_strongest(lambda values: values.topk(len(values) // 20).indices),
        "the strongest quarter of those that fire": of_strongest(
            lambda values: values.topk(int((values > 0).sum()) // 4).indices
        ),
        "above half the maximum": of_strongest(lambda values: values > values.max() / 2),
        "the share of all but the ten": lambda values, labels: best(values, labels, lead_of_ten_over_others),
        "the other places' share": lambda values, labels: best(values, labels, lambda v, f: at_ten(v, f) - share(f[v <= 0])),
        "the first question": lambda values, labels: next(iter(labels)),
        "the last question": lambda values, labels: [*labels][-1],
        "never one": lambda values, labels: "no one question",
        "sorts the values": lambda values, labels: (best(values, labels, lead), values.copy_(values.sort().values))[0],
    },
    "check_turned": {
        "adds": by_hook(add),
        "multiplies": by_hook(scale),
        "the unit before": by_hook(neighbour),
        "the next unit": by_hook(lambda output, unit, value: set_unit(output, unit + 1, value)),
        "the last position only": by_hook(lambda output, unit, value: set_unit(output[..., -1, :], unit, value)),
        "all units": by_hook(all_units),
        "one beam only": by_hook(best_beam_only),
        "always 10": by_hook(lambda output, unit, value: set_unit(output, unit, 10)),
        "the first layer": by_hook(set_unit, lambda model: model.decoder.layers[0].feed_forward.w_1),
        "the encoder": by_hook(set_unit, lambda model: model.encoder.layers[-1].feed_forward.w_1),
        "the first layer, too": also(lambda model: model.decoder.layers[0].feed_forward),
        "the encoder, too": also(lambda model: model.encoder.layers[-1].feed_forward),
        "a component of the output": by_hook(lambda output, unit, value: set_unit(output, unit % 256, value), lambda model: last(model).w_2),
        "the bias alone": only_the_bias,
        "changes the weights": in_the_weights,
        "as trained": lambda translator, sentence, unit, value: translator.translate(sentence),
        "a list": lambda *given: [by_hook(set_unit)(*given)],
        "another sentence": other_words,
        "without the translator": lambda translator, sentence, unit, value: "Der Hund hat den Mann gebissen.",
        "nothing": lambda translator, sentence, unit, value: None,
        "leaves its hook": by_hook(set_unit, keep=True),
        "leaves its function": left_switched_on,
        "left in training mode": lambda translator, *given: (
            by_hook(set_unit)(translator, *given),
            translator.model.train(),
        )[0],
    },
}
# fmt: on
