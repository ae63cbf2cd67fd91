"""What is said of two calls of PyTorch: in words, computed from their numbers, and as a table of facts."""

from collections.abc import Callable
from typing import Final

from attention.differences import Difference, Facts, Side
from dashboard.tables import Mark, Table, Value

COMPARED: Final = (
    "The verdict below compares ours with PyTorch as `attention/reference.py` sets it: the mask turned round for "
    "`nn.MultiheadAttention`, its weights per head, `batch_first=False` for the ordinary path, and a mask always "
    "handed over. Where a row may attend to nothing it takes the path that gives zeros."
)


def said(found: Difference, dtype: str, head: int) -> str:
    """What differs, by how much, and which of the two equals ours, as Markdown."""
    sides = (found.left, found.right)
    lines = [f"`{side.title}` raises: {side.refused}" for side in sides if side.refused]
    if found.differing is not None:
        lines.append(_apart(found, dtype, head))
    lines += [_nans(side, side.facts) for side in sides if side.facts and side.facts.nans]
    lines += [_beside_ours(side, side.facts, found.ours) for side in sides if side.facts]
    return "\n".join(f"- {line}" for line in lines)


def facts(found: Difference) -> Table:
    """The facts of both, one column each; all heads are counted."""
    sides = (found.left, found.right)
    rows: list[tuple[Value, ...]] = [
        ("shape", *(_value(side, lambda f: str(list(f.shape))) for side in sides)),
        (
            "numbers that are NaN",
            *(_value(side, lambda f: f"{f.nans} of {f.size}", lambda f: f.nans > 0) for side in sides),
        ),
        ("rows of zeros", *(_value(side, lambda f: f"{f.empty_rows} of {f.rows}") for side in sides)),
        ("rows with NaN", *(_value(side, lambda f: f"{f.nan_rows} of {f.rows}") for side in sides)),
    ]
    if any(side.facts and side.facts.empty_row for side in sides):
        rows.append(("the query that may attend to nothing", *(_value(side, lambda f: f.empty_row) for side in sides)))
    if found.step == "weights":
        rows.append(("sum of a row, least to largest", *(_value(side, _sums) for side in sides)))
        rows.append(("largest weight on a later key", *(_value(side, _future) for side in sides)))
    rows.append(
        (f"largest difference from {found.ours}", *(_value(side, lambda f: f"{f.from_ours:.2e}") for side in sides))
    )
    rows.append(("equals ours", *(_equals(side) for side in sides)))
    rows.append(("ran on", *(", ".join(side.kernels) or "–" for side in sides)))
    what = found.step if found.step == "output" else f"{found.step}, all heads"
    return Table(f"Facts of both answers ({what})", ("", found.left.title, found.right.title), rows)


def _apart(found: Difference, dtype: str, head: int) -> str:
    averaged = [side.facts.shape for side in (found.left, found.right) if side.facts]
    what = f"the average and head {head}" if len(averaged[0]) != len(averaged[1]) else "the two"
    if found.differing == 0:
        return f"**Every number is the same in {what}**, to the last bit: {found.cells} of {found.cells}."
    spacings = "" if found.spacings > 1e4 else f", {found.spacings:.3g} × the distance of neighbouring {dtype} numbers"
    return (
        f"**{found.differing} of {found.cells} numbers are not the same** in {what}, to the last bit; where both are "
        f"numbers they are at most {found.largest:.3g} apart{spacings}."
    )


def _nans(side: Side, counted: Facts) -> str:
    return f"`{side.title}` gives **NaN** in {counted.nan_rows} of {counted.rows} rows: {counted.nans} numbers."


def _beside_ours(side: Side, counted: Facts, ours: str) -> str:
    verb = "**equals**" if counted.equals_ours else "**does not equal**"
    return f"`{side.title}` {verb} {ours}: {counted.reason}."


def _value(side: Side, text: Callable[[Facts], str], is_bad: Callable[[Facts], bool] | None = None) -> Value:
    if side.facts is None:
        return "raised"
    shown = text(side.facts)
    return Mark(f"✗ {shown}", "bad") if is_bad and is_bad(side.facts) else shown


def _sums(counted: Facts) -> str:
    return "–" if counted.row_sums is None else " to ".join(f"{value:.6g}" for value in counted.row_sums)


def _future(counted: Facts) -> str:
    return "–" if counted.future is None else f"{counted.future:.3g}"


def _equals(side: Side) -> Value:
    if side.facts is None:
        return Mark("raised", "bad")
    return Mark("✓ equal", "good") if side.facts.equals_ours else Mark("✗ differs", "bad")
