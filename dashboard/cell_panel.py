"""The pinned cell, worked out with its live numbers."""

import math
from collections.abc import Sequence
from html import escape
from typing import Final

from attention.worked_cell import WorkedCell
from dashboard import tables
from dashboard.tables import Mark, Table, Value
from dashboard.token_names import named

SHOWN: Final = 6  # terms and keys that stand on their own; the smaller ones are folded into one line


def html(cell: WorkedCell, labels: Sequence[str] = ()) -> str:
    """From the dot product to the weight, in the equation's order, as HTML with every text escaped.

    `labels` are what the tokens are called.
    """
    title = f"Head {cell.head}: query {named(cell.query, labels)} → key {named(cell.key, labels)}"
    return f"<h2>{escape(title)}</h2>" + tables.html(_chain(cell), _terms(cell), _row(cell, labels), kind="cell")


def _chain(cell: WorkedCell) -> Table:
    entry = cell.entry
    rows: list[tuple[Value, ...]] = [
        ("q · k", f"sum of {cell.head_dim} products", number(cell.score)),
        ("scaled", f"over √{cell.head_dim}", number(cell.scaled)),
    ]
    if not cell.allowed:
        rows += [
            ("masked", f"key {cell.key} comes after query {cell.query}", "−∞"),
            ("weight", "exp(−∞) = 0, over any sum", Mark(number(entry.weight), "strong")),
        ]
    else:
        rows += [
            ("max", "the row's largest", number(cell.row_max)),
            ("exp", f"exp({number(cell.scaled)} − {_bracketed(cell.row_max)})", number(entry.exponential)),
            ("Σ", "the row's exponentials, summed", number(cell.row_sum)),
            (
                "weight",
                f"{number(entry.exponential)} / {number(cell.row_sum)}",
                Mark(number(entry.weight), "strong"),
            ),
        ]
    return Table("The weight, step by step", ("step", "how", "value"), rows)


def _terms(cell: WorkedCell) -> Table:
    by_size = sorted(cell.terms, key=lambda term: -abs(term.product))
    rows: list[tuple[Value, ...]] = [(str(t.d), number(t.q), number(t.k), number(t.product)) for t in by_size[:SHOWN]]
    if rest := by_size[SHOWN:]:
        rows.append((f"{len(rest)} smaller", "", "", number(sum(t.product for t in rest))))
    rows.append(("sum", "", "", Mark(number(cell.score), "strong")))
    return Table("The dot product, term by term", ("dimension", "q", "k", "q × k"), rows)


def _row(cell: WorkedCell, labels: Sequence[str]) -> Table:
    seen = [entry for entry in cell.row if entry.masked > float("-inf")]
    largest = sorted(seen, key=lambda entry: -entry.weight)[:SHOWN]
    shown = [entry for entry in seen if entry in largest or entry.key == cell.key]
    rows: list[tuple[Value, ...]] = [
        (
            Mark(named(e.key, labels), "strong") if e.key == cell.key else named(e.key, labels),
            number(e.masked),
            number(e.exponential),
            Mark(number(e.weight), "strong") if e.key == cell.key else number(e.weight),
        )
        for e in shown
    ]
    if rest := [entry for entry in seen if entry not in shown]:
        sums = sum(e.exponential for e in rest), sum(e.weight for e in rest)
        rows.append((f"{len(rest)} smaller", "", *map(number, sums)))
    if hidden := len(cell.row) - len(seen):
        rows.append((f"{hidden} masked", "−∞", "0", "0"))
    rows.append(("sum", "", number(cell.row_sum), number(sum(e.weight for e in cell.row))))
    return Table(f"The row of query {cell.query}", ("key", "scaled", "exp(scaled − max)", "weight"), rows)


def number(value: float) -> str:
    """A number with its sign as a true minus: four decimals, or scientific where that says nothing."""
    if value == 0:
        return "0"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.4f}" if 1e-3 <= abs(value) < 1e4 else f"{value:.3e}"
    return text.replace("-", "−")


def _bracketed(value: float) -> str:
    return f"({number(value)})" if value < 0 else number(value)
