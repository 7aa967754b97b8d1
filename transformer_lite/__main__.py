"""The command line, also as `python -m transformer_lite`, which torchrun needs.

Paper: §5
Chapter: the_multi_gpu_trainer
Tests: tests/test_main.py, tests/test_cli.py
"""

import os
import signal
from importlib import import_module


def main() -> None:
    """Run the command line; Ctrl-C ends it quietly even while it is still loading."""
    # By default the threads of a run spin while they wait for each other. Beside other
    # work they thus keep the cores from those they wait for, and a run hardly moves.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when PyTorch is loaded
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from transformer_lite import cli

    verb = cli.parse()
    import_module("torch")  # takes seconds

    signal.signal(signal.SIGINT, handler)
    cli.perform(verb)


if __name__ == "__main__":
    main()
