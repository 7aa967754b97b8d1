"""Programs of a chapter take the steps of one process, with two and three."""

import re

import nbformat
import pytest
import torch
from loading import ROOT

from transformer_lite_course.processes import Waiting, two_processes

STEM = "why_eight_gpus_are_not_eight_times_faster"


def written(name):
    """A file that the chapter's cells write."""
    path = ROOT / "notebooks" / f"{STEM}.ipynb"
    cells = nbformat.reads(path.read_text("utf-8"), as_version=4).cells
    pattern = re.compile(rf"%%writefile (?:-a )?{re.escape(name)}\n")
    return "\n".join(
        cell.source[found.end() :]
        for cell in cells
        if (found := pattern.match(cell.source))
    )


@pytest.mark.parametrize("number", [2, 3])
def test_the_moments_are_divided_and_the_steps_are_those_of_one(tmp_path, number):
    path = tmp_path / "sharded.py"
    path.write_text(written("sharded.py"))
    waiting = Waiting(number) if number > 2 else two_processes()
    said = waiting.run(path)
    kept = [int(n.replace(",", "")) for n in re.findall(r"keeps (\S+)", "".join(said))]
    whole = int(re.search(r"of (\S+) moments", said[0])[1].replace(",", ""))
    assert kept == [2 * -(-whole // 2 // number)] * number
    assert "below 1e-12" in said[0]
    if number > 2:
        waiting.end()


@pytest.mark.skipif(torch.__version__ < "2.7", reason="fully_shard on CPUs needs 2.7")
def test_an_optimizer_of_old_parameters_moves_nothing(tmp_path):
    path = tmp_path / "spotted.py"
    path.write_text(written("spotted.py") + "\n\ncompare_with_one(share)\n")
    with pytest.raises(RuntimeError, match="not the steps of one process"):
        two_processes().run(path)
    line = "    optimizer = adam(objective.parameters(), rate=1e-3)\n"
    mended = (
        path.read_text().replace(line, "").replace("    return", f"{line}    return")
    )
    path.write_text(mended)
    assert "below 1e-12" in two_processes().run(path)[0]
