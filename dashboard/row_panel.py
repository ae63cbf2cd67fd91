"""One query's row worked out with its live numbers: from the scores to the context."""

from collections.abc import Sequence
from html import escape
from typing import Final

from attention.worked_cell import WorkedRow
from dashboard import tables
from dashboard.cell_panel import number
from dashboard.tables import Mark, Table, Value
from dashboard.token_names import named

SHOWN: Final = 8  # keys that stand on their own, and dimensions of the context


def html(row: WorkedRow, labels: Sequence[str] = ()) -> str:
    """The row's softmax key by key, and its context dimension by dimension, as HTML with every text escaped.

    `labels` are what the tokens are called.
    """
    title = f"Query {named(row.query, labels)}, worked out"
    return f"<h2>{escape(title)}</h2>" + tables.html(_softmax(row, labels), _context(row), kind="row")


def _softmax(row: WorkedRow, labels: Sequence[str]) -> Table:
    seen = [key for key in row.keys if key.masked > float("-inf")]
    largest = sorted(seen, key=lambda key: -key.weight)[:SHOWN]
    shown = [key for key in seen if key in largest]
    rows: list[tuple[Value, ...]] = [
        (
            named(key.key, labels),
            number(key.score),
            number(key.scaled),
            number(key.exponential),
            Mark(number(key.weight), "strong"),
        )
        for key in shown
    ]
    if rest := [key for key in seen if key not in shown]:
        sums = number(sum(key.exponential for key in rest)), number(sum(key.weight for key in rest))
        rows.append((f"{len(rest)} smaller", "", "", *sums))
    if hidden := len(row.keys) - len(seen):
        rows.append((f"{hidden} masked", "", "−∞", "0", "0"))
    total = sum(key.weight for key in row.keys)
    rows.append(("sum", "", "", number(row.row_sum), number(total)))
    head = ("key", "q · k", f"over √{row.head_dim}", "exp(scaled − max)", "weight")
    return Table("The weights: exp(scaled − max) over its sum", head, rows)


def _context(row: WorkedRow) -> Table:
    """Σ weight · v for the first dimensions: the largest shares, and what they add up to."""
    largest = sorted(row.keys, key=lambda key: -key.weight)[:3]
    rows: list[tuple[Value, ...]] = []
    for d, total in enumerate(row.context[:SHOWN]):
        shares = [key.dropped * key.value[d] for key in largest]
        rest = sum(key.dropped * key.value[d] for key in row.keys if key not in largest)
        rows.append((str(d), *map(number, shares), number(rest), Mark(number(total), "strong")))
    if left := len(row.context) - len(rows):
        rows.append((f"{left} more", *([""] * (len(largest) + 2))))
    names = [f"key {key.key}: {number(key.weight)} · v" for key in largest]
    return Table(
        "The context: Σ weight · v, dimension by dimension", ("dimension", *names, "the rest", "context"), rows
    )
