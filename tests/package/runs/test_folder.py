"""Everything of a run has its place in its folder."""

import pytest

from transformer_lite.runs.folder import RunFolder, find_run


def test_a_half_written_file_is_no_checkpoint(tmp_path):
    folder = RunFolder(tmp_path)
    folder.checkpoints.mkdir()
    paths = [folder.weights_after(step) for step in (3, 20, 99_999_999, 123_456_789)]
    extra = folder.weights_after(50, extra=True)
    half = folder.weights_after(200)
    half = half.with_name(half.name + ".partial")
    for path in (*paths, extra, half, folder.best):
        path.write_bytes(b"weights")
    assert folder.step_checkpoints() == paths
    assert folder.all_checkpoints() == [*paths[:2], extra, *paths[2:]]
    assert folder.steps_taken() == 123_456_789


def test_the_weights_to_translate_with_are_the_average_the_best_or_the_newest(tmp_path):
    folder = RunFolder(tmp_path)
    with pytest.raises(ValueError, match="checkpoints: no checkpoint yet; run `train`"):
        folder.default_weights()
    folder.checkpoints.mkdir()
    order = [folder.weights_after(n) for n in (3, 20)] + [folder.best, folder.average]
    for path in order:
        path.write_bytes(b"weights")
        assert folder.default_weights() == path


def test_a_model_of_the_package_is_found_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_run("multi30k_en_de").recipe().model.num_layers > 0
    (tmp_path / "multi30k_en_de").mkdir()  # a folder of this name comes first
    with pytest.raises(ValueError, match="multi30k_en_de: holds no run"):
        find_run("multi30k_en_de").recipe()


def test_a_run_in_the_folder_of_runs_is_suggested(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "toy").mkdir(parents=True)
    (tmp_path / "runs" / "toy" / "config.json").write_text("{}")
    with pytest.raises(
        ValueError, match=r"toy: holds no run; .* did you mean runs/toy"
    ):
        find_run("toy").recipe()


@pytest.mark.parametrize(
    ("content", "languages"),
    [(None, ("", "")), ('{"languages": ["en", "ko"]}', ("en", "ko"))],
)
def test_the_languages_are_those_of_the_training_data(tmp_path, content, languages):
    if content:
        (tmp_path / "corpus.json").write_text(content)
    assert RunFolder(tmp_path).training_data()["languages"] == languages


NO_OBJECT = [b"", b"[]", b"7", b'"a"', b"[" * 200_000, b'{"a": "\xff"}']


@pytest.mark.parametrize(
    "content",
    [*NO_OBJECT, b"{}", b'{"languages": "ab"}', b'{"languages": [null, null]}'],
)
def test_a_damaged_record_of_the_training_data_is_named(tmp_path, content):
    (tmp_path / "corpus.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"corpus\.json: not a record .*; restore it"):
        RunFolder(tmp_path).training_data()


@pytest.mark.parametrize("content", [*NO_OBJECT, b"{}", b'{"data": 3}'])
def test_a_damaged_configuration_is_named(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"config\.json: not a run's configuration"):
        RunFolder(tmp_path).recipe()
