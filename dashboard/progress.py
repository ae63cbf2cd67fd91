"""A long computation under a bar, which a change of a control outside of fragments stops."""

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import streamlit as st

Value = TypeVar("Value")


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
