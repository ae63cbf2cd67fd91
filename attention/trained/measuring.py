"""What a trained model does on sequences that it has not seen: its accuracy, and where each head looks."""

from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

from attention import sample
from attention.trained.model import Model
from attention.trained.task import Batch, Task

FRESH: Final = 512


def fresh(task: Task, size: int = FRESH, seed: int = 0) -> Batch:
    """Sequences of a task from a generator that no training draws from."""
    return task.batch(sample.generator("fresh", seed), size)


@torch.no_grad()
def accuracy(model: Model, batch: Batch) -> float:
    """The share of the counted positions whose largest logit is the right one's."""
    guessed = model.run(batch.tokens).logits.argmax(dim=-1)
    return (guessed == batch.targets)[batch.counted].double().mean().item()


def knocked_out(model: Model, batch: Batch) -> Float[Tensor, "L H"]:
    """The accuracy without each head, one at a time, by layer and head."""
    heads = range(model.config.heads)
    return torch.tensor(
        [[accuracy(model.without_head(layer, head), batch) for head in heads] for layer in range(model.config.layers)]
    )


@torch.no_grad()
def on_pattern(model: Model, batch: Batch, pattern: str) -> Float[Tensor, "L H"]:
    """The mean weight that each head puts on the key a pattern names, over the queries for which it names one.

    Raises:
        ValueError: the task has no such pattern; the message lists those that it has.
    """
    if pattern not in batch.keys:
        raise ValueError(f"{pattern!r} is no pattern of {model.config.task}: {', '.join(batch.keys)}.")
    keys = batch.keys[pattern]
    named, column = keys >= 0, keys.clamp(min=0)
    found = []
    for attention in model.run(batch.tokens).attention:
        weights = attention.weights  # (B, H, T, S)
        cells = weights.gather(3, column[:, None, :, None].expand(*weights.shape[:3], 1))[..., 0]
        found.append(cells.transpose(0, 1)[:, named].mean(dim=1))
    return torch.stack(found)
