"""The sweeps of this process, which all visitors share, and what is known of one.

They wait in the one queue with the trainings, so that both together are never more than the machine has cores. A
visitor may want one sweep and one training at the same time. A sweep takes minutes: after a turn it lets those go first
that wait. Of a sweep only numbers are kept, so many can be, and none of them pushes out a training with its models.
"""

from collections.abc import Iterable
from typing import Final

from attention.trained import SweepConfig, Swept, TrainConfig, sweep
from dashboard.runs import Runs
from dashboard.training import TURNS

LONGEST: Final = 600.0  # seconds of a core; the longest, "two keys", takes 200
TURN: Final = 10.0  # seconds
SWEEPS: Final[Runs[SweepConfig, Swept]] = Runs(sweep, TURNS, kept=64, longest=LONGEST, turn=TURN)


def of(config: TrainConfig) -> SweepConfig:
    """The sweep in which a training is a cell, if its layers and heads are among those that are swept."""
    return SweepConfig(task=config.task, seed=config.seed, feed_forward=config.feed_forward)


def latest(events: Iterable[Swept]) -> dict[TrainConfig, Swept]:
    """How far each cell is that has begun, in the order in which they did."""
    return {event.cell: event for event in events}


def ended(found: dict[TrainConfig, Swept]) -> list[Swept]:
    """The cells that are over."""
    return [one for one in found.values() if one.is_over]


def share(config: SweepConfig, found: dict[TrainConfig, Swept]) -> float:
    """How much of a sweep is done, 0 to 1, a step of two layers counted as two."""
    whole = sum(cell.layers * cell.steps for cell in config.cells)
    done = sum(one.cell.layers * (one.cell.steps if one.is_over else one.step) for one in found.values())
    return done / whole
