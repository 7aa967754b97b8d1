"""Wrong answers to the exercises of 3.1, by check and by mistake."""

import math


def one_by_one(change, back=True):
    """Translate with a change at each sum alone, or at all up to it."""

    def candidate(translator, sums, sentence):
        texts = []
        for one in sums:
            one.forward = lambda x, f, norm=one.norm: change(x, f, norm)
            texts.append(translator.translate(sentence))
            if back:
                del one.forward
        return texts

    return candidate


def last_stays(translator, sums, sentence):
    texts = one_by_one(lambda x, f, norm: norm(f))(translator, sums, sentence)
    sums[-1].forward = lambda x, f: sums[-1].norm(f)
    return texts


def only(chosen):
    """Take away these sums alone; translate as trained without the others."""

    def candidate(translator, sums, sentence):
        whole = translator.translate(sentence)
        texts = one_by_one(lambda x, f, norm: norm(f))(translator, sums, sentence)
        return [text if at in chosen else whole for at, text in enumerate(texts)]

    return candidate


def pre_norm_layer_with(**changed):
    """The decoder layer in pre-norm, but for one part."""
    parts = {
        "look": lambda x, y, attend: x + attend(y, y),
        "read": lambda x, norm, memory, attend: x + attend(norm(x), memory),
        "think": lambda x, norm, network: x + network(norm(x)),
    } | changed

    def candidate(x, memory, self_attention, cross_attention, feed_forward, norms):
        x = parts["look"](x, norms[0](x), self_attention)
        x = parts["read"](x, norms[1], memory, cross_attention)
        return parts["think"](x, norms[2], feed_forward)

    return candidate


def post_norm(x, memory, look, read, think, norms):
    x = norms[0](x + look(x, x))
    x = norms[1](x + read(x, memory))
    return norms[2](x + think(x))


def one_norm(x, memory, look, read, think, norms):
    y = norms[0](x)
    x = x + look(y, y)
    x = x + read(norms[0](x), memory)
    return x + think(norms[0](x))


def in_place(x, memory, look, read, think, norms):
    """The right values, but no gradient: the norm needs the old x."""
    y = norms[0](x)
    x += look(y, y)
    x += read(norms[1](x), memory)
    x += think(norms[2](x))
    return x


def from_copies(x, memory, look, read, think, norms):
    """Each sum starts from the normalized copy of x."""
    for norm, sub_layer in zip(
        norms,
        (lambda y: look(y, y), lambda y: read(y, memory), think),
        strict=True,
    ):
        y = norm(x)
        x = y + sub_layer(y)
    return x


def forward_assigned(translator, sums, sentence):
    """As trained again, but by an attribute that stays."""
    texts = []
    for one in sums:
        old = one.forward
        one.forward = lambda x, f, norm=one.norm: norm(f)
        texts.append(translator.translate(sentence))
        one.forward = old
    return texts


def norm_left_changed(translator, sums, sentence):
    texts = one_by_one(lambda x, f, norm: norm(f))(translator, sums, sentence)
    sums[0].norm.forward = lambda x: 0 * x
    return texts


def epsilon_left_changed(translator, sums, sentence):
    texts = one_by_one(lambda x, f, norm: norm(f))(translator, sums, sentence)
    for one in sums:
        one.norm.eps = 1e-3
    return texts


def class_left_changed(translator, sums, sentence):
    texts = one_by_one(lambda x, f, norm: norm(f))(translator, sums, sentence)
    type(sums[0]).forward = lambda self, x, f: self.norm(f)
    return texts


def keep_of(factor):
    """The keep with which a ratio falls by this factor in each layer."""
    return factor / (1 - factor)


def factor_of(start, layers, wanted, power=1):
    """By which each layer multiplies the ratio of what differs to what is shared."""
    before, after = (share / math.sqrt(1 - share**2) for share in (start, wanted))
    return (after / before) ** (power / layers)


# fmt: off
WRONG = {
    "check_sums": {
        "the sub-layer taken away": one_by_one(lambda x, f, norm: norm(x)),
        "LayerNorm taken away, too": one_by_one(lambda x, f, norm: f),
        "LayerNorm alone taken away": one_by_one(lambda x, f, norm: x + f),
        "half of x": one_by_one(lambda x, f, norm: norm(x / 2 + f)),
        "nothing taken away": one_by_one(lambda x, f, norm: norm(x + f)),
        "never put back": one_by_one(lambda x, f, norm: norm(f), back=False),
        "one translation": lambda translator, sums, sentence: translator.translate(sentence),
        "from the last": lambda *given: one_by_one(lambda x, f, norm: norm(f))(*given)[::-1],
        "the last not put back": last_stays,
        "a norm left changed": norm_left_changed,
        "the class left changed": class_left_changed,
        "an epsilon left changed": epsilon_left_changed,
        "forward put back by an assignment": forward_assigned,
        "another sentence": lambda translator, sums, sentence: (
            one_by_one(lambda x, f, norm: norm(f))(translator, sums, "A black cat sleeps on the bed.")
        ),
        "five sums alone": only({0, 7, 10, 13, 14}),
        "the encoder's feed-forward sums left": only({*range(15)} - {1, 3, 5}),
        "the decoder's first feed-forward sum left": only({*range(15)} - {8}),
        "the encoder's upper layers left": only({*range(15)} - {2, 3, 4, 5}),
        "a twentieth of x": one_by_one(lambda x, f, norm: norm(x / 20 + f)),
        "not yet written": lambda *given: None,
        "an error": lambda translator, sums, sentence: [one.residual for one in sums],
    },
    "check_pre_norm": {
        "post-norm": post_norm,
        "one norm for all": one_norm,
        "sums start from the copies": from_copies,
        "the input detached": lambda x, memory, *others: pre_norm_layer_with()(x.detach(), memory, *others),
        "the memory detached": lambda x, memory, *others: pre_norm_layer_with()(x, memory.detach(), *others),
        "everything detached": lambda *given: pre_norm_layer_with()(*given).detach(),
        "a norm detached": pre_norm_layer_with(think=lambda x, norm, network: x + network(norm(x).detach())),
        "the sum detached": pre_norm_layer_with(
            read=lambda x, norm, memory, attend: x.detach() + attend(norm(x), memory)
        ),
        "sum around attention forgotten": pre_norm_layer_with(look=lambda x, y, attend: attend(y, y)),
        "in place": in_place,
        "not yet written": lambda *given: None,
        "one word": lambda *given: pre_norm_layer_with()(*given)[:, :1],
        "a fourth norm": lambda x, memory, look, read, think, norms: norms[3](x),
        "the memory normalized": pre_norm_layer_with(
            read=lambda x, norm, memory, attend: x + attend(norm(x), norm(memory))
        ),
        "norm after the sub-layer": lambda x, memory, look, read, think, norms: (
            lambda x: (lambda x: x + norms[2](think(x)))(x + norms[1](read(x, memory)))
        )(x + norms[0](look(x, x))),
        "the query not normalized": pre_norm_layer_with(
            read=lambda x, norm, memory, attend: x + attend(x, memory)
        ),
        "the query of self-attention not normalized": pre_norm_layer_with(
            look=lambda x, y, attend: x + attend(x, y)
        ),
        "keys not normalized": pre_norm_layer_with(look=lambda x, y, attend: x + attend(y, x)),
    },
    "check_keep": {
        "the factor itself": factor_of,
        "the share falls evenly": lambda start, layers, wanted: keep_of((wanted / start) ** (1 / layers)),
        "one layer": lambda start, layers, wanted: keep_of(factor_of(start, 1, wanted)),
        "a layer's part of one layer's": lambda start, layers, wanted: (
            keep_of(factor_of(start, 1, wanted)) * layers
        ),
        "squares": lambda *given: keep_of(factor_of(*given, power=2)),
        "the other way round": lambda start, layers, wanted: keep_of(factor_of(wanted, layers, start)),
        "keep + 1": lambda *given: 1 + keep_of(factor_of(*given)),
        "the negative one": lambda *given: -factor_of(*given) / (1 + factor_of(*given)),
        "rounded": lambda *given: round(keep_of(factor_of(*given)), 2),
        "nearly proportional to the layers": lambda start, layers, wanted: (
            layers / math.log(1 / factor_of(start, 1, wanted))
        ),
        "right for cold tea": lambda *given: keep_of(factor_of(0.866, 6, 0.433)),
        "a list": lambda *given: [keep_of(factor_of(*given))],
        "not yet written": lambda *given: None,
        "an error": lambda start, layers, wanted: 1 / 0,
    },
}
# fmt: on
