"""The toy grammar: correct German, one translation, and a truthful alignment."""

from collections import Counter
from itertools import islice, pairwise

import jaxtyping
import pytest

from transformer_lite.data.toy import (
    ADJECTIVES,
    EVERYTHING,
    NOUNS,
    VERBS,
    ToyPair,
    generate_pairs,
    split_words,
)

CASES = ("nominative", "accusative", "dative")
# Written out by hand and not from an ending's rule, so that it can disagree with it.
# Each row: nominative, accusative, dative.
DETERMINERS = {
    ("the", "masculine"): "der den dem",
    ("the", "feminine"): "die die der",
    ("the", "neuter"): "das das dem",
    ("this", "masculine"): "dieser diesen diesem",
    ("this", "feminine"): "diese diese dieser",
    ("this", "neuter"): "dieses dieses diesem",
    ("a", "masculine"): "ein einen einem",
    ("a", "feminine"): "eine eine einer",
    ("a", "neuter"): "ein ein einem",
    ("my", "masculine"): "mein meinen meinem",
    ("my", "feminine"): "meine meine meiner",
    ("my", "neuter"): "mein mein meinem",
}
ADJECTIVE_ENDINGS = {
    ("the", "masculine"): "e en en",
    ("the", "feminine"): "e e en",
    ("the", "neuter"): "e e en",
    ("a", "masculine"): "er en en",
    ("a", "feminine"): "e e en",
    ("a", "neuter"): "es es en",
}
PRONOUNS = {"masculine": "er ihn", "feminine": "sie sie", "neuter": "es es"}
GIVING = {"gives", "shows", "sends"}
CONJUNCTIONS = {"weil", "obwohl", "wenn", "dass"}

ENGLISH_NOUNS = {noun.english: noun for noun in NOUNS}
GERMAN_NOUNS = {noun.german: noun for noun in NOUNS}
STEMS = dict(entry for entries in ADJECTIVES.values() for entry in entries)
VERB_HEADS = {verb.english.split()[0] for verb in VERBS}
JOINED = {verb.german.replace("|", "") for verb in VERBS} | {"ist"}
SEPARATED = {
    tuple(verb.german.split("|")[::-1]) for verb in VERBS if "|" in verb.german
}
FINITE = {verb.german.split("|")[-1] for verb in VERBS}


@pytest.fixture(scope="module")
def pairs() -> list[ToyPair]:
    # Checking types takes far longer than making 20,000 sentences. The other streams
    # of this file are short, and checked.
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        return list(islice(generate_pairs(seed=0), 20_000))
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


def german_clauses(pair: ToyPair) -> list[list[str]]:
    """The German sentence cut at punctuation and at "und"."""
    clauses = [[]]
    for word in pair.target_words:
        if word in {",", ".", "und"}:
            clauses.append([])
        else:
            clauses[-1].append(word[0].lower() + word[1:] if not clauses[0] else word)
    return [clause for clause in clauses if clause]


def noun_phrases(pair: ToyPair) -> list[tuple[str, str | None, str, str]]:
    """English determiner, adjective, noun, and the case that the sentence demands."""
    found, before, case = [], [], "nominative"
    for word in pair.source_words:
        if word in VERB_HEADS:
            case, before = ("dative" if word in GIVING else "accusative"), []
        elif word in {",", "because", "although", "when", "that", "but"}:
            case, before = "nominative", []
        elif word in ENGLISH_NOUNS:
            adjective = before[-1] if before[-1] in STEMS else None
            determiner = before[-2] if adjective else before[-1]
            found.append((determiner.lower(), adjective, word, case))
            case, before = "accusative", []
        else:
            before.append(word)
    return found


def test_the_seed_determines_the_stream(pairs):
    assert list(islice(generate_pairs(seed=0), 300)) == pairs[:300]
    assert list(islice(generate_pairs(seed=1), 300)) != pairs[:300]


def test_two_streams_do_not_disturb_each_other(pairs):
    first, second = generate_pairs(seed=0), generate_pairs(seed=7)
    interleaved = [next(stream) for _ in range(100) for stream in (first, second)]
    assert interleaved[::2] == pairs[:100]


def test_no_source_sentence_comes_twice(pairs):
    assert len({pair.source for pair in pairs}) == len(pairs) == 20_000


def test_a_source_sentence_has_the_same_target_in_every_stream(pairs):
    target = {pair.source: pair.target for pair in pairs}
    others = list(islice(generate_pairs(seed=1), 2_000))
    met_again = [pair for pair in others if pair.source in target]
    assert all(target[pair.source] == pair.target for pair in met_again)
    assert len(met_again) > 50


def test_an_english_word_of_the_lexicon_has_one_entry():
    words = [entry.english for entry in (*NOUNS, *VERBS)] + list(STEMS)
    assert len(words) == len(set(words)) > 80
    assert len(GERMAN_NOUNS) == len(NOUNS)


def test_sentences_are_normal_text(pairs):
    for pair in pairs:
        for text in (pair.source, pair.target):
            assert text[0].isupper()
            assert text.endswith(".")
            assert "  " not in text
            assert " ," not in text
            assert " ." not in text


def test_a_or_an_goes_by_the_next_letter(pairs):
    for pair in pairs:
        words = pair.source.lower().split()
        for article, following in pairwise(words):
            if article in {"a", "an"}:
                assert (article == "an") == (following[0] in "aeiou")


def test_german_nouns_alone_are_capitalized_inside_a_sentence(pairs):
    for pair in pairs:
        for word in pair.target_words[1:]:
            assert word[0].isupper() == (word in GERMAN_NOUNS)


def test_articles_and_adjectives_agree_in_gender_and_case(pairs):
    cases = Counter()
    for pair in pairs:
        german = [word.lower() for word in pair.target_words]
        for determiner, adjective, english, case in noun_phrases(pair):
            noun, index = ENGLISH_NOUNS[english], CASES.index(case)
            kind = "a" if determiner == "an" else determiner
            expected = [DETERMINERS[kind, noun.gender].split()[index]]
            if adjective:
                pattern = "the" if kind in {"the", "this"} else "a"
                ending = ADJECTIVE_ENDINGS[pattern, noun.gender].split()[index]
                expected.append(STEMS[adjective] + ending)
            at = german.index(noun.german.lower())
            assert german[at - len(expected) : at] == expected, pair
            cases[case, noun.gender] += 1
    assert len(cases) == 9
    assert min(cases.values()) > 300


def test_alignment_indices_are_valid_and_unique(pairs):
    for pair in pairs:
        num_target, num_source = len(pair.target_words), len(pair.source_words)
        assert len(set(pair.alignment)) == len(pair.alignment)
        assert all(0 <= t < num_target for t, _ in pair.alignment)
        assert all(0 <= s < num_source for _, s in pair.alignment)


def test_every_source_word_is_aligned(pairs):
    for pair in pairs:
        aligned = {source for _, source in pair.alignment}
        assert aligned == set(range(len(pair.source_words)))


def test_every_target_word_is_aligned_but_a_comma_that_english_lacks(pairs):
    for pair in pairs:
        aligned = {target for target, _ in pair.alignment}
        left_out = set(range(len(pair.target_words))) - aligned
        commas = [index for index in left_out if pair.target_words[index] == ","]
        assert len(commas) == len(left_out)
        more_in_german = pair.target.count(",") - pair.source.count(",")
        assert len(left_out) == more_in_german
        following = {pair.target_words[index + 1] for index in left_out}
        assert following <= CONJUNCTIONS


def test_alignment_joins_a_noun_to_its_translation(pairs):
    for pair in pairs:
        english, german = pair.source_words, pair.target_words
        assert all(
            ENGLISH_NOUNS.get(english[source]) is GERMAN_NOUNS.get(german[target])
            for target, source in pair.alignment
        )


def test_alignment_joins_both_parts_of_a_separable_verb_to_its_verb(pairs):
    pair = next(pair for pair in pairs if " opens the " in pair.source)
    english = pair.source_words.index("opens")
    german = {pair.target_words[t] for t, s in pair.alignment if s == english}
    assert german in ({"macht", "auf"}, {"aufmacht"})


def test_the_verb_of_a_subordinate_clause_is_last_and_in_one_word(pairs):
    count = 0
    for pair in pairs:
        for clause in german_clauses(pair):
            if clause[0] in CONJUNCTIONS:
                count += 1
                assert clause[-1] in JOINED
                assert not FINITE & set(clause[1:-1])
    assert count > 10_000


def test_the_prefix_of_a_separable_verb_ends_a_main_clause(pairs):
    found = Counter()
    for pair in pairs:
        for clause in german_clauses(pair):
            if clause[0] not in CONJUNCTIONS:
                prefixes = {end for stem, end in SEPARATED if stem in clause}
                if prefixes:
                    assert clause[-1] in prefixes, pair
                    found[clause[-1]] += 1
    assert set(found) == {"auf", "zu", "ein", "aus", "weg"}
    assert min(found.values()) > 100


def test_the_verb_comes_first_after_a_subordinate_clause_and_second_after_an_adverb(
    pairs,
):
    count = 0
    for pair in pairs:
        clauses = german_clauses(pair)
        if clauses[0][0] in CONJUNCTIONS:
            assert clauses[1][0] in FINITE
            count += 1
        if clauses[0][0] in {"heute", "jetzt", "manchmal"}:
            assert clauses[0][1] in FINITE
            count += 1
    assert count > 8_000


def test_every_it_has_an_antecedent_before_it(pairs):
    for pair in pairs:
        its = [i for i, word in enumerate(pair.source_words) if word == "it"]
        assert [it for it, _ in pair.antecedents] == its
        for it, antecedent in pair.antecedents:
            assert antecedent < it
            assert ENGLISH_NOUNS[pair.source_words[antecedent]].kind != "person"


def test_a_pronoun_has_its_antecedents_gender_and_its_own_case(pairs):
    found = Counter()
    for pair in pairs:
        for it, antecedent in pair.antecedents:
            gender = ENGLISH_NOUNS[pair.source_words[antecedent]].gender
            is_subject = pair.source_words[it + 1] == "is"
            expected = PRONOUNS[gender].split()[0 if is_subject else 1]
            (position,) = (t for t, s in pair.alignment if s == it)
            assert pair.target_words[position] == expected
            found[gender, is_subject] += 1
    assert len(found) == 6
    assert min(found.values()) > 800


def test_the_english_sentence_alone_determines_the_antecedent(pairs):
    for pair in pairs:
        words = pair.source_words
        for it, antecedent in pair.antecedents:
            nouns = [ENGLISH_NOUNS[word] for word in words if word in ENGLISH_NOUNS]
            fitting = [noun for noun in nouns if noun.kind != "person"]
            if words[it + 1] == "is":
                kinds = {
                    adjective: kinds
                    for kinds, entries in ADJECTIVES.items()
                    for adjective, _ in entries
                }[words[it + 2]]
                assert kinds != EVERYTHING
                fitting = [noun for noun in fitting if noun.kind in kinds]
            assert fitting == [ENGLISH_NOUNS[words[antecedent]]]


def test_it_often_means_the_subject_and_often_the_object(pairs):
    kinds = Counter(
        ENGLISH_NOUNS[pair.source_words[antecedent]].kind == "animal"
        for pair in pairs
        for _, antecedent in pair.antecedents
    )
    assert min(kinds.values()) > 2_000


def test_a_vocabulary_of_about_a_hundred_english_and_165_german_words(pairs):
    english = {word.lower() for pair in pairs for word in pair.source_words}
    german = {word.lower() for pair in pairs for word in pair.target_words}
    assert 100 <= len(english) <= 125
    assert 150 <= len(german) <= 175


def test_every_word_is_common_enough_to_be_learned(pairs):
    for side in ("source_words", "target_words"):
        counts = Counter(
            word.lower() for pair in pairs[:10_000] for word in getattr(pair, side)
        )
        assert min(counts.values()) >= 30


def test_lengths_spread_from_four_to_some_twenty_words(pairs):
    lengths = Counter(len(pair.source_words) for pair in pairs)
    assert min(lengths) <= 4
    assert 23 <= max(lengths) <= 26
    assert all(lengths[length] > 150 for length in range(5, 21))


def test_split_words_gives_punctuation_a_place_of_its_own():
    words = ["Der", "Mann", "weiß", ",", "dass", "sie", "schläft", "."]
    assert split_words("Der Mann weiß, dass sie schläft.") == words


GOLDEN = """
A hungry mouse wakes up.
Eine hungrige Maus wacht auf.

My father says that a mouse wakes up.
Mein Vater sagt, dass eine Maus aufwacht.

When the father sleeps, the hungry pig wakes up.
Wenn der Vater schläft, wacht das hungrige Schwein auf.

The king closes an umbrella when it is new.
Der König macht einen Schirm zu, wenn er neu ist.

The queen opens this door when my old man sells it.
Die Königin macht diese Tür auf, wenn mein alter Mann sie verkauft.

Today a mother switches on my big lamp because it is broken.
Heute schaltet eine Mutter meine große Lampe ein, weil sie kaputt ist.

A girl closes the cheap umbrella and sells it.
Ein Mädchen macht den billigen Schirm zu und verkauft ihn.

A nanny switches off the phone, but this king takes it away.
Ein Kindermädchen schaltet das Telefon aus, aber dieser König nimmt es weg.

Because a mother wakes up, a father opens the red box and sells it.
Weil eine Mutter aufwacht, macht ein Vater die rote Kiste auf und verkauft sie.

Now a donkey takes away a fork because it is sad.
Jetzt nimmt ein Esel eine Gabel weg, weil er traurig ist.

My sad dog sees the big key although it is red.
Mein trauriger Hund sieht den großen Schlüssel, obwohl er rot ist.

My hungry bird finds this old bag although it is clever.
Mein hungriger Vogel findet diese alte Tasche, obwohl er klug ist.

The small woman sends my father a phone and buys it.
Die kleine Frau schickt meinem Vater ein Telefon und kauft es.

A woman gives the big girl this small chair, but this queen picks it up.
Eine Frau gibt dem großen Mädchen diesen kleinen Stuhl, aber diese Königin hebt ihn auf.

The clever aunt says that a man sees the cheap suitcase because this mother closes it.
Die kluge Tante sagt, dass ein Mann den billigen Koffer sieht, weil diese Mutter ihn zumacht.

My girl shows the hungry mother my lamp, but the small aunt hides it.
Mein Mädchen zeigt der hungrigen Mutter meine Lampe, aber die kleine Tante versteckt sie.
"""  # noqa: E501


@pytest.mark.parametrize(
    ("source", "target"), [entry.split("\n") for entry in GOLDEN.strip().split("\n\n")]
)
def test_the_german_is_what_a_speaker_would_write(pairs, source, target):
    assert {pair.source: pair.target for pair in pairs}[source] == target
