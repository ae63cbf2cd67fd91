"""A causal mask by a large negative number: added to the unscaled scores, instead of -inf after scaling.

softmax((QKᵀ + M) / √D) V, where M is 0 where a query may attend and, say, -1e4 where it may not.
While the scores are small beside 1e4 it gives the weights of the -inf mask to the last bit, since
exp(-1e4 / √D) is then 0 (in float64 from D of about 180 on it is no longer quite 0, but under 1e-130). It
differs where scores are large, and in a row that may attend to nothing: there all keys are shifted alike, and
softmax shares weight out among forbidden keys. In half precision the shifted scores are rounded to steps of 8
(float16) or 64 (bfloat16).
"""

import math
from typing import Final, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attention.scaled_dot_product import check_dtypes, check_mask, softmax

NUMBER: Final = -1e4
STEPS: Final = ("scores", "masked", "scaled", "weights", "context")


class FiniteMasked(NamedTuple):
    """Every step, in its order: here the mask comes before the scaling."""

    scores: Float[Tensor, "B H T S"]
    masked: Float[Tensor, "B H T S"]
    scaled: Float[Tensor, "B H T S"]
    weights: Float[Tensor, "B H T S"]
    context: Float[Tensor, "B H T V"]


def attend_with_number(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H S D"],
    v: Float[Tensor, "B H S V"],
    allowed: Bool[Tensor, "#B #H T S"] | Bool[Tensor, "T S"],
    number: float = NUMBER,
) -> FiniteMasked:
    """Attend with `number` added to the scores of forbidden cells. -inf is a number here too.

    Raises:
        ValueError: as `scaled_dot_product`; or the number does not fit the dtype, as -1e9 in float16 (N09).
    """
    check_dtypes(q=q, k=k, v=v)
    check_mask(allowed, (*q.shape[:-1], k.shape[-2]))
    check_fits(number, q.dtype)
    scores = q @ k.mT  # (B, H, T, S)
    masked = scores + torch.zeros(allowed.shape, dtype=q.dtype).masked_fill(~allowed, number)
    scaled = masked / math.sqrt(q.shape[-1])
    weights = softmax(scaled) if scaled.shape[-1] else scaled  # no key at all: nothing to share out
    return FiniteMasked(scores, masked, scaled, weights, weights @ v)  # context (B, H, T, V)


def check_fits(number: float, dtype: torch.dtype) -> None:
    """Refuse a number that the dtype cannot hold, or that is none; -inf it can.

    Raises:
        ValueError: as said; the message carries the smallest number that fits.
    """
    smallest = torch.finfo(dtype).min
    if math.isnan(number) or number > -smallest:
        raise ValueError(f"{number:g} is no number that could stand for -inf.")
    if number < smallest and not math.isinf(number):
        name = str(dtype).removeprefix("torch.")
        raise ValueError(
            f"{number:g} does not fit {name}, whose smallest number is {smallest:g}; -inf fits every dtype."
        )


class LargestForbidden(NamedTuple):
    """What a mask lets through: the largest weight of a forbidden cell, and the largest sum of them in a row."""

    weight: float
    row: float


def leak(
    weights: Float[Tensor, "B H T S"], allowed: Bool[Tensor, "#B #H T S"] | Bool[Tensor, "T S"]
) -> LargestForbidden:
    """How much weight lies where none may be; NaN where the weights are NaN there."""
    forbidden = weights.double().masked_fill(allowed, 0.0)
    if forbidden.numel() == 0:
        return LargestForbidden(0.0, 0.0)
    return LargestForbidden(forbidden.max().item(), forbidden.sum(-1).max().item())
