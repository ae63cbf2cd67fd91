"""One cell worked out by hand: q·k term by term, over √D, softmax over its row.

Every number is read from the trace or follows from it by the equation of section 3.2.1.
"""

import math
from dataclasses import dataclass
from typing import Final

from attention.multi_head import AttentionTrace
from attention.single_head import HeadTrace

_ROW: Final = ("scores", "scaled", "masked", "weights", "dropped")


@dataclass(frozen=True)
class Term:
    """One product of the dot product: dimension d of the query times that of the key."""

    d: int
    q: float
    k: float

    @property
    def product(self) -> float:
        """Q · k, rounded once, to float64."""
        return self.q * self.k


@dataclass(frozen=True)
class RowEntry:
    """One key of the query's row: its scaled score (-inf if masked), exp(scaled - max), its weight."""

    key: int
    masked: float
    exponential: float
    weight: float


@dataclass(frozen=True)
class WorkedCell:
    """A cell (head, query, key) and all that went into its weight."""

    head: int
    query: int
    key: int
    terms: tuple[Term, ...]
    score: float
    head_dim: int
    scaled: float
    row_max: float
    row: tuple[RowEntry, ...]

    @property
    def entry(self) -> RowEntry:
        """The cell's own place in its row."""
        return self.row[self.key]

    @property
    def row_sum(self) -> float:
        """Σ exp(scaled - max) over the keys that the query may see."""
        return math.fsum(entry.exponential for entry in self.row)

    @property
    def allowed(self) -> bool:
        """Whether the query may attend to the key."""
        return self.entry.masked != -math.inf


@dataclass(frozen=True)
class KeyOfRow:
    """One key of a query's row, from its score to the share of the value that it adds.

    Without dropout `dropped` is the weight; it is what meets the value.
    """

    key: int
    score: float
    scaled: float
    masked: float
    exponential: float
    weight: float
    dropped: float
    value: tuple[float, ...]


@dataclass(frozen=True)
class WorkedRow:
    """All keys of one query, and the context that comes of them: Σ dropped · value."""

    head: int
    query: int
    head_dim: int
    row_max: float
    keys: tuple[KeyOfRow, ...]
    context: tuple[float, ...]

    @property
    def row_sum(self) -> float:
        """Σ exp(scaled - max) over the keys that the query may see."""
        return math.fsum(key.exponential for key in self.keys)


def work_out_row(trace: AttentionTrace | HeadTrace, head: int, query: int, sequence: int = 0) -> WorkedRow:
    """Work out one row of a trace, up to the context.

    Raises:
        IndexError: the trace has no such sequence, head or query; the message carries its sizes.
    """
    _check_inside(trace, sequence, head, query, 0)
    steps = (getattr(trace, name)[sequence, head, query].tolist() for name in _ROW)
    scores, scaled, masked, weights, dropped = steps
    row_max = max(masked)
    shift = row_max if row_max > -math.inf else 0.0
    values = trace.v[sequence, head].tolist()
    return WorkedRow(
        head=head,
        query=query,
        head_dim=trace.q.shape[-1],
        row_max=row_max,
        keys=tuple(
            KeyOfRow(i, score, s, m, math.exp(m - shift), weight, kept, tuple(value))
            for i, (score, s, m, weight, kept, value) in enumerate(
                zip(scores, scaled, masked, weights, dropped, values, strict=True)
            )
        ),
        context=tuple(trace.context[sequence, head, query].tolist()),
    )


def work_out(trace: AttentionTrace | HeadTrace, head: int, query: int, key: int, sequence: int = 0) -> WorkedCell:
    """Work out one cell of a trace.

    Raises:
        IndexError: the trace has no such sequence, head, query or key; the message carries its sizes.
    """
    _check_inside(trace, sequence, head, query, key)
    q, k = trace.q[sequence, head, query].tolist(), trace.k[sequence, head, key].tolist()
    masked = trace.masked[sequence, head, query].tolist()
    weights = trace.weights[sequence, head, query].tolist()
    row_max = max(masked)
    shift = row_max if row_max > -math.inf else 0.0  # a row that may attend to nothing has no maximum to take off
    return WorkedCell(
        head=head,
        query=query,
        key=key,
        terms=tuple(Term(d, a, b) for d, (a, b) in enumerate(zip(q, k, strict=True))),
        score=trace.scores[sequence, head, query, key].item(),
        head_dim=len(q),
        scaled=trace.scaled[sequence, head, query, key].item(),
        row_max=row_max,
        row=tuple(
            RowEntry(i, value, math.exp(value - shift), weight)
            for i, (value, weight) in enumerate(zip(masked, weights, strict=True))
        ),
    )


def _check_inside(trace: AttentionTrace | HeadTrace, sequence: int, head: int, query: int, key: int) -> None:
    sequences, heads, queries, keys = trace.weights.shape
    if not 0 <= sequence < sequences:
        raise IndexError(f"sequence {sequence}: there are {sequences}.")
    if not (0 <= head < heads and 0 <= query < queries and 0 <= key < keys):
        raise IndexError(
            f"head {head}, query {query}, key {key}: there are {heads} heads of {queries} by {keys} cells."
        )
