"""Call the verbs of the command line, and settings for runs of seconds."""

import pytest

from transformer_lite.cli import main

SETTINGS = """
data = "{data}"

[model]
num_layers = 1
d_model = 32
d_ff = 64
num_heads = 2
dropout = 0.0
max_len = 64

[train]
batch_tokens = 400
max_steps = {steps}
warmup_steps = 100
checkpoint_every = 20
validate_every = {steps}
average_checkpoints = 3
precision = "fp32"

[search]
max_extra = 10
"""


def run(*arguments):
    main([str(argument) for argument in arguments])


def ends(*arguments):
    """The exit status of a command."""
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    return caught.value.code


def fails(capsys, *arguments):
    """What a command says that ends with one line of error."""
    capsys.readouterr()
    assert ends(*arguments) == 2
    said = capsys.readouterr().err
    assert said.splitlines()[-1].startswith(f"transformer-lite {arguments[0]}: error: ")
    return said


def write(path, lines):
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def recipe_in(folder, data, steps=2):
    return write(folder / "recipe.toml", [SETTINGS.format(data=data, steps=steps)])
