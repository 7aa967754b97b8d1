"""What the tour on the book's page says holds for the model in it."""

import re
from html import unescape

import pytest
from javascript import PAGE, run_javascript
from loading import ROOT, load

from transformer_lite import Translator
from transformer_lite.page import SOURCES
from transformer_lite.page.export import exported

TEXT = (ROOT / "book" / "live_translator.md").read_text(encoding="utf-8")
FOLLOW = """
    worker.load(given.model);
    const parameters = worker.unpack(given.model);
    const model = new transformer.Transformer(given.model.config, parameters);
    const nameOf = (id) => given.model.pieces[id];
    return given.links.map((hash) => {
      const settings = link.fromLink(hash, given.model);
      const asked = link.askedOf(hash, given.model);
      const [{ pieces }, ...answers] = worker.translate(settings);
      const result = answers.at(-1);
      if (!asked) return result;
      const source = [...pieces.map(({ id }) => id), 2];
      const written = result.steps.slice(0, asked.place).map(({ id }) => id);
      const changes = worker.changesOf(settings, 100);
      const last = account.lastVector(model, source, written, nameOf, changes);
      const open = (...more) => {
        const keys = [...asked.keys, ...more];
        return account.account({ ...asked, keys }, last, model, nameOf);
      };
      const views = open().views.map(({ key }) => open(key));
      return { ...result, account: open(), views };
    });
"""
MODEL = load("_ext/live_page.py").MODEL


@pytest.fixture(scope="module")
def follow():
    """A function from links to what the page shows then."""
    model = exported(MODEL)
    files = [*PAGE, SOURCES / "link.js"]

    def follow(*links):
        given = {"model": model, "links": list(links)}
        return run_javascript(FOLLOW, given, files)

    return follow


@pytest.fixture(scope="module")
def stops(follow):
    """For each stop of the tour its text, its right guess, and what its links show."""
    found = []
    for text in re.split(r"^### Stop \d+: .*\n", TEXT, flags=re.M)[1:]:
        text = text.partition("\n## ")[0]
        (right,) = re.findall(r"^- \*\*(.+)\*\*$", text, flags=re.M)
        links = [unescape(link) for link in re.findall(r'<a href="(#[^"]+)"', text)]
        found.append((" ".join(text.split()), right, links))
    shown = iter(follow(*(link for _, _, links in found for link in links)))
    return [(text, right, [next(shown) for _ in links]) for text, right, links in found]


def changed(text, **settings):
    return "#" + "&".join([f"text={text}", *(f"{k}={v}" for k, v in settings.items())])


def test_there_are_twelve_stops_with_three_guesses_each(stops):
    assert len(stops) == 12
    for _, _, shown in stops:
        assert shown
    assert len(re.findall(r"^- ", TEXT, flags=re.M)) == 36


def test_a_name(stops):
    text, _, (shown,) = stops[0]
    assert "Offenhurt" in text
    assert "Offenhurt" in shown["output"]


def test_a_word_and_its_sentence(stops):
    text, right, (shown,) = stops[1]
    lead, *_, vector = shown["account"]["trail"]
    assert f"{lead['value']:.2f}" == f"{vector['value']:.2f}" == "0.63"
    (row,) = [each for each in shown["account"]["terms"] if each["key"] == "embedding"]
    assert f"{row['share']:.2f}" == f"{0.07 + 0.04:.2f}"
    assert right == "0.07"
    assert "its position gives 0.04" in text


def test_no_positions(stops):
    _, _, (dog, man) = stops[2]
    assert dog["output"] == man["output"]
    assert len(dog["output"].split()) > 20


def test_a_weight(stops):
    text, right, (shown,) = stops[3]
    score = shown["account"]["trail"][-1]["value"]
    assert f"{score:.2f}" == "8.12"
    shares = [each["share"] for each in shown["account"]["terms"]]
    assert right == "Four"
    assert sum(shares[:3]) < score / 2 < sum(shares[:4])
    said = ", ".join(f"{share:.2f}" for share in shares[:3])
    assert f"{said} and {shares[3]:.2f}" in text
    by_query = shown["views"][0]["terms"][0]
    assert by_query["title"].startswith("the self-attention of decoder layer 3")
    assert f"gives {by_query['share']:.2f} of the 8.12" in text


def test_no_division(stops, follow):
    _, _, (shown,) = stops[4]
    (whole,) = follow(
        changed("My brother has a red car and my sister has a green house.")
    )
    assert "grünes Haus" in whole["output"]
    assert "Haus" not in shown["output"]
    flat = [w for kind in shown["weights"].values() for x in kind for h in x for w in h]
    usual = [
        w for kind in whole["weights"].values() for x in kind for h in x for w in h
    ]

    def extreme(weights):
        return sum(w < 5 or w > 95 for w in weights) / len(weights)

    assert extreme(flat) > extreme(usual) + 0.1


def test_seventy_two_heads(stops):
    """By the package, which is faster and has the same weights."""
    text, right, (shown,) = stops[5]
    sentences = [
        "A dog runs on the beach.",
        "The dog bites the man.",
        "I gave her the letter that my father had written.",
    ]
    translator = Translator.load(MODEL, device="cpu")
    usual = translator.translate(sentences)
    changes = 0
    for matrix in output_matrices(translator.model):
        trained, width = matrix.data.clone(), matrix.size(1) // 8
        for head in range(8):
            matrix.data[:, head * width : (head + 1) * width] = 0
            outputs = translator.translate(sentences)
            changes += sum(a != b for a, b in zip(outputs, usual, strict=True))
            matrix.data.copy_(trained)
    assert changes == int(right)
    assert f"In {changes}." in text
    assert "den mein Vater" in usual[2]
    assert "der mein Vater" in shown["output"]


def output_matrices(model):
    """W_O of all nine attention sub-layers."""
    return [
        parameter
        for name, parameter in model.named_parameters()
        if name.endswith("w_o.weight")
    ]


def test_where_the_words_come_in(stops):
    text, right, (third, first, second) = stops[6]
    assert right == "In the third alone"
    assert "Hund" in first["output"]
    assert "Hund" in second["output"]
    assert third["output"] == "Die Katze beißt den Mann."
    assert third["output"] in text


def test_another_second_word(stops):
    _, _, (shown,) = stops[7]
    assert shown["output"].startswith("Ich habe ihr den Brief gegeben")


def test_less_of_x(stops, follow):
    _, right, (shown,) = stops[8]
    dog = "The dog bites the man."
    parts = [1, 0.9, 0.7, 0.35]
    usual, *kept = (
        each["output"] for each in follow(*(changed(dog, keep=part) for part in parts))
    )
    assert kept == [usual] * 3
    assert right == "At 0.30"
    assert shown["output"] != usual


def test_one_number(stops):
    text, _, (shown,) = stops[9]
    assert shown["output"] in text
    translator = Translator.load(MODEL, device="cpu")
    unit, values = 260, []
    translator.model.decoder.layers[2].feed_forward.w_1.register_forward_hook(
        lambda module, inputs, output: values.append(output[..., unit].max().item())
    )
    links = re.findall(r"#text=([^&\"]+)", TEXT)
    translator.translate(sorted({link.replace("+", " ") for link in links}))
    assert f"it is at most {max(values):.1f}" in text


def test_a_trial_of_the_account(stops, follow):
    text, right, (shown,) = stops[10]
    assert shown["output"] == right
    asked = {"at": "2,4095,2574,cross.2,h7"}
    (found,) = follow(changed("A dog runs on the beach.", **asked))
    lead, _, head = (f"{each['value']:.2f}" for each in found["account"]["trail"])
    assert lead == head == "0.63"
    assert "gives 0.63 to this lead" in text
    dog, at = "A dog runs on the beach.", "2,4095,2574"
    on, off = follow(changed(dog, at=at), changed(dog, at=at, off="cross.2.7"))
    left = off["account"]["trail"][0]["value"]
    network = "the feed-forward network of decoder layer 3"
    before, after = (
        each["share"]
        for found in (on, off)
        for each in found["account"]["terms"]
        if each["title"] == network
    )
    for said in (f"fallen to {left:.2f}", f"from {before:.2f} to {after:.2f}"):
        assert said.replace("-", "−") in text


def test_a_wider_search(stops):
    text, _, (wide, greedy) = stops[11]
    for shown, word, score in (
        (wide, "Cinina", "−2.61"),
        (greedy, "Zininara", "−2.62"),
    ):
        assert word in shown["output"]
        assert word in text
        assert f"{shown['score']:.2f}".replace("-", "−") == score
        assert score in text
