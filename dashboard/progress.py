"""A long computation under a bar; one of many steps is stopped by a change of a control outside of fragments."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Final, TypeVar

import streamlit as st

Value = TypeVar("Value")

_LOOK: Final = 0.1  # seconds between two looks at what has no steps


def through(
    steps: Iterable[Value], total: int, what: str, clock: Callable[[], float] = time.perf_counter
) -> list[Value]:
    """All that a computation yields, one after each step, with a bar and about how long it will take yet.

    Streamlit ends a run that has been overtaken at the next call that draws: here at the next step. Then nothing
    comes back, so nothing half-done can be kept. It does so for controls outside of fragments only; one within a
    fragment (seed, heads, those on the page) waits until the computation is done.

    Args:
        steps: the computation.
        total: how many steps it has.
        what: the name of a step, as the bar says it: "seed".
        clock: tells the time in seconds.
    """
    place = st.empty()
    place.progress(0.0, f"{what} 1 of {total}".capitalize())
    start, found = clock(), []
    for value in steps:
        found.append(value)
        done = len(found)
        left = (clock() - start) / done * (total - done)
        place.progress(min(1.0, done / total), f"{what} {done} of {total}, about {left:.0f} s left".capitalize())
    place.empty()
    return found


def during(
    make: Callable[[], Value], seconds: float, what: str, clock: Callable[[], float] = time.perf_counter
) -> Value:
    """What one call returns that has no steps to count, under a bar that goes by an estimate.

    The call runs on a thread without a session. A run that is overtaken still waits for it.

    Args:
        make: the call.
        seconds: about how long it takes.
        what: what the bar says of it.
        clock: tells the time in seconds.
    """
    place, start = st.empty(), clock()
    with ThreadPoolExecutor(max_workers=1) as thread:
        found = thread.submit(make)
        while not found.done():
            gone = clock() - start
            left = f"about {seconds - gone:.0f} s left" if seconds - gone >= 0.5 else "nearly done"
            place.progress(min(0.95, gone / seconds), f"{what}, {left}")
            wait([found], timeout=_LOOK)
    place.empty()
    return found.result()
