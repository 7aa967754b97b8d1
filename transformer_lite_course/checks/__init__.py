"""What must hold of each part that a reader writes.

A check takes the reader's module and raises a `Fault` with one sentence.

Paper: §3, 5.1, 5.3–5.4, 6.1
Chapter: 03_model_architecture
Tests: tests/course/test_checks.py
"""

from collections.abc import Callable
from types import ModuleType

from transformer_lite_course.checks.attention import (
    check_attention,
    check_heads,
    check_masks,
)
from transformer_lite_course.checks.learning import (
    check_batching,
    check_loss,
    check_schedule,
)
from transformer_lite_course.checks.network import (
    check_embeddings,
    check_layers,
    check_model,
    check_positions,
)
from transformer_lite_course.checks.search import check_search

CHECKS: dict[str, Callable[[ModuleType], None]] = {
    "attention": check_attention,
    "masks": check_masks,
    "heads": check_heads,
    "layers": check_layers,
    "embeddings": check_embeddings,
    "positions": check_positions,
    "model": check_model,
    "loss": check_loss,
    "schedule": check_schedule,
    "batching": check_batching,
    "search": check_search,
}
"""By the names of the parts."""
