"""The memory of a step of the paper's models, predicted and as PyTorch's tracker finds.

python -m results.step_memory
"""

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

from results.provenance import conditions, require_clean
from results.storage import write_json
from transformer_lite.config import BASE, BIG, ModelConfig
from transformer_lite.model import Transformer
from transformer_lite.optimizer import adam
from transformer_lite.precision import Precision
from transformer_lite.training.memory import step_memory
from transformer_lite.training.step import Objective
from transformer_lite_book.recordings import STEP_MEMORY

SENTENCES, LENGTH = 25, 125
"""3,125 tokens on either side: a GPU's share of the paper's step."""


def tracked(
    config: ModelConfig,
    sentences: int = SENTENCES,
    length: int = LENGTH,
    precision: Precision = "fp32",
) -> dict[str, int]:
    """Return the bytes at the peak of a step of two batches on a CPU, by kind."""
    tracker = MemTracker()
    with FakeTensorMode():  # where tensors have a shape and no numbers
        objective = Objective(Transformer(config), 0.1, precision)
        optimizer = adam(objective.parameters(), 1.0)
        ids = torch.ones(sentences, length, dtype=torch.long)
        real = torch.zeros(sentences * length, dtype=torch.long)
        tracker.track_external(objective, optimizer)
        with tracker:
            for _ in range(2):  # in the second step there are moments
                for _ in range(2):
                    tracker.reset_mod_stats()
                    objective(ids, ids, ids, real).loss.backward()
                optimizer.step()
                optimizer.zero_grad()
    (found,) = tracker.get_tracker_snapshot("peak").values()
    return {str(kind).rpartition(".")[2]: size for kind, size in found.items()}


def main() -> None:
    """Write what is predicted and what is found, with the commit."""
    made = {"commit": require_clean(), "conditions": conditions()}
    models: dict[str, Any] = {}
    for name, config in (("base", BASE), ("big", BIG)):
        with torch.device("meta"):
            model = Transformer(config)
        predicted = step_memory(model, SENTENCES * LENGTH)
        models[name] = {"predicted": predicted._asdict(), "tracked": tracked(config)}
        print(name, models[name], flush=True)
    write_json(STEP_MEMORY, {"made": made, "models": models})


if __name__ == "__main__":
    main()
