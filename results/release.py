"""Make a small checkpoint for readers from a run, with its model card.

    python -m results.release multi30k_en_de-1

It goes into the package, so that chapters show trained heads without training. Its
weights are rounded to bfloat16, half the size; the card gives the scores of these.
"""

import os
import shutil
import sys
from pathlib import Path

import torch
import tyro

from results.conditions import ROOT, checksums
from results.runs import CORPORA, RUNS, TATOEBA_2018, Run
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.files import new_folder
from transformer_lite.inference.scores import score
from transformer_lite.inference.translator import Translator
from transformer_lite.run_folder import PRETRAINED, RunFolder
from transformer_lite.weights import read_weights, save_weights

LICENCES = {
    "multi30k": (
        "Multi30k's images come from Flickr30k; its authors give the sentences to "
        "researchers and educators for non-commercial research and education, and this "
        "model is passed on under the same terms."
    ),
    "tatoeba": (
        "They are those that manythings.org/anki gave out on 2018-05-13, from Tatoeba "
        "(tatoeba.org), under CC BY 2.0 FR. Whoever passes this model on names both."
    ),
}
CARD = """# {name}

Translates {source} to {target}: the Transformer of "Attention Is All You Need" with
{parameters:.1f} million parameters, trained for the book *Transformer Lite*.

```python
from transformer_lite import Translator

Translator.load("{name}").translate("A dog runs on the beach.")
```

## Training data

{pairs:,} sentence pairs of {corpus}. {licence}

## What it is not for

{limits}

## How well it translates

| Text | BLEU | chrF |
|---|---|---|
{scores}

BLEU is sacrebleu's ({signature}) on these very weights, rounded to bfloat16, with beam
{beam} and α = {alpha}. {scoring}

## How it was made

The mean of the last {checkpoints} checkpoints of the run
[`{run}`]({link}/{run}.json), where configuration, seed, commit, versions and learning
curve are. To make one yourself{same}:

```sh
transformer-lite prepare {prepare} --out data/{name}
transformer-lite train {recipe} --data data/{name}
```
"""
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
    with new_folder(out) as partial:
        small = RunFolder(partial)
        for path in (folder.config, folder.corpus, folder.tokenizer):
            shutil.copyfile(path, partial / path.name)
        rounded = {name: tensor.to(torch.bfloat16) for name, tensor in weights.items()}
        save_weights(small.average, rounded)
        translator = Translator.load(partial)
        lines = []
        for split in run.splits:
            sources, references = corpus.text(split)
            found = score(translator.translate(sources), references)
            lines.append(f"| {split} | {found.bleu:.1f} | {found.chrf:.1f} |")
        source, target = (LANGUAGES[code] for code in corpus.languages)
        recipe = folder.recipe()
        card = CARD.format(
            name=out.name,
            source=source,
            target=target,
            parameters=sum(tensor.numel() for tensor in weights.values()) / 1e6,
            pairs=corpus.sizes["train"],
            corpus=kind.capitalize(),
            prepare=CORPORA[run.corpus],
            licence=LICENCES[kind],
            limits=LIMITS[kind],
            scoring=SCORING[kind].format(name=out.name, split=run.splits[-1]),
            scores="\n".join(lines),
            signature=found.signature,
            beam=recipe.search.beam_size,
            alpha=recipe.search.alpha,
            checkpoints=recipe.train.average_checkpoints,
            run=run.name,
            link=LINK,
            recipe=run.recipe,
            same=", on the later edition" if kind == "tatoeba" else "",
        )
        (partial / "README.md").write_text(card, encoding="utf-8")


def main(name: str) -> None:
    """Make the checkpoint for readers of one run.

    Args:
        name: The run's name.
    """
    runs = {run.name: run for run in RUNS if _kind(run) in LICENCES}
    if name not in runs:
        sys.exit(f'no run for readers is named "{name}"; there are {", ".join(runs)}')
    out = PRETRAINED / runs[name].experiment
    if out.exists():
        sys.exit(f"{out}: already there; delete it to have it made again")
    release(runs[name], out)


def _kind(run: Run) -> str:
    """Return whose text it was trained on."""
    return run.corpus.partition("_")[0]


if __name__ == "__main__":
    os.chdir(ROOT)  # folders are named from there
    tyro.cli(main)
