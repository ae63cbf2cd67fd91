"""Dropout: each number is set to 0 with probability p, the others grow by 1 / (1 − p).

Source: "Dropout" (Srivastava et al., 2014), in the form of `F.dropout`; on attention weights as
`F.scaled_dot_product_attention` has it. `F.dropout` takes no generator and draws from the random
state of the whole process; this one draws from the generator that it is given.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def dropout(x: Float[Tensor, "*shape"], p: float, generator: torch.Generator | None = None) -> Float[Tensor, "*shape"]:
    """Set numbers to 0 at random; what is left has the same mean.

    Args:
        x: any tensor.
        p: the probability of each number to become 0. With 0 `x` itself comes back, with 1 zeros.
        generator: where chance comes from; None is PyTorch's own, which the whole process shares.

    Raises:
        ValueError: p is not from 0 to 1.
    """
    check_probability(p)
    if p == 0:
        return x
    if p == 1:
        return torch.where(torch.zeros_like(x, dtype=torch.bool), x, 0.0)  # still of x, so that gradients flow
    # drawn in float32 whatever the dtype: a change of precision must not change what is dropped
    kept = torch.rand(x.shape, generator=generator, dtype=torch.float32, device=x.device) >= p
    return torch.where(kept, x / (1 - p), 0.0)


def check_probability(p: float) -> None:
    """Refuse what is no probability (N15: PyTorch's own message for -0.1 misleads).

    Raises:
        ValueError: as said.
    """
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 <= p <= 1:
        raise ValueError(f"dropout is {p!r}; it must be a number from 0 to 1.")
