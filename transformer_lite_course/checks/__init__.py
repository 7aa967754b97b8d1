"""What must hold of each part that a reader writes.

A check takes the reader's module and raises a `MistakeError` with one sentence.

Paper: §3, 5.1, 5.3–5.4, 6.1
Chapter: 03_model_architecture
Tests: tests/course/test_checks.py
"""

from collections.abc import Callable
from types import ModuleType

from transformer_lite_course.checks import attention, learning, network, search

CHECKS: dict[str, Callable[[ModuleType], None]] = {
    "attention": attention.check_attention,
    "masks": attention.check_masks,
    "heads": attention.check_heads,
    "layers": network.check_layers,
    "embeddings": network.check_embeddings,
    "positions": network.check_positions,
    "model": network.check_model,
    "loss": learning.check_loss,
    "schedule": learning.check_schedule,
    "batching": learning.check_batching,
    "search": search.check_search,
}
"""By the names of the parts."""
