"""Long computations that visitors share: who runs, who waits, what stops, and what goes on."""

import math
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from dashboard.runs import Runs, Status, Turns, View


class World:
    """Runs whose work begins when a test says so, and whose steps call back; the clock stands unless it is moved."""

    def __init__(self, at_once: int = 1, kept: int = 16, longest: float = 60.0, turn: float = math.inf) -> None:
        self.now = 0.0
        self.used = 0.0
        self.works: list[Callable[[], None]] = []
        self.started: list[str] = []
        self.at_step: dict[tuple[str, int], Callable[[], None]] = {}
        self.length = 5
        self.turns = Turns(at_once, self.works.append)
        self.runs = self.of_a_kind(kept=kept, longest=longest, turn=turn)

    def of_a_kind(self, **rules: Any) -> Runs[str, int]:
        """Runs in the same queue, by the same clock."""
        return Runs(self.steps, self.turns, patience=5, clock=lambda: self.now, cpu=lambda: self.used, **rules)

    def steps(self, config: str) -> Iterator[int]:
        """Numbers; before each, whatever a test wants to happen."""
        self.started.append(config)
        for number in range(self.length):
            self.at_step.get((config, number), lambda: None)()
            yield number

    def work(self) -> None:
        """Let the first of those that are to run do so, until it ends or stops."""
        self.works.pop(0)()

    def view(self, config: str = "a", visitor: str = "somebody") -> View[int]:
        """What a visitor sees of a run that there is."""
        found = self.runs.look(config, visitor)
        assert found is not None
        return found


def view(runs: Runs[str, int], config: str) -> View[int]:
    """A run of a kind, as a passer-by sees it."""
    found = runs.look(config, "a passer-by")
    assert found is not None
    return found


def test_a_run_that_nobody_asked_for_is_not_there() -> None:
    assert World().runs.look("a", "somebody") is None


def test_a_run_ends_with_all_its_events() -> None:
    world = World()
    world.runs.join("a", "one")
    assert world.view().status is Status.RUNNING
    world.work()
    assert world.view() == View(Status.DONE, (0, 1, 2, 3, 4))


def test_the_same_run_is_made_once_for_all() -> None:
    world = World()
    world.runs.join("a", "one")
    world.runs.join("a", "two")
    world.work()
    world.runs.join("a", "three")
    assert not world.works
    assert world.started == ["a"]
    assert world.view(visitor="three").events == (0, 1, 2, 3, 4)


def test_others_wait_in_the_order_in_which_they_were_asked_for() -> None:
    world = World()
    for config in "abc":
        world.runs.join(config, f"who wants {config}")
    assert [world.view(config).status for config in "abc"] == [Status.RUNNING, Status.WAITING, Status.WAITING]
    assert [world.view(config).place for config in "abc"] == [0, 1, 2]
    assert len(world.works) == 1
    world.work()
    assert [world.view(config).place for config in "abc"] == [0, 0, 1]
    world.work()
    world.work()
    assert [world.view(config).status for config in "abc"] == [Status.DONE] * 3


def test_as_many_run_at_once_as_may() -> None:
    world = World(at_once=2)
    for config in "abc":
        world.runs.join(config, config)
    assert len(world.works) == 2
    assert world.view("c").place == 1


def test_a_run_stops_when_the_last_who_wanted_it_leaves_and_goes_on_from_there() -> None:
    world = World()
    world.runs.join("a", "one")
    world.runs.join("a", "two")
    world.at_step["a", 1] = lambda: world.runs.leave("a", "one")
    world.at_step["a", 3] = lambda: world.runs.leave("a", "two")
    world.work()
    assert world.view() == View(Status.STOPPED, (0, 1, 2, 3)), "one was not the last"
    world.runs.join("a", "three")
    world.work()
    assert world.view() == View(Status.DONE, (0, 1, 2, 3, 4))
    assert world.started == ["a"], "not from the beginning"


def test_a_run_that_nobody_wants_any_more_is_seen_as_stopped_at_once() -> None:
    world = World()
    world.runs.join("a", "one")
    seen: list[Status] = []

    def leave() -> None:
        world.runs.leave("a", "one")
        seen.append(world.view().status)
        world.runs.join("a", "one")
        seen.append(world.view().status)

    world.at_step["a", 2] = leave
    world.work()
    assert seen == [Status.STOPPED, Status.RUNNING], "and goes on if somebody comes back meanwhile"
    assert world.view().status is Status.DONE


def test_what_is_forgotten_begins_anew_unless_somebody_wants_it() -> None:
    world = World()
    world.runs.join("a", "one")
    world.runs.forget("a")
    assert world.view().status is Status.RUNNING
    world.work()
    world.runs.forget("a")
    assert world.runs.look("a", "one") is None
    world.runs.join("a", "one")
    assert world.started == ["a"], "an iterator does nothing before its first step"
    world.work()
    assert world.started == ["a", "a"]


def test_who_gives_no_sign_of_life_has_left() -> None:
    world = World()
    world.runs.join("a", "one")

    def later() -> None:
        world.now += 4

    def look() -> None:
        later()
        world.view(visitor="one")

    for step in (0, 1, 2):
        world.at_step["a", step] = look
    world.at_step["a", 3] = world.at_step["a", 4] = later
    world.work()
    assert world.view().status is Status.STOPPED
    assert world.view().events == (0, 1, 2, 3, 4)[: len(world.view().events)]
    assert len(world.view().events) == 5, "four seconds are not too long, eight are"


def test_a_look_by_somebody_else_keeps_nothing_going() -> None:
    world = World()
    world.runs.join("a", "one")

    def pass_by() -> None:
        world.now += 6
        world.view(visitor="a passer-by")

    world.at_step["a", 0] = pass_by
    world.work()
    assert world.view().status is Status.STOPPED
    assert world.view().events == (0,)


def test_who_left_the_queue_is_passed_over() -> None:
    world = World()
    for config in "abc":
        world.runs.join(config, config)
    world.runs.leave("b", "b")
    assert world.view("c").place == 1, "nobody wants b any more"
    assert world.view("b").status is Status.STOPPED, "and it has no place"
    world.work()
    assert world.view("b").status is Status.STOPPED
    assert world.view("c").status is Status.RUNNING


def test_a_fault_ends_the_run_and_is_said_and_the_next_has_its_turn() -> None:
    world = World()

    def fail() -> None:
        raise ValueError("the loss is infinite at step 3")

    world.runs.join("a", "one")
    world.runs.join("b", "two")
    world.at_step["a", 3] = fail
    world.work()
    assert world.view() == View(Status.FAILED, (0, 1, 2), message="the loss is infinite at step 3")
    assert world.view("b").status is Status.RUNNING
    world.runs.join("a", "one")
    assert world.view().status is Status.FAILED, "it would fail again"


def test_a_run_that_takes_too_long_is_ended() -> None:
    world = World(longest=10)
    world.runs.join("a", "one")

    def slow() -> None:
        world.now += 5  # of which it had a core for 4
        world.used += 4
        world.view(visitor="one")

    for step in range(5):
        world.at_step["a", step] = slow
    world.work()
    assert world.view().status is Status.FAILED
    assert world.view().events == (0, 1, 2)
    assert world.view().message == "It took over 10 s of a core, which is the limit."
    assert world.view().seconds == 15


def test_time_in_which_others_had_the_core_does_not_count() -> None:
    world = World(longest=10)
    world.runs.join("a", "one")

    def waits() -> None:
        world.now += 4
        world.view(visitor="one")

    for step in range(5):
        world.at_step["a", step] = waits
    world.work()
    assert (world.view().status, world.view().seconds) == (Status.DONE, 20)


def test_the_time_that_a_run_waits_is_not_its_own() -> None:
    world = World()
    world.runs.join("a", "one")
    world.runs.join("b", "two")
    world.now += 3
    world.work()
    world.view("b", "two")
    world.work()
    assert world.view("b").seconds == 0


def test_what_was_asked_for_longest_ago_is_forgotten_but_not_what_runs() -> None:
    world = World(kept=2)
    world.runs.join("a", "one")
    world.work()
    for config in "bcd":
        world.runs.join(config, config)
    assert world.runs.look("a", "one") is None
    assert [world.view(config).status for config in "bcd"] == [Status.RUNNING, Status.WAITING, Status.WAITING]


def test_a_run_that_nobody_waits_for_any_more_can_be_forgotten_and_joined_anew() -> None:
    world = World()
    world.runs.join("a", "one")
    world.runs.join("b", "two")  # waits
    world.runs.leave("b", "two")
    assert world.view("b").status is Status.STOPPED
    world.runs.forget("b")
    assert world.runs.look("b", "two") is None
    world.runs.join("b", "two")
    world.runs.forget("b")
    assert world.view("b", "two").status is Status.WAITING, "somebody waits for it"
    world.view("a", "one")
    world.work()
    world.work()
    assert world.view("b").status is Status.DONE
    assert world.started == ["a", "b"]


def test_one_that_was_passed_over_goes_on_when_it_is_wanted_again() -> None:
    world = World()
    for config, visitor in (("a", "one"), ("b", "two"), ("c", "three")):
        world.runs.join(config, visitor)
    world.runs.leave("b", "two")
    world.work()
    assert [world.view(config).status for config in "bc"] == [Status.STOPPED, Status.RUNNING]
    world.runs.join("b", "two")
    world.work()
    world.work()
    assert world.view("b").status is Status.DONE


def test_those_that_nobody_waits_for_do_not_fill_the_queue() -> None:
    world = World(kept=4)
    world.runs.join("a", "one")
    for seed in range(100):
        world.runs.join(f"seed {seed}", "two")
        world.runs.leave(f"seed {seed}", "two")
    assert len(world.runs._runs) <= 5
    assert len(world.turns._waiting) <= 1


@pytest.mark.parametrize("broken", ["thin", "give_way"])
def test_a_fault_of_the_machinery_ends_its_run_and_no_other(broken: str) -> None:
    world = World()

    def fail(*_given: object) -> Any:
        raise MemoryError("no room")

    if broken == "give_way":
        world.turns._give_way = fail
    some = world.of_a_kind(thin=fail) if broken == "thin" else world.runs
    some.join("a", "one")
    world.runs.join("b", "two")
    world.work()
    assert (view(some, "a").status, view(some, "a").message) == (Status.FAILED, "no room")
    world.turns._give_way = lambda _longest: None
    world.work()
    assert world.view("b").status is Status.DONE


def test_a_run_gives_way_between_its_steps_for_as_long_as_each_deserves() -> None:
    world = World()
    for step in range(5):
        world.at_step["a", step] = partial(setattr, world, "now", sum((1.0, 0.5, 0.0, 2.0, 1.0)[: step + 1]))
    told: list[tuple[int, float]] = []
    world.turns._give_way = lambda longest: told.append((len(world.view().events), longest))
    world.runs.join("a", "one")
    world.work()
    assert told == [(1, 5), (2, 2.5), (3, 0), (4, 10), (5, 5)]


def test_a_turn_is_so_long_every_time() -> None:
    world = World(turn=2)
    for config in "ab":
        for step in range(5):
            world.at_step[config, step] = lambda: setattr(world, "now", world.now + 1)
    world.runs.join("a", "one")
    world.runs.join("b", "two")
    seen = []
    while world.works:
        world.runs.look("a", "one")
        world.runs.look("b", "two")
        seen.append([len(world.view(config).events) for config in "ab"])
        world.work()
    assert seen == [[0, 0], [2, 0], [2, 2], [4, 2], [4, 4], [5, 4]]


def test_what_somebody_looks_at_is_forgotten_last() -> None:
    world = World(kept=2)
    for config in "ab":
        world.runs.join(config, config)
        world.work()
    assert world.view("a", "who wants nothing").status is Status.DONE
    world.runs.join("c", "c")
    assert world.runs.look("b", "b") is None
    assert world.view("a").status is Status.DONE


def test_a_run_keeps_of_its_events_what_is_to_be_kept() -> None:
    world = World()
    some = world.of_a_kind(thin=lambda events: events[-2:])
    some.join("a", "one")
    world.at_step["a", 3] = lambda: events.extend(view(some, "a").events)
    events: list[int] = []
    world.work()
    assert events == [1, 2], "while it runs"
    assert view(some, "a").events == (3, 4), "and after"


def test_runs_of_two_kinds_wait_in_one_queue() -> None:
    world = World(at_once=2)
    others = world.of_a_kind()
    world.runs.join("a", "one")
    others.join("b", "one")
    others.join("c", "two")
    world.runs.join("d", "three")
    assert len(world.works) == 2, "no more than may run at once, of both kinds together"
    assert [view(others, "b").status, view(others, "c").status] == [Status.RUNNING, Status.WAITING]
    assert [view(others, "c").place, view(world.runs, "d").place] == [1, 2]
    world.work()
    assert [view(others, "c").status, view(world.runs, "d").place] == [Status.RUNNING, 1]
    assert world.runs.look("c", "two") is None, "the same name would be another run in another kind"


def test_what_is_kept_and_how_long_it_may_take_is_each_kinds_own() -> None:
    world = World(kept=1, longest=10)
    others = world.of_a_kind(kept=2, longest=30)

    def slow() -> None:
        world.used += 4
        for runs in (world.runs, others):
            for config in "abcd":
                runs.look(config, "one")

    for config in "ac":
        world.at_step[config, 0] = world.at_step[config, 1] = world.at_step[config, 2] = slow
    others.join("a", "one")
    others.join("b", "one")
    world.runs.join("c", "one")
    for _ in range(3):
        world.work()
    assert view(others, "a").status is Status.DONE, "12 s are not over its 30"
    assert view(world.runs, "c").message == "It took over 10 s of a core, which is the limit."
    world.runs.join("d", "one")
    assert world.runs.look("c", "one") is None
    assert [view(others, config).status for config in "ab"] == [Status.DONE] * 2, "not pushed out by another kind"


def test_a_long_run_lets_others_go_first_after_its_turn_and_goes_on_after_them() -> None:
    world = World()
    long = world.of_a_kind(turn=3)

    def slow() -> None:
        world.now += 2
        long.look("a", "one")
        world.runs.look("b", "two")

    for step in range(4):
        world.at_step["a", step] = slow
    long.join("a", "one")
    world.runs.join("b", "two")
    world.work()
    assert view(long, "a") == View(Status.WAITING, (0, 1), place=1, seconds=4)
    assert view(world.runs, "b").status is Status.RUNNING
    world.work()
    assert view(world.runs, "b").status is Status.DONE, "a run of the other kind is not interrupted"
    world.work()
    assert view(long, "a") == View(Status.DONE, (0, 1, 2, 3, 4), seconds=8)
    assert world.started == ["a", "b"]


def test_a_long_run_goes_on_where_nobody_waits() -> None:
    world = World(turn=3)
    world.runs.join("a", "one")
    world.runs.join("b", "two")
    world.runs.leave("b", "two")

    def slow() -> None:
        world.now += 5  # of which it had a core for 4
        world.used += 4
        world.view(visitor="one")

    world.at_step["a", 1] = slow
    world.work()
    assert world.view().status is Status.DONE, "b is in the queue, but nobody wants it"


@pytest.mark.parametrize("at_once", [1, 2])
def test_ten_visitors_in_real_threads_all_see_the_end(at_once: int) -> None:
    finished = threading.Semaphore(0)

    def steps(config: int) -> Iterator[int]:
        yield from range(3)
        finished.release()

    runs: Runs[int, int] = Runs(steps, Turns(at_once))
    for visitor in range(10):
        runs.join(visitor % 5, str(visitor))
    for _ in range(5):
        assert finished.acquire(timeout=20)
    assert all(
        found is not None and found.events == (0, 1, 2) for found in (runs.look(config, "0") for config in range(5))
    )
