"""Files and folders appear whole or not at all; a lock lets one process in."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from transformer_lite.runs.files import (
    delete_partial,
    only_process,
    renamed_when_whole,
    replacing,
    require_outputs,
    require_writable,
    write_whole,
)

BUSY = "out: another process is at work"
posix = pytest.mark.skipif(os.name != "posix", reason="sets permissions")


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "w.safetensors"
    path.write_text("old")

    def write(partial):
        partial.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match=r"w\.safetensors: cannot .*disk full.*free some"):
        write_whole(path, write)
    assert names_in(tmp_path) == ["w.safetensors"]
    assert path.read_text() == "old"


def test_a_file_appears_only_when_it_is_whole(tmp_path):
    path = tmp_path / "folder" / "w.safetensors"

    def write(partial):
        assert partial.parent == path.parent
        assert not path.exists()
        partial.write_text("whole")

    write_whole(path, write)
    assert path.read_text() == "whole"
    assert names_in(path.parent) == ["w.safetensors"]


@posix
def test_weights_have_the_permissions_of_any_new_file(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "w", lambda p: save_file({"a": torch.ones(3)}, p))
        (tmp_path / "new").write_text("by open()")
    finally:
        os.umask(before)
    assert (tmp_path / "w").stat().st_mode == (tmp_path / "new").stat().st_mode


@posix
def test_a_file_that_replaces_another_keeps_its_permissions(tmp_path):
    path = tmp_path / "w"
    for mode in (0o600, 0o664, 0o444):
        path.touch()
        path.chmod(mode)
        with replacing(path) as file:
            assert Path(file.name).stat().st_mode & 0o777 == 0o600
        write_whole(path, lambda partial: save_file({"a": torch.ones(3)}, partial))
        assert path.stat().st_mode & 0o777 == mode


def test_a_file_that_can_be_written_is_left_as_it_is(tmp_path):
    (tmp_path / "there").write_text("old")
    (tmp_path / "there.test").touch()
    for name in ("there", "not_there"):
        require_writable(tmp_path / name)
    assert names_in(tmp_path) == ["there", "there.test"]
    assert (tmp_path / "there").read_text() == "old"


def test_a_link_is_followed_and_stays(tmp_path):
    (tmp_path / "file").write_text("old")
    for name, target in (("link", "file"), ("dangling", "new")):
        (tmp_path / name).symlink_to(target)
        write_whole(tmp_path / name, lambda partial: partial.write_text("whole"))
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / target).read_text() == "whole"
    assert names_in(tmp_path) == ["dangling", "file", "link", "new"]


def test_each_of_two_writers_has_a_file_of_its_own(tmp_path):
    path, user = tmp_path / "out", tmp_path / "out.partial"
    write_whole(user, lambda partial: partial.write_text("a user's"))
    with replacing(path) as slow:
        slow.write(b"slow")
        write_whole(path, lambda partial: partial.write_text("fast"))
        assert path.read_text() == "fast"
    assert path.read_text() == "slow"
    assert user.read_text() == "a user's"
    assert names_in(tmp_path) == ["out", "out.partial"]


def test_half_a_file_is_deleted_by_who_alone_writes_it(tmp_path):
    ours = tmp_path / "step-1.weights.0123abcd.partial"
    others = ["average.0123abcd.partial", "step-1.backup.partial", "step-1.weights"]
    for name in (ours.name, *others):
        (tmp_path / name).touch()
    delete_partial(tmp_path, "step-*")
    assert names_in(tmp_path) == others


def test_an_output_is_no_input_and_no_other_output(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to("in")
    inputs = [tmp_path / "in", tmp_path / "text"]
    inside = "lies in a folder that is read"
    told = {"text": "would overwrite an input", "in/a": inside, "link/b/a": inside}
    for name, problem in told.items():
        with pytest.raises(ValueError, match=f"{name}: {problem}"):
            require_outputs([None, tmp_path / name], inputs)
    twice = [tmp_path / "in" / ".." / "out", tmp_path / "out"]
    with pytest.raises(ValueError, match="named for two outputs"):
        require_outputs(twice, [])
    require_outputs([tmp_path / "out", None, tmp_path / "other"], inputs)
    null = Path(os.devnull)
    require_outputs([null, null], [null])  # nothing is lost there
    assert names_in(tmp_path) == ["in", "link"]


def test_a_path_that_cannot_be_written_is_refused_with_a_remedy(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        ValueError, match=r"scores\.json: .* \(a file is where a folder"
    ):
        require_writable(tmp_path / "file" / "scores.json")
    with pytest.raises(ValueError, match=r"x: no folder .*nowhere; make it, or give"):
        require_writable(tmp_path / "nowhere" / "x")
    # The system refuses only the file itself.
    with pytest.raises(ValueError, match=r"cannot be written \(File name too long"):
        require_writable(tmp_path / ("x" * 250))
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(ValueError, match=r"circle: cannot be written \(Too many"):
        require_outputs([tmp_path / "circle"], [tmp_path / "circle" / "in"])
    with pytest.raises(ValueError, match="a folder; give the name of a file"):
        require_writable(tmp_path)


def test_a_folder_appears_only_when_it_is_whole(tmp_path):
    with renamed_when_whole(tmp_path / "out") as partial:
        (partial / "a").write_text("whole")
        assert not (tmp_path / "out").exists()
    assert names_in(tmp_path) == ["out"]
    assert names_in(tmp_path / "out") == ["a"]


def test_a_folder_that_cannot_be_made_is_refused_with_a_remedy(tmp_path):
    (tmp_path / "file").touch()
    message = r"out: cannot be made \(a file is where a folder has to be\); give"
    with pytest.raises(ValueError, match=message):
        with renamed_when_whole(tmp_path / "file" / "out"):
            pass


def test_an_error_leaves_nothing_of_a_folder(tmp_path):
    def fail(partial):
        (partial / "a").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        with renamed_when_whole(tmp_path / "out") as partial:
            fail(partial)
    assert names_in(tmp_path) == []


def test_a_folder_that_another_process_made_meanwhile_stays_as_it_is(tmp_path):
    with (
        pytest.raises(
            ValueError, match="out: already there, perhaps with your work; give"
        ),
        renamed_when_whole(tmp_path / "out"),
    ):
        (tmp_path / "out").mkdir()
    assert names_in(tmp_path) == ["out"]
    assert names_in(tmp_path / "out") == []


def test_what_a_killed_process_has_left_is_deleted_and_nothing_else(tmp_path):
    ours, busy = tmp_path / "out.abc.partial", tmp_path / "out.def.partial"
    for folder in (ours, busy):
        (folder / "out").mkdir(parents=True)
        (folder / ".lock").touch()
    others = ["out.ghi.partial", "out.jkl.partial", "output.abc.partial"]
    (tmp_path / others[0] / "out").mkdir(parents=True)  # nobody has locked it
    (tmp_path / others[1]).touch()
    (tmp_path / others[2]).mkdir()
    with only_process(busy / ".lock", BUSY), renamed_when_whole(tmp_path / "out"):
        assert not ours.exists()
    assert names_in(tmp_path) == ["out", busy.name, *others]


def test_a_second_process_is_refused(tmp_path):
    with only_process(tmp_path / "out.lock", BUSY):
        with (
            pytest.raises(ValueError, match=BUSY),
            only_process(tmp_path / "out.lock", BUSY),
        ):
            pass


def test_the_lock_is_given_back_after_an_error_and_its_file_stays(tmp_path):
    with pytest.raises(KeyError), only_process(tmp_path / "out.lock", BUSY):
        raise KeyError
    assert names_in(tmp_path) == ["out.lock"]
    with only_process(tmp_path / "out.lock", BUSY):
        pass
    assert names_in(tmp_path) == ["out.lock"]
