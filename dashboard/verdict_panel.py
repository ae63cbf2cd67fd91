"""The verdict as a reader sees it: one line that stays in view, and a table step by step."""

import time
from collections.abc import Callable, Sequence
from typing import Final

import streamlit as st

from attention.compare import Check, Outcome
from attention.report_text import number
from attention.verify import Report, Verdict
from dashboard import tables
from dashboard.tables import Mark, Table

CHECKING: Final = "These numbers are being checked against PyTorch's."
_PAUSE: Final = 0.04  # seconds
_JUDGED: Final = "_judged"  # the last scene that was judged, and the line about it


def pause() -> None:
    """Let the picture out before the verdict takes the core."""
    time.sleep(_PAUSE)


class Line:
    """The line's place on the page. What stands there always belongs to the picture on screen."""

    def __init__(self, notes: Callable[[], Sequence[str]]) -> None:
        self._place = st.container(key="verdict").empty()
        self._notes = notes

    def begin(self, config: object) -> bool:
        """A picture is about to be drawn: unless its verdict is known already, say that it is on the way.

        And say above the picture what is to be said of it.

        Returns:
            Whether it is known.
        """
        judged, text = st.session_state.get(_JUDGED, (None, ""))
        self._place.markdown(text if judged == config else f":gray-badge[:material/hourglass: checking] {CHECKING}")
        for note in self._notes():
            st.caption(note)
        return bool(judged == config)

    def end(self, config: object, verdict: Verdict, note: str = "") -> None:
        """All steps equal, or the first that differs; in float64, and in the dtype on screen. Then the note."""
        text = " ".join(_headline(verdict)) + note
        self._place.markdown(text)
        st.session_state[_JUDGED] = config, text


def table(verdict: Verdict, dtype: str, only: str = "") -> None:
    """One row per step: both comparisons, and how far each side is from the float64 answer.

    `only` leaves out the steps whose names do not begin with it, and the beginning of the others.
    """
    head = (
        "step", "shape", "verdict", "largest difference", "verdict", "largest difference", "relative", "worst cell",
        "allowed", "of it used", "ours", "PyTorch's",
    )  # fmt: skip
    groups = (("", 2), ("the maths: float64", 2), (f"the arithmetic: {dtype}", 6), ("off the float64 answer", 2))
    rows = [
        (
            Mark(maths.step.removeprefix(only), "code"),
            " × ".join(map(str, maths.shape)),
            mark(maths),
            number(maths.max_abs),
            mark(check),
            number(check.max_abs),
            number(check.max_rel),
            _place(check),
            f"{check.tolerance.atol:.2g} + {check.tolerance.rtol:.2g}·|x|",
            share(check),
            number(distance.ours),
            number(distance.pytorch),
        )
        for maths, check, distance in verdict.rows
        if maths.step.startswith(only)
    ]
    caption = "Each step of ours against PyTorch's: |ours − x| ≤ atol + rtol·|x|, where x is PyTorch's number"
    st.html(tables.html(Table(caption, head, rows, groups), kind="steps"))
    for name, report in (("maths", verdict.maths), ("arithmetic", verdict.arithmetic), ("probe", verdict.probe)):
        if first := report.first_difference:
            st.markdown(f"**The {name}**, first at `{first.step}`: {first.reason}.")
    if verdict.maths.equal and (first := verdict.arithmetic.first_difference):
        off = next(distance for distance in verdict.distances if distance.step == first.step)
        ours, pytorch = number(off.ours), number(off.pytorch)
        why = f"at `{first.step}`, ours is up to {ours} off the float64 answer, PyTorch's up to {pytorch}"
        st.markdown(f"Why, if the maths is equal? Rounding: {why}.")


def _headline(verdict: Verdict) -> tuple[str, str]:
    steps = len(verdict.maths.checks)
    if verdict.equal:
        return (
            ":green-badge[:material/check_circle: equal]",
            (
                f"**All {steps} steps equal PyTorch's.** Largest difference {_worst(verdict.maths)} in float64, "
                f"{_worst(verdict.arithmetic)} on screen; a fixed hard probe agrees."
            ),
        )
    broken = verdict.maths.first_difference or verdict.probe.first_difference
    if broken:
        if verdict.maths.equal:
            what = f"**Every step of this scene is equal; on the fixed probe `{broken.step}` differs first**"
        else:
            what = f"**`{broken.step}` is the first step that differs**"
        return ":red-badge[:material/cancel: differs]", f"{what}: {broken.reason}."
    first = verdict.arithmetic.first_difference
    assert first is not None
    if first.outcome is Outcome.DIFFERS:
        what = f"`{first.step}` is the first step over the tolerance: {first.reason}"
        return ":orange-badge[:material/error: rounding]", f"**The maths is equal**; on screen {what}."
    what = f"`{first.step}` is the first step that says nothing: {first.reason}"
    return f":orange-badge[:material/error: {first.outcome}]", f"**The maths is equal**; on screen {what}."


def _worst(report: Report) -> str:
    return number(max(check.max_abs for check in report.checks))


def mark(check: Check) -> Mark:
    """Whether a step is equal, as a cell of a table."""
    return Mark("✓ equal", "good") if check.equal else Mark(f"✗ {check.outcome}", "bad")


def share(check: Check) -> str:
    """How much of its tolerance a step uses."""
    if check.margin == 0:
        return "0"
    return f"{100 * check.margin:.2g} %" if check.margin < 1 else f"{check.margin:.3g} ×"


def _place(check: Check) -> str:
    return "" if check.worst is None or check.max_abs == 0 else ", ".join(map(str, check.worst))
