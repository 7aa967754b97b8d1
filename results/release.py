"""Make a small checkpoint for readers from a run, with its model card.

    python -m results.release --name multi30k_en_de-1

It goes into the package, so that chapters show trained heads without training, and
readers translate or parse. Its weights are rounded to 8 bits, which leaves a quarter of
their size; the card gives the scores of these. `NAMES` has the names that are not the
runs' own.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from itertools import repeat
from pathlib import Path

import tyro

from results.provenance import ROOT, checksums
from results.runs import CORPORA, RUNS, TATOEBA_2018, Run
from results.storage import read_json, write_json
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference.scores import score
from transformer_lite.inference.translator import Translator
from transformer_lite.parsing.brackets import score_brackets
from transformer_lite.parsing.parser import Parser, with_leaves
from transformer_lite.parsing.trees import TREES_WITH_WORDS
from transformer_lite.runs.files import renamed_when_whole
from transformer_lite.runs.folder import PRETRAINED, RunFolder
from transformer_lite.runs.weights import in_8_bits, read_weights, save_weights

LICENCES = {
    "multi30k": (
        "sentence pairs of Multi30k. Multi30k's images come from Flickr30k; its "
        "authors give the sentences to researchers and educators for non-commercial "
        "research and education, and this model is passed on under the same terms."
    ),
    "tatoeba": (
        "sentence pairs of Tatoeba. They are those that manythings.org/anki gave out "
        "on 2018-05-13, from Tatoeba (tatoeba.org), under CC BY 2.0 FR. Whoever passes "
        "this model on names both."
    ),
    "parser": (
        "sentences with their trees. They come from the Colorado Richly Annotated Full "
        "Text corpus (CRAFT, github.com/UCDenver-ccp/CRAFT, CC BY 3.0), biomedical "
        "articles, and from six genres of GUM (github.com/amir-zeldes/gum), with trees "
        "by a parser, CC BY 4.0, and texts under CC BY 2.5, CC BY 4.0 and CC BY-SA "
        "3.0. If you pass this model on, name both."
    ),
}
"""What the training data are, and on what terms they were given."""

NAMES = {
    "parsing/craft_gum_words_fourth_round": "craft_parser",
    "search/tatoeba_wide_longer": "tatoeba_en_de_wide",
}
"""What a model is called, by its experiment; by default as the experiment."""

PARSER = "craft_gum_words"
"""The corpus of the parser that is released."""

CARD = """# {name}

{does}: the Transformer of "Attention Is All You Need" with
{parameters:.1f} million parameters, trained for the book *Transformer Lite*.

{example}

## Training data

{pairs:,} {licence}

## What it is not for

{limits}

## How good it is

{scores}, on
these very weights, rounded to 8 bits by row, with beam {beam} and α = {alpha}.
{scoring}

## How it was made

The mean of the last {checkpoints} checkpoints of the run
[`{run}`]({link}/{run}.json), where configuration, seed, commit, versions and learning
curve are. To make one yourself{same}:

```sh
{get}transformer-lite {prepare} --out data/{name}
transformer-lite train {recipe} --data data/{name}
```
{rounds}"""
ROUNDS = """
This run went on from the end of [`{earlier}`]({link}/{earlier}.json), so that the
learning rate rose and fell again. The command above trains as long in one round.
"""
BEFORE = """
Both runs began with the weights that this model had before, those of
[`parsing/craft_gum_words_longer-1`]({link}/parsing/craft_gum_words_longer-1.json),
which had been trained as long. So the command above has about half of the training.
"""
TRANSLATION = """```python
from transformer_lite import Translator

Translator.load("{name}").translate("A dog runs on the beach.")
```"""
PARSING = """```sh
echo "We saw the cells with a microscope ." | transformer-lite translate {name}
```

Words and punctuation have spaces between them. Every output is a tree over the
sentence's words (`transformer_lite.parsing.parser`), in which brackets are written as
-LRB- and -RRB-. `Translator.load` searches without constraints; see `Parser`."""
GET = "".join(f"python -m results.treebank_files {bank}\n" for bank in ("craft", "gum"))
LIMITS = {
    "multi30k": (
        "It knows the language of captions: who does what, where, in what clothes. "
        "Anything else (news, questions, names, numbers, the first person) it turns "
        "into a caption. It is made to look into, not to rely on."
    ),
    "tatoeba": (
        "It knows short everyday sentences. Long ones, technical ones and rare words "
        "it gets wrong, often without a sign of it. It is made to look into, not to "
        "rely on."
    ),
    "parser": (
        "It knows the English of biomedical articles, and gives no tags. It "
        "writes a tree for any sentence, even for nonsense, and calls some short "
        "sentences a CAPTION, as in the articles. It is made to look into, not to "
        "rely on."
    ),
}
SCORING = {
    "multi30k": (
        "To score it yourself: `transformer-lite evaluate {name} --data data/{name} "
        "--split {split}`, once the data are prepared as below."
    ),
    "tatoeba": (
        "No pair of the test set shares a sentence with those that it has read. **On "
        "the text that `prepare tatoeba` downloads it cannot be scored:** that is a "
        "later edition, cut otherwise, and the model may have read what is held out "
        "there."
    ),
    "parser": (
        "Brackets are counted as EVALB counts them. `transformer-lite evaluate {name} "
        "--data data/{name} --split {split}` scores an unconstrained search, whose "
        "outputs are not always trees."
    ),
}
LANGUAGES = {"en": "English", "de": "German", "fr": "French"}
LINK = "https://github.com/transformer-lite/transformer-lite/blob/main/results"


def release(run: Run, out: Path) -> None:
    """Write the checkpoint's folder, in the layout of a run's.

    Raises:
        ValueError: `out` exists, the run has no average, or its text is another edition
            than the card would say.
    """
    folder, corpus = RunFolder(run.folder), PreparedCorpus(run.data)
    kind = _kind(run)
    if kind == "tatoeba" and checksums(corpus)["train.src"] != TATOEBA_2018:
        raise ValueError(
            f"{run.data}: not the Tatoeba of 2018-05-13; write in {__file__} which "
            "edition it is, and on what terms"
        )
    weights = read_weights(folder.average)
    with renamed_when_whole(out) as partial:
        small = RunFolder(partial)
        for path in (folder.corpus, folder.tokenizer):
            shutil.copyfile(path, partial / path.name)
        # Where the card's commands prepare the data.
        data = {"data": f"data/{out.name}"}
        write_json(small.config, read_json(folder.config) | data)
        save_weights(small.average, in_8_bits(weights))
        translator = Translator.load(partial)
        recipe = folder.recipe()
        # CRAFT's test set takes half an hour; constrained.json has its scores.
        splits = run.splits[:1] if kind == "parser" else run.splits
        example = PARSING if kind == "parser" else TRANSLATION
        changes = [
            f" --{table}.{name.replace('_', '-')} {value}"
            for table, values in run.changes.items()
            for name, value in values.items()
        ]
        card = CARD.format(
            name=out.name,
            does=_does(*corpus.languages),
            example=example.format(name=out.name),
            parameters=sum(tensor.numel() for tensor in weights.values()) / 1e6,
            pairs=corpus.sizes["train"],
            licence=LICENCES[kind],
            limits=LIMITS[kind],
            scoring=SCORING[kind].format(name=out.name, split=run.splits[-1]),
            scores=measured(translator, corpus, splits),
            beam=recipe.search.beam_size,
            alpha=recipe.search.alpha,
            checkpoints=recipe.train.average_checkpoints,
            run=run.name,
            link=LINK,
            get=GET if kind == "parser" else "",
            prepare=f"prepare {CORPORA[run.corpus]}".replace(" trees", "-trees"),
            recipe=run.recipe + "".join(changes),
            rounds=_rounds(run),
            same=", on the later edition" if kind == "tatoeba" else "",
        )
        (partial / "README.md").write_text(card, encoding="utf-8")


def measured(
    translator: Translator, corpus: PreparedCorpus, splits: Sequence[str]
) -> str:
    """Return the scores as a table, and how they are computed."""
    is_parser = corpus.languages[1] == TREES_WITH_WORDS
    names = ["F1", "precision", "recall"] if is_parser else ["BLEU", "chrF"]
    lines = ["| Text | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for split in splits:
        sources, references = corpus.text(split)
        if is_parser:
            trees = Parser(translator, with_words=True).translate(sources)
            trees = [" ".join(with_leaves(tree, repeat("XX"))) for tree in trees]
            found = score_brackets(sources, references, trees)
            how = "F1 is that of labelled brackets"
        else:
            found = score(translator.translate(sources), references)
            how = f"BLEU is sacrebleu's ({found.signature})"
        numbers = (f"{getattr(found, name.lower()):.1f}" for name in names)
        lines.append(f"| {split} | " + " | ".join(numbers) + " |")
    return "\n".join([*lines, "", how])


def main(name: str) -> None:
    """Make the checkpoint for readers of one run.

    Args:
        name: The run's name.
    """
    runs = {run.name: run for run in RUNS if _kind(run) in LICENCES}
    if name not in runs:
        sys.exit(f'no run for readers is named "{name}"; there are {", ".join(runs)}')
    experiment = runs[name].experiment
    out = PRETRAINED / NAMES.get(experiment, experiment)
    if out.exists():
        sys.exit(f"{out}: already there; delete it to have it made again")
    release(runs[name], out)


def _kind(run: Run) -> str:
    """Return the run's key in LICENCES, LIMITS and SCORING."""
    return "parser" if run.corpus == PARSER else run.corpus.partition("_")[0]


def _rounds(run: Run) -> str:
    """Return the card's text on earlier rounds; empty if there were none."""
    rounds, first = ROUNDS if run.begins_with else "", run
    while first.begins_with:
        first = next(other for other in RUNS if other.name == first.begins_with)
    rounds += BEFORE if first.begin_with else ""
    return rounds.format(earlier=run.begins_with, link=LINK)


def _does(source: str, target: str) -> str:
    """Return what a model does, by the codes of its languages."""
    if target == TREES_WITH_WORDS:
        return f"Parses {LANGUAGES[source]} sentences into constituency trees"
    return f"Translates {LANGUAGES[source]} to {LANGUAGES[target]}"


if __name__ == "__main__":
    os.chdir(ROOT)  # folders are named from there
    tyro.cli(main)
