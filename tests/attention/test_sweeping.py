"""A sweep: which cells, in which order, each exactly the run of its own; one that diverges; one that is stopped."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from attention.trained import (
    LESSONS,
    Diverged,
    Lesson,
    Progress,
    SweepConfig,
    Swept,
    TrainConfig,
    accuracy,
    fresh,
    sweep,
    sweeping,
    train,
)
from attention.trained.sweeping import asks_for_the_next
from attention.trained.training import finished

STEPS = 12
SMALL = TrainConfig(task="previous", causal=True, heads=2, width=16, batch_size=8, steps=STEPS)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> SweepConfig:
    """A sweep of a lesson that takes a second."""
    monkeypatch.setitem(LESSONS, "previous", Lesson(SMALL, 0.1, replace(SMALL, causal=False)))
    return SweepConfig(task="previous", seed=3)


def over(config: SweepConfig, cells: int = 5) -> list[Swept]:
    """What became of the first cells."""
    return list(islice((item for item in sweep(config) if item.is_over), cells))


@pytest.mark.parametrize("task", LESSONS)
def test_the_cells_are_the_whole_grid_the_lesson_first(task: str) -> None:
    lesson = LESSONS[task]
    cells = SweepConfig(task=task, feed_forward=lesson.works.feed_forward).cells
    assert cells[0] == lesson.works
    assert not lesson.fails or cells[1] == lesson.fails
    assert len(cells) == len(set(cells)) == 16
    assert {(cell.layers, cell.heads, cell.causal) for cell in cells} == {
        (layers, heads, causal) for layers in (1, 2) for heads in (1, 2, 4, 8) for causal in (False, True)
    }
    assert {replace(cell, layers=1, heads=1, causal=False) for cell in cells} == {
        replace(lesson.works, layers=1, heads=1, causal=False)
    }
    others = [cell.layers for cell in cells[2:]]
    assert others == sorted(others), "small ones first"


def test_every_cell_has_the_seed_and_the_feed_forward_network() -> None:
    cells = SweepConfig(task="repeat", seed=7, feed_forward=True).cells
    assert {(cell.seed, cell.feed_forward) for cell in cells} == {(7, True)}
    assert len(cells) == 16


@pytest.mark.parametrize("settings", [{"task": "juggle"}, {"task": "sort", "seed": -1}])
def test_what_no_run_could_be_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        SweepConfig(**settings)


def test_a_cell_is_exactly_the_run_of_its_own(small: SweepConfig) -> None:
    items = list(sweep(small))
    assert [item.step for item in items] == [0, 10, STEPS] * 16
    ends = [item for item in items if item.is_over]
    assert [item.cell for item in ends] == list(small.cells)
    batch = fresh(SMALL.learns)
    for item in (ends[0], ends[1], ends[-1]):
        assert item.accuracy == accuracy(finished(item.cell), batch)
    assert len({item.accuracy for item in ends}) > 8, "they are not all the same run"


def test_a_sweep_that_was_stopped_goes_on_as_if_it_had_not(small: SweepConfig) -> None:
    whole = list(islice(sweep(small), 10))
    steps = sweep(small)
    before = list(islice(steps, 7))
    list(islice(sweep(replace(small, seed=4)), 5))  # somebody else's, meanwhile
    assert [*before, *islice(steps, 3)] == whole


def test_a_cell_that_diverges_says_so_and_the_others_go_on(small: SweepConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    worse = small.cells[2]

    def sometimes(cell: TrainConfig, **more: Any) -> Iterator[Progress]:
        for progress in train(cell, **more):
            if cell == worse and progress.step == 7:
                raise Diverged(cell, 7, 99.0)
            yield progress

    expected = over(small)
    monkeypatch.setattr(sweeping, "train", sometimes)
    found = over(small)
    assert found[2] == Swept(worse, 7, None, str(Diverged(worse, 7, 99.0)))
    assert "diverged at step 7" in found[2].diverged
    assert [*found[:2], *found[3:]] == [*expected[:2], *expected[3:]]


def test_one_task_asks_for_what_can_be_looked_at_without_a_mask() -> None:
    assert [task for task, lesson in LESSONS.items() if asks_for_the_next(lesson.works.learns)] == ["repeat"]
