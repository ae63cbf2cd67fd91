"""One lesson a task: what works, and the one change with which it does not."""

from dataclasses import dataclass, replace
from typing import Any, Final

from attention.trained.config import TrainConfig


@dataclass(frozen=True)
class Lesson:
    """A config that learns its task, to an accuracy that is promised, and the change that keeps it from learning.

    `fails` is None where there is none; `reaches` is what `works` reaches at the least, and `stays_under` what
    `fails` does not get to in as many steps.
    """

    works: TrainConfig
    reaches: float
    fails: TrainConfig | None = None
    stays_under: float = 0.0


def _lesson(reaches: float, stays_under: float, change: dict[str, Any], **settings: Any) -> Lesson:
    works = TrainConfig(**settings)
    return Lesson(works, reaches, replace(works, **change) if change else None, stays_under)


LESSONS: Final[dict[str, Lesson]] = {
    lesson.works.task: lesson
    for lesson in (
        _lesson(0.99, 0.0, {}, task="previous", causal=True, steps=100),
        _lesson(0.99, 0.65, {"causal": True}, task="reverse", steps=120),
        _lesson(0.99, 0.4, {"layers": 1}, task="repeat", layers=2, heads=4, causal=True, steps=300),
        _lesson(0.99, 0.65, {"causal": True}, task="sort", steps=350),
        _lesson(0.97, 0.6, {"heads": 1}, task="two keys", heads=2, steps=600),
        _lesson(0.98, 0.0, {}, task="brackets", layers=2, causal=True, steps=300),
        _lesson(
            0.98, 0.9, {"layers": 1}, task="agreement", layers=2, heads=2, causal=True, feed_forward=True, steps=300
        ),
    )
}
