"""The command line, also as `python -m transformer_lite`, which torchrun needs.

Paper: §5
Chapter: the_multi_gpu_trainer
Tests: tests/test_main.py, tests/test_cli.py
"""

import os
import signal


def main() -> None:
    """Run the command line; Ctrl-C ends it quietly even while it is still loading."""
    # By default the threads of a run spin while they wait for each other. Beside other
    # work they thus keep the cores from those they wait for, and a run hardly moves.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when PyTorch is loaded
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from transformer_lite import cli  # takes seconds, for it imports PyTorch

    signal.signal(signal.SIGINT, handler)
    cli.main()


if __name__ == "__main__":
    main()
