"""Everything of a run has its place in its folder."""

import pytest

from transformer_lite.training.folder import RunFolder, training_path


def test_a_half_written_file_is_no_checkpoint(tmp_path):
    folder = RunFolder(tmp_path)
    folder.checkpoints.mkdir()
    paths = [folder.weights_after(step) for step in (3, 20, 100)]
    for path in paths:
        path.write_bytes(b"weights")
    half = folder.weights_after(200)
    half.with_name(half.name + ".partial").write_bytes(b"half")
    folder.best.write_bytes(b"best")
    assert folder.step_checkpoints() == paths


def test_the_training_state_lies_beside_the_weights(tmp_path):
    path = training_path(RunFolder(tmp_path).weights_after(1000))
    assert path == tmp_path / "checkpoints" / "step-00001000.training.pt"


def test_a_folder_that_is_not_there_has_no_checkpoints(tmp_path):
    assert RunFolder(tmp_path / "nothing").step_checkpoints() == []


@pytest.mark.parametrize(
    ("content", "languages"),
    [
        (None, ("", "")),
        ('{"corpus": "files"}', ("", "")),
        ('{"languages": ["en", "ko"]}', ("en", "ko")),
    ],
)
def test_the_languages_are_those_of_the_training_data(tmp_path, content, languages):
    if content:
        (tmp_path / "corpus.json").write_text(content)
    assert RunFolder(tmp_path).languages() == languages


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"7", b'{"languages": 7}', b'{"a": "\xff"}']
)
def test_a_damaged_record_of_the_training_data_is_named(tmp_path, content):
    (tmp_path / "corpus.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"corpus\.json: not a record .*; restore it"):
        RunFolder(tmp_path).languages()


def test_a_missing_run_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"config\.json: no such file; give"):
        RunFolder(tmp_path / "nowhere").recipe()


@pytest.mark.parametrize("content", ["", "{", "[]", "7", "{}", '{"data": 3}', '"a"'])
def test_a_damaged_configuration_is_named(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ValueError, match=r"config\.json: not a run's configuration"):
        RunFolder(tmp_path).recipe()
