"""What the page of precisions shows besides the tiles: the charts, the tables, the words."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from attention.compare import Outcome, Tolerance
from attention.config import DTYPES
from attention.multi_head import STEPS
from attention.precision import Budget, Closeness, share_passing
from dashboard.tables import Mark, Table, Value

# readable on white and on the dark background
COLOURS: Final = {"float64": "#8a63d2", "float32": "#2f87d8", "bfloat16": "#d9752b", "float16": "#1f9d74"}
# told apart without the colours: where there are points by their symbols, else by dashes
_SYMBOLS: Final = {"float64": "circle", "float32": "square", "bfloat16": "diamond", "float16": "triangle-up"}
_DASHES: Final = {"float64": "solid", "float32": "6px,2px", "bfloat16": "8px,2px,2px,2px", "float16": "14px,3px"}
_LEGEND: Final = {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "xanchor": "left"}
_LEAST: Final = 1e-17  # where an axis begins if there is nothing but 0
REPORTED: Final = (
    "Steps are named after their dtype. Those in the scene's own are held against the tolerance, those in the others "
    "against their budget: twice PyTorch's distance from the float64 answer, and a few roundings."
)


def off_titles(furthest: Sequence[float]) -> list[str]:
    """A title for each dtype's tile: the largest distance in it, as it is and not in eps; short enough for a phone."""
    return [f"{dtype}: {_number(most)}" for dtype, most in zip(DTYPES, furthest, strict=True)]


def errors_chart(budgets: Sequence[Budget]) -> dict[str, Any]:
    """A Plotly figure: how far each step is off the float64 answer, ours solid and PyTorch's dashed.

    A distance of 0 has no place on a logarithmic axis, and none is drawn.
    """
    places = list(range(len(STEPS)))
    lines = []
    for dtype, colour in COLOURS.items():
        of_dtype = [one for one in budgets if one.dtype == dtype]
        for side, name, dash, shape in (("ours", "ours", "solid", ""), ("pytorch", "PyTorch's", "dash", "-open")):
            values = [getattr(one, side) for one in of_dtype]
            lines.append(
                {
                    "type": "scatter", "mode": "lines+markers", "name": f"{dtype}, {name}", "x": places,
                    "y": [value if 0 < value < math.inf else None for value in values],
                    "line": {"color": colour, "dash": dash, "width": 2}, "legendgroup": dtype,
                    "marker": {"color": colour, "size": 8, "symbol": _SYMBOLS[dtype] + shape},
                    "showlegend": any(0 < value < math.inf for value in values),
                    "hovertemplate": f"%{{y:.2e}}<extra>{dtype}, {name}</extra>",
                }
            )  # fmt: skip
    return {
        "data": lines,
        "layout": {
            "height": 380, "margin": {"l": 60, "r": 10, "t": 50, "b": 40},
            "xaxis": {"tickmode": "array", "tickvals": places, "ticktext": list(STEPS), "zeroline": False},
            "yaxis": {"type": "log", "exponentformat": "power", "nticks": 9, "zeroline": False},
            "legend": _LEGEND,
        },
    }  # fmt: skip


def errors_in_words(budgets: Sequence[Budget]) -> str:
    """What that chart shows, for those who do not see it."""
    ends = (f"{one.dtype} ours {one.ours:.1e}, PyTorch's {one.pytorch:.1e}" for one in budgets if one.step == STEPS[-1])
    return f"Largest distance of each step from the float64 answer; at {STEPS[-1]}: " + "; ".join(ends)


def budget_table(budgets: Sequence[Budget]) -> Table:
    """One row per step: of each dtype ours, PyTorch's and the limit; ours is green within it."""
    rows: list[tuple[Value, ...]] = []
    for step in STEPS:
        cells: list[Value] = [Mark(step, "code")]
        for one in (one for one in budgets if one.step == step):
            ours = _number(one.ours)
            mark = Mark(f"✓ {ours}", "good") if one.kept else Mark(f"✗ {ours}", "bad")
            cells += [mark, _number(one.pytorch), _number(one.limit)]
        rows.append(tuple(cells))
    head = ("step", *(("ours", "PyTorch's", "allowed") * len(DTYPES)))
    groups = (("", 1), *((dtype, 3) for dtype in DTYPES))
    return Table("Largest distance from the float64 answer, and how far ours may be off", head, rows, groups)


def said_of_budgets(budgets: Sequence[Budget]) -> str:
    """Whether all are kept, and what the limit is, as Markdown."""
    over = [f"{one.dtype} `{one.step}`" for one in budgets if not one.kept]
    limit = "Ours may be off by twice PyTorch's own distance and a few roundings of the dtype at the step's size."
    if over:
        return f":red-badge[:material/balance: over] Over the budget: {', '.join(over)}. {limit}"
    return f":green-badge[:material/balance: kept] Every step keeps its budget in every precision. {limit}"


def closeness_table(found: Sequence[Closeness], tolerance: Tolerance) -> Table:
    """One row per step: what `torch.allclose` says in each dtype, what fails, and our verdict if it is another."""
    rows: list[tuple[Value, ...]] = [
        (Mark(step, "code"), *(_closeness(one) for one in found if one.step == step)) for step in STEPS
    ]
    caption = f"torch.allclose(ours, PyTorch's, rtol={tolerance.rtol:g}, atol={tolerance.atol:g}), and cells that fail"
    return Table(caption, ("step", *DTYPES), rows)


def said_of_closeness(found: Sequence[Closeness]) -> str:
    """Where our own verdict is another at the same tolerance, and why, as Markdown."""
    others = [one for one in found if not one.as_we_say]
    if not others:
        return "Our own verdict at this tolerance says the same everywhere."
    why = {
        Outcome.CANNOT_TELL: "all of PyTorch's numbers are within atol, so zeros would pass too",
        Outcome.EQUAL: "we allow scores √D times the atol, and do not round the tolerance to the dtype",
        Outcome.DIFFERS: "allclose rounds the tolerance to the dtype, we do not",
        Outcome.NOT_COMPARABLE: "there is NaN on both sides",
    }
    groups = []
    for outcome, text in why.items():
        if at := [f"{one.dtype} `{one.step}`" for one in others if one.outcome is outcome]:
            groups.append(f"**{outcome}** at {', '.join(at)} ({text})")
    return f"Our own verdict at this tolerance is another: {'; '.join(groups)}."


def rates_chart(needed: Mapping[str, Sequence[float]], atol: float) -> dict[str, Any]:
    """A Plotly figure: the share of seeds that pass over atol, one step up at what each seed needs."""
    positive = [x for atols in needed.values() for x in atols if 0 < x < math.inf]
    positive += [atol] if atol else []
    left = 10.0 ** math.floor(math.log10(min(positive, default=_LEAST)) - 0.3)
    right = 10.0 ** math.ceil(math.log10(max(positive, default=1.0)) + 0.3)
    lines: list[dict[str, Any]] = []
    for dtype, atols in needed.items():
        steps = [left, *sorted(x for x in atols if left < x < math.inf), right]
        lines.append(
            {
                "type": "scatter", "mode": "lines", "name": dtype, "x": steps,
                "y": [share_passing(tuple(atols), x) for x in steps],
                "line": {"color": COLOURS[dtype], "dash": _DASHES[dtype], "shape": "hv", "width": 2.5},
                "hovertemplate": f"%{{y:.0%}} pass at %{{x:.2e}}<extra>{dtype}</extra>",
            }
        )  # fmt: skip
    if atol:
        lines.append(
            {
                "type": "scatter", "mode": "lines", "name": "your atol", "x": [atol, atol], "y": [0, 1],
                "line": {"color": "#8a8f99", "dash": "dot", "width": 2}, "hoverinfo": "skip",
            }
        )  # fmt: skip
    return {
        "data": lines,
        "layout": {
            "height": 340, "margin": {"l": 60, "r": 10, "t": 40, "b": 50},
            "xaxis": {
                "type": "log", "range": [math.log10(left), math.log10(right)], "title": {"text": "atol"},
                "exponentformat": "power", "zeroline": False,
            },
            "yaxis": {"range": [-0.03, 1.05], "tickformat": ".0%", "zeroline": False},
            "legend": _LEGEND,
        },
    }  # fmt: skip


def rates_in_words(needed: Mapping[str, Sequence[float]], step: str) -> str:
    """What that chart shows, for those who do not see it."""
    parts = (f"{dtype} from {_number(max(atols))}" for dtype, atols in needed.items())
    return f"Share of seeds whose {step} passes, over atol; all seeds pass in " + ", ".join(parts)


def rates_table(needed: Mapping[str, Sequence[float]], atol: float) -> Table:
    """One row per dtype: the share that passes at the reader's atol, and the atol with which half and all pass."""
    rows: list[tuple[Value, ...]] = [
        (
            dtype,
            _percent(atols, atol),
            _number(sorted(atols)[(len(atols) - 1) // 2]),
            _number(max(atols)),
        )
        for dtype, atols in needed.items()
    ]
    head = ("", f"pass at your atol, {atol:g}", "half pass from", "all pass from")
    return Table("The smallest atol with which seeds pass", head, rows)


def said_of_seeds(seeds: int, wanted: int, seconds: float) -> str:
    """Which seeds, and why there are not as many as wanted."""
    which = "Seed 0" if seeds == 1 else f"Seeds 0 to {seeds - 1}"
    fewer = f", of {wanted}: a scene of this size takes about {seconds:.2g} s a seed" if seeds < wanted else ""
    return f"{which} of this scene{fewer}. The curve is exact: for each seed the smallest atol that passes is found."


def _percent(atols: Sequence[float], atol: float) -> str:
    passing = sum(needed <= atol for needed in atols)
    return f"{share_passing(tuple(atols), atol):.0%} ({passing} of {len(atols)})"


def _closeness(one: Closeness) -> Value:
    but = "" if one.as_we_say else f" (ours: {one.outcome})"
    if one.close:
        return Mark(f"✓ True{but}", "good")
    return Mark(f"✗ False, {100 * one.failing:.2g} %{but}", "bad")


def _number(value: float) -> str:
    return "0" if value == 0 else "∞" if value == math.inf else f"{value:.1e}"
