"""The command line as `python -m transformer_lite`, which torchrun needs.

Paper: §5
Chapter: the_multi_gpu_trainer
Tests: tests/package/test_main.py
"""

import os
import signal


def main() -> None:
    """Run the command line."""
    # By default an OpenMP thread without work spins 300,000 times before it sleeps. On
    # a busy machine it then occupies the core that the thread it waits for needs, and
    # a run nearly stops. On an idle machine, 10,000 times are as fast.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # read when PyTorch is loaded
    # Nothing is begun yet: until the command line takes over, Ctrl-C ends the process
    # without a traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from transformer_lite import cli

    cli.main()


if __name__ == "__main__":
    main()
