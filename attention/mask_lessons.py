"""What the page of masks shows besides the mask itself: a number in place of -inf, and what each dtype makes of it."""

import math
from dataclasses import dataclass
from typing import Final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attention import finite_mask, masks
from attention.config import DTYPES, AttentionConfig
from attention.finite_mask import attend_with_number
from attention.mask_config import MaskConfig
from attention.multi_head import AttentionTrace, attend, attend_masked, draw
from attention.scaled_dot_product import scaled_dot_product, softmax

# the first script's, one that people use, one that is too small, and the least that a dtype can hold
NUMBERS: Final = ("-inf", "-1e9", "-1e4", "-100", "finfo.min")


@dataclass(frozen=True)
class WithAndWithout:
    """One head under a mask and without it, on the same numbers."""

    allowed: Bool[Tensor, "T S"]
    without: Float[Tensor, "T S"]
    under: Float[Tensor, "T S"]


@torch.no_grad()
def with_and_without(mask: MaskConfig, head: int, trace: AttentionTrace) -> WithAndWithout:
    """The weights of one head: under the mask, as in the trace, and the softmax of its scaled scores without one."""
    free = softmax(trace.scaled[0, head])  # the softmax of the trace: where the mask allows all, the difference is 0
    return WithAndWithout(mask.allowed, free, trace.weights[0, head])


@dataclass(frozen=True)
class NumberForInfinity:
    """One head with -inf and with a number for what is forbidden; scores are `loudness` times as large as drawn.

    That is what was asked for, or less where the dtype could not hold such scores.
    """

    loudness: int | float
    infinite: Float[Tensor, "T S"]
    finite: Float[Tensor, "T S"]
    largest_score: float
    leak: float
    largest_gap: float


@torch.no_grad()
def number_for_infinity(
    config: AttentionConfig, mask: MaskConfig, head: int, number: str, loudness: int | float
) -> NumberForInfinity:
    """Both ways to mask, in the config's dtype.

    Raises:
        ValueError: the number does not fit the dtype (N09).
    """
    trace = attend_masked(config, mask)
    part = slice(head, head + 1)
    loudness = loudest(trace.scores[:, part], loudness)
    q, k, v = loudness * trace.q[:, part], trace.k[:, part], trace.v[:, part]
    allowed = mask.allowed
    infinite = scaled_dot_product(q, k, v, allowed)
    finite = attend_with_number(q, k, v, allowed, as_number(number, q.dtype))
    gap = (infinite.weights.double() - finite.weights.double()).abs().max().item()
    return NumberForInfinity(
        loudness=loudness,
        infinite=infinite.weights[0, 0],
        finite=finite.weights[0, 0],
        largest_score=infinite.scores.double().abs().max().item(),
        leak=finite_mask.leak(finite.weights, allowed).row,
        largest_gap=gap,
    )


@dataclass(frozen=True)
class Trap:
    """What one number does in one dtype: to an ordinary causal row, and to a row that may attend to nothing.

    `refused` is what is said where the number does not fit; the other two are then None.
    """

    number: str
    dtype: str
    refused: str
    leak: float | None
    empty_row: str | None


@torch.no_grad()
def traps(config: AttentionConfig, loudness: int | float = 1) -> tuple[Trap, ...]:
    """Every number in every dtype, on the scene's first head under a causal mask whose first query sees nothing."""
    num_tokens = config.num_tokens
    allowed = masks.grid(masks.all_of(masks.causal, masks.padding(1, num_tokens)), num_tokens)
    tokens, parameters = draw(config)
    first = attend(tokens.double(), parameters.to(torch.float64), config.num_heads)
    found = []
    for dtype_name, dtype in DTYPES.items():
        factor = loudest(first.scores[:, :1].to(dtype), loudness)
        q, k, v = (x[:, :1].to(dtype) for x in (factor * first.q, first.k, first.v))
        for number in NUMBERS:
            found.append(_trap(number, dtype_name, q, k, v, allowed))
    return tuple(found)


def loudest(scores: Tensor, loudness: int | float) -> int | float:
    """The factor, or the largest whole one below it at which no score comes near the end of its dtype (N07)."""
    largest = scores.double().abs().max().item() if scores.numel() else 0.0
    room = torch.finfo(scores.dtype).max / 2
    return loudness if largest * loudness <= room else max(1.0, float(int(room / largest)))


def as_number(text: str, dtype: torch.dtype) -> float:
    """The number that a text of `NUMBERS` means in a dtype."""
    return torch.finfo(dtype).min if text == "finfo.min" else float(text)


def _trap(number: str, dtype: str, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Trap:
    try:
        weights = attend_with_number(q, k, v, allowed, as_number(number, q.dtype)).weights[0, 0]
    except ValueError as refusal:
        return Trap(number, dtype, str(refusal), None, None)
    ordinary = allowed.any(-1)
    leak = finite_mask.leak(weights[ordinary][None, None], allowed[ordinary]).row if ordinary.any() else 0.0
    return Trap(number, dtype, "", leak, _describe(weights[~ordinary].double()))


def _describe(rows: Tensor) -> str:
    if rows.isnan().any():
        return "NaN"
    if not rows.any():
        return "zeros"
    return "one share each" if math.isclose(rows.max().item(), rows.min().item(), rel_tol=1e-2) else "uneven shares"
