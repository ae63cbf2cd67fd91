"""The verdict as a reader sees it: one line that stays in view, and a table step by step."""

import pandas as pd
import streamlit as st

from attention.compare import Check
from attention.verify import Report, Verdict


def line(verdict: Verdict) -> None:
    """One line: all steps equal, or the first that differs; in float64, and in the dtype on screen."""
    badge, text = _headline(verdict)
    st.markdown(f"{badge} {text}")


def table(verdict: Verdict, dtype: str) -> None:
    """One row per step: both comparisons, and how far each side is from the float64 answer."""
    rows = [
        {
            "step": f"`{maths.step}`",
            "shape": " × ".join(map(str, maths.shape)),
            "maths (float64)": _mark(maths),
            "largest |ours − PyTorch|, float64": _number(maths.max_abs),
            f"arithmetic ({dtype})": _mark(check),
            "largest |ours − PyTorch|": _number(check.max_abs),
            "relative": _number(check.max_rel),
            "worst cell": _place(check),
            "allowed": f"{check.tolerance.atol:.1e} + {check.tolerance.rtol:.1e}·|PyTorch|",
            "of it used": _share(check),
            "ours from float64": _number(distance.ours),
            "PyTorch from float64": _number(distance.pytorch),
        }
        for maths, check, distance in zip(
            verdict.maths.checks, verdict.arithmetic.checks, verdict.distances, strict=True
        )
    ]
    st.table(pd.DataFrame(rows), border="horizontal", hide_index=True)
    for report, name in ((verdict.maths, "The maths"), (verdict.arithmetic, "The arithmetic"), (verdict.probe, "The probe")):
        if first := report.first_difference:
            st.markdown(f"**{name}**, first at `{first.step}`: {first.reason}.")


def _headline(verdict: Verdict) -> tuple[str, str]:
    steps = len(verdict.maths.checks)
    if verdict.equal:
        return (
            ":green-badge[:material/check_circle: equal]",
            f"**All {steps} steps equal PyTorch's**: in float64 to {_worst(verdict.maths)}, "
            f"on screen to {_worst(verdict.arithmetic)}, and on a fixed hard probe.",
        )
    broken = verdict.maths.first_difference or verdict.probe.first_difference
    if broken:
        return ":red-badge[:material/cancel: differs]", f"**`{broken.step}` is the first step that differs**: {broken.reason}."
    first = verdict.arithmetic.first_difference
    assert first is not None
    return (
        ":orange-badge[:material/error: rounding]",
        f"**The maths is equal**; on screen `{first.step}` is the first step over the tolerance: {first.reason}.",
    )


def _worst(report: Report) -> str:
    return _number(max(check.max_abs for check in report.checks))


def _mark(check: Check) -> str:
    if check.equal:
        return ":green[:material/check: equal]"
    return f":red[:material/close: {check.outcome}]"


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.2e}"


def _share(check: Check) -> str:
    return "0" if check.margin == 0 else f"{100 * check.margin:.2g} %"


def _place(check: Check) -> str:
    return "" if check.worst is None or check.max_abs == 0 else ", ".join(map(str, check.worst))
