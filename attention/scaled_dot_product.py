"""Scaled dot-product attention: softmax(QKᵀ / √D) V.

Source: "Attention Is All You Need" (Vaswani et al., 2017), section 3.2.1, equation 1.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor


class ScaledDotProduct(NamedTuple):
    """Every step of the equation, in its order. Without dropout, `dropped` is `weights` itself."""

    scores: Float[Tensor, "B H T S"]
    scaled: Float[Tensor, "B H T S"]
    masked: Float[Tensor, "B H T S"]
    weights: Float[Tensor, "B H T S"]
    dropped: Float[Tensor, "B H T S"]
    context: Float[Tensor, "B H T V"]


def scaled_dot_product(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H S D"],
    v: Float[Tensor, "B H S V"],
    allowed: Bool[Tensor, "#B #H T S"] | Bool[Tensor, "T S"] | None = None,
    drop: Callable[[Tensor], Tensor] | None = None,
) -> ScaledDotProduct:
    """Attend from every query to the keys it may see, keeping each step.

    Args:
        q: queries, T positions of width D.
        k: keys, S positions of the same width.
        v: values, one for each key, of any width V.
        allowed: True where a query may attend to a key; None where every query sees every key. A
            row with no True gives zeros, as in `F.scaled_dot_product_attention`.
        drop: what dropout does to the weights before they meet the values; None for nothing.

    Returns:
        scores, scaled, masked, weights, dropped and context.

    Raises:
        ValueError: q, k and v are not of one dtype, or the mask is not of bool, or not of T queries by S
            keys; the message says what it is.
    """
    check_dtypes(q=q, k=k, v=v)
    check_mask(allowed, (*q.shape[:-1], k.shape[-2]))
    scores = q @ k.mT  # (B, H, T, S)
    scaled = scores / math.sqrt(q.shape[-1])  # a sum of D unit-variance products has variance D; back to 1
    # -inf and no large number: it is right in every dtype and at every size of the scores
    masked = scaled if allowed is None else torch.where(allowed, scaled, -math.inf)
    weights = softmax_over_allowed(masked, allowed)
    dropped = weights if drop is None else drop(weights)
    context = dropped @ v  # (B, H, T, V)
    return ScaledDotProduct(scores, scaled, masked, weights, dropped, context)


def check_dtypes(**tensors: Tensor) -> None:
    """Refuse tensors of two precisions, which PyTorch's own message does not name.

    Raises:
        ValueError: as said; the message names each tensor's dtype.
    """
    if len({tensor.dtype for tensor in tensors.values()}) > 1:
        found = ", ".join(f"{name} is {str(x.dtype).removeprefix('torch.')}" for name, x in tensors.items())
        raise ValueError(f"{found}; they must all be of one dtype.")


def check_mask(allowed: Tensor | None, scores: tuple[int, ...]) -> None:
    """Refuse a mask that would be taken for another: broadcast from fewer tokens, or made of numbers.

    A mask with three axes could mean sequences or heads, and is taken for neither.

    Args:
        allowed: the mask.
        scores: the shape of the scores that it is for: (B, H, T, S).

    Raises:
        ValueError: as said; the message carries the shapes.
    """
    if allowed is None:
        return
    if allowed.dtype != torch.bool:
        raise ValueError(f"the mask holds {allowed.dtype}; it must be bool, True where a query may attend.")
    shape, (*batch, num_queries, num_keys) = tuple(allowed.shape), scores
    if shape[-2:] != (num_queries, num_keys):
        raise ValueError(f"the mask is {shape}; it must end in ({num_queries}, {num_keys}), queries by keys.")
    leading = shape[:-2]
    fits = len(leading) == len(batch) and all(n in (1, size) for n, size in zip(leading, batch, strict=True))
    if leading and not fits:
        raise ValueError(
            f"the mask is {shape}; for scores of {tuple(scores)} it must be ({num_queries}, {num_keys}), "
            f"or have {len(scores)} axes of which the first {len(batch)} are 1 or {' × '.join(map(str, batch))}."
        )


def softmax(x: Float[Tensor, "... S"]) -> Float[Tensor, "... S"]:
    """exp(x) / Σ exp(x) over the last axis, with the row's maximum taken off first.

    The result is the same for any shift of the row; without this one exp overflows from 89 on
    (float32).

    Example:
        >>> softmax(torch.tensor([1000.0, 1001.0]))
        tensor([0.2689, 0.7311])
    """
    exponentials = (x - x.amax(dim=-1, keepdim=True)).exp_()  # in place of the difference, which nobody needs
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def softmax_over_allowed(
    masked: Float[Tensor, "B H T S"], allowed: Bool[Tensor, "#B #H T S"] | Bool[Tensor, "T S"] | None
) -> Float[Tensor, "B H T S"]:
    """Softmax in which a row that may attend to nothing is zeros.

    Such a row is all -inf, of which softmax would make NaN, and its gradient would spread NaN to
    every parameter. It takes part as a row of zeros, and what comes out of it is thrown away.
    """
    if masked.shape[-1] == 0:  # no key at all: nothing to take a maximum of
        return masked
    if allowed is None:
        return softmax(masked)
    has_key = allowed.any(dim=-1, keepdim=True)  # (..., T, 1)
    if has_key.all():
        return softmax(masked)
    return torch.where(has_key, softmax(torch.where(has_key, masked, 0.0)), 0.0)
