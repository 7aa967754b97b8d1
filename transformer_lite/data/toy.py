"""A small English–German grammar that knows how its own sentences align.

Both languages are built at once. Each German word is made with the English words it
translates, so alignment and antecedents are known and not estimated. English decides
everything, so a sentence has one translation, but not word by word:

- articles and adjectives agree with a noun further on (`noun_phrase`),
- the verb moves to the end of a subordinate clause (`clause`),
- a separable verb leaves its prefix at the end: "macht … auf" (`VERBS`),
- "it" is er, sie, es or ihn by its antecedent's gender and its own case (`pronoun`).

Paper: §5.1
Chapter: 01_introduction, 02_background, attention_visualizations, 07_conclusion
Tests: tests/package/data/test_toy.py
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun, its gender, and its kind, which decides where it may stand."""

    english: str
    german: str
    gender: str
    kind: str


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb and the kinds of nouns it takes; a bar follows a separable prefix."""

    english: str
    german: str
    subjects: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()


NOUNS = tuple(
    Noun(*entry.split(), gender=gender, kind=kind)
    for kind, gender, entries in (
        ("person", "masculine", "man Mann, father Vater, uncle Onkel, king König"),
        ("person", "feminine", "woman Frau, mother Mutter, aunt Tante, queen Königin"),
        ("person", "neuter", "girl Mädchen, nanny Kindermädchen"),
        ("animal", "masculine", "dog Hund, bird Vogel, donkey Esel, frog Frosch"),
        ("animal", "feminine", "cat Katze, mouse Maus, cow Kuh, goat Ziege"),
        ("animal", "neuter", "horse Pferd, sheep Schaf, pig Schwein, chicken Huhn"),
        ("openable", "masculine", "suitcase Koffer, umbrella Schirm, cupboard Schrank"),
        ("openable", "feminine", "door Tür, box Kiste, bottle Flasche, can Dose"),
        ("openable", "neuter", "window Fenster, package Paket, gate Tor, barrel Fass"),
        ("device", "masculine", "computer Computer, fan Ventilator, oven Ofen"),
        ("device", "feminine", "lamp Lampe, machine Maschine, heater Heizung"),
        ("device", "neuter", "radio Radio, phone Telefon, device Gerät"),
        ("object", "masculine", "key Schlüssel, coat Mantel, chair Stuhl, ring Ring"),
        ("object", "feminine", "bag Tasche, cup Tasse, clock Uhr, fork Gabel"),
        ("object", "neuter", "book Buch, knife Messer, picture Bild, shirt Hemd"),
    )
    for entry in entries.split(", ")
)
PERSON, LIVING = ("person",), ("person", "animal")
THINGS = ("openable", "device", "object")
EVERYTHING = LIVING + THINGS
ADJECTIVES = {
    EVERYTHING: (("old", "alt"), ("small", "klein"), ("big", "groß")),
    LIVING: (("hungry", "hungrig"), ("sad", "traurig"), ("clever", "klug")),
    THINGS: (("new", "neu"), ("red", "rot"), ("broken", "kaputt"), ("cheap", "billig")),
}
VERBS = tuple(
    Verb(*entry.split(": "), subjects=subjects, objects=objects)
    for subjects, objects, entries in (
        (LIVING, ("nothing",), "sleeps: schläft, waits: wartet, wakes up: auf|wacht"),
        (LIVING, EVERYTHING, "sees: sieht, finds: findet"),
        (LIVING, ("device", "object"), "hides: versteckt, takes away: weg|nimmt"),
        (PERSON, ("animal", *THINGS), "buys: kauft, sells: verkauft, needs: braucht"),
        (PERSON, ("object",), "picks up: auf|hebt, throws away: weg|wirft"),
        (PERSON, ("openable",), "opens: auf|macht, closes: zu|macht"),
        (PERSON, ("device",), "switches on: ein|schaltet, switches off: aus|schaltet"),
        (PERSON, ("recipient",), "gives: gibt, shows: zeigt, sends: schickt"),
        (PERSON, ("fact",), "knows: weiß, says: sagt, hopes: hofft, believes: glaubt"),
    )
    for entry in entries.split(", ")
)
ADVERBS = (("today", "heute"), ("now", "jetzt"), ("sometimes", "manchmal"))
CONJUNCTIONS = (("because", "weil"), ("although", "obwohl"), ("when", "wenn"))

# All agreement follows from this table: the ending that shows gender and case.
ENDINGS = {
    "nominative": {"masculine": "er", "feminine": "e", "neuter": "es"},
    "accusative": {"masculine": "en", "feminine": "e", "neuter": "es"},
    "dative": {"masculine": "em", "feminine": "er", "neuter": "em"},
}
DETERMINERS = {"the": "d", "this": "dies", "my": "mein", "a": "ein"}
DEFINITE, ANY = ("the", "the", "this", "my"), ("the", "the", "this", "my", "a", "a")
THE = {"er": "der", "e": "die", "es": "das", "en": "den", "em": "dem"}
IT = {"er": "er", "e": "sie", "es": "es", "en": "ihn"}


def agree(determiner: str, gender: str, case: str) -> tuple[str, str]:
    """Return the German determiner and the ending of an adjective after it.

    The determiner shows gender and case: der alte, den alten Hund. Where "ein" and
    "mein" have no ending, the adjective shows them instead: ein alter Hund.
    """
    stem, ending = DETERMINERS[determiner], ENDINGS[case][gender]
    if determiner in ("a", "my") and case != "dative" and ending in ("er", "es"):
        return stem, ending
    form = THE[ending] if determiner == "the" else stem + ending
    return form, "en" if case == "dative" or ending == "en" else "e"


@dataclass(eq=False)  # two "the" in one sentence are different words
class Word:
    """A word; in German with the English words it translates, "it" with its noun."""

    text: str
    translates: tuple["Word", ...] = ()
    refers_to: "Word | None" = None


@dataclass
class Phrase:
    """The same words in both languages; `+` appends in both."""

    english: tuple[Word, ...] = ()
    german: tuple[Word, ...] = ()
    noun: Noun | None = None

    def __add__(self, other: "Phrase") -> "Phrase":
        return Phrase(self.english + other.english, self.german + other.german)


def unit(english: str, german: str) -> Phrase:
    """Make a German word that stands for one or more English words."""
    words = tuple(map(Word, english.split()))
    return Phrase(words, (Word(german, words),))


def noun_phrase(article: str, noun: Noun, case: str, *adjectives: tuple) -> Phrase:
    """Make an article, adjectives and a noun that agree in gender and case."""
    form, ending = agree(article, noun.gender, case)
    phrase = unit(noun.english, noun.german)
    for english, stem in adjectives:
        phrase = unit(english, stem + ending) + phrase
    if article == "a" and phrase.english[0].text[0] in "aeiou":
        article = "an"
    phrase = unit(article, form) + phrase
    return Phrase(phrase.english, phrase.german, noun)


def pronoun(antecedent: Phrase, case: str) -> Phrase:
    """Make the English "it" and its translation: er, sie, es or ihn."""
    it = Word("it", refers_to=antecedent.english[-1])
    return Phrase((it,), (Word(IT[ENDINGS[case][antecedent.noun.gender]], (it,)),))


def clause(order: str, subject: Phrase, verb: Verb, *others: Phrase) -> Phrase:
    """Make a clause whose German verb comes "second", "first" or "last"."""
    prefix, _, stem = verb.german.rpartition("|")
    head, *particle = map(Word, verb.english.split())
    rest = sum(others, Phrase())
    # "opens the door", "switches on the lamp", but "switches it on".
    at = 1 if rest.english and rest.english[0].text == "it" else 0
    english = (*rest.english[:at], *particle, *rest.english[at:])
    finite = Word(stem, (head,))
    end = [Word(prefix, tuple(particle) or (head,))] if prefix else []
    joined = Word(prefix + stem, (head, *particle))
    german = {
        "second": (*subject.german, finite, *rest.german, *end),  # er macht sie auf
        "first": (finite, *subject.german, *rest.german, *end),  # nun macht er sie auf
        "last": (*subject.german, *rest.german, joined),  # weil er sie aufmacht
    }
    return Phrase((*subject.english, head, *english), german[order])


class Speaker:
    """Makes one sentence, in which no noun, adjective or verb comes twice."""

    def __init__(self, rng: Random):
        self.rng, self.used = rng, set()

    def choose(self, options: Sequence):
        """Choose an option that the sentence does not have yet."""
        while (chosen := self.rng.choice(options)) in self.used:
            continue
        self.used.add(chosen)
        return chosen

    def noun(self, kinds: tuple, case="nominative", articles=DEFINITE) -> Phrase:
        """Choose a noun of one of the kinds, every other time with an adjective."""
        noun = self.choose([noun for noun in NOUNS if noun.kind in kinds])
        fitting = [words for kinds, words in ADJECTIVES.items() if noun.kind in kinds]
        adjectives = [self.choose(sum(fitting, ()))] if self.rng.random() < 0.5 else []
        return noun_phrase(self.rng.choice(articles), noun, case, *adjectives)

    def verb(self, subject: str, complement: str) -> Verb:
        """Choose a verb for these kinds of subject and complement."""
        verbs = [verb for verb in VERBS if subject in verb.subjects]
        return self.choose([verb for verb in verbs if complement in verb.objects])

    def event(self, order: str, subjects: tuple, kinds: tuple = ()) -> tuple:
        """Make a clause, its subject, and its object if it has one of these kinds."""
        subject = self.noun(subjects, articles=ANY)
        kind, recipient = subject.noun.kind, []
        if not kinds:
            return clause(order, subject, self.verb(kind, "nothing")), subject, None
        thing = self.noun(kinds, "accusative", ANY)
        verb = self.verb(kind, thing.noun.kind)
        if kind == "person" and kinds == THINGS and self.rng.random() < 0.3:
            verb = self.verb(kind, "recipient")
            recipient = [self.noun(PERSON, "dative")]
        return clause(order, subject, verb, *recipient, thing), subject, thing

    def opening(self) -> tuple[Phrase, str]:
        """Choose what precedes the main clause, and the order that follows from it."""
        kind = self.rng.choice(("nothing", "adverb", "report", "subordinate clause"))
        if kind == "nothing":
            return Phrase(), "second"
        if kind == "adverb":
            return unit(*self.choose(ADVERBS)), "first"
        if kind == "report":
            report = clause("second", self.noun(PERSON), self.verb("person", "fact"))
            return report + unit("", ",") + unit("that", "dass"), "last"
        conjunction = unit(*self.choose(CONJUNCTIONS))
        return conjunction + self.event("last", PERSON)[0] + unit(",", ","), "first"

    def reference(self, order: str, subject: Phrase, thing: Phrase) -> Phrase:
        """Make a second clause, whose "it" can mean only one noun of the first."""
        because = unit("", ",") + unit(*self.choose(CONJUNCTIONS))
        share = self.rng.random()
        if subject.noun.kind == "animal":
            # Only the animal can be hungry, and only the thing can be broken.
            about = (subject, LIVING) if share < 0.6 else (thing, THINGS)
            return because + self.state_of(*about)
        if share < 0.3:  # 30 of 100 sentences about a person
            return because + self.state_of(thing, THINGS)
        verb, it = self.verb("person", thing.noun.kind), pronoun(thing, "accusative")
        if order == "last" or share < 0.5:  # 20 more
            return because + clause("last", self.noun(PERSON), verb, it)
        if share < 0.75:  # 25 more, and 25 are left
            return unit("and", "und") + clause("second", Phrase(), verb, it)
        but = unit(",", ",") + unit("but", "aber")
        return but + clause("second", self.noun(PERSON), verb, it)

    def state_of(self, phrase: Phrase, kinds: tuple) -> Phrase:
        """Make a clause that says how the noun of "it" is: hungry, say, or broken."""
        it, quality = pronoun(phrase, "nominative"), self.choose(ADJECTIVES[kinds])
        return clause("last", it, Verb("is", "ist"), unit(*quality))

    def sentence(self) -> Phrase:
        """Make an opening, a clause and, in most cases, a second clause with "it"."""
        opening, order = self.opening()
        kinds = self.rng.choice(((), EVERYTHING, THINGS, THINGS, THINGS))
        first, subject, thing = self.event(order, LIVING, kinds)
        second = self.reference(order, subject, thing) if kinds == THINGS else Phrase()
        return opening + first + second + unit(".", ".")


def split_words(sentence: str) -> list[str]:
    """Split a sentence into words; each comma and the full stop are words too."""
    return sentence.replace(",", " ,").replace(".", " .").split()


@dataclass(frozen=True)
class ToyPair:
    """A sentence and its translation; indices count the words of `split_words`.

    `alignment` pairs target with source indices; a comma that only German has is left
    out. `antecedents` pairs the index of an "it" in the source with that of its noun.
    """

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]
    antecedents: tuple[tuple[int, int], ...]
    source_words = property(lambda self: split_words(self.source))
    target_words = property(lambda self: split_words(self.target))


def to_pair(phrase: Phrase) -> ToyPair:
    """Make the pair of a finished phrase, with positions in place of words."""
    index = {word: i for i, word in enumerate(phrase.english)}
    links = ((i, s) for i, word in enumerate(phrase.german) for s in word.translates)
    its = (word for word in phrase.english if word.refers_to)
    texts = (" ".join(w.text for w in side) for side in (phrase.english, phrase.german))
    texts = (text.replace(" ,", ",").replace(" .", ".") for text in texts)
    return ToyPair(
        *(text[0].upper() + text[1:] for text in texts),
        alignment=tuple((i, index[word]) for i, word in links),
        antecedents=tuple((index[it], index[it.refers_to]) for it in its),
    )


def generate_pairs(seed: int) -> Iterator[ToyPair]:
    """Yield pairs without end, none twice: parts of a stream are disjoint splits."""
    rng, seen = Random(seed), set()
    while True:
        pair = to_pair(Speaker(rng).sentence())
        if pair.source not in seen:
            seen.add(pair.source)
            yield pair
