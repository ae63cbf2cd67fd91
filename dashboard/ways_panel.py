"""The tables of the four ways: how far each pair is apart, and how long each takes."""

from collections.abc import Sequence
from typing import Final

from attention.compare import Tolerance
from attention.four_ways import WAYS, Timing
from dashboard.tables import Mark, Table, Value

REPORTED: Final = "Dropout is chance: the tensors are with it, verdict and script without."


def differences(found: Sequence[Sequence[float]], tolerance: Tolerance, dropout: float) -> Table:
    """Largest difference of the outputs of each pair; green up to the reader's atol plus rtol, for numbers about 1."""
    limit = tolerance.atol + tolerance.rtol
    rows: list[tuple[Value, ...]] = [
        (
            name,
            *(_difference(value, i == j, limit, bool(dropout) and (i < 2) != (j < 2)) for j, value in enumerate(row)),
        )
        for i, (name, row) in enumerate(zip(WAYS, found, strict=True))
    ]
    what = f"dropout {dropout:g} on in list and packed, off in the others" if dropout else "dropout off"
    return Table(f"Largest difference of the outputs, each pair ({what})", ("", *WAYS), rows)


def timings(found: Sequence[Timing]) -> Table:
    """How long each way takes, beside PyTorch."""
    pytorch = next(timing for timing in found if timing.way == WAYS[-1])
    rows: list[tuple[Value, ...]] = [
        (timing.way, f"{timing.median:.2f}", f"{timing.p95:.2f}", f"{timing.median / pytorch.median:.2f} ×")
        for timing in found
    ]
    caption = "Time of each, on this server when the scene was first shown, in ms (dropout off)"
    return Table(caption, ("", "median", "95th percentile", "of PyTorch's"), rows)


def said_of_dropout(mean: float, one: float, draws: int) -> str:
    """How far dropout leads away from the answer without it, as Markdown."""
    return (
        ":gray-badge[:material/casino: random] Compared with dropout off: chance is no step of the maths. The output "
        f"of a single draw is {one:.2g} away from the one without dropout, the mean of {draws} draws {mean:.2g} (root "
        "mean square)."
    )


def _difference(value: float, same: bool, limit: float, by_chance: bool) -> Value:
    if same:
        return "–"
    if by_chance:  # dropout acts in one of the two: that they differ is no fault
        return f"{value:.2g}, chance"
    shown = "0" if value == 0 else f"{value:.2e}"
    return Mark(f"✓ {shown}", "good") if value <= limit else Mark(f"✗ {shown}", "bad")
