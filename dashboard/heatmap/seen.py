"""What there is to see in a picture, in words: for those who do not see it, from the very numbers that are sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float32]
Places = NDArray[np.intp]

PATTERNS: Final = ("on the diagonal", "on the first key", "on the previous token")
# how far from 1 a row may be by rounding: 256 weights in bfloat16 are off by 0.004 at most
SUM: Final = 0.01
MOST: Final = 0.5
_NAMED: Final = 3  # tiles


@dataclass(frozen=True)
class Extreme:
    """A number, the first cell that has it (tile, row, column), and how many have it."""

    number: float
    tile: int
    row: int
    column: int
    cells: int


@dataclass(frozen=True)
class Rows:
    """How rows of weights share themselves out; rows that may attend to one key at most have no choice.

    `lone` are those, of one tile; the other `free` ones are what all else is about. `spread` is over how many keys a
    row is spread: 2 to the power of its entropy in bits, the mean over all rows that sum to 1; None without such a row.
    `patterns` are, for each of `PATTERNS`, the tiles in which most of the weight of the rows that sum to 1 lies there.
    `unequal` are the tiles with a row that does not sum to 1; rows of zeros and with NaN may.
    """

    lone: int
    free: int
    spread: float | None
    patterns: tuple[tuple[int, ...], ...]
    unequal: tuple[int, ...]


@dataclass(frozen=True)
class Seen:
    """What is to be seen, counted over all tiles; masked cells take no part in anything but their own number.

    `low` and `high` are the ends of the finite numbers, 0 and 0 without one. `largest` is the largest finite number, of
    signed ones that farthest from 0; of rows of weights, only those with two keys and more. None where there is none.
    """

    cells: int
    masked: int
    nans: int
    infinite: int
    nonzero: int
    low: float
    high: float
    largest: Extreme | None
    rows: Rows | None


def look(numbers: Numbers, places: Places, allowed: NDArray[np.bool_], *, is_signed: bool, has_rows: bool) -> Seen:
    """Look at a picture.

    Args:
        numbers: (tiles, n) of them.
        places: (n,) where in a tile each stands: row · columns + column.
        allowed: (rows, columns), the mask; what is not among the places is masked.
        is_signed: whether the largest is the one farthest from 0.
        has_rows: whether each row is a share of 1.
    """
    count, keys = len(numbers), allowed.shape[1]
    masked = count * (allowed.size - len(places))
    counts = np.isfinite(numbers)
    nans = 0 if counts.all() else int(np.isnan(numbers).sum())
    infinite = numbers.size - int(np.count_nonzero(counts)) - nans
    if len(places) == allowed.size and not allowed.all():  # all cells are here: a forbidden one that holds something
        hidden = ~allowed.ravel() & ((numbers == 0) | np.isneginf(numbers))
        masked = int(np.count_nonzero(hidden))
        infinite -= int(np.count_nonzero(np.isneginf(numbers[hidden])))
        numbers, counts = np.where(hidden, np.float32(0), numbers), counts & ~hidden
    some = numbers if counts.all() else numbers[counts]
    free = np.full(len(places), True) if not has_rows else allowed.sum(axis=1)[places // keys] > 1
    return Seen(
        cells=count * allowed.size,
        masked=masked,
        nans=nans,
        infinite=infinite,
        nonzero=int(np.count_nonzero(numbers != 0)),
        low=float(some.min()) if some.size else 0.0,
        high=float(some.max()) if some.size else 0.0,
        largest=_largest(_part(numbers, free), _part(counts, free), places[free], keys, is_signed),
        rows=_rows(_part(numbers, free), places[free], allowed.shape) if has_rows else None,
    )


def _part(array: NDArray[Any], wanted: NDArray[np.bool_]) -> NDArray[Any]:
    """These columns; a view where they are the last ones, as under a causal mask."""
    start = int(wanted.argmax()) if wanted.any() else len(wanted)
    return array[:, start:] if wanted[start:].all() else array[:, wanted]


def _largest(numbers: Numbers, counts: NDArray[np.bool_], places: Places, keys: int, is_signed: bool) -> Extreme | None:
    if not counts.any():
        return None
    all_count = counts.all()
    some = numbers if all_count else numbers[counts]
    high, low = some.max(), some.min()
    most = low if is_signed and -low > high else high
    here = numbers == most if all_count else (numbers == most) & counts
    tile, place = divmod(int(here.argmax()), len(places))
    row, column = divmod(int(places[place]), keys)
    return Extreme(float(most), tile, row, column, int(np.count_nonzero(here)))


def _rows(weights: Numbers, places: Places, shape: tuple[int, ...]) -> Rows:
    """Of the rows with two keys and more; those that do not sum to 1, or hold what is no weight, share nothing out."""
    if not places.size:
        return Rows(shape[0], 0, None, ((),) * len(PATTERNS), ())
    queries, columns = np.divmod(places, shape[1])
    starts = np.flatnonzero(np.diff(queries, prepend=-1))
    row_of = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(places)))
    lies = columns == queries, columns == 0, columns == queries - 1
    where = [np.flatnonzero(here & (shape[0] == shape[1] or here is lies[1])) for here in lies]
    spread, rows = 0.0, 0
    unequal: list[int] = []
    patterns: tuple[list[int], ...] = tuple([] for _ in PATTERNS)
    for tile, row in enumerate(weights):
        with np.errstate(all="ignore"):  # of NaN and infinities nothing is said
            sums = np.add.reduceat(row, starts)
            entropy = np.log(sums) - np.add.reduceat(row * np.log(np.maximum(row, np.float32(1e-38))), starts) / sums
            share = (abs(sums - 1) <= SUM) & (np.minimum.reduceat(row, starts) >= 0)
        spread += float(np.exp(entropy[share]).sum(dtype=np.float64))
        rows += int(np.count_nonzero(share))
        if (np.isfinite(sums) & ~share & (sums != 0)).any():
            unequal.append(tile)
        for pattern, here in zip(patterns, where, strict=True):
            if row[here][share[row_of[here]]].sum() > MOST * sums[share].sum():
                pattern.append(tile)
    return Rows(
        shape[0] - len(starts),
        len(starts),
        spread / rows if rows else None,
        tuple(map(tuple, patterns)),
        tuple(unequal),
    )


def said(seen: Seen, kind: str, number: str, pair: tuple[str, str, str], titles: Sequence[str]) -> str:
    """What is to be seen, in one or a few sentences."""
    parts: list[str] = []
    if kind == "difference":
        parts += _of_differences(seen, number, pair, titles)
    elif kind == "signed":
        parts += _of_signed(seen, pair, titles)
    elif seen.largest:
        beginning = f"Of rows with two {pair[2]}s or more, the" if seen.rows and seen.rows.lone else "The"
        parts.append(f"{beginning} largest {number} is {_at(seen.largest, pair, titles)}.")
    if seen.rows:
        parts += _of_rows(seen.rows, pair, titles)
    if seen.masked:
        parts.append(f"{seen.masked} of {seen.cells} cells are masked.")
    for count, what in ((seen.nans, "NaN"), (seen.infinite, "infinite")):
        if count:
            parts.append(f"{count} of {seen.cells} cells are {what}.")
    return " ".join(parts)


def _of_differences(seen: Seen, number: str, pair: tuple[str, str, str], titles: Sequence[str]) -> list[str]:
    if not seen.nonzero:
        return [f"There is no difference: {number} is 0 in every cell."] if seen.largest else []
    said = [f"{seen.nonzero} of {seen.cells} cells are not 0."]
    if seen.largest and seen.largest.number:
        said.insert(0, f"The largest difference is {_at(seen.largest, pair, titles)}.")
    return said


def _of_signed(seen: Seen, pair: tuple[str, str, str], titles: Sequence[str]) -> list[str]:
    if seen.largest is None:
        return []
    if seen.low == seen.high:
        return [f"Every number is {_digits(seen.low)}."]
    ends = f"The numbers go from {_digits(seen.low)} to {_digits(seen.high)}"
    return [f"{ends}; farthest from 0 is {_at(seen.largest, pair, titles)}."]


def _of_rows(rows: Rows, pair: tuple[str, str, str], titles: Sequence[str]) -> list[str]:
    if not rows.free:
        return [f"No row has two {pair[2]}s to choose from."]
    said = []
    if rows.spread is not None:
        said.append(f"A row spreads its weight over {rows.spread:.1f} {pair[2]}s on average.")
    for pattern, tiles in zip(PATTERNS, rows.patterns, strict=True):
        if tiles:
            said.append(f"Most of the weight lies {pattern} in {_named(tiles, titles)}.")
    if rows.unequal:
        said.append(f"Rows that do not sum to 1 are in {_named(rows.unequal, titles)}.")
    return said


def _at(most: Extreme, pair: tuple[str, str, str], titles: Sequence[str]) -> str:
    row, join, column = pair
    first = f", first at {titles[most.tile]}" if most.cells > 1 else f", at {titles[most.tile]}"
    many = f" ({most.cells} cells)" if most.cells > 1 else ""
    place = f"{row} {most.row} {join} {column}".rstrip()
    return f"{_digits(most.number)}{many}{first}, {place} {most.column}"


def _named(tiles: Sequence[int], titles: Sequence[str]) -> str:
    """These tiles by name, all of them in one word."""
    if len(tiles) == len(titles) > 1:
        return f"all {len(tiles)}"
    names = [titles[tile] for tile in tiles[:_NAMED]]
    more = [f"{len(tiles) - _NAMED} more"] if len(tiles) > _NAMED else []
    *before, last = [*names, *more]
    return f"{', '.join(before)} and {last}" if before else last


def _digits(number: float) -> str:
    """Three digits, more where three would round to a whole 1."""
    digits = next(d for d in (3, 4, 5, 6, 7, 8, 9) if abs(float(f"{number:.{d}g}")) != 1 or abs(number) == 1 or d == 9)
    return f"{number:.{digits}g}".replace("-", "−")
