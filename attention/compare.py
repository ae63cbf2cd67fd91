"""One step of ours against PyTorch's: shape, dtype, NaN and infinity first, then the numbers.

The rule for the numbers is that of `torch.testing.assert_close`: |ours - PyTorch| ≤ atol + rtol · |PyTorch|.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor


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
        return Check(**{**vars(check), "outcome": Outcome.DIFFERS, "reason": reason})
    return _compare_numbers(step, ours.detach(), pytorch.detach(), tolerance)


def _compare_numbers(step: str, ours: Tensor, pytorch: Tensor, tolerance: Tolerance) -> Check:
    shape = tuple(ours.shape)
    # differences in float64: in half precision they would be rounded, or overflow
    a, b = ours.double(), pytorch.double()
    same = a == b  # true for equal infinities, never for NaN
    nan_a, nan_b = int(a.isnan().sum()), int(b.isnan().sum())
    finite = a.isfinite() & b.isfinite()
    difference = torch.where(finite, (a - b).abs(), 0.0).masked_fill(same, 0.0)
    size = torch.where(finite, b.abs(), 0.0)
    allowance = tolerance.atol + tolerance.rtol * size
    # an infinity against a number, or against the other infinity, is over any tolerance
    clash = ~finite & ~same & ~a.isnan() & ~b.isnan()
    share = torch.where(difference > 0, difference / allowance, 0.0).masked_fill(clash, math.inf)
    wrong = share > 1
    if share.numel() == 0:
        return Check(step, Outcome.EQUAL, "equal: nothing to compare", shape, tolerance)
    at = int(share.argmax())
    worst = tuple(int(i) for i in torch.unravel_index(torch.tensor(at), shape)) if shape else ()
    numbers = {
        "max_abs": difference.max().item(),
        "max_rel": torch.where((size > 0) & (difference > 0), difference / size, 0.0).max().item(),
        "margin": share.max().item(),
        "mismatches": int(wrong.sum()),
        "worst": worst,
        "ours": a[worst].item(),
        "pytorch": b[worst].item(),
    }
    outcome, reason = _judge(numbers, size.max().item(), (nan_a, nan_b), tolerance)
    return Check(step, outcome, reason, shape, tolerance, **numbers)


def _judge(
    numbers: dict, largest: float, nans: tuple[int, int], tolerance: Tolerance
) -> tuple[Outcome, str]:
    if any(nans):
        ours, pytorch = nans
        if ours and pytorch:
            return Outcome.NOT_COMPARABLE, f"{ours} NaN in ours and {pytorch} in PyTorch's; the rest was compared"
        side = f"{ours} NaN in ours, none in PyTorch's" if ours else f"{pytorch} NaN in PyTorch's, none in ours"
        return Outcome.DIFFERS, side
    if numbers["mismatches"]:
        reason = (
            f"{numbers['mismatches']} cells differ; worst at {list(numbers['worst'])}: "
            f"ours {numbers['ours']:.9g}, PyTorch {numbers['pytorch']:.9g}"
        )
        return Outcome.DIFFERS, reason
    if numbers["max_abs"] > 0 and 0 < largest <= tolerance.atol:
        reason = f"PyTorch's largest number, {largest:.3g}, is within atol {tolerance.atol:.3g}: zeros would pass too"
        return Outcome.CANNOT_TELL, reason
    if numbers["max_abs"] == 0:
        return Outcome.EQUAL, "equal to the last bit"
    return Outcome.EQUAL, f"equal; the worst cell uses {100 * numbers['margin']:.2g} % of its tolerance"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
