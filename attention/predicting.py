"""What a reader fills in, against what the scene says: a row of weights, or a mask.

The answer comes from the same trace that is drawn and checked against PyTorch; nothing is worked out anew here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor


@dataclass(frozen=True)
class Filled:
    """One key of a row: the reader's weight (None where left empty), the right one, and whether it is close enough."""

    key: int
    said: float | None
    right: float
    close: bool


@dataclass(frozen=True)
class RowAnswer:
    """A row of weights as a reader filled it in."""

    cells: tuple[Filled, ...]
    within: float

    @property
    def right(self) -> bool:
        """Whether every weight is close enough."""
        return all(cell.close for cell in self.cells)

    @property
    def total(self) -> float:
        """The sum of what was filled in; that of a row of weights is 1."""
        return math.fsum(cell.said for cell in self.cells if cell.said is not None)


def check_row(weights: Sequence[float], said: Sequence[float | None], within: float) -> RowAnswer:
    """Hold a reader's row against the right one.

    Args:
        weights: the row.
        said: the reader's numbers, one a key; None where nothing was filled in, which is never right.
        within: how far a number may be off, from 0 up. The comparison is made in float64.

    Raises:
        ValueError: there are not as many numbers as keys, or `within` is no tolerance; the message carries the numbers.
    """
    if len(said) != len(weights):
        raise ValueError(f"the row has {len(weights)} keys, not {len(said)}.")
    if not (math.isfinite(within) and within >= 0):
        raise ValueError(f"within is {within}; it must be a finite number from 0 up.")
    cells = (
        Filled(key, guess, weight, guess is not None and abs(guess - weight) <= within)
        for key, (guess, weight) in enumerate(zip(said, weights, strict=True))
    )
    return RowAnswer(tuple(cells), within)


@dataclass(frozen=True)
class MaskAnswer:
    """A mask as a reader filled it in: the (query, key) cells that were wrongly allowed, and wrongly forbidden."""

    cells: int
    too_many: tuple[tuple[int, int], ...]
    missing: tuple[tuple[int, int], ...]

    @property
    def right(self) -> bool:
        """Whether every cell is right."""
        return not self.too_many and not self.missing

    def wrong_rows(self) -> tuple[int, ...]:
        """The queries whose row is not right yet."""
        return tuple(sorted({query for query, _ in (*self.too_many, *self.missing)}))


def check_mask(allowed: Bool[Tensor, "T S"], said: Bool[Tensor, "..."]) -> MaskAnswer:
    """Hold a reader's mask against the right one; True = may attend.

    Raises:
        ValueError: they are not of the same sizes; the message carries both.
    """
    if allowed.shape != said.shape:
        raise ValueError(f"the mask is {tuple(allowed.shape)}, not {tuple(said.shape)}.")
    return MaskAnswer(allowed.numel(), _cells(said & ~allowed), _cells(allowed & ~said))


def _cells(where: Bool[Tensor, "T S"]) -> tuple[tuple[int, int], ...]:
    return tuple((int(query), int(key)) for query, key in torch.nonzero(where))
