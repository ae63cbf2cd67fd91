"""What else is checked of a scene, once the reader asks: properties that need no PyTorch, and the gradients."""

from collections.abc import Sequence

import streamlit as st

from attention.compare import Check, Tolerance
from attention.config import AttentionConfig
from attention.gradients import GradientVerdict, verify_gradients
from attention.properties import Property, properties
from attention.report_text import number
from dashboard import cached, limits, tables, verdict_panel
from dashboard.tables import Mark, Table, Value


def draw(config: AttentionConfig, tolerance: Tolerance) -> None:
    """Draw the expander; what is in it is computed while it is open only."""
    expander = st.expander(
        "Without PyTorch, and backwards: properties and gradients",
        icon=":material/rule:",
        key="further",
        on_change="rerun",
    )
    if not expander.open:
        return
    asked, config = config, limits.within("further", config)
    if said := limits.said(asked, config):
        expander.caption(f":material/info: {said}")
    held = cached.facts("properties", config, lambda: properties(config))
    expander.html(tables.html(of_properties(held), kind="claims"))
    found = cached.verdict("gradients", config, tolerance, lambda: verify_gradients(config, tolerance))
    expander.html(tables.html(of_gradients(found, config.dtype), kind="gradients"))
    expander.caption(
        "The loss is Σ output · g with a random g. Gradients are sums, so their atol is per unit of the largest number "
        "in each. A bias on the keys moves all scores of a row alike, so its gradient is 0 but for rounding."
    )


def of_properties(found: Sequence[Property]) -> Table:
    """The properties, held or broken."""
    rows = [(one.name, Mark("✓ holds", "good") if one.holds else Mark("✗ broken", "bad"), one.found) for one in found]
    return Table(
        "What holds of every attention, whatever PyTorch says (in float64)", ("property", "here", "found"), rows
    )


def of_gradients(found: GradientVerdict, dtype: str) -> Table:
    """One row for each gradient: both lines."""
    rows: list[Sequence[Value]] = [
        (Mark(maths.step, "code"), " × ".join(map(str, maths.shape)), *_line(maths), *_line(check))
        for maths, check in zip(found.maths.checks, found.arithmetic.checks, strict=True)
    ]
    line = ("verdict", "largest difference", "of it used")
    groups = (("", 2), ("the maths: float64", 3), (f"the arithmetic: {dtype}", 3))
    return Table("Gradients of ours against PyTorch's", ("gradient", "shape", *line, *line), rows, groups)


def _line(check: Check) -> tuple[Value, Value, Value]:
    return verdict_panel.mark(check), number(check.max_abs), verdict_panel.share(check)
