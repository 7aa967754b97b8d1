"""The stored trainings are whole, and their translators translate what is new."""

import json
import math
import re
import statistics
from itertools import combinations, groupby, islice, pairwise, product
from unittest.mock import Mock, patch

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode
from unchecked import unchecked

from results import (
    appending,
    as_long,
    batch_orders,
    collapse,
    first_steps,
    input_factor,
    loops,
    paths,
    second_core,
    smoothing,
    stacks,
    tied_rows,
    with_penalty,
    without_smoothing,
)
from results.interventions import train_on
from results.likeliest import Output, likeliest, memory_of, searched
from results.models import ThreeMatrices
from results.same_run import DAMAGES, SEEDS, WAYS, shares, token_weights
from results.sureness import DIVISORS, divided, sureness
from results.without_sums import ENCODERS, changed_encoder
from transformer_lite import Translator
from transformer_lite.config import BASE, BIG, ModelConfig, TrainConfig
from transformer_lite.data.toy import NOUNS
from transformer_lite.embeddings import sinusoidal_encoding
from transformer_lite.model import Transformer
from transformer_lite.optimizer import noam_rate
from transformer_lite.tokenizer import BOS, EOS, PAD
from transformer_lite.training.checkpoint import TrainingState
from transformer_lite.training.memory import step_memory
from transformer_lite_book import recordings
from transformer_lite_book.recordings import (
    TRAIN_PAIRS,
    gpu_measurements,
    pronoun_pairs,
    scores_without_heads,
    stored_decoding,
    stored_runs,
    toy_batch,
    toy_models,
    toy_words,
)


@pytest.fixture(scope="module")
def models():
    return toy_models()


def test_an_experiment_has_a_run_for_each_seed():
    assert [run["seed"] for run in stored_runs("multi30k_en_de")] == [1, 2, 3]
    with pytest.raises(ValueError, match=r"table_4; there are .*table_3/base"):
        stored_runs("table_4")
    with pytest.raises(ValueError, match="newstest; there are valid, test"):
        stored_decoding("newstest")


def test_an_encoder_that_does_not_average_reads_each_token_alone():
    encoder = Translator.load("multi30k_en_de", device="cpu").model.encoder
    ids = torch.tensor([[5, 7, 11, 13], [17, 7, 19, 23]])
    mask = torch.ones(2, 1, 1, 4, dtype=torch.bool)
    with torch.inference_mode():
        averaged = changed_encoder(encoder, 1, True)(ids, mask)
        assert torch.allclose(averaged, encoder(ids, mask), atol=1e-5)
        alone = changed_encoder(encoder, 0, False)(ids, mask)
    same = (alone[0] - alone[1]).abs().amax(dim=-1) < 1e-5
    assert same.tolist() == [False, True, False, False]


def test_averaging_makes_tokens_alike_and_without_x_no_caption_is_translated():
    stored = recordings.encoders_without_sums()
    assert [*stored] == [*ENCODERS]
    shares = {name: one["share"] for name, one in stored.items()}
    assert shares["without x"] < shares["without x, no averaging"] - 0.2
    assert shares["without x, no averaging"] < shares["as trained"]
    assert max(one["bleu"] for name, one in stored.items() if "without" in name) < 5
    assert 15 < stored["with x, no averaging"]["bleu"] < stored["as trained"]["bleu"]
    assert stored["as trained"]["bleu"] > 30


def test_divided_scores_change_how_sure_a_model_is_and_no_choice():
    model = next(iter(toy_models().values()))
    batch = toy_batch([*islice(pronoun_pairs(), 20)], toy_words())
    found = {}
    for by in (0.5, 1.0, 2.0):
        with divided(model, by):
            found[by] = sureness(model, [batch])
    assert len({one["accuracy"] for one in found.values()}) == 1
    assert found[0.5]["top"] > found[1.0]["top"] > found[2.0]["top"]
    assert sureness(model, [batch]) == found[1.0]
    train_on(model, [batch] * 5, 0.4, [0.0] * 5, seed=1)
    assert sureness(model, [batch]) == found[1.0]
    train_on(model, [batch] * 5, 0.4, [5e-4] * 5, seed=1)
    assert sureness(model, [batch])["top"] < found[1.0]["top"]


def test_a_surer_translator_has_a_worse_perplexity_and_the_same_greedy_outputs():
    stored = recordings.sureness()["divided"]
    assert [*stored] == [str(by) for by in DIVISORS]
    as_trained = stored["1.0"]
    assert abs(as_trained["top"] - as_trained["accuracy"]) < 0.02
    for by, found in stored.items():
        assert found["accuracy"] == as_trained["accuracy"]
        assert found["greedy_bleu"] == as_trained["greedy_bleu"]
        assert found["perplexity"] > as_trained["perplexity"] * 1.05 or by == "1.0"
    assert stored["0.8"]["beam_bleu"] > as_trained["beam_bleu"] - 0.1


def test_small_translators_with_smoothing_are_less_sure_and_as_often_right():
    runs = recordings.runs_by_smoothing()["runs"]
    each = [(run["seed"], run["smoothing"]) for run in runs]
    assert each == [*product(smoothing.SEEDS, smoothing.SMOOTHINGS)]
    for without, smoothed in zip(runs[::2], runs[1::2], strict=True):
        assert without["temperature"] > 1 > smoothed["temperature"]
        plain, timid = without["undivided"], smoothed["undivided"]
        assert plain["top"] > timid["top"] + 0.03
        assert timid["perplexity"] > plain["perplexity"]
        assert abs(plain["accuracy"] - timid["accuracy"]) < 0.02
        for run in (without, smoothed):
            assert run["divided"]["perplexity"] < run["undivided"]["perplexity"]
            assert run["divided"]["accuracy"] == run["undivided"]["accuracy"]


def test_tiny_translators_with_smoothing_are_worse_in_perplexity_and_not_in_bleu():
    stored = recordings.runs_by_smoothing(tiny=True)
    pairs = [*zip(stored["runs"][::2], stored["runs"][1::2], strict=True)]
    each = [(run["seed"], run["smoothing"]) for pair in pairs for run in pair]
    assert each == [*product(range(1, 6), smoothing.SMOOTHINGS)]
    ends = [[run["undivided"] for run in pair] for pair in pairs]
    assert all(after["perplexity"] > before["perplexity"] for before, after in ends)
    gained = [after["beam_bleu"] - before["beam_bleu"] for before, after in ends]
    found = stored["gains"]["smoothing, beam"]
    assert found["gain"] == pytest.approx(sum(gained) / 5, abs=0.011)
    low, high = found["interval"]
    assert low < 0 < high


def test_what_smoothing_gains_is_what_the_stored_runs_gain_and_may_be_nothing():
    stored = recordings.sureness()["smoothing"]
    assert re.fullmatch("[0-9a-f]{12}", stored["commit"])
    plain, smoothed = (
        [run["scores"]["valid"]["bleu"] for run in stored_runs(f"table_3_longer/{row}")]
        for row in ("D3", "base")
    )
    gain = (smoothed[0] + smoothed[1] - sum(plain)) / 2  # D3 has two seeds
    assert stored["gain"] == pytest.approx(gain, abs=0.01)
    low, high = stored["interval"]
    assert low < 0 < stored["gain"] < high


def test_the_best_temperature_has_the_lowest_perplexity_on_its_batches():
    model = next(iter(toy_models().values()))
    batch = toy_batch([*islice(pronoun_pairs(), 20)], toy_words())
    best = smoothing.best_temperature(model, [batch])
    found = {}
    for by in (0.7, best, 1.5):
        with divided(model, by):
            found[by] = sureness(model, [batch])["perplexity"]
    assert found[best] == min(found.values())


def test_a_gain_of_bleu_is_that_of_the_scores_and_lies_in_its_interval(monkeypatch):
    monkeypatch.setattr(smoothing, "DRAWN_SETS", 20)
    references = ["ein Hund läuft am Strand .", "eine Frau liest im Park ein Buch ."]
    worse = ["ein Hund läuft am See .", "eine Frau liest ein Buch ."]
    runs = [
        {
            "seed": seed,
            "smoothing": epsilon,
            "outputs": {
                "greedy": references if epsilon else worse,
                "undivided": worse,
                "divided": worse,
            },
        }
        for seed, epsilon in product(smoothing.SEEDS, smoothing.SMOOTHINGS)
    ]
    found = smoothing.gains(runs, references)
    lost = 100 - smoothing.german_bleu(worse, references)
    assert found["smoothing, greedy"]["gain"] == pytest.approx(lost, abs=0.01)
    low, high = found["smoothing, greedy"]["interval"]
    assert low < lost < high
    nothing = {"gain": 0, "interval": [0, 0]}
    assert [found[name] for name in [*found][1:]] == [nothing] * 4


@pytest.mark.parametrize("way", WAYS)
def test_one_process_weighs_tokens_as_the_mean_of_eight_means(way):
    torch.manual_seed(3)
    tokens, sums = torch.randint(2, 29, (32,)), torch.rand(32)
    groups = shares(tokens, way)
    expected = sums.sum() / tokens.sum()
    if groups is not None:
        own = [groups == process for process in range(8)]
        assert [int(one.sum()) for one in own] == [4] * 8
        expected = sum(sums[one].sum() / tokens[one].sum() for one in own) / 8
    assert torch.isclose((sums * token_weights(tokens, groups)).sum(), expected)
    if way == "by length":
        longest = [int(tokens[one].max()) for one in own]
        assert longest == sorted(longest)


def test_what_a_checkpoint_lacks_moves_the_weights_and_the_loss_hardly_tells():
    stored = recordings.runs_that_differ()
    assert [*stored["means"]] == [*WAYS]
    for runs in (stored["damages"], *stored["means"].values()):
        assert [*runs] == [*map(str, SEEDS)]
    for seed, found in stored["damages"].items():
        assert set(found) == {*DAMAGES, "another seed from the start"}
        moved = {name: one["off"] for name, one in found.items()}
        assert moved.pop("nothing") == 0, seed
        assert 0.03 < min(moved.values())
        assert max(moved, key=moved.get) == "another seed from the start"


def test_the_best_head_of_a_row_is_chosen_without_the_sentences_that_score_it():
    scores = scores_without_heads()
    rows = zip(scores["alone_valid"], scores["best"], strict=True)
    assert all(valid[best] == max(valid) for valid, best in rows)
    for name in ("zeros", "mean", "alone_valid"):
        assert [len(row) for row in scores[name]] == [8] * 9
    for name in ("rows", "rows_mean", "alone", "best"):
        assert len(scores[name]) == 9
    for line in (scores["together"], *scores["random_orders"]):
        assert len(line) == len(scores["counts"])
    parts = {"single", "rows_mean", "alone", "together", "same_sentences", "second"}
    assert scores["made"].keys() == parts
    assert all(len(part["commit"]) == 12 for part in scores["made"].values())


def test_what_no_gpu_has_measured_is_none(tmp_path, monkeypatch):
    file = tmp_path / "gpu.json"
    monkeypatch.setattr(recordings, "GPU", file)
    assert gpu_measurements() is None
    measured = {"conditions": {"is_tiny": False}, "search": {"base": {}}}
    file.write_text(json.dumps(measured))
    assert gpu_measurements() == measured
    file.write_text('{"conditions": {"is_tiny": true}}')
    with pytest.raises(ValueError, match="a trial at a tiny size; give that of a real"):
        gpu_measurements()


def test_there_are_five_models_that_differ_and_drop_nothing(models):
    assert list(models) == [1, 2, 3, 4, 5]
    matrices = [m.encoder.layers[0].self_attention.w_q.weight for m in models.values()]
    assert not any(torch.equal(*pair) for pair in combinations(matrices, 2))
    assert not any(model.training for model in models.values())


def test_it_is_kept_how_the_models_were_trained():
    with safe_open(recordings.HEADS, "pt") as recording:
        metadata = recording.metadata()
    trained = {name: json.loads(value) for name, value in metadata.items()}
    assert re.fullmatch("[0-9a-f]{12}", trained["commit"])
    assert trained["steps"] == 700
    assert trained["train_pairs"] == TRAIN_PAIRS
    assert {"versions", "hardware", "peak_rate", "batch_tokens"} <= trained.keys()


def test_models_translate_sentences_that_they_have_not_seen(models):
    with unchecked():
        unseen = list(islice(pronoun_pairs(), TRAIN_PAIRS, TRAIN_PAIRS + 101))
    batch = toy_batch(unseen, toy_words())
    for model in models.values():
        with torch.inference_mode():
            guesses = model(batch.src_ids, batch.tgt_input).argmax(-1)
        right = ((guesses == batch.labels) | (batch.labels == PAD)).all(dim=1)
        assert right.double().mean() > 0.9


def test_a_batch_holds_each_word_in_its_place():
    words, pairs = toy_words(), list(islice(pronoun_pairs(), 7))
    for pair, row in zip(pairs, toy_batch(pairs, words).src_ids.tolist(), strict=True):
        read = [words[i] for i in row[: len(pair.source_words)]]
        assert read == [word.lower() for word in pair.source_words]


def test_words_are_different_and_begin_with_the_special_ones():
    words = toy_words()
    assert words[:4] == ["PAD", "BOS", "EOS", "UNK"]
    assert len(set(words)) == len(words)


@pytest.mark.parametrize(("name", "config"), [("base", BASE), ("big", BIG)])
def test_the_stored_memory_of_a_step_is_predicted_and_found(name, config):
    stored = recordings.memory_of_steps()[name]
    with torch.device("meta"):
        predicted = step_memory(Transformer(config), 3125)
    assert stored["predicted"] == predicted._asdict()
    assert stored["tracked"]["Total"] == pytest.approx(sum(predicted), rel=0.01)


def test_the_parser_beats_the_grammars_counted_from_the_same_trees_by_little():
    f1 = {name: one["f1"] for name, one in recordings.grammar_scores().items()}
    assert f1["as_it_is"] < f1["annotated"] < f1["parser_test"] < f1["parser_beam_4"]
    for name, leads in recordings.grammar_leads().items():
        for parser, found in leads.items():
            lead, low, high = found["f1"]
            assert low < lead < high
            assert lead == pytest.approx(f1[parser] - f1[name], abs=0.006)
    split = recordings.grammar_leads()["split"]
    assert split["parser_test"]["f1"][1] < 0 < split["parser_test"]["f1"][2]
    assert split["parser_round_1"]["f1"][2] < 0 < split["parser_beam_4"]["f1"][1]
    assert split["parser_beam_4"]["complete_match"][1] > 2


def test_mended_outputs_are_as_good_as_constrained_ones():
    stored = recordings.mended_outputs()
    assert len(stored["greedy"]) == 3
    for scores in (*stored["greedy"].values(), stored["beam_of_4"]):
        gain = scores["mended"]["f1"] - scores["as_written"]["f1"]
        assert gain > 10 * abs(scores["constrained_ahead"]["f1"][0])


@torch.inference_mode()
def test_the_search_through_everything_finds_what_a_wide_beam_finds():
    translator = Translator.load("multi30k_en_de", device="cpu")
    english = "A boy jumps into a swimming pool."
    (found,) = searched(translator, [english], 16)
    memory = memory_of(translator, english)
    best = likeliest(translator.model, memory, Output(found.log_prob - 2, []))
    assert best.ids == found.ids
    assert best.log_prob == pytest.approx(found.log_prob, abs=1e-3)


def test_wider_beams_find_likelier_outputs_and_fewer_words():
    stored = recordings.likeliest_outputs()
    ways = stored["ways"]
    order = ["beam 1", "beam 4", "beam 16", "beam 64", "likeliest"]
    for one, other in pairwise(ways[name] for name in order):
        assert one["log_prob"] < other["log_prob"]
        assert one["length_ratio"] > other["length_ratio"]
    captions = stored["captions"]
    assert {len(column) for column in captions.values()} == {1000}
    translated = sum(captions["translation"]) / 1000
    assert translated == pytest.approx(ways["beam 4"]["log_prob"], abs=0.01)
    assert 0.88 < sum(captions["written"]) / sum(captions["tokens"]) < 0.9
    less_likely = sum(
        likely < max(empty, human) - 0.02
        for likely, empty, human in zip(
            captions["likeliest"],
            captions["empty"],
            captions["reference"],
            strict=True,
        )
    )
    assert less_likely == stored["gave_up"] == 1  # there the best of the beams stands


@torch.inference_mode()
def test_an_output_has_as_many_tokens_as_is_asked():
    translator = Translator.load("multi30k_en_de", device="cpu")
    english = ["A boy jumps into a swimming pool.", "A dog runs.", "Two men sit."]
    free = searched(translator, english, 4)
    lengths = [len(output.ids) + 1 for output in free]
    held = as_long.searched_as_long(translator, english, 4, lengths)
    assert [output.ids for output in held] == [output.ids for output in free]
    longer = [length + more for length, more in zip(lengths, (3, 0, 9), strict=True)]
    held = as_long.searched_as_long(translator, english, 4, longer)
    for output, own, least in zip(held, free, longer, strict=True):
        assert len(output.ids) + 1 >= least
        assert output.log_prob <= own.log_prob + 1e-4
    assert held[1].ids == free[1].ids


def test_a_wider_beam_loses_no_bleu_if_it_may_not_be_shorter():
    free = recordings.likeliest_outputs()["ways"]
    ways = recordings.outputs_as_long()["ways"]
    narrow = ways.pop("beam 4")
    assert narrow["bleu"] == free["beam 4"]["bleu"]
    for name, held in ways.items():
        wide = free[name.removesuffix(", as long")]
        assert held["bleu"] > narrow["bleu"] > wide["bleu"] + 1.5
        assert held["length_ratio"] > wide["length_ratio"] + 0.05
        assert held["log_prob"] < wide["log_prob"]
        assert held["empty"] == 0


def test_the_encoders_own_warm_up_decides_what_its_source_is_worth():
    ends = {}
    for run in recordings.runs_with_collapse():
        assert run["step"] == [*range(20, 1001, 20)]
        of_others, own = (run[name][-1] for name in ("another's source", "own source"))
        ends[run["way"], run["seed"]] = run["encoder"][-1], of_others / own
        assert run["decoder"][-1] > 0.8
        assert re.fullmatch("[0-9a-f]{12}", run["commit"])
    assert [*ends] == [*product(collapse.WAYS, collapse.SEEDS)]
    for (way, _), (share, worth) in ends.items():
        factor, in_encoder, _ = collapse.WAYS[way]
        collapsed = factor == 1 and not in_encoder
        assert share < 0.3 if collapsed else share > 0.4
        assert worth < 1.6 if collapsed else worth > 2.5


def test_the_rate_may_rise_in_the_encoders_layers_alone():
    model = Transformer(ModelConfig(vocab_size=9, d_model=16, num_heads=2))
    train = TrainConfig(warmup_steps=4)
    with patch.object(TrainingState, "_schedule", collapse.schedule_of(True, False)):
        state = TrainingState(model, train, torch.amp.GradScaler(enabled=False))
    inside, outside = state.optimizer.param_groups
    assert {*map(id, inside["params"])} == {*map(id, model.encoder.layers.parameters())}
    everything = inside["params"] + outside["params"]
    assert {*map(id, everything)} == {*map(id, model.parameters())}
    found = []
    for _ in range(6):
        found.append((inside["lr"], outside["lr"]))
        state.optimizer.step()
        state.schedule.step()
    rises = [train.rate_scale * noam_rate(step, 16, 4) for step in range(1, 7)]
    assert [rate for rate, _ in found] == pytest.approx(rises)
    assert [rate for _, rate in found] == pytest.approx([max(rises)] * 3 + rises[3:])


def test_padding_is_counted_on_each_side():
    sides = [np.array([3, 8, 5]), np.array([4, 4, 2])]
    found = batch_orders.padding_of(sides, [np.array([0, 1]), np.array([2])])
    # sources: 16 of 2 · 8 + 5 cells; targets: 10 of 2 · 4 + 2
    assert found == {"src": round(5 / 21, 4), "tgt": 0, "both": round(5 / 31, 4)}


def test_batches_have_less_padding_in_the_order_of_the_longer_side():
    cuts = {
        (cut["limit"], cut["order"]): cut for cut in recordings.batches_in_two_orders()
    }
    assert [*cuts] == [*product(batch_orders.LIMITS, ("target", "longer side"))]
    for limit in batch_orders.LIMITS:
        by_target, by_longer = cuts[limit, "target"], cuts[limit, "longer side"]
        assert by_longer["padding"]["both"] < by_target["padding"]["both"]
        assert by_longer["batches"] < by_target["batches"]
        assert by_target["padding"]["tgt"] < by_longer["padding"]["tgt"]


def test_a_wider_beam_loses_no_bleu_with_the_length_penalty():
    free = recordings.likeliest_outputs()["ways"]
    ways = recordings.outputs_with_penalty()["ways"]
    assert [*ways] == [f"beam {width}" for width in with_penalty.BEAMS]
    narrow = ways.pop("beam 4")
    assert free["beam 4, α = 0.6"].items() <= narrow.items()
    for name, wide in ways.items():
        assert wide["bleu"] > narrow["bleu"] > free[name]["bleu"] + 2.5
        assert wide["p_value"] > 0.1
        assert narrow["length_ratio"] > wide["length_ratio"]
        assert wide["length_ratio"] > free[name]["length_ratio"] + 0.1
        assert narrow["log_prob"] < wide["log_prob"] < free[name]["log_prob"]


@torch.inference_mode()
def test_a_translation_is_scored_beside_the_empty_output():
    translator = Translator.load("multi30k_en_de", device="cpu")
    english = ["A boy jumps into a swimming pool."]
    (own,) = searched(translator, english, translator.search.beam_size)
    german = [translator.tokenizer.decode(own.ids)]
    found = without_smoothing.measured(translator, english, german)
    ids = torch.tensor([[*translator.tokenizer.encode(english[0]), EOS]])
    (first,) = translator.model(ids, torch.tensor([[BOS]])).log_softmax(-1)[0]
    assert found == {
        "empty": pytest.approx(first[EOS].item(), abs=0.006),
        "translation": pytest.approx(own.log_prob, abs=0.006),
        "empty_is_likelier": 0,
        "bleu": 100,
    }


def test_without_smoothing_the_empty_output_is_less_likely():
    runs = recordings.runs_without_smoothing()
    by_seed = groupby(runs, key=lambda run: run["seed"])
    for with_it, without in (list(of_seed) for _, of_seed in by_seed):
        assert (with_it["smoothing"], without["smoothing"]) == (0.1, 0)
        assert without["empty"] < with_it["empty"] - 1
        assert without["empty_is_likelier"] < with_it["empty_is_likelier"]


def test_more_convolutions_on_the_path_are_learned_later():
    stored = recordings.steps_by_path()
    assert [*stored] == [*paths.RATES]
    for runs in stored.values():
        assert [*runs] == [*paths.LAYERS]
        assert {len(of) for of in runs.values()} == {len(paths.SEEDS)}
        by_number = [statistics.median(of) for of in [*runs.values()][1:5]]
        assert by_number == sorted(by_number)
        assert min(runs["ConvS2S"]) == math.inf
        for shorter, longer in pairwise([*runs.values()][1:5]):
            assert max(shorter) <= min(longer)


def test_the_largest_gap_first_or_last_the_path_decides():
    stored = recordings.steps_by_path(largest_first=True)
    assert [*stored] == [*paths.RATES]
    for runs in stored.values():
        assert [*runs] == [*paths.REVERSED]
        assert {len(of) for of in runs.values()} == {len(paths.SEEDS)}
        medians = [statistics.median(of) for of in runs.values()]
        assert medians == sorted(medians)


def test_at_all_distances_more_convolutions_on_the_path_are_learned_no_sooner():
    stored = recordings.steps_by_distance()
    assert [*stored] == [*paths.RATES]
    for runs in stored.values():
        assert [*runs] == [*paths.TO_ALL]
        for name, by_distance in runs.items():
            assert [*by_distance] == [*paths.TO_ALL[name]]
            assert {len(of) for of in by_distance.values()} == {len(paths.SEEDS)}
        for gaps in paths.DOUBLING:
            by_distance = runs[f"gaps {str(gaps)[1:-1]}"]
            medians = {number: [] for number in range(1, 5)}
            for distance, of in by_distance.items():
                number = min(paths.convolutions_passed(gaps, distance))
                medians[number].append(statistics.median(of))
            for fewer, more in pairwise(medians.values()):
                assert max(fewer) <= min(more)
        of_width_5 = [statistics.median(of) for of in runs["ConvS2S"].values()]
        assert of_width_5 == sorted(of_width_5)


def test_at_12_words_all_recordings_of_one_network_agree():
    by_order = recordings.steps_by_path(), recordings.steps_by_path(largest_first=True)
    for rate, runs in recordings.steps_by_distance().items():
        recorded = {name: of for steps in by_order for name, of in steps[rate].items()}
        for name, by_distance in runs.items():
            assert by_distance[paths.DISTANCE] == recorded[name]


def test_with_the_largest_gap_first_the_binary_digits_count_the_convolutions():
    smallest_first, largest_first = paths.DOUBLING
    for distance in paths.DISTANCES:
        digits = distance.bit_count()
        assert min(paths.convolutions_passed(largest_first, distance)) == digits
        shorter = distance == 7  # 1 back, then 8 on
        fewest = min(paths.convolutions_passed(smallest_first, distance))
        assert fewest == digits - shorter


@pytest.mark.parametrize("distance", [1, 7, 12, 15])
def test_the_key_word_stands_at_the_distance(distance):
    ids, answers = paths.sentences(20, torch.Generator().manual_seed(1), distance)
    assert (ids[:, -1] == paths.QUESTION).all()
    assert (ids[:, paths.LENGTH - 1 - distance] == answers).all()
    assert ((ids < paths.KEYS).sum(dim=1) == 1).all()


def test_the_gaps_decide_how_many_convolutions_the_path_passes():
    fewest = [min(paths.convolutions_passed(gaps)) for gaps in paths.GAPS]
    assert fewest == [1, 2, 3, 4]
    networks = [build() for name, build in paths.LAYERS.items() if "gaps" in name]
    sizes = {sum(p.numel() for p in network.parameters()) for network in networks}
    assert len(sizes) == 1
    torch.manual_seed(0)
    for gaps, network in zip(paths.GAPS, networks, strict=True):
        assert [layer.dilation for layer in network.layers] == [(gap,) for gap in gaps]
        x = torch.randn(1, paths.LENGTH, paths.WIDTH, requires_grad=True)
        (gradient,) = torch.autograd.grad(network(x)[0, -1].sum(), x)
        assert gradient[0, -1 - paths.DISTANCE].any()


def test_each_convolution_of_width_5_reaches_two_words_farther():
    torch.manual_seed(0)
    layers = paths.LAYERS["ConvS2S"]().layers
    for number, distance in enumerate(paths.OF_WIDTH_5, start=1):
        network = paths.Convolutions([(5, 1)] * number)
        x = torch.randn(1, paths.LENGTH, paths.WIDTH, requires_grad=True)
        (gradient,) = torch.autograd.grad(network(x)[0, -1].sum(), x)
        reached = gradient[0, :-1].any(dim=-1).nonzero()
        assert paths.LENGTH - 1 - reached.min().item() == distance
    assert number == len(layers)


def test_when_a_network_has_learned_is_noted(monkeypatch):
    monkeypatch.setattr(paths, "STEPS", 60)
    assert paths.train("gaps 1, 2, 4, 12", 1, 3e-3) in range(5, 61, 5)
    assert paths.train("ConvS2S", 1, 3e-3) is None


def test_convolutions_start_as_he_et_al_propose():
    torch.manual_seed(0)
    layer = paths.LAYERS["ConvS2S"]().layers[0]
    inputs = 5 * paths.WIDTH
    assert layer.weight.std().item() == pytest.approx((2 / inputs) ** 0.5, rel=0.05)
    assert not layer.bias.any()


def test_appended_positions_have_channels_of_their_own():
    ids = torch.randint(4, 50, (2, 5))
    for way, (width, at_input, at_output) in appending.WAYS.items():
        model = appending.untrained(50, way, seed=1)
        embedding, table = model.encoder.embedding, model.encoder.positions.encoding
        has_all = way.startswith("added")
        assert at_input == (width if has_all else width - 12)
        channels = width if has_all else 12
        assert not table[:, :-channels].any()
        expected = sinusoidal_encoding(64, channels)
        torch.testing.assert_close(table[:, -channels:], expected)
        assert table.shape == (64, width)
        assert embedding(ids)[..., :at_input].all()
        assert not embedding(ids)[..., at_input:].any()
        scores = model(ids, ids).flatten(0, 1)
        F.cross_entropy(scores, ids.flatten()).backward()
        for values in (embedding.weight, embedding.weight.grad):
            assert values[:, :at_output].any()
            assert not values[:, at_output:].any()


def test_appended_positions_were_trained_for_each_seed():
    stored = recordings.appended_positions()
    assert [*stored] == [*map(str, appending.SEEDS)]
    for of_way, seeds in zip(stored.values(), appending.SEEDS.values(), strict=True):
        assert [*of_way] == [*appending.WAYS]
        assert all(len(shares) == len(seeds) for shares in of_way.values())


def test_what_is_to_be_translated_was_not_trained_on():
    tests = appending.test_pairs()
    german = {" ".join(source): " ".join(target) for source, target in tests}
    assert german["the dog finds the man ."] == "der hund findet den mann ."
    assert len(tests) == len({tuple(source) for source, _ in tests}) == 462
    assert not [pair for pair in appending.training_pairs(200) if pair in tests]


def test_longer_positions_delay_learning_with_and_without_the_factor():
    stored = recordings.losses_by_input_factor()
    number = input_factor.STEPS // input_factor.EVERY + 1
    for runs in stored["losses"].values():
        assert [len(run) for run in runs] == [number] * len(input_factor.SEEDS)
    assert stored["every"] == input_factor.EVERY
    fast, slow, fast_too, slow_too, large = (
        [run[120 // stored["every"]] for run in stored["losses"][kind]]
        for kind in input_factor.KINDS
    )
    assert max(*fast, *fast_too) + 1 < min(*slow, *slow_too, *large)


@pytest.mark.parametrize("kind", input_factor.KINDS)
def test_each_kind_changes_embeddings_and_positions_as_named(kind):
    torch.manual_seed(0)
    model = input_factor.build(kind)
    embeddings, positions, entries = input_factor.KINDS[kind]
    weight = model.encoder.embedding.weight
    assert weight.std().item() == pytest.approx(entries / 8, rel=0.02)
    rows = 8 * weight[:5] * embeddings
    torch.testing.assert_close(model.decoder.embedding(torch.arange(5)[None])[0], rows)
    first = model.decoder.positions.encoding[0]
    assert first.norm().item() == pytest.approx(positions * 32**0.5)


@pytest.mark.parametrize("name", ["all at once", "one by one"])
def test_two_halves_of_the_words_have_the_gradients_of_the_whole(name):
    whole, *halves = second_core.shares(name, 64, 10, 2, second_core.WORDS)
    sums = []
    for some in ([whole], halves):
        row = torch.zeros(sum(weight.numel() for weight in whole.layer.parameters()))
        whole.keep_gradients(row)
        for share in some:
            share.train()
        sums.append(row)
    torch.testing.assert_close(*sums)


def test_the_timed_loop_is_a_gru():
    share, *_ = second_core.shares("with chain", 64, 10, 2, second_core.OPERATIONS)
    expected = share.layer(share.x)[0]
    torch.testing.assert_close(share.run(share.layer, share.x, share.before), expected)


def test_a_loop_does_as_many_multiplications_with_its_chain_as_without():
    works = []
    for name in ("with chain", "one by one", "all at once"):
        share, *_ = second_core.shares(name, 64, 50, 1, second_core.OPERATIONS)
        with FlopCounterMode(display=False) as counter:
            share.train()
        works.append(counter.get_total_flops())
    assert works[1] == works[2]
    # Nothing comes before the first state, so it gets no gradient.
    assert works[0] == pytest.approx(works[1], rel=0.02)


def test_a_second_core_needs_words_that_do_not_wait():
    gains = {}
    for timed in recordings.times_with_two_cores():
        assert len(timed["one"]) == len(timed["two"]) == second_core.TURNS
        names = ("layer", "width", "words", "sentences", "shared")
        gain = statistics.median(timed["one"]) / statistics.median(timed["two"])
        gains[tuple(timed[name] for name in names)] = gain
    for width in second_core.WIDTHS:
        words = "one by one", width, *second_core.LONG, second_core.WORDS
        assert gains[words] > 1.4
    for layer in ("with chain", "GRU", "LSTM"):
        for width, low, high in ((128, 0.7, 1.2), (512, 1.3, 2.5)):
            operations = layer, width, *second_core.LONG, second_core.OPERATIONS
            assert low < gains[operations] < high


def test_chapter_1s_loops_translate():
    found = recordings.sentences_of_loops()
    assert [*found] == [*loops.LAYERS]
    for right in found.values():
        assert len(right) == len(loops.SEEDS)
        assert 860 < min(right) <= max(right) <= loops.TEST


@pytest.fixture(scope="module")
def sentences_of_loops():
    with unchecked():  # 11,000 sentences
        return loops.sentences()


@pytest.mark.parametrize("layer", ["GRU", "LSTM"])
def test_chapter_1s_loops_read_each_pair_once_and_are_tested_on_new_ones(
    layer, sentences_of_loops
):
    words, pairs = sentences_of_loops
    known = {tuple(map(tuple, pair)) for pair in pairs[: loops.TRAIN]}
    assert max(i for pair in known for side in pair for i in side) == len(words) - 1
    assert not known & {tuple(map(tuple, pair)) for pair in pairs[loops.TRAIN :]}
    torch.manual_seed(1)
    model = loops.LoopThenAttention(loops.LAYERS[layer], len(words), loops.WIDTH)
    batch = next(loops.batches(pairs[:64], seed=1))
    seen = {tuple(row[row > 0].tolist()[:-1]) for row in batch.src_ids}
    assert seen == {tuple(source) for source, _ in pairs[:64]}
    assert loops.translated(model, pairs[-20:]) == 0
    logits = F.one_hot(loops.batch_of(pairs[-20:]).labels, len(words))
    assert loops.translated(Mock(return_value=logits), pairs[-20:]) == 20
    logits[3, 0] = 0  # and so PAD is the likeliest
    assert loops.translated(Mock(return_value=logits), pairs[-20:]) == 19


def test_many_long_first_steps_make_a_deep_collapse_and_a_high_loss():
    stored = recordings.runs_by_first_steps()
    seeds = len(first_steps.SEEDS)
    in_pre_norm = [f"{name}, pre-norm" for name in first_steps.IN_PRE_NORM]
    assert [*stored["end"]] == [*first_steps.RUNS, *in_pre_norm]
    assert {len(of) for of in stored["end"].values()} == {seeds}
    assert {len(of) for of in stored["lengths"].values()} == {first_steps.STEPS}
    for what in ("lengths", "own_shares"):
        assert [*stored[what]] == [*first_steps.STEP_BY_STEP]
    shares = {name: torch.tensor(of) for name, of in stored["own_shares"].items()}
    assert {of.shape for of in shares.values()} == {(seeds, first_steps.STEPS)}
    lengths = {name: torch.tensor(of) for name, of in stored["lengths"].items()}
    for five in ("five full", "five full, random signs"):
        assert (lengths[five][:5] > lengths["low first"][:5]).all()
    # Each run collapses at first, that of long steps the most.
    for name in ("ramp", "low first", "flat", "flat, 0.003"):
        least, step = shares[name].min(1)
        assert (least < 0.15).all()
        assert (step < 40).all()
        assert (least < 0.01).all() if name == "flat" else (least > 0.04).all()
    at_30 = {name: of.mean(0)[first_steps.WARMUP - 1] for name, of in shares.items()}
    assert at_30["flat"] < 0.1
    assert at_30["low first"] > 0.4
    end = {name: torch.tensor(of) for name, of in stored["end"].items()}
    means = {name: round(of.mean().item(), 2) for name, of in end.items()}
    full = [means[name] for name in ("low first", "one full", "five full", "flat")]
    assert full == [2.48, 2.67, 2.89, 3.32]  # as chapter 5.3 says
    assert means["five full, random signs"] == 2.62
    assert means["flat, 0.003"] == 2.51
    assert (end["flat"] > end["low first"] + 0.5).all()
    assert means["flat, v filled"] > means["flat"]


def test_rows_of_one_gender_are_found():
    genders = ["masculine", "feminine", "neuter"]
    rows = torch.eye(3)[[genders.index(noun.gender) for noun in NOUNS]]
    assert tied_rows.of_the_same_gender(rows + 0.01 * torch.rand(len(NOUNS), 3)) == 1
    assert 0.3 < tied_rows.of_a_random_noun() < 0.35


def test_the_output_makes_rows_of_one_gender_similar():
    shares = recordings.neighbours_in_matrices()["same_gender"]
    chance = shares.pop("random noun")
    assert chance == tied_rows.of_a_random_noun()
    assert {len(runs) for runs in shares.values()} == {len(input_factor.SEEDS)}
    one, read, scored = shares.values()
    assert min(one + scored) > chance
    assert all(a > b for a, b in zip(scored, read, strict=True))
    means = [round(100 * sum(runs) / len(runs)) for runs in (one, read, scored)]
    assert means == [60, 38, 66]  # as chapter 3.4 says


def test_a_stand_in_is_the_token_with_the_most_similar_row():
    rows = torch.tensor([[1, 0], [9, 1], [0, 1], [1, 1], [1, 9.0]])
    among = torch.tensor([0, 2, 3, 4])
    assert tied_rows.neighbours(rows, among).tolist() == [3, 1, 4, 4, 2]
    drawn = tied_rows.random_others(5, among, torch.Generator().manual_seed(0))
    assert drawn[1] == 1
    assert (drawn != torch.arange(5)).sum() == 4
    assert set(drawn[among].tolist()) <= {0, 2, 3, 4}


def test_only_real_tokens_are_replaced_one_at_a_time():
    def repeats_the_last_two(src, read):
        before = F.pad(read[:, :-1], (1, 0))
        return F.one_hot(3 * read + before, 40).float()

    src, read = torch.zeros(1, 1), torch.tensor([[1, 5, 6, 7, 0]])
    stand_ins = torch.arange(10)
    stand_ins[5] = 8
    share = tied_rows.with_the_same_choice
    assert share(repeats_the_last_two, src, read, stand_ins) == 0
    stand_ins[6] = 9

    def looks_for_nine(src, read):
        return F.one_hot((read == 9).long(), 2).float()

    assert share(looks_for_nine, src, read, stand_ins) == 0.5


def test_a_decoder_reads_similar_rows_alike():
    shares = recordings.neighbours_in_matrices()["same_choice"]
    assert {len(runs) for runs in shares.values()} == {len(input_factor.SEEDS)}
    one, three = shares["one"], shares["three, output"]
    chance = shares["one, random token"] + shares["three, random token"]
    assert all(a > b for a, b in zip(one, three, strict=True))
    assert min(three) > 2 * max(chance)
    assert min(shares["three, input"]) > max(three)


def test_one_matrix_and_three_are_told_apart():
    one, three = (
        input_factor.build("factor", 50, of) for of in (Transformer, ThreeMatrices)
    )
    assert [*tied_rows.matrices(one)] == ["one"]
    read, scored = tied_rows.matrices(three).values()
    assert read is three.decoder.embedding.input.weight
    scores = three.decoder.embedding.logits(torch.eye(64))
    torch.testing.assert_close(scores, scored.T)


def test_a_sentence_to_recall_has_its_key_word_at_the_distance():
    random = torch.Generator().manual_seed(0)
    ids, answers = paths.sentences(50, random)
    place = paths.LENGTH - 1 - paths.DISTANCE
    assert (ids[:, place] == answers).all()
    assert (ids[:, -1] == paths.QUESTION).all()
    others = torch.cat([ids[:, :place], ids[:, place + 1 : -1]], dim=1)
    assert others.min() >= paths.KEYS > answers.max()
    assert others.max() < paths.QUESTION


def random_ids(number: int, length: int, vocab_size: int) -> torch.Tensor:
    return torch.randint(EOS + 1, vocab_size, (number, length))


@pytest.mark.parametrize("kind", stacks.KINDS)
def test_a_target_reads_what_is_given_for_the_source(kind):
    model = stacks.build(kind, 50).eval()
    src, other, tgt = (random_ids(2, length, 50) for length in (7, 7, 4))
    src[0, 5:] = PAD
    own = model.hidden(src, tgt)
    torch.testing.assert_close(own, model.hidden(src, tgt, model.read(src)))
    assert not torch.allclose(own, model.hidden(src, tgt, model.read(other)))


@pytest.mark.parametrize("kind", stacks.KINDS)
def test_only_the_causal_stack_does_not_read_ahead(kind):
    model = stacks.build(kind, 50).eval()
    src = random_ids(1, 7, 50)
    other = src.clone()
    other[:, 4] += 1
    pairs = zip(model.read(src), model.read(other), strict=True)
    moved = [(one - two).abs().amax((0, 2)) > 1e-6 for one, two in pairs]
    assert any(of[:4].any() for of in moved) == (kind != stacks.CAUSAL)
    assert all(of[4] for of in moved)


def test_a_token_meets_as_many_weights_in_one_stack_as_in_two():
    d, layers = stacks.WIDTH, stacks.LAYERS
    two, one = (stacks.build(kind, 50) for kind in stacks.KINDS[:2])

    def weights(part: nn.Module) -> int:
        return sum(p.numel() for p in part.parameters() if p.dim() > 1)

    per_token = weights(one.encoder.layers)
    assert per_token == 14 * d**2 * layers
    kept = 2 * d**2 * layers  # keys and values of the memory: work of a source token
    assert weights(two.encoder.layers) + kept == per_token
    assert weights(two.decoder.layers) - kept == per_token


def test_stacks_were_trained_with_each_seed():
    runs = recordings.runs_of_stacks()
    made = [(one["kind"], one["seed"]) for one in runs]
    assert made == [*product(stacks.KINDS, stacks.SEEDS)]
    for one in runs:
        parameters = stacks.build(one["kind"], 50).parameters()
        in_layers = sum(p.numel() for p in parameters) - 50 * stacks.WIDTH
        assert one["in_layers"] == in_layers
        assert 50 < one["bleu"] < 100
        assert 0.3 < one["right"] < 1


def test_a_causal_stack_cannot_carry_the_article_before_the_noun():
    runs = recordings.runs_of_stacks()
    causal = [one["transplants"] for one in runs if one["kind"] == stacks.CAUSAL]
    assert {moved["before"][0] for moved in causal} == {0}
    assert all(moved["noun"] == moved["both"] for moved in causal)
