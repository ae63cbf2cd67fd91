"""What is trained, as one frozen, validated value; it keys every run."""

import math
from dataclasses import dataclass
from typing import Final

from attention.config import MAX_SEED, check_whole
from attention.trained.task import Task
from attention.trained.tasks import TASKS

MAX_LAYERS: Final = 4
MAX_HEADS: Final = 8
MAX_WIDTH: Final = 128
MAX_STEPS: Final = 5000
MAX_BATCH: Final = 256
MAX_LEARNING_RATE: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training run. The same config gives the same run, to the last bit on the same machine.

    `width` is that of the embeddings; the feed-forward network, where there is one, is twice as wide inside.

    Raises:
        ValueError: there is no such task, or a number is outside its limits, or the width does not divide by the
            heads; the message carries the numbers.

    Example:
        >>> TrainConfig(task="repeat", layers=2, heads=4).head_dim
        16
    """

    task: str
    layers: int = 1
    heads: int = 1
    causal: bool = False
    feed_forward: bool = False
    width: int = 64
    seed: int = 0
    steps: int = 300
    batch_size: int = 64
    learning_rate: float = 3e-3

    def __post_init__(self) -> None:
        if not isinstance(self.task, str) or self.task not in TASKS:
            raise ValueError(f"task is {self.task!r}; it must be one of {', '.join(TASKS)}.")
        check_whole("layers", self.layers, 1, MAX_LAYERS)
        check_whole("heads", self.heads, 1, MAX_HEADS)
        check_whole("width", self.width, 1, MAX_WIDTH)
        check_whole("seed", self.seed, 0, MAX_SEED)
        check_whole("steps", self.steps, 1, MAX_STEPS)
        check_whole("batch_size", self.batch_size, 1, MAX_BATCH)
        for name in ("causal", "feed_forward"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be True or False.")
        rate = self.learning_rate
        if not isinstance(rate, float) or not math.isfinite(rate) or not 0 < rate <= MAX_LEARNING_RATE:
            raise ValueError(f"learning_rate is {rate!r}; it must be a number over 0, up to {MAX_LEARNING_RATE}.")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} does not divide into {self.heads} heads.")

    @property
    def head_dim(self) -> int:
        """D, the width of one head."""
        return self.width // self.heads

    @property
    def learns(self) -> Task:
        """The task itself."""
        return TASKS[self.task]
