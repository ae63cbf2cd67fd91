"""The pinned cell, worked out with its live numbers."""

from typing import Final

import pandas as pd
import streamlit as st

from attention.worked_cell import RowEntry, Term, WorkedCell

SHOWN: Final = 6  # terms and keys that stand on their own; the smaller ones are folded into one line


def draw(cell: WorkedCell) -> None:
    """From the dot product to the weight, in the equation's order."""
    st.subheader(f"Head {cell.head}: query {cell.query} → key {cell.key}")
    chain, terms, row = st.columns([5, 4, 5], gap="medium")
    with chain:
        _chain(cell)
    with terms:
        st.markdown("**The dot product, term by term**")
        st.table(_terms(cell), border="horizontal", hide_index=True)
    with row:
        st.markdown(f"**The row of query {cell.query}**")
        st.table(_row(cell), border="horizontal", hide_index=True)


def _chain(cell: WorkedCell) -> None:
    st.markdown("**The weight, step by step**")
    entry = cell.entry
    rows = [
        ("q · k", f"sum of {cell.head_dim} products", _number(cell.score)),
        ("scaled", f"over √{cell.head_dim}", _number(cell.scaled)),
    ]
    if not cell.allowed:
        rows += [
            ("masked", f"key {cell.key} comes after query {cell.query}: it may not attend", "−∞"),
            ("weight", "exp(−∞) = 0, over any sum", _number(entry.weight)),
        ]
    else:
        rows += [
            ("max", "the row's largest, over the keys it may see", _number(cell.row_max)),
            ("exp", f"exp({_number(cell.scaled)} − {_number(cell.row_max)})", _number(entry.exponential)),
            ("Σ", "the row's exponentials, summed", _number(cell.row_sum)),
            ("weight", f"{_number(entry.exponential)} / {_number(cell.row_sum)}", f"**{_number(entry.weight)}**"),
        ]
    st.table(pd.DataFrame(rows, columns=["step", "how", "value"]), border="horizontal", hide_index=True)


def _terms(cell: WorkedCell) -> pd.DataFrame:
    by_size = sorted(cell.terms, key=lambda term: -abs(term.product))
    shown: list[Term] = by_size[:SHOWN]
    rows = [(str(t.d), _number(t.q), _number(t.k), _number(t.product)) for t in shown]
    if rest := by_size[SHOWN:]:
        rows.append((f"{len(rest)} smaller", "", "", _number(sum(t.product for t in rest))))
    rows.append(("sum", "", "", f"**{_number(cell.score)}**"))
    return pd.DataFrame(rows, columns=["d", "q", "k", "q × k"])


def _row(cell: WorkedCell) -> pd.DataFrame:
    seen = [entry for entry in cell.row if entry.masked > float("-inf")]
    by_size = sorted(seen, key=lambda entry: -entry.weight)
    shown = sorted({*by_size[:SHOWN], *(e for e in seen if e.key == cell.key)}, key=lambda entry: entry.key)
    rows = [
        (f"**{e.key}**" if e.key == cell.key else str(e.key), _number(e.masked), _number(e.exponential), _number(e.weight))
        for e in shown
    ]
    rest: list[RowEntry] = [entry for entry in seen if entry not in shown]
    if rest:
        folded = (f"{len(rest)} smaller", "", sum(e.exponential for e in rest), sum(e.weight for e in rest))
        rows.append((folded[0], folded[1], _number(folded[2]), _number(folded[3])))
    if hidden := len(cell.row) - len(seen):
        rows.append((f"{hidden} masked", "−∞", "0", "0"))
    rows.append(("sum", "", _number(cell.row_sum), _number(sum(e.weight for e in cell.row))))
    return pd.DataFrame(rows, columns=["key", "scaled", "exp(scaled − max)", "weight"])


def _number(value: float) -> str:
    if value == 0:
        return "0"
    text = f"{value:.4f}" if 1e-3 <= abs(value) < 1e4 else f"{value:.3e}"
    return text.replace("-", "−")
