"""One scene in every dtype: how far each step is off the float64 answer, and what `torch.allclose` makes of it.

In each dtype the float64 answer is PyTorch's own, on the very numbers that the dtype holds, cast up. So what is
measured is the arithmetic; that a token of 0.1 is another number in bfloat16 is no error here.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

from attention import reference
from attention.compare import Check, Outcome, Tolerance, apart
from attention.config import DTYPES, AttentionConfig
from attention.multi_head import STEPS, AttentionTrace, Inputs, allowed_by, attend, draw
from attention.reference import ReferenceTrace
from attention.verify import MATHS, Distance, Report, Verdict, report, sides_of

# How many roundings, eps · size of the step, ours may be off besides twice PyTorch's own: see `budget`.
ROUNDINGS: Final = 1
AFTER_SOFTMAX: Final = 6
FLOAT64: Final = 32
# for how long a curve over many seeds may run: unasked, and at all
AT_ONCE: Final = 0.4
SECONDS: Final = 10
_SOFTMAX_ON: Final = ("weights", "dropped", "context", "merged", "output")
_weights: Final = attrgetter("weights")


@dataclass(frozen=True)
class Budget:
    """One step in one dtype: how far ours and PyTorch's own are off the float64 answer, and how far ours may be.

    These are distances of the worst cell; `inf` where a number stands against NaN or an infinity. `apart` is how far
    ours and PyTorch's are from each other.
    """

    dtype: str
    step: str
    ours: float
    pytorch: float
    limit: float
    apart: float

    @property
    def kept(self) -> bool:
        """Whether ours is within its limit."""
        return self.ours <= self.limit


@dataclass(frozen=True)
class Measured:
    """One scene in every dtype, in the order of `DTYPES`: every step's budget, and each dtype's comparison in float64.

    `maths` compares ours with PyTorch's where both reckon in float64, on each dtype's own numbers.
    """

    budgets: tuple[Budget, ...]
    maths: tuple[Report, ...]


@dataclass(frozen=True)
class Tiles:
    """One head in every dtype, in the order of `DTYPES`.

    Its weights, each in its own dtype; how far each weight is off the float64 answer, with its sign, as a multiple of
    the dtype's eps, so that all dtypes fit one scale; and the largest of these distances as it is.
    """

    weights: tuple[Float[Tensor, "T T"], ...]
    off: tuple[Float[Tensor, "T T"], ...]
    furthest: tuple[float, ...]


@dataclass(frozen=True)
class Closeness:
    """What `torch.allclose(ours, PyTorch's)` says of one step in one dtype.

    `failing` is the share of cells that `torch.isclose` calls False, 0 to 1. `outcome` is our own verdict at the
    same tolerance.
    """

    dtype: str
    step: str
    close: bool
    failing: float
    outcome: Outcome

    @property
    def as_we_say(self) -> bool:
        """Whether our own verdict is the same."""
        return self.close == (self.outcome is Outcome.EQUAL)


@dataclass(frozen=True)
class Needed:
    """The smallest atol with which each dtype passes, in the order of `DTYPES`, for one seed."""

    seed: int
    atols: tuple[float, ...]


def budget(step: str, ours: Tensor, pytorch: Tensor, answer: Float[Tensor, "..."]) -> Budget:
    """How far ours may be off the float64 answer: twice PyTorch's own distance, and a few roundings.

    A rounding is the dtype's eps times the step's largest number. The few are for where PyTorch happened to be
    exact. Over 3,100 random scenes in each dtype (embed dim 1 to 1024, up to 32 heads and 96 tokens), correct code
    needed, besides twice PyTorch's distance:

    | | q k v scores scaled masked | weights context merged output |
    |---|---|---|
    | float32 | at most 0.8 roundings | 2.8 |
    | bfloat16 | 0.6 | 1.5 |
    | float16 | 0.7 | 3.3 |
    | allowed | 1 | 6 |

    After the softmax it is more, since an error of a score counts by the score's size, not by the weight's. In
    float64 PyTorch is the answer itself, so its distance is 0: ours was up to 12.5 roundings off, and 32 are allowed.

    Args:
        step: its name; what follows the softmax may be off by more.
        ours: the step in its dtype, of any shape.
        pytorch: the same by PyTorch, in the same dtype.
        answer: the same in float64.
    """
    dtype = str(ours.dtype).removeprefix("torch.")
    off, pytorch_off = _distance(ours, answer), _distance(pytorch, answer)
    finite = answer[answer.isfinite()]
    size = finite.abs().max().item() if finite.numel() else 0.0
    usual = AFTER_SOFTMAX if step.rpartition(".")[2] in _SOFTMAX_ON else ROUNDINGS
    roundings = FLOAT64 if dtype == "float64" else usual
    limit = 2 * pytorch_off + roundings * torch.finfo(ours.dtype).eps * size
    return Budget(dtype, step, off, pytorch_off, limit, apart=_distance(ours, pytorch))


def errors(config: AttentionConfig) -> tuple[Budget, ...]:
    """Every step of a scene in every dtype; the config's own dtype is not asked."""
    return measure(config)[0].budgets


@torch.no_grad()
def measure(config: AttentionConfig, head: int = 0) -> tuple[Measured, Tiles]:
    """A scene in every dtype, and one head of it; one dtype after the other, since all at once would be large."""
    inputs = _draw(config)
    budgets: list[Budget] = []
    maths, weights, off, furthest = [], [], [], []
    for name, dtype in DTYPES.items():
        sides = sides_of(replace(config, dtype=name), inputs=_cast(inputs, dtype))
        ours_exact, exact = sides.exact()
        maths.append(report(ours_exact, exact, MATHS))
        del ours_exact
        three = sides.ours, sides.pytorch, exact
        budgets += (budget(step, *map(attrgetter(step), three)) for step in STEPS)
        shown, answer = (_weights(trace)[0, head] for trace in (sides.ours, exact))
        weights.append(shown.clone())  # a view would keep every head alive
        distance = shown.double() - answer
        off.append(distance / torch.finfo(dtype).eps)
        furthest.append(distance.abs().max().item())
    return Measured(tuple(budgets), tuple(maths)), Tiles(tuple(weights), tuple(off), tuple(furthest))


@torch.no_grad()
def closeness(config: AttentionConfig, tolerance: Tolerance) -> tuple[Closeness, ...]:
    """What `torch.allclose` says of ours against PyTorch's in every dtype and at every step, beside our own verdict.

    It reckons in the dtype itself, so that in half precision the tolerance is rounded too.
    """
    inputs = _draw(config)
    found: list[Closeness] = []
    for name, dtype in DTYPES.items():
        ours, pytorch = _both(config, _cast(inputs, dtype))
        for check in report(ours, pytorch, tolerance).checks:
            a, b = getattr(ours, check.step), getattr(pytorch, check.step)
            close = torch.isclose(a, b, rtol=tolerance.rtol, atol=tolerance.atol)
            says = torch.allclose(a, b, rtol=tolerance.rtol, atol=tolerance.atol)
            failing = int((~close).sum()) / close.numel()
            found.append(Closeness(name, check.step, says, failing, check.outcome))
    return tuple(found)


def smallest_atol(ours: Tensor, pytorch: Tensor, rtol: float) -> float:
    """The smallest atol with which |ours - PyTorch's| ≤ atol + rtol · |PyTorch's| in every cell, in float64.

    0 where rtol is enough by itself, `inf` where NaN or an infinity stands against something else.
    """
    a, b = ours.double(), pytorch.double()
    # two equal infinities are no distance
    short = torch.where(a == b, 0.0, (a - b).abs() - rtol * b.abs())
    return max(0.0, short.nan_to_num(nan=math.inf, posinf=math.inf, neginf=math.inf).max().item())


def pass_rates(config: AttentionConfig, seeds: int, step: str, rtol: float) -> Iterator[Needed]:
    """The smallest atol that lets a step pass in each dtype, for the seeds 0, 1, 2, …; one after each seed.

    Each seed's scene is drawn once and cast: a dtype changes the precision, not the numbers drawn.
    """
    for seed in range(seeds):
        # not around the loop: between two seeds whoever asks would be without gradients too
        with torch.no_grad():
            scene = replace(config, seed=seed)
            inputs = _draw(scene)
            pairs = (_both(scene, _cast(inputs, dtype)) for dtype in DTYPES.values())
            found = tuple(smallest_atol(getattr(ours, step), getattr(pytorch, step), rtol) for ours, pytorch in pairs)
        yield Needed(seed, found)


def by_dtype(needed: Iterable[Needed]) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Each dtype, and the smallest atol of every seed in it."""
    return tuple(zip(DTYPES, zip(*(one.atols for one in needed), strict=True), strict=True))


def share_passing(atols: tuple[float, ...], atol: float) -> float:
    """The share of seeds, 0 to 1, that pass at an atol, from the smallest that each needs."""
    return sum(needed <= atol for needed in atols) / len(atols)


def time_of_seed(config: AttentionConfig) -> float:
    """About how many seconds one seed takes, in all dtypes and on both sides.

    A rule from five sizes on one core, right to a quarter: a little for every call, for every number drawn, and
    for the products, which take long in half precision.
    """
    width, tokens = config.embed_dim, config.num_tokens
    drawn, projected, attended = width**2, width**2 * tokens, tokens**2 * width
    return 0.008 + 36e-9 * drawn + 6.5e-9 * projected + 20e-9 * attended


def seeds_for(config: AttentionConfig, wanted: int, seconds: int | float) -> int:
    """As many seeds as wanted, or as are done in about so many seconds; at least one."""
    return max(1, min(wanted, int(seconds / time_of_seed(config))))


def judged(usual: Verdict, dtype: str, measured: Measured) -> Verdict:
    """The verdict on all dtypes: the usual one for its own dtype, the budgets for the others.

    Steps are named after their dtype: "float16: weights". The maths is that of each dtype's own numbers.
    """
    arithmetic, distances = [], []
    for budgeted, maths in zip(measured.budgets, _all_checks(measured.maths), strict=True):
        named = f"{budgeted.dtype}: {budgeted.step}"
        own = next(check for check in usual.arithmetic.checks if check.step == budgeted.step)
        check = replace(own, step=named) if budgeted.dtype == dtype else _as_check(named, budgeted, maths.shape)
        # the reader's own tolerance never hides that a budget is broken
        arithmetic.append(check if budgeted.kept or not check.equal else _as_check(named, budgeted, maths.shape))
        distances.append(Distance(named, budgeted.ours, budgeted.pytorch))
    return Verdict(
        maths=Report(
            tuple(
                replace(check, step=f"{b.dtype}: {check.step}")
                for b, check in zip(measured.budgets, _all_checks(measured.maths), strict=True)
            )
        ),
        arithmetic=Report(tuple(arithmetic)),
        distances=tuple(distances),
        probe=usual.probe,
    )


def _all_checks(reports: tuple[Report, ...]) -> tuple[Check, ...]:
    return tuple(check for one in reports for check in one.checks)


def _as_check(name: str, budgeted: Budget, shape: tuple[int, ...]) -> Check:
    """A budget as a check: the distance is from the float64 answer."""
    kept, limit = budgeted.kept, budgeted.limit
    said = f"{budgeted.ours:.3g} off the float64 answer, PyTorch's {budgeted.pytorch:.3g}, allowed {limit:.3g}"
    used = budgeted.ours / limit if limit else 0.0 if kept else math.inf
    outcome = Outcome.EQUAL if kept else Outcome.DIFFERS
    allowed = Tolerance(rtol=0, atol=limit if math.isfinite(limit) else 0)
    return Check(name, outcome, said, shape, allowed, max_abs=budgeted.apart, margin=used)


def _draw(config: AttentionConfig) -> Inputs:
    """Tokens and parameters in float32, which is what they are drawn in; every dtype's are a cast of these."""
    return draw(replace(config, dtype="float32"))


def _cast(inputs: Inputs, dtype: torch.dtype) -> Inputs:
    tokens, parameters = inputs
    return tokens.to(dtype), parameters.to(dtype)


def _both(config: AttentionConfig, inputs: Inputs) -> tuple[AttentionTrace, ReferenceTrace]:
    """Ours and PyTorch's."""
    tokens, parameters = inputs
    scene = tokens, parameters, config.num_heads, allowed_by(config)
    return attend(*scene), reference.attend(*scene)


def _distance(x: Tensor, answer: Tensor) -> float:
    """The largest |x - answer|; unlike `largest_distance`, infinite where only one of the two is a number."""
    return apart(x, answer).nan_to_num(nan=math.inf, posinf=math.inf).max().item()
