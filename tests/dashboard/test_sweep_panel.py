"""The sweep on the page that trains: the grid fills in, is kept for the next visitor, and sets up what is clicked."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import streamlit as st

from attention.trained import SweepConfig, Swept
from dashboard import cached, sweep_panel, sweeping, training
from dashboard.runs import Runs, Status, Turns
from tests.dashboard.helpers import Reader

REPEAT = SweepConfig(task="repeat")
DIVERGED = 3  # the cell that does


class World:
    """Sweeps whose work begins when a test says so, at whose cells it may do something; the clock stands."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.used = 0.0
        self.works: list[Callable[[], None]] = []
        self.at_cell: dict[int, Callable[[], object]] = {}
        self.faults: list[AssertionError] = []
        turns, clock = Turns(1, self.works.append), lambda: self.now
        monkeypatch.setattr(training, "RUNS", Runs(self.trains, turns, clock=clock))
        rules: dict[str, Any] = {"longest": sweeping.LONGEST, "clock": clock, "cpu": lambda: self.used}
        monkeypatch.setattr(sweeping, "SWEEPS", Runs(self.sweeps, turns, **rules))

    def trains(self, take: training.Take) -> Iterator[training.Moment]:
        """A short training."""
        for step in range(3):
            yield training.Moment(step, 1.0, 0.5, None)

    def sweeps(self, config: SweepConfig) -> Iterator[Swept]:
        """A sweep whose cells are right in 1/16, 2/16 and so on; one diverges."""
        for number, cell in enumerate(config.cells):
            yield Swept(cell, 0)
            try:
                self.at_cell.get(number, lambda: None)()
            except AssertionError as fault:  # a run would only be said to have failed
                self.faults.append(fault)
            if number == DIVERGED:
                yield Swept(cell, 20, diverged="the training diverged at step 20")
            else:
                yield Swept(cell, cell.steps, (number + 1) / 16)

    def work(self) -> None:
        """Let the first of those that are to run do so, until it ends or stops."""
        self.works.pop(0)()
        for fault in self.faults:
            raise fault


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def opened(**more: str) -> Reader:
    reader = Reader("train", **more)
    assert reader.faults == []
    return reader


def cells(reader: Reader) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = reader.grids["sweep"]["cells"]
    return found


def shares(reader: Reader) -> list[float | None]:
    """The numbers that the grid shows, in the order in which they are found."""
    return [cell["share"] for cell in cells(reader)]


def says(reader: Reader, text: str) -> bool:
    return any(text in said for said in reader.said)


def expected(count: int = 16) -> list[float | None]:
    known = [None if number == DIVERGED else (number + 1) / 16 for number in range(count)]
    return [*known, *[None] * (16 - count)]


def test_before_anybody_asks_every_cell_is_empty(world: World) -> None:
    reader = opened(task="repeat")
    assert shares(reader) == [None] * 16
    assert {cell["text"] for cell in cells(reader)} == {""}
    assert all(cell["says"].endswith(": not trained yet") for cell in cells(reader))
    assert says(reader, "not swept")
    assert not world.works
    assert [cell["name"] for cell in cells(reader) if cell["isSet"]] == ["2-4-causal"]


def test_the_grid_has_every_cell_where_its_heads_and_layers_are(world: World) -> None:
    no_mask, causal = opened(task="repeat").grids["sweep"]["tables"]
    assert no_mask == {
        "title": "no mask",
        "columns": ["1 head", "2 heads", "4 heads", "8 heads"],
        "rows": [
            {"title": "1 layer", "cells": ["1-1-full", "1-2-full", "1-4-full", "1-8-full"]},
            {"title": "2 layers", "cells": ["2-1-full", "2-2-full", "2-4-full", "2-8-full"]},
        ],
    }
    assert causal["title"] == "causal"
    assert causal["rows"][1]["cells"] == ["2-1-causal", "2-2-causal", "2-4-causal", "2-8-causal"]
    assert {cell["name"] for cell in cells(opened())} == {
        name for table in (no_mask, causal) for row in table["rows"] for name in row["cells"]
    }


def test_it_fills_in_and_is_kept_for_the_next_visitor(world: World) -> None:
    reader = opened(task="repeat").press_key("sweep_go")
    assert "sweep_stop" in reader.keyed

    def look() -> None:
        reader.rerun()
        assert shares(reader) == expected(5)
        assert cells(reader)[5]["text"] == "…"
        assert cells(reader)[5]["says"] == "1 layer, 2 heads, causal: step 0 of 300"
        assert says(reader, "**5 of 16** settings trained; now 1 layer, 2 heads, causal")
        (bar,) = reader.app.get("progress")
        done = sum(cell.layers for cell in REPEAT.cells[:5]) / sum(cell.layers for cell in REPEAT.cells)
        assert bar.proto.value == int(done * 100)

    world.at_cell[5] = look
    world.work()
    for visitor in (reader.rerun(), opened(task="repeat", train_layers="1")):
        assert shares(visitor) == expected()
        assert cells(visitor)[0]["text"] == "6.2%"
        assert cells(visitor)[DIVERGED]["text"] == "diverged"
        assert "diverged at step 20" in cells(visitor)[DIVERGED]["says"]
        assert says(visitor, ":green-badge[:material/check_circle: swept] **16 of 16** settings trained")
        assert says(visitor, "At best **100.0%** of fresh positions are right: 2 layers, 8 heads, causal.")
        assert says(visitor, "At worst **6.2%**: 2 layers, 4 heads, causal. 2 of 16 get 90% or more.")
        assert says(visitor, "Diverged: 1 layer, 1 head, causal.")
        assert not {"sweep_go", "sweep_stop"} & set(visitor.keyed)
        assert not visitor.app.get("progress")
    assert shares(opened(task="sort")) == [None] * 16, "another task's"
    assert shares(opened(task="repeat", train_seed="1")) == [None] * 16
    assert not world.works


def test_who_comes_while_it_runs_sees_it_fill_in_and_may_want_it_too(world: World) -> None:
    first = opened(task="repeat").press_key("sweep_go")
    seen: list[list[float | None]] = []

    def come() -> None:
        second = opened(task="repeat")
        assert says(second, "Somebody else has asked for it")
        assert second.keyed["sweep_go"].label == "Keep it going"
        seen.append(shares(second))
        second.press_key("sweep_go")
        assert "sweep_stop" in second.keyed
        assert not says(second, "Somebody else")
        first.press_key("sweep_stop")

    world.at_cell[2] = come
    world.work()
    assert seen == [expected(2)]
    assert shares(first.rerun()) == expected(), "the second wanted it still"


def test_stop_and_go_on(world: World) -> None:
    reader = opened(task="repeat").press_key("sweep_go")
    world.at_cell[2] = lambda: reader.press_key("sweep_stop")
    world.work()
    assert shares(reader.rerun()) == expected(3)
    assert says(reader, ":orange-badge[:material/pause_circle: stopped] **3 of 16** settings trained.")
    assert reader.keyed["sweep_go"].label == "Go on"
    reader.press_key("sweep_go")
    world.work()
    assert shares(reader.rerun()) == expected()


def test_who_leaves_the_page_stops_what_only_they_wanted(world: World) -> None:
    reader = opened(task="repeat").press_key("sweep_go")

    def leave() -> None:
        reader.open("heads")
        world.now += 6

    world.at_cell[2] = leave
    world.work()
    found = sweeping.SWEEPS.look(REPEAT, "a passer-by")
    assert found is not None
    assert found.status is Status.STOPPED
    assert len(found.events) == 6
    reader.open("train").set("task", "repeat")
    assert reader.keyed["sweep_go"].label == "Go on"


def test_trainings_and_sweeps_wait_in_one_queue_and_one_visitor_may_want_one_of_each(world: World) -> None:
    reader = opened(task="repeat").press_key("train_go").press_key("sweep_go")
    assert len(world.works) == 1
    assert {"train_stop", "sweep_stop"} <= set(reader.keyed)
    assert says(reader, ":orange-badge[:material/hourglass_top: waiting] Number 1 in the queue; **0 of 16**")
    world.work()
    world.work()
    assert shares(reader.rerun()) == expected()
    assert says(reader, "not learnt] **50.0%**")


def test_the_real_ones_share_their_turns_and_a_sweep_has_more_time() -> None:
    assert sweeping.SWEEPS._turns is training.RUNS._turns
    assert sweeping.SWEEPS._turns._give_way is cached.give_way, "who waits for a picture comes first"
    assert sweeping.SWEEPS._rules.longest == sweeping.LONGEST > training.RUNS._rules.longest == 60


def test_a_click_on_a_cell_sets_it_up(world: World) -> None:
    reader = opened(task="repeat", train_feed_forward="true").click("sweep", chosen="1-8-full#1")
    found = [reader.value(key) for key in ("train_layers", "train_heads", "train_causal", "train_feed_forward")]
    assert found == [1, 8, False, True]
    assert [cell["name"] for cell in cells(reader) if cell["isSet"]] == ["1-8-full"]
    assert says(reader, "untrained")
    reader.click("sweep", chosen="7-8-what#2")
    assert reader.faults == []
    assert reader.value("train_heads") == 8, "a cell that is none changes nothing"


@pytest.mark.parametrize(("task", "is_told"), [("repeat", True), ("sort", False)])
def test_a_task_that_is_easy_without_a_mask_is_told(world: World, task: str, is_told: bool) -> None:
    assert any("Without a mask this task is easy" in caption for caption in opened(task=task).captions) == is_told


def test_settings_that_are_no_cell_are_not_marked(world: World) -> None:
    reader = opened(task="repeat", train_layers="3")
    assert not any(cell["isSet"] for cell in cells(reader))
    assert any("the settings above are none of these" in caption for caption in reader.captions)


def test_a_sweep_that_took_too_long_says_so_and_may_begin_anew(world: World) -> None:
    reader = opened(task="repeat").press_key("sweep_go")

    def slow() -> None:
        world.used += sweeping.LONGEST + 1

    world.at_cell[1] = slow
    world.work()
    assert says(
        reader.rerun(), ":red-badge[:material/cancel: failed] It took over 600 s of a core, which is the limit."
    )
    assert shares(reader) == expected(2), "what is known stays"
    world.at_cell.clear()
    assert reader.keyed["sweep_go"].label == "Sweep again"
    reader.press_key("sweep_go")
    world.work()
    assert shares(reader.rerun()) == expected()


def test_it_looks_again_by_itself_only_while_it_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    every: list[float | None] = []
    real = st.fragment

    def fragment(function: Any = None, *, key: str | None = None, run_every: float | None = None) -> Any:
        if key == "sweep_live":
            every.append(run_every)
        return real(function, key=key, run_every=run_every)

    monkeypatch.setattr(st, "fragment", fragment)
    reader = opened(task="repeat")
    assert every == [None]
    reader.press_key("sweep_go")
    assert every[1:] == [sweep_panel.BEAT]
    world.work()
    reader.rerun()
    assert every[-1] is None
