"""The toy grammar: correct German, one translation, and a truthful alignment."""

from collections import Counter
from itertools import islice, pairwise

import pytest
from unchecked import unchecked

from transformer_lite.data.toy import (
    ADJECTIVES,
    EVERYTHING,
    NOUNS,
    VERBS,
    ToyPair,
    generate_pairs,
)

CASES = ("nominative", "accusative", "dative")
GENDERS = ("masculine", "feminine", "neuter")
# Written out by hand and not from an ending's rule, so that it can disagree with it:
# for each gender nominative, accusative, dative.
DETERMINERS = {
    "the": ("der den dem", "die die der", "das das dem"),
    "this": ("dieser diesen diesem", "diese diese dieser", "dieses dieses diesem"),
    "a": ("ein einen einem", "eine eine einer", "ein ein einem"),
    "my": ("mein meinen meinem", "meine meine meiner", "mein mein meinem"),
}
ADJECTIVE_ENDINGS = {
    "the": ("e en en", "e e en", "e e en"),
    "a": ("er en en", "e e en", "es es en"),
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


def stream(seed: int, length: int) -> list[ToyPair]:
    with unchecked():
        return list(islice(generate_pairs(seed), length))


@pytest.fixture(scope="module")
def pairs() -> list[ToyPair]:
    return stream(seed=0, length=10_000)


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
    first, second = generate_pairs(seed=0), generate_pairs(seed=7)
    interleaved = [next(stream) for _ in range(100) for stream in (first, second)]
    assert interleaved[::2] == pairs[:100]
    assert interleaved[1::2] != pairs[:100]


def test_a_source_sentence_comes_once_and_has_one_target_in_all_streams(pairs):
    target = {pair.source: pair.target for pair in pairs}
    assert len(target) == len(pairs) == 10_000
    met_again = [pair for pair in stream(seed=1, length=3_000) if pair.source in target]
    assert all(target[pair.source] == pair.target for pair in met_again)
    assert len(met_again) > 50


def test_a_or_an_goes_by_the_next_letter(pairs):
    for pair in pairs:
        for article, following in pairwise(pair.source.lower().split()):
            if article in {"a", "an"}:
                assert (article == "an") == (following[0] in "aeiou")


def test_articles_and_adjectives_agree_in_gender_and_case(pairs):
    cases = Counter()
    for pair in pairs:
        german = [word.lower() for word in pair.target_words]
        for determiner, adjective, english, case in noun_phrases(pair):
            noun = ENGLISH_NOUNS[english]
            gender, index = GENDERS.index(noun.gender), CASES.index(case)
            kind = "a" if determiner == "an" else determiner
            expected = [DETERMINERS[kind][gender].split()[index]]
            if adjective:
                endings = ADJECTIVE_ENDINGS["the" if kind in ("the", "this") else "a"]
                expected.append(STEMS[adjective] + endings[gender].split()[index])
            at = german.index(noun.german.lower())
            assert german[at - len(expected) : at] == expected, pair
            cases[case, noun.gender] += 1
    assert len(cases) == 9
    assert min(cases.values()) > 150


def test_every_source_word_is_aligned_and_no_link_comes_twice(pairs):
    for pair in pairs:
        assert len(set(pair.alignment)) == len(pair.alignment)
        aligned = {source for _, source in pair.alignment}
        assert aligned == set(range(len(pair.source_words)))


def test_every_target_word_is_aligned_but_a_comma_that_english_lacks(pairs):
    for pair in pairs:
        german, aligned = pair.target_words, {target for target, _ in pair.alignment}
        assert aligned <= set(range(len(german)))
        left_out = set(range(len(german))) - aligned
        assert len(left_out) == pair.target.count(",") - pair.source.count(",")
        assert {german[index] for index in left_out} <= {","}
        assert {german[index + 1] for index in left_out} <= CONJUNCTIONS


def test_alignment_joins_a_noun_to_its_translation(pairs):
    for pair in pairs:
        english, german = pair.source_words, pair.target_words
        for target, source in pair.alignment:
            noun = ENGLISH_NOUNS.get(english[source])
            assert noun is GERMAN_NOUNS.get(german[target])


def test_the_verb_of_a_subordinate_clause_is_last_and_in_one_word(pairs):
    clauses = [clause for pair in pairs for clause in german_clauses(pair)]
    subordinate = [clause for clause in clauses if clause[0] in CONJUNCTIONS]
    assert {clause[-1] for clause in subordinate} <= JOINED
    assert not any(FINITE & set(clause[1:-1]) for clause in subordinate)
    assert len(subordinate) > 5_000


def test_the_prefix_of_a_separable_verb_ends_a_main_clause(pairs):
    found = Counter()
    for clause in (clause for pair in pairs for clause in german_clauses(pair)):
        prefixes = {end for stem, end in SEPARATED if stem in clause}
        if prefixes and clause[0] not in CONJUNCTIONS:
            assert clause[-1] in prefixes, clause
            found[clause[-1]] += 1
    assert set(found) == {"auf", "zu", "ein", "aus", "weg"}
    assert min(found.values()) > 50


def test_the_verb_is_first_after_a_clause_and_second_after_an_adverb(pairs):
    count = 0
    for first, *others in map(german_clauses, pairs):
        if first[0] in CONJUNCTIONS:
            assert others[0][0] in FINITE
            count += 1
        if first[0] in {"heute", "jetzt", "manchmal"}:
            assert first[1] in FINITE
            count += 1
    assert count > 4_000


def test_every_it_has_an_antecedent_before_it(pairs):
    for pair in pairs:
        its = [i for i, word in enumerate(pair.source_words) if word == "it"]
        assert [it for it, _ in pair.antecedents] == its
        assert all(antecedent < it for it, antecedent in pair.antecedents)


def test_a_pronoun_has_its_antecedents_gender_and_its_own_case(pairs):
    found = Counter()
    for pair in pairs:
        for it, antecedent in pair.antecedents:
            noun = ENGLISH_NOUNS[pair.source_words[antecedent]]
            is_subject = pair.source_words[it + 1] == "is"
            (position,) = (t for t, s in pair.alignment if s == it)
            pronoun = PRONOUNS[noun.gender].split()[0 if is_subject else 1]
            assert pair.target_words[position] == pronoun
            found[noun.gender, is_subject, noun.kind == "animal"] += 1
    assert len(found) == 3 * 3  # an "it" in the accusative is no animal
    assert min(found.values()) > 200


def test_the_english_sentence_alone_determines_the_antecedent(pairs):
    kinds_of = {adj: kinds for kinds, words in ADJECTIVES.items() for adj, _ in words}
    for pair in pairs:
        words = pair.source_words
        nouns = [ENGLISH_NOUNS[word] for word in words if word in ENGLISH_NOUNS]
        for it, antecedent in pair.antecedents:
            kinds = set(EVERYTHING)
            if words[it + 1] == "is":
                kinds = set(kinds_of[words[it + 2]])
                assert kinds < set(EVERYTHING)
            fitting = [noun for noun in nouns if noun.kind in kinds - {"person"}]
            assert fitting == [ENGLISH_NOUNS[words[antecedent]]]


GOLDEN = """
My father says that a mouse wakes up.
Mein Vater sagt, dass eine Maus aufwacht.
When the father sleeps, the hungry pig wakes up.
Wenn der Vater schläft, wacht das hungrige Schwein auf.
Today a mother switches on my big lamp because it is broken.
Heute schaltet eine Mutter meine große Lampe ein, weil sie kaputt ist.
A nanny switches off the phone, but this king takes it away.
Ein Kindermädchen schaltet das Telefon aus, aber dieser König nimmt es weg.
A woman gives the big girl this small chair, but this queen picks it up.
Eine Frau gibt dem großen Mädchen diesen kleinen Stuhl, aber diese Königin hebt ihn auf.
"""


def test_the_german_is_what_a_speaker_would_write(pairs):
    lines = GOLDEN.strip().split("\n")
    target = {pair.source: pair.target for pair in pairs}
    assert [target[source] for source in lines[::2]] == lines[1::2]
