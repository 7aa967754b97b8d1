"""Wrong answers to the exercises of 5.4, by check and by mistake."""

import math

import torch
from torch.nn import functional as F

from transformer_lite.loss import label_smoothed_loss
from transformer_lite.tokenizer import PAD


def dropping(shape_of, scale=lambda rate: 1 - rate, lose=lambda rate: rate):
    """An answer whose coins have their own shape, rate or scale."""

    def candidate(x, rate):
        kept = torch.rand(shape_of(x)) >= lose(rate)
        return x * kept / max(scale(rate), 1e-9)

    return candidate


def of_channels(x):
    return (x.size(0), 1, x.size(2))


def same_coins_always(x, rate):
    coins = torch.rand(of_channels(x), generator=torch.Generator().manual_seed(0))
    return x * (coins >= rate) / (1 - rate)


def shared_from_the_third_on(x, rate):
    coins = torch.rand(of_channels(x))
    coins[2:] = coins[1:2]
    return x * (coins >= rate) / (1 - rate)


def exactly_that_many(x, rate):
    order = torch.rand(of_channels(x)).argsort(-1)
    return x * (order >= round(rate * x.size(2))) / (1 - rate)


def exactly_that_many_in_all(x, rate):
    sentences, channels = x.size(0), x.size(2)
    order = torch.randperm(sentences * channels).view(sentences, 1, channels)
    return x * (order >= round(rate * sentences * channels)) / (1 - rate)


def every_fifth_repeats_its_neighbour(x, rate):
    coins = torch.rand(of_channels(x))
    repeated = coins[..., 3::5]
    coins[..., 4::5] = repeated[..., : coins[..., 4::5].size(-1)].clone()
    return x * (coins >= rate) / (1 - rate)


def first_fifth_is_shared(x, rate):
    coins = torch.rand(of_channels(x))
    coins[..., : x.size(2) // 5] = coins[:1, :, : x.size(2) // 5].clone()
    return x * (coins >= rate) / (1 - rate)


def some_copied_from_the_left(x, rate):
    coins = torch.rand(of_channels(x))
    is_copy = torch.rand(of_channels(x)) < 0.2
    coins = torch.where(is_copy, coins.roll(1, -1), coins)
    return x * (coins >= rate) / (1 - rate)


def scaled_by_what_is_left(x, rate):
    kept = torch.rand(of_channels(x)) >= rate
    return x * kept / kept.float().mean()


def gradient(
    target_of,
    real=lambda labels, pad_id: labels != pad_id,
    divide=lambda labels, pad_id: 1,
):
    """An answer with its own target, padding or divisor."""

    def candidate(scores, labels, epsilon, pad_id):
        found = scores.softmax(-1) - target_of(labels, scores.size(-1), epsilon, pad_id)
        found = found * real(labels, pad_id)[:, None]
        return found / divide(labels, pad_id)

    return candidate


def of_the_authors(labels, vocab, epsilon, pad_id):
    is_right = F.one_hot(labels, vocab).bool()
    return torch.where(is_right, 1 - epsilon, epsilon / (vocab - 1))


def of_pytorch(labels, vocab, epsilon, pad_id):
    return F.one_hot(labels, vocab) * (1 - epsilon) + epsilon / vocab


def without_padding(labels, vocab, epsilon, pad_id):
    target = of_the_authors(labels, vocab, epsilon, pad_id)
    target = target.where(target > 0.5, epsilon / max(vocab - 2, 1))
    target[:, pad_id] = 0
    return target


def hard(labels, vocab, epsilon, pad_id):
    return F.one_hot(labels, vocab).double()


def not_summing_to_one(labels, vocab, epsilon, pad_id):
    is_right = F.one_hot(labels, vocab).bool()
    return torch.where(is_right, 1 - epsilon, epsilon / vocab)


def by_backward(scores, labels, epsilon, pad_id):
    scores.requires_grad_()
    label_smoothed_loss(scores, labels, epsilon, pad_id).loss.backward()
    return scores.grad


def by_autograd(scores, labels, epsilon, pad_id):
    with torch.enable_grad():
        scores = scores.clone().requires_grad_()
        loss = label_smoothed_loss(scores, labels, epsilon, pad_id).loss
        return torch.autograd.grad(loss, scores)[0]


def two_channels_a_coin(x, rate):
    coins = torch.rand(x.size(0), 1, (x.size(2) + 1) // 2)
    coins = coins.repeat_interleave(2, dim=-1)[..., : x.size(2)]
    return x * (coins >= rate) / (1 - rate)


def opposite_coins(x, rate):
    coins = torch.rand((x.size(0) + 1) // 2, 1, x.size(2))
    coins = torch.cat([coins, 1 - coins])[: x.size(0)]
    return x * (coins >= rate) / (1 - rate)


def every_third_channel_alike(x, rate):
    coins = torch.rand(x.size(0), 1, 3).repeat(1, 1, x.size(2) // 3 + 1)
    return x * (coins[..., : x.size(2)].roll(1, 0) >= rate) / (1 - rate)


def second_half_repeats_the_first(x, rate):
    coins = torch.rand(x.size(0), 1, (x.size(2) + 1) // 2).repeat(1, 1, 2)
    return x * (coins[..., : x.size(2)] >= rate) / (1 - rate)


def opposite_two_sentences_on(x, rate):
    coins = torch.rand(of_channels(x))
    coins[2:] = 1 - coins[:-2].clone()
    return x * (coins >= rate) / (1 - rate)


def dropped_in_place(x, rate):
    x *= torch.rand(of_channels(x)) >= rate
    x /= 1 - rate
    return x


def by_autograd_in_normal_mode(scores, labels, epsilon, pad_id):
    with torch.inference_mode(False):
        copies = scores.clone().requires_grad_(), labels.clone()
        loss = label_smoothed_loss(*copies, epsilon, pad_id).loss
        return torch.autograd.grad(loss, copies[0])[0]


def by_backward_in_normal_mode(scores, labels, epsilon, pad_id):
    with torch.inference_mode(False):
        copies = scores.clone().requires_grad_(), labels.clone()
        label_smoothed_loss(*copies, epsilon, pad_id).loss.backward()
        return copies[0].grad


def by_exp(scores, labels, epsilon, pad_id):
    shares = scores.exp() / scores.exp().sum(-1, keepdim=True)
    found = shares - of_the_authors(labels, scores.size(-1), epsilon, pad_id)
    return found * (labels != pad_id)[:, None]


def in_place(scores, labels, epsilon, pad_id):
    scores.copy_(gradient(of_the_authors)(scores, labels, epsilon, pad_id))
    return scores


def almost_guessing(vocab, right=1.001):
    p = torch.ones(vocab)
    p[0] = right
    return p / p.sum()


def close_second(vocab, right=0.499, others=0.0):
    p = torch.full((vocab,), others / max(vocab - 2, 1))
    p[0], p[1] = right, 1 - right - others
    return p


def two(first=almost_guessing, second=close_second):
    return lambda vocab: (first(vocab), second(vocab))


def labels_in_place(scores, labels, epsilon, pad_id):
    found = gradient(of_the_authors)(scores, labels, epsilon, pad_id)
    labels.fill_(pad_id)
    return found


def by_differences(scores, labels, epsilon, pad_id):
    """The loss a little to the right and to the left of each score."""

    def loss(place, step):
        moved = scores.clone().flatten()
        moved[place] += step
        return label_smoothed_loss(
            moved.view_as(scores), labels, epsilon, pad_id
        ).loss.item()

    found = [
        (loss(place, 1e-4) - loss(place, -1e-4)) / 2e-4
        for place in range(scores.numel())
    ]
    return torch.tensor(found, dtype=scores.dtype).view_as(scores)


def by_vjp(scores, labels, epsilon, pad_id):
    with torch.inference_mode(False):
        copies = scores.clone(), labels.clone()
        _, pull = torch.func.vjp(
            lambda s: label_smoothed_loss(s, copies[1], epsilon, pad_id).loss, copies[0]
        )
        return pull(torch.ones((), dtype=scores.dtype))[0]


def by_functional_grad(scores, labels, epsilon, pad_id):
    with torch.inference_mode(False):
        return torch.func.grad(
            lambda s: label_smoothed_loss(s, labels.clone(), epsilon, pad_id).loss
        )(scores.clone())


def validation(measure, before=lambda model: model.eval(), after=lambda m: m.train()):
    """A model's perplexity, with another measure or other states of the model."""

    def candidate(model, batch):
        before(model)
        with torch.no_grad():
            logits = model(batch.src_ids, batch.tgt_input)
        found = measure(label_smoothed_loss(logits, batch.labels, 0.1, PAD), batch)
        after(model)
        return found

    return candidate


def unsmoothed(sums, batch):
    return math.exp(sums.nll.item() / sums.tokens.item())


def with_gradients(model, batch):
    logits = model.eval()(batch.src_ids, batch.tgt_input)
    sums = label_smoothed_loss(logits, batch.labels, 0.1, PAD)
    sums.loss.backward()
    model.train()
    return unsmoothed(sums, batch)


def with_gradients_thrown_away(model, batch):
    found = validation(unsmoothed)(model, batch)
    model.zero_grad()
    return found


def with_gradients_switched_off(model, batch):
    torch.set_grad_enabled(False)
    return validation(unsmoothed)(model, batch)


def with_a_seed(model, batch):
    torch.manual_seed(0)
    return validation(unsmoothed, before=lambda model: None)(model, batch)


# fmt: off
WRONG = {
    "check_perplexity": {
        "of the smoothed loss": validation(lambda sums, batch: math.exp(sums.loss.item() / sums.tokens.item())),
        "with dropout": validation(unsmoothed, before=lambda model: None),
        "dropout with a seed": with_a_seed,
        "dropout off for good": validation(unsmoothed, after=lambda model: None),
        "gradients off for good": with_gradients_switched_off,
        "gradients of the validation batch": with_gradients,
        "gradients thrown away": with_gradients_thrown_away,
        "padding counts": validation(lambda sums, batch: math.exp(sums.nll.item() / batch.labels.numel())),
        "the mean of sentences": validation(lambda sums, batch: math.exp(sums.nll.item() / len(batch.labels))),
        "the loss": validation(lambda sums, batch: sums.nll.item() / sums.tokens.item()),
        "base 2": validation(lambda sums, batch: 2 ** (sums.nll.item() / sums.tokens.item())),
        "nothing": lambda model, batch: None,
    },
    "check_dropout": {
        "nothing": lambda x, rate: None,
        "an error": lambda x, rate: x @ x,
        "in place": dropped_in_place,
        "fp32 for bf16": lambda x, rate: dropping(of_channels)(x, rate).float(),
        "tenths": lambda x, rate: x * (torch.randint(0, 10, of_channels(x)) >= 10 * rate) / (1 - rate),
        "a gradient of something else": lambda x, rate: dropping(of_channels)(x.detach(), rate).requires_grad_(),
        "without a gradient": lambda x, rate: dropping(of_channels)(x.detach(), rate),
        "a gradient without the scale": lambda x, rate: (
            x.detach()
            * (rate / (1 - rate))
            * (kept := torch.rand(of_channels(x)) >= rate)
            + x * kept
        ),
        "every third channel has the same coin": every_third_channel_alike,
        "the second half repeats the first": second_half_repeats_the_first,
        "opposite coins two sentences on": opposite_two_sentences_on,
        "only positive values": lambda x, rate: dropping(of_channels)(x.abs(), rate),
        "a coin for every number": dropping(lambda x: x.shape),
        "the same coins for all sentences": dropping(lambda x: (1, 1, x.size(2))),
        "one coin for a whole sentence": dropping(lambda x: (x.size(0), 1, 1)),
        "positions instead of channels": dropping(lambda x: (*x.shape[:2], 1)),
        "not scaled": dropping(of_channels, scale=lambda rate: 1),
        "keeps what should be lost": dropping(of_channels, lose=lambda rate: 1 - rate),
        "half of them always": dropping(of_channels, lose=lambda rate: 0.5),
        "the same coins in every call": same_coins_always,
        "sentences from the third on share coins": shared_from_the_third_on,
        "exactly that many of each sentence": exactly_that_many,
        "exactly that many in each call": exactly_that_many_in_all,
        "every fifth channel repeats its neighbour": every_fifth_repeats_its_neighbour,
        "sentences share the first fifth": first_fifth_is_shared,
        "some coins are copied from the left": some_copied_from_the_left,
        "scaled by what happens to be left": scaled_by_what_is_left,
        "neighbouring channels share a coin": two_channels_a_coin,
        "half of the sentences have the opposite coins": opposite_coins,
    },
    "check_gradient": {
        "nothing": lambda *given: None,
        "for the right words only": lambda *given: gradient(of_the_authors)(*given).gather(-1, given[1][:, None]),
        "by backward": by_backward,
        "by autograd, switched on again": by_autograd,
        "by autograd, in the normal mode": by_autograd_in_normal_mode,
        "by backward, in the normal mode": by_backward_in_normal_mode,
        "a softmax that overflows": by_exp,
        "in place": in_place,
        "labels in place": labels_in_place,
        "by differences": by_differences,
        "by torch.func.vjp": by_vjp,
        "by torch.func": by_functional_grad,
        "padding counts": gradient(of_the_authors, real=lambda labels, pad_id: torch.ones_like(labels)),
        "padding is always 0": gradient(of_the_authors, real=lambda labels, pad_id: labels != 0),
        "over all words, as in PyTorch": gradient(of_pytorch),
        "nothing for padding": gradient(without_padding),
        "without smoothing": gradient(hard),
        "a target that does not sum to 1": gradient(not_summing_to_one),
        "of the mean": gradient(of_the_authors, divide=lambda labels, pad_id: (labels != pad_id).sum().clamp(min=1)),
        "of the mean with padding": gradient(of_the_authors, divide=lambda labels, pad_id: len(labels)),
        "the other way round": lambda scores, labels, epsilon, pad_id: (
            -gradient(of_the_authors)(scores, labels, epsilon, pad_id)
        ),
    },
    "check_limits": {
        "nothing": lambda vocab: None,
        "one tensor": almost_guessing,
        "the limits themselves": lambda vocab: (vocab, 2),
        "the right word alone": lambda vocab: (almost_guessing(vocab)[:1], close_second(vocab)[:1]),
        "a winner needs one half": two(first=lambda vocab: close_second(vocab, 0.501)),
        "a tie": two(first=lambda vocab: torch.ones(vocab) / vocab),
        "a second that wins by a tie": two(second=lambda vocab: close_second(vocab, 0.5)),
        "too sure": two(first=lambda vocab: almost_guessing(vocab, 1.1)),
        "the wrong one is certain": two(second=lambda vocab: close_second(vocab, 0.0)),
        "the wrong one is too far ahead": two(second=lambda vocab: close_second(vocab, 0.4)),
        "both guess": two(second=lambda vocab: almost_guessing(vocab, 0.999)),
        "the other way round": lambda vocab: (close_second(vocab), almost_guessing(vocab)),
        "a sum above 1": two(second=lambda vocab: 2 * close_second(vocab)),
        "below 0": two(second=lambda vocab: close_second(vocab, 0.499, -0.1)),
        "not a number": two(second=lambda vocab: close_second(vocab, torch.nan)),
        "for the smallest vocabulary only": lambda vocab: two()(3),
    },
}
# fmt: on

RIGHT = {
    "check_dropout": {"by PyTorch": lambda x, rate: F.dropout1d(x.mT, rate).mT},
    "check_perplexity": {"without a gradient": validation(unsmoothed)},
}
