"""Long computations that many visitors may want: each runs once, for all who ask for it, and only while somebody does.

At most so many run at a time, of all kinds together; the others wait in the order in which they were asked for. A run
whose visitors have all left stops where it is, and goes on from there when somebody comes back. Nothing here knows what
is computed: a run is an iterator of events.
"""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Final, Generic, TypeVar

Config = TypeVar("Config", bound=Hashable)
Event = TypeVar("Event")


class Status(StrEnum):
    """What a run is doing."""

    WAITING = "waiting"  # for its turn
    RUNNING = "running"
    STOPPED = "stopped"  # nobody wants it at the moment
    DONE = "done"
    FAILED = "failed"


_WAITS: Final = 5  # times as long as a step takes a run waits for others, at most, before the next
ON_THE_WAY: Final = (Status.WAITING, Status.RUNNING)


@dataclass(frozen=True)
class View(Generic[Event]):
    """A run as a visitor sees it at one moment.

    `place` is that in the queue, from 1; 0 where it does not wait. `seconds` is how long it has run, waiting left out.
    `message` says why it failed.
    """

    status: Status
    events: tuple[Event, ...] = ()
    place: int = 0
    seconds: float = 0.0
    message: str = ""

    def left(self, share: float) -> float:
        """About how many seconds it will take yet, of which so great a share, over 0, is done."""
        return self.seconds / share * (1 - share)


@dataclass(frozen=True)
class _Rules(Generic[Event]):
    """What holds for every run of a kind, in seconds."""

    patience: float
    longest: float
    turn: float
    clock: Callable[[], float]
    cpu: Callable[[], float]
    thin: Callable[[list[Event]], list[Event]]


@dataclass(eq=False)
class _Run(Generic[Event]):
    steps: Iterator[Event]
    rules: _Rules[Event]
    events: list[Event] = field(default_factory=list)
    seen: dict[str, float] = field(default_factory=dict)  # who wants it, and when they last gave a sign of life
    status: Status = Status.STOPPED
    seconds: float = 0.0
    spent: float = 0.0  # seconds of a core
    turn_ends: float = 0.0  # after so many seconds of its own it lets others go first
    message: str = ""

    def is_wanted(self) -> bool:
        """Whether somebody has given a sign of life."""
        now = self.rules.clock()
        return any(now - seen <= self.rules.patience for seen in self.seen.values())


def in_background(work: Callable[[], None]) -> None:
    """Begin a piece of work on a thread of its own."""
    threading.Thread(target=work, daemon=True).start()


def _to_nobody(_longest: float) -> None:
    """Give way to nobody."""


class Turns:
    """Whose turn it is: at most so many runs at a time, whatever their kinds, and the queue of the others.

    Args:
        at_once: how many may run at a time.
        spawn: begins a piece of work beside everything else.
        give_way: waits, between two steps, while others need the machine more: at most so many seconds. It is given
            several times as many as the step has taken, so that a run goes on even in a class that never rests.
    """

    def __init__(
        self,
        at_once: int,
        spawn: Callable[[Callable[[], None]], None] = in_background,
        give_way: Callable[[float], None] = _to_nobody,
    ) -> None:
        self._at_once, self._spawn, self._give_way = at_once, spawn, give_way
        self.lock = threading.Lock()  # over the queue, and over the runs of every kind
        self._waiting: list[_Run[Any]] = []
        self._running = 0

    def ask(self, run: _Run[Any]) -> None:
        """Have a run wait for its turn; those that nobody wants any more wait no longer. The lock is held."""
        for passed in [one for one in self._waiting if not one.is_wanted()]:
            self._waiting.remove(passed)
            passed.status = Status.STOPPED
        run.status = Status.WAITING
        self._waiting.append(run)
        self._next()

    def place(self, run: _Run[Any]) -> int:
        """Its place among those that wait and are wanted, from 1; 0 where it is none of them. The lock is held."""
        waiting = [one for one in self._waiting if one.is_wanted()]
        return waiting.index(run) + 1 if run in waiting else 0

    def _next(self) -> None:
        """Let the next ones run, as many as there is room for. The lock is held."""
        while self._waiting and self._running < self._at_once:
            run = self._waiting.pop(0)
            if not run.is_wanted():
                run.status = Status.STOPPED
                continue
            run.status = Status.RUNNING
            run.turn_ends = run.seconds + run.rules.turn
            self._running += 1
            self._spawn(partial(self._work, run))

    def _work(self, run: _Run[Any]) -> None:
        """Take steps while somebody wants them and it is the run's turn."""
        try:
            before = run.seconds
            while self._step(run):
                self._give_way(_WAITS * (run.seconds - before))
                before = run.seconds
        except Exception as fault:  # whatever it is, a viewer is told, and others get their turn
            self._end(run, Status.FAILED, str(fault))
        finally:
            with self.lock:
                self._running -= 1
                self._next()

    def _step(self, run: _Run[Event]) -> bool:
        """Take one; whether there is another to take."""
        before, spent = run.rules.clock(), run.rules.cpu()
        try:
            event = next(run.steps)
        except StopIteration:
            self._end(run, Status.DONE)
            return False
        with self.lock:
            run.events = run.rules.thin([*run.events, event])
            run.seconds += run.rules.clock() - before
            run.spent += run.rules.cpu() - spent
            if run.spent > run.rules.longest:
                limit = f"It took over {run.rules.longest:.0f} s of a core, which is the limit."
                run.status, run.message = Status.FAILED, limit
            elif not run.is_wanted():
                run.status = Status.STOPPED
            elif run.seconds >= run.turn_ends and any(other.is_wanted() for other in self._waiting):
                run.status = Status.WAITING
                self._waiting.append(run)
            return run.status is Status.RUNNING

    def _end(self, run: _Run[Any], status: Status, message: str = "") -> None:
        with self.lock:
            run.status, run.message = status, message


class Runs(Generic[Config, Event]):
    """The runs of one kind in one process, shared by all visitors.

    Args:
        start: makes the iterator of a run; what it raises ends the run as failed, with its text as the message.
        turns: whose turn it is, here and among the runs of other kinds.
        kept: how many are remembered; the one looked at longest ago, and running no more, is forgotten first.
        thin: what is kept of the events of a run, asked after each.
        patience: for how many seconds a visitor counts after a sign of life.
        longest: how many seconds of a core a run may take: where others come first, it may last longer.
        turn: after how many seconds a run lets those go first that wait, and then waits for its next turn.
        clock: tells the time in seconds.
        cpu: tells how many seconds of a core the thread that asks has had.
    """

    def __init__(
        self,
        start: Callable[[Config], Iterator[Event]],
        turns: Turns,
        *,
        kept: int = 16,
        patience: float = 5.0,
        longest: float = 60.0,
        turn: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
        thin: Callable[[list[Event]], list[Event]] = list,
    ) -> None:
        self._start, self._turns, self._kept = start, turns, kept
        self._rules: _Rules[Event] = _Rules(patience, longest, turn, clock, cpu, thin)
        self._runs: OrderedDict[Config, _Run[Event]] = OrderedDict()

    def join(self, config: Config, visitor: str) -> None:
        """Want a run: it begins, or goes on, when it is its turn."""
        with self._turns.lock:
            run = self._runs.get(config)
            if run is None:
                run = self._runs[config] = _Run(self._start(config), self._rules)
            self._runs.move_to_end(config)
            run.seen[visitor] = self._rules.clock()
            if run.status is Status.STOPPED:
                self._turns.ask(run)
            self._forget()

    def leave(self, config: Config, visitor: str) -> None:
        """Want it no more: it stops after the step that it is at, unless somebody else wants it."""
        with self._turns.lock:
            if run := self._runs.get(config):
                run.seen.pop(visitor, None)

    def forget(self, config: Config) -> None:
        """Forget a run that nobody wants, so that it begins anew; one that somebody waits for stays."""
        with self._turns.lock:
            run = self._runs.get(config)
            if run and not (run.status in ON_THE_WAY and run.is_wanted()):
                del self._runs[config]

    def look(self, config: Config, visitor: str) -> View[Event] | None:
        """What there is of a run, or None; a sign of life of a visitor who wants it."""
        with self._turns.lock:
            run = self._runs.get(config)
            if run is None:
                return None
            self._runs.move_to_end(config)
            if visitor in run.seen:
                run.seen[visitor] = self._rules.clock()
            place = self._turns.place(run)
            # it will stop after the step that it is at, or be passed over when its turn comes
            is_ending = run.status in ON_THE_WAY and not run.is_wanted()
            status = Status.STOPPED if is_ending else run.status
            return View(status, tuple(run.events), place, run.seconds, run.message)

    def _forget(self) -> None:
        """Forget what was looked at longest ago and runs no more, where there is too much. The lock is held."""
        for config, run in list(self._runs.items()):
            if len(self._runs) <= self._kept:
                return
            if run.status not in ON_THE_WAY:
                del self._runs[config]
