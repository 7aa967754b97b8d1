"""`python -m transformer_lite`, as torchrun needs it.

Paper: §5
Chapter: the_multi_gpu_trainer
Tests: tests/test_cli.py
"""

from transformer_lite.cli import main

main()
