"""The command line, also as `python -m transformer_lite`, which torchrun needs.

Paper: §5
Chapter: the_multi_gpu_trainer
Tests: tests/test_cli.py
"""

import signal
from importlib import import_module


def main() -> None:
    """Run the command line; Ctrl-C ends it quietly even while it is still loading."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from transformer_lite import cli

    verb = cli.parse()
    import_module("torch")  # takes seconds

    signal.signal(signal.SIGINT, handler)
    cli.run(verb)


if __name__ == "__main__":
    main()
