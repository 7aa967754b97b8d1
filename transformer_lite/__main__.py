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
    # By default a thread looks 300,000 times whether it has work before it sleeps.
    # Beside other work it thus keeps a core from the thread it waits for, and a run
    # hardly moves. 10,000 times keep the speed that a run has on an idle machine.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # read when PyTorch is loaded
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
