"""The position-wise feed-forward network: widen, bend, narrow; the same for every token.

Source: "Attention Is All You Need", section 3.3 (with ReLU); GELU is x · Φ(x), where Φ is the
standard normal distribution function ("Gaussian Error Linear Units", Hendrycks and Gimpel, 2016).
"""

import math
from collections.abc import Callable
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor


def gelu(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """GELU in its exact form, x · ½ (1 + erf(x / √2)), and not its approximation by tanh.

    Example:
        >>> gelu(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.1587,  0.0000,  0.8413])
    """
    exact = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x  # as PyTorch does: one rounding, at the end
    return (exact * 0.5 * (1 + torch.erf(exact / math.sqrt(2)))).to(x.dtype)


def relu(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """What is positive, and 0 for the rest.

    Example:
        >>> relu(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([0., 0., 1.])
    """
    return torch.where(x <= 0, 0.0, x)  # not a clamp: its slope at 0 would be 1


ACTIVATIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {"gelu": gelu, "relu": relu}


def check_activation(name: str) -> None:
    """Refuse an activation that is not here (S22).

    Raises:
        ValueError: as said; the message lists those that are.
    """
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise ValueError(f"activation is {name!r}; it must be one of {', '.join(ACTIVATIONS)}.")
