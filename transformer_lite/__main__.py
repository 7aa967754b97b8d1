"""The command line as `python -m transformer_lite`, which torchrun needs.

Paper: §5
Chapter: the_multi_gpu_trainer
Tests: tests/test_main.py
"""

import os


def main() -> None:
    """Run the command line."""
    # By default a thread looks 300,000 times whether it has work before it sleeps.
    # Beside other work it thus keeps a core from the thread it waits for, and a run
    # hardly moves. 10,000 times keep the speed that a run has on an idle machine.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # read when PyTorch is loaded
    from transformer_lite import cli

    cli.main()


if __name__ == "__main__":
    main()
