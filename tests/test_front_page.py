"""The front page and the README show what the models of the package translate."""

import re

import pytest
from loading import ROOT

from transformer_lite import Translator

PAGE = (ROOT / "book" / "intro.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["multi30k_en_de", "tatoeba_en_de_wide"])
def test_models_of_the_package_give_the_translations_that_are_shown(name):
    table = PAGE.partition(f"| You write | `{name}` translates |\n")[2]
    rows = re.findall(
        r"^\| ([^|]+\.) \| ([^|]+\.) \|$", table.partition("\n\n")[0], re.M
    )
    shown = re.search(rf'echo "(.+)" \| .+translate {name}\n# (.+)\n', README)
    sources, translations = zip(*rows, shown.groups(), strict=True)
    assert len(sources) == 3
    model = Translator.load(name)
    assert model.translate(sources) == list(translations)


def test_the_box_holds_the_sentence_whose_translation_is_shown():
    source, translation = re.search(r"write: \*(.+)\*\\\n.+\*\*(.+)\*\*", PAGE).groups()
    assert f'value="{source}"' in PAGE
    assert Translator.load("tatoeba_en_de_wide").translate(source) == translation
