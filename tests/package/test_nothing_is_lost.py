"""No verb changes or removes what was there, but for what it says that it writes."""

import os
import shutil
from contextlib import suppress
from itertools import product

import pytest
from command_line import recipe_in, run, write

from transformer_lite.cli import find_verbs
from transformer_lite.runs.folder import RunFolder

pytestmark = pytest.mark.usefixtures("types_unchecked")

COMMANDS = {
    "prepare toy --out {x}": (),
    "prepare-files --source en --target en --vocab-size 40 --train text text"
    " --valid text text --out {x}": (),
    "prepare-files --source en --target en --vocab-size 40 --train {x} {x}"
    " --valid text text --out new": (),
    "prepare-trees --vocab-size 40 --train trees --valid trees --out {x}": (),
    "prepare-trees --vocab-size 40 --train {x} --valid trees --out new": (),
    "train recipe.toml --out {x}": (),
    "train recipe.toml --data {x} --out new": (),
    "train {x} --out new": (),
    "average {x} --last 1": ("run/checkpoints/average.safetensors",),
    "translate run text --out {x}": ("old", "other/notes"),
    "translate {x} text --out new": (),
    "evaluate run --json {x}": ("old", "other/notes", "text"),
    "evaluate run --translations {x}": ("old", "other/notes", "text"),
    "evaluate run --translations {x} --json {x}": (),
    "evaluate run --data {x} --json new": (),
    "evaluate {x} --json new": (),
    "page run --out {x}": (),
    "page {x} --out new": (),
    "exercise {x}": (),
    "grade {x}": (),
    "train-parts {x} --train.max-steps 1": (),
}
"""A command with what its argument may point at, and which files it may replace."""

THROUGH_A_PIPE = [
    "train {x} --out new",
    "translate run text --out {x}",
    "evaluate run --json {x}",
    "evaluate run --translations {x}",
    "evaluate run --translations {x} --json {x}",
]

PLACES = [
    *("data", "data/valid.tgt.txt", "data/tokenizer.model", "link_to_data"),
    *("run", "run/config.json", "run/checkpoints/average.safetensors", "stripped"),
    *("text", "link_to_text", "other", "other/notes", "old", "link_to_old"),
    *("pipe", "dangling", "."),
]


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A prepared corpus, runs, text, and what belongs to other programs."""
    folder = tmp_path_factory.mktemp("template")
    before = os.getcwd()
    os.chdir(folder)
    try:
        write(folder / "text", [f"the dog {number}" for number in range(40)])
        write(folder / "trees", [f"(S (NN dog) (CD {n}))" for n in range(40)])
        run(
            *"prepare-files --source en --target en --vocab-size 30".split(),
            *"--train text text --valid text text --test text text --out data".split(),
        )
        run("train", recipe_in(folder, "data"), "--out", "run")
    finally:
        os.chdir(before)
    shutil.copytree(folder / "run", folder / "stripped")
    for path in RunFolder(folder / "stripped").checkpoints.glob("step-*"):
        path.unlink()  # to save space, as in the models that are published
    (folder / "other").mkdir()
    for name in ("other/notes", "old", "old.partial.txt"):
        write(folder / name, [f"belongs to the user: {name}"])
    return folder


@pytest.fixture
def world(template, tmp_path, monkeypatch):
    """A copy of it, with links and a pipe."""
    world = shutil.copytree(template, tmp_path / "world")
    for name in ("data", "text", "old", "nothing"):
        link = "dangling" if name == "nothing" else f"link_to_{name}"
        (world / link).symlink_to(name)
    os.mkfifo(world / "pipe")
    monkeypatch.chdir(world)
    return world


def state_of(path):
    """What must not change."""
    if path.is_symlink():
        return os.readlink(path)
    return path.read_bytes() if path.is_file() else path.lstat().st_mode


def test_every_verb_is_tried():
    assert {command.split()[0] for command in COMMANDS} == {*find_verbs()}


@pytest.mark.parametrize(("command", "place"), [*product(COMMANDS, PLACES)])
def test_what_was_there_is_there(world, command, place):
    if place == "pipe" and command in THROUGH_A_PIPE:
        return  # it would wait for the other side
    before = {path: state_of(path) for path in world.rglob("*")}
    with suppress(SystemExit):
        run(*command.format(x=place).split())
    for name in COMMANDS[command]:
        del before[world / name]
    lost = [
        path
        for path, state in before.items()
        if not os.path.lexists(path) or state_of(path) != state
    ]
    assert lost == []
