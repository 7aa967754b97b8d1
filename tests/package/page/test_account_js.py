"""Accounts of a logit are sums without a rest, of what the package's modules add."""

import pytest
import torch
from javascript import run_javascript

from transformer_lite import Translator
from transformer_lite.page import SOURCES
from transformer_lite.page.export import exported
from transformer_lite.tokenizer import BOS, EOS

pytestmark = pytest.mark.usefixtures("types_unchecked")
MODEL = "tatoeba_en_de"
SENTENCES = [
    "A dog is running along the beach.",
    "We have to change trains in Frankfurt.",
    "The dog bites the man.",
]
ACCOUNTS = """
    worker.load(given.model);
    const parameters = worker.unpack(given.model);
    const model = new transformer.Transformer(given.model.config, parameters);
    const settings = { ...state.unchanged(given.model), ...given.changed };
    const changes = worker.changesOf(settings, 100);
    const nameOf = (id) => given.model.pieces[id];
    return given.asked.map(({ source, written, ...asked }) => {
      const last = account.lastVector(model, source, written, nameOf, changes);
      return account.account(asked, last, model, nameOf);
    });
"""
WALK = """
    worker.load(given.model);
    const settings = { ...state.unchanged(given.model), ...given.changed };
    const changes = worker.changesOf(settings, 100);
    const parameters = worker.unpack(given.model);
    const model = new transformer.Transformer(given.model.config, parameters);
    const nameOf = (id) => given.model.pieces[id];
    const found = [];
    for (const { source, target } of given.pairs) {
      const written = target.slice(0, given.place);
      const scene = [source, written, nameOf, changes];
      const last = account.lastVector(model, ...scene);
      const asked = { id: target[given.place], other: null };
      let open = [[]];
      for (let depth = 0; depth < given.depth; depth++) {
        const next = [];
        for (const keys of open) {
          const { trail, terms, views, missing, code } =
            account.account({ ...asked, keys }, last, model, nameOf);
          found.push({ keys, ...trail.at(-1), missing, code });
          const opened = terms.filter(({ opens }) => opens).map(({ key }) => key);
          const asks = terms.map(({ why }) => why).filter(Boolean);
          const seen = views.map(({ key }) => key);
          const followed = [...opened.slice(0, 2), ...asks.slice(0, 1), ...seen];
          next.push(...followed.map((key) => [...keys, key]));
        }
        open = next;
      }
    }
    return found;
"""


@pytest.fixture(scope="module")
def model():
    return exported(MODEL, bits=32)


@pytest.fixture(scope="module")
def translator():
    return Translator.load(MODEL, device="cpu")


def pair_of(translator, sentence):
    encode = translator.tokenizer.encode
    return [*encode(sentence), EOS], [*encode(translator.translate(sentence)), EOS]


def accounts(model, *asked, **changed):
    usual = {"other": None, "keys": []}
    asked = [usual | each for each in asked]
    given = {"model": model, "asked": asked, "changed": changed}
    return run_javascript(ACCOUNTS, given)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"kept": 0.4, "units": {"decoder.2.260": 8, "encoder.1.7": 3}},
        {
            "other": "A cat sleeps.",
            "borrowed": ["cross.2.0", "cross.2.5", "encoder.0.1"],
            "off": ["cross.1.0"],
            "scaled": False,
        },
    ],
    ids=["unchanged", "units and residual", "heads"],
)
def test_every_account_on_the_way_is_a_sum_without_a_rest(model, translator, changed):
    pairs = [pair_of(translator, sentence) for sentence in SENTENCES]
    pairs = [{"source": source, "target": target} for source, target in pairs]
    given = {"model": model, "pairs": pairs, "place": 2, "depth": 6, "changed": changed}
    found = run_javascript(WALK, given)
    assert len(found) > 150
    assert max(abs(each["missing"]) for each in found) < 1e-4
    kinds = {each["keys"][-1].rstrip("0123456789") for each in found if each["keys"]}
    assert kinds >= {"h", "w", "s", "u", "embedding", "w_q", "w_k", "variance"}, kinds
    source = (SOURCES / "transformer.js").read_text("utf-8")
    for each in found:
        assert each["code"] in source, each["title"]
        assert "undefined" not in each["title"]


def contributions(model, source, target, direction):
    """What each sub-layer adds to direction · h, by PyTorch's gradients.

    LayerNorm's division is held fixed. A sub-layer's output is cut off from its input,
    so that its gradient is that of the way around the later ones.
    """
    added, handles = {}, []

    def cut(name):
        def hook(module, inputs, output):
            added[name] = output.detach().requires_grad_()
            return added[name]

        return hook

    def divided(norm, inputs, output):
        (x,) = inputs
        deviation = x.detach().sub(x.detach().mean(-1, keepdim=True)).square().mean(-1)
        scale = (deviation + norm.eps).rsqrt()[..., None]
        return (x - x.mean(-1, keepdim=True)) * scale * norm.weight + norm.bias

    for number, layer in enumerate(model.decoder.layers):
        names = {f"decoder.{number}": layer.self_attention}
        names |= {f"cross.{number}": layer.cross_attention}
        names |= {f"decoder.{number}.network": layer.feed_forward}
        for name, module in names.items():
            handles.append(module.register_forward_hook(cut(name)))
        for module in layer.modules():
            if isinstance(module, torch.nn.LayerNorm):
                handles.append(module.register_forward_hook(divided))
    hidden = model.hidden(torch.tensor([source]), torch.tensor([target]))[0, -1]
    (direction @ hidden).backward()
    for handle in handles:
        handle.remove()
    return {
        name: float(tensor.grad[0, -1] @ tensor.detach()[0, -1])
        for name, tensor in added.items()
    }


def test_shares_are_those_of_the_packages_modules(model, translator):
    for sentence in SENTENCES:
        source, target = pair_of(translator, sentence)
        written, (piece, other) = target[:3], (target[3], target[2])
        (found,) = accounts(
            model, {"source": source, "written": written, "id": piece, "other": other}
        )
        matrix = translator.model.decoder.embedding.weight
        direction = (matrix[piece] - matrix[other]).detach()
        expected = contributions(translator.model, source, [BOS, *written], direction)
        shares = {term["key"]: term["share"] for term in found["terms"]}
        for name, share in expected.items():
            assert shares[name] == pytest.approx(share, abs=1e-3), name


def test_the_logits_are_the_models_with_what_is_changed(model, translator):
    source, target = pair_of(translator, SENTENCES[2])
    asked = {"source": source, "written": target[:1], "id": target[1]}
    plain, off, lost = (
        accounts(model, asked, **change)[0]["trail"][0]["value"]
        for change in ({}, {"off": ["cross.1.0"]}, {"positions": False})
    )
    network = translator.model
    with torch.no_grad():
        right = network(torch.tensor([source]), torch.tensor([[BOS, target[0]]]))
    assert plain == pytest.approx(right[0, -1, target[1]].item(), abs=1e-3)
    assert abs(plain - off) > 0.01 < abs(plain - lost)


def test_a_head_that_is_off_has_no_account(model, translator):
    source, target = pair_of(translator, SENTENCES[2])
    asked = {"source": source, "written": [], "id": target[0], "keys": ["cross.1"]}
    (found,) = accounts(model, asked, off=["cross.1.0"])
    (head,) = [term for term in found["terms"] if term["key"] == "h0"]
    assert head["share"] == 0
    assert not head["opens"]
    assert "off" in head["title"]
    with pytest.raises(AssertionError, match="has no account of h0"):
        accounts(model, asked | {"keys": ["cross.1", "h0"]}, off=["cross.1.0"])


def test_every_weight_has_the_account_of_its_score(model, translator):
    source, target = pair_of(translator, SENTENCES[2])
    attention = translator.model.decoder.layers[1].cross_attention
    found = {}
    handles = [
        matrix.register_forward_hook(
            lambda _, inputs, output, name=name: found.update({name: output[0]})
        )
        for name, matrix in (("q", attention.w_q), ("k", attention.w_k))
    ]
    with torch.no_grad():
        translator.model(torch.tensor([source]), torch.tensor([[BOS, *target[:4]]]))
    for handle in handles:
        handle.remove()
    width = found["q"].size(1) // 8
    query, key = (found[n][i].split(width)[5] for n, i in (("q", 3), ("k", 1)))
    expected = (query @ key).item() / width**0.5
    asked = {"source": source, "written": target[:4], "weight": "cross.1.5.3.1"}
    (score,) = accounts(model, asked)
    assert score["trail"][0]["value"] == pytest.approx(expected, abs=1e-3)
    (by_query,) = accounts(model, asked | {"keys": ["w_q"]})
    assert abs(by_query["missing"]) < 1e-4
    assert f"“{model['pieces'][source[1]]}”" in score["trail"][0]["title"]
    with pytest.raises(AssertionError, match=r"there is no weight cross\.9\.5\.3\.1"):
        accounts(model, asked | {"weight": "cross.9.5.3.1"})
