"""One lesson under every head count, with a mask and without, and one layer or two: how far each setting gets."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from attention.trained.config import TrainConfig
from attention.trained.lessons import LESSONS
from attention.trained.measuring import accuracy, fresh
from attention.trained.task import Batch, Task
from attention.trained.training import Diverged, train

HEADS: Final = (1, 2, 4, 8)
LAYERS: Final = (1, 2)
CAUSAL: Final = (False, True)
EVERY: Final = 10  # steps from one item to the next


@dataclass(frozen=True, kw_only=True)
class SweepConfig:
    """What is swept: a task's lesson, from a seed, with or without a feed-forward network. It keys every sweep.

    Raises:
        ValueError: as `TrainConfig`.

    Example:
        >>> [(cell.layers, cell.heads, cell.causal) for cell in SweepConfig(task="repeat").cells[:3]]
        [(2, 4, True), (1, 4, True), (1, 1, False)]
    """

    task: str
    seed: int = 0
    feed_forward: bool = False

    def __post_init__(self) -> None:
        TrainConfig(task=self.task, seed=self.seed, feed_forward=self.feed_forward)

    @property
    def cells(self) -> tuple[TrainConfig, ...]:
        """The runs, in their order: what the lesson works with, what it fails with, then the others, small ones first.

        But for layers, heads and mask all of them are the lesson's.
        """
        lesson = LESSONS[self.task]
        first = [self._of(config) for config in (lesson.works, lesson.fails) if config]
        others = (
            self._of(replace(lesson.works, layers=layers, heads=heads, causal=causal))
            for layers, heads, causal in product(LAYERS, HEADS, CAUSAL)
        )
        return tuple(dict.fromkeys((*first, *others)))

    def _of(self, config: TrainConfig) -> TrainConfig:
        return replace(config, seed=self.seed, feed_forward=self.feed_forward)


@dataclass(frozen=True, slots=True)
class Swept:
    """Where a sweep is: at a step of the run of one cell.

    `accuracy` is there once that run is over, on fresh sequences; `diverged` says why it ended without one.
    """

    cell: TrainConfig
    step: int
    accuracy: float | None = None
    diverged: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of this cell."""
        return self.accuracy is not None or bool(self.diverged)


def asks_for_the_next(task: Task) -> bool:
    """Whether the right answer is always the next token: without a mask it can be looked at, and nothing is learnt."""
    batch = fresh(task)
    following = batch.tokens.roll(-1, dims=1)
    return bool((batch.targets == following)[batch.counted].all())


def sweep(config: SweepConfig) -> Iterator[Swept]:
    """Train every cell, one after the other, and say every few steps where it is; no model is kept.

    Nothing is computed between two items: who stops asking stops the sweep. A run that diverges ends its own cell only.
    """
    batch = fresh(LESSONS[config.task].works.learns)
    for cell in config.cells:
        yield from _run(cell, batch)


def _run(cell: TrainConfig, batch: Batch) -> Iterator[Swept]:
    """The items of one cell."""
    try:
        for progress in train(cell, checkpoint_every=cell.steps):
            if progress.step == cell.steps and progress.checkpoint:
                yield Swept(cell, progress.step, accuracy(progress.checkpoint.model, batch))
            elif progress.step % EVERY == 0:
                yield Swept(cell, progress.step)
    except Diverged as fault:
        yield Swept(cell, fault.step, diverged=str(fault))
