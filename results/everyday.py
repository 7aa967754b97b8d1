"""Fifty sentences that a stranger could type, translated and judged one by one.

    python -m results.everyday

translates them with the package's general translator and writes what came out to
results/everyday.json. A judgement is kept as long as the translation stays; a new
translation has none, and a person writes it into the file: "right", "understandable"
(a reader gets the meaning, but something is wrong) or "wrong".
"""

import os
from pathlib import Path

import tyro

from results.conditions import ROOT
from results.files import read_json, write_json
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference.translator import Translator

RECORDING = ROOT / "results" / "everyday.json"
MODEL, CORPUS = "tatoeba_en_de_wide", "tatoeba_en_de"
JUDGEMENTS = ("right", "understandable", "wrong")

SENTENCES = (
    "Good morning! How are you?",
    "My name is Anna and I live in Berlin.",
    "Where is the train station?",
    "I would like a cup of coffee, please.",
    "What time is it?",
    "It is raining today.",
    "Can you help me?",
    "I don't understand what you mean.",
    "She is my sister.",
    "We are going to the cinema tonight.",
    "The children are playing in the garden.",
    "How much does this cost?",
    "I have lost my keys.",
    "He works in a hospital.",
    "Do you speak English?",
    "I'm tired and I want to go to bed.",
    "The book is on the table.",
    "They bought a new house last year.",
    "Please close the door.",
    "I can't find my glasses.",
    "My grandmother makes the best cake.",
    "Yesterday I met an old friend.",
    "The weather will be better tomorrow.",
    "Why are you so late?",
    "I have never been to Japan.",
    "This is the most beautiful city that I have ever seen.",
    "If you are hungry, there is some soup in the kitchen.",
    "He asked me whether I wanted to dance.",
    "You should not drink so much alcohol.",
    "The dog bites the man.",
    "The man bites the dog.",
    "Although it was cold, we went for a walk.",
    "I gave her the letter that my father had written.",
    "The teacher explained the problem to the students.",
    "What would you do if you won the lottery?",
    "My car broke down on the way to work.",
    "She has been learning German for three years.",
    "The meeting was cancelled because nobody came.",
    "I think that he is lying.",
    "The cup that you broke was a present from my mother.",
    "There are twelve months in a year.",
    "Could you please repeat that more slowly?",
    "We have to change trains in Frankfurt.",
    "The police are looking for a man with a red hat.",
    "It took me two hours to read this article.",
    "The animal didn't cross the street because it was too tired.",
    "Attention is all you need.",
    "A machine can translate this sentence, but it does not understand it.",
    # Figures 3 and 4 of the paper.
    "It is in this spirit that a majority of American governments have passed new laws "
    "since 2009 making the registration or voting process more difficult.",
    "The Law will never be perfect, but its application should be just - this is what "
    "we are missing, in my opinion.",
)
"""Chosen before the model translated any of them."""


def main() -> None:
    """Translate the sentences, and keep the judgements of what has not changed."""
    before = read_json(RECORDING)["sentences"] if RECORDING.exists() else []
    judged = {(one["source"], one["translation"]): one["judgement"] for one in before}
    # Its text lies where `make results` has prepared it.
    read = set(PreparedCorpus(Path("data/results", CORPUS)).text("train")[0])
    outputs = Translator.load(MODEL, device="cpu").translate(list(SENTENCES))
    sentences = [
        {
            "source": source,
            "translation": translation,
            "judgement": judged.get((source, translation), ""),
            "in_training": source in read,
        }
        for source, translation in zip(SENTENCES, outputs, strict=True)
    ]
    write_json(RECORDING, {"model": MODEL, "sentences": sentences})
    todo = sum(not one["judgement"] for one in sentences)
    print(f"{RECORDING.name}: {todo} of {len(sentences)} translations to judge")


if __name__ == "__main__":
    os.chdir(ROOT)
    tyro.cli(main)
