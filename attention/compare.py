"""One step of ours against PyTorch's: shape, dtype, NaN and infinity first, then the numbers.

The rule for the numbers is that of `torch.testing.assert_close`: |ours - PyTorch| ≤ atol + rtol · |PyTorch|.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

import torch
from torch import Tensor

# cells looked at together: few enough to stay in a core's cache, which makes it several times as fast
_CHUNK: Final = 2**15
# under it a number is no number to be relative to
_TINY: Final = torch.finfo(torch.float64).tiny


class Outcome(StrEnum):
    """What a comparison found."""

    EQUAL = "equal"
    DIFFERS = "differs"
    NOT_COMPARABLE = "not comparable"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class Tolerance:
    """How far a number may be from the reference: atol + rtol · |reference|.

    Raises:
        ValueError: one of the two is negative, infinite or no number.
    """

    rtol: float
    atol: float

    def __post_init__(self) -> None:
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} is {value}; it must be a finite number from 0 up.")


@dataclass(frozen=True)
class Check:
    """What came out of comparing one step.

    `worst` is the index of the cell with the largest share of its tolerance; `ours` and `pytorch`
    are the numbers there. `margin` is that share: 1 is the limit, 0.01 a hundredth of it.
    """

    step: str
    outcome: Outcome
    reason: str
    shape: tuple[int, ...]
    tolerance: Tolerance
    max_abs: float = 0.0
    max_rel: float = 0.0
    margin: float = 0.0
    mismatches: int = 0
    worst: tuple[int, ...] | None = None
    ours: float = math.nan
    pytorch: float = math.nan

    @property
    def equal(self) -> bool:
        """Whether the step counts as equal."""
        return self.outcome is Outcome.EQUAL


def compare(step: str, ours: Tensor, pytorch: Tensor, tolerance: Tolerance) -> Check:
    """Compare one step.

    Shapes come before values (`torch.allclose` broadcasts), then dtypes, then NaN (which never
    matches), then infinities (which match if both have the same sign), then the numbers.
    """
    if type(ours) is not Tensor:
        # a subclass or a look-alike may answer comparisons as it likes
        reason = f"a plain tensor was expected, not {type(ours).__name__}"
        return Check(step, Outcome.DIFFERS, reason, (), tolerance)
    shape = tuple(ours.shape)
    if ours.shape != pytorch.shape:
        reason = f"shape {shape}, expected {tuple(pytorch.shape)}"
        return Check(step, Outcome.DIFFERS, reason, shape, tolerance)
    if ours.dtype != pytorch.dtype:
        check = _compare_numbers(step, ours.detach().to(pytorch.dtype), pytorch.detach(), tolerance)
        values = "the values match" if check.equal else check.reason
        reason = f"dtype {_name(ours.dtype)}, expected {_name(pytorch.dtype)}; after a cast {values}"
        return replace(check, outcome=Outcome.DIFFERS, reason=reason)
    return _compare_numbers(step, ours.detach(), pytorch.detach(), tolerance)


def _compare_numbers(step: str, ours: Tensor, pytorch: Tensor, tolerance: Tolerance) -> Check:
    shape = tuple(ours.shape)
    if ours.numel() == 0:
        return Check(step, Outcome.EQUAL, "equal: nothing to compare", shape, tolerance)
    a, b = ours.reshape(-1), pytorch.reshape(-1)
    parts = [
        _scan(a[start : start + _CHUNK], b[start : start + _CHUNK], start, tolerance)
        for start in range(0, a.numel(), _CHUNK)
    ]
    worst = max(parts, key=lambda part: part.margin)
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(worst.at), shape))
    found = Check(
        step,
        Outcome.EQUAL,
        "",
        shape,
        tolerance,
        max_abs=max(part.max_abs for part in parts),
        max_rel=max(part.max_rel for part in parts),
        margin=worst.margin,
        mismatches=sum(part.mismatches for part in parts),
        worst=index,
        ours=a[worst.at].item(),
        pytorch=b[worst.at].item(),
    )
    nans = sum(part.nan_ours for part in parts), sum(part.nan_pytorch for part in parts)
    outcome, reason = _judge(found, max(part.largest for part in parts), nans)
    return replace(found, outcome=outcome, reason=reason)


class _Scan(NamedTuple):
    """What one run of cells showed; `at` is the flat index of the cell nearest to its tolerance, or over it."""

    max_abs: float
    max_rel: float
    margin: float
    at: int
    mismatches: int
    largest: float
    nan_ours: int
    nan_pytorch: int


def _scan(ours: Tensor, pytorch: Tensor, start: int, tolerance: Tolerance) -> _Scan:
    # in float64: in half precision the differences would be rounded, or overflow
    a, b = ours.double(), pytorch.double()
    difference, size = (a - b).abs_(), b.abs()
    nan_a = nan_b = 0
    clash = None
    if not math.isfinite(difference.sum().item()):
        nan_a, nan_b = int(a.isnan().sum()), int(b.isnan().sum())
        finite = a.isfinite() & b.isfinite()
        # an infinity against a number, or against the other infinity, is over any tolerance; NaN is counted apart
        clash = ~finite & (a != b) & ~a.isnan() & ~b.isnan()
        difference, size = torch.where(finite, difference, 0.0), torch.where(finite, size, 0.0)
    share = difference / (size * tolerance.rtol).add_(tolerance.atol)
    if tolerance.atol == 0:  # 0 over 0: no difference, nothing allowed
        share = torch.where(difference > 0, share, 0.0)
    if clash is not None:
        share = share.masked_fill(clash, math.inf)
    at = int(share.argmax())
    relative = difference / size.clamp_min(_TINY)
    return _Scan(
        max_abs=difference.max().item(),
        max_rel=relative.max().item(),
        margin=share[at].item(),
        at=start + at,
        mismatches=int((share > 1).sum()),
        largest=size.max().item(),
        nan_ours=nan_a,
        nan_pytorch=nan_b,
    )


def apart(ours: Tensor, pytorch: Tensor) -> Tensor:
    """|ours − PyTorch's| of each cell, in float64: 0 where both are the same, infinities too; NaN where one is NaN."""
    a, b = ours.double(), pytorch.double()
    return torch.where(a == b, 0.0, (a - b).abs())


def largest_distance(x: Tensor, answer: Tensor) -> float:
    """The largest |x - answer|, in float64, over the cells where both are numbers."""
    a, b = x.reshape(-1), answer.reshape(-1)
    largest = 0.0
    for start in range(0, a.numel(), _CHUNK):
        distance = (a[start : start + _CHUNK].double() - b[start : start + _CHUNK]).abs_()
        if not math.isfinite(distance.sum().item()):
            distance = torch.where(distance.isfinite(), distance, 0.0)
        largest = max(largest, distance.max().item())
    return largest


def _judge(found: Check, largest: float, nans: tuple[int, int]) -> tuple[Outcome, str]:
    if any(nans):
        ours, pytorch = nans
        if ours and pytorch:
            rest = f"{found.mismatches} of the other cells differ" if found.mismatches else "the other cells are equal"
            outcome = Outcome.DIFFERS if found.mismatches else Outcome.NOT_COMPARABLE
            return outcome, f"{ours} NaN in ours and {pytorch} in PyTorch's; {rest}"
        side = f"{ours} NaN in ours, none in PyTorch's" if ours else f"{pytorch} NaN in PyTorch's, none in ours"
        return Outcome.DIFFERS, side
    if found.mismatches:
        cells = "1 cell differs, at" if found.mismatches == 1 else f"{found.mismatches} cells differ, worst at"
        place = list(found.worst or ())
        return Outcome.DIFFERS, f"{cells} {place}: ours {found.ours:.9g}, PyTorch's {found.pytorch:.9g}"
    if found.max_abs > 0 and 0 < largest <= found.tolerance.atol:
        within = f"PyTorch's largest number, {largest:.3g}, is within atol {found.tolerance.atol:.3g}"
        return Outcome.CANNOT_TELL, f"{within}: zeros would pass too"
    if found.max_abs == 0:
        return Outcome.EQUAL, "equal to the last bit"
    return Outcome.EQUAL, f"equal; the worst cell uses {100 * found.margin:.2g} % of its tolerance"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
