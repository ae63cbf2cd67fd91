"""Layer normalisation: (x − mean) / √(variance + eps) · weight + bias, over the last axis.

Source: "Layer Normalization" (Ba et al., 2016), section 3; the variance is the biased one, and eps
stands inside the root, as in `nn.LayerNorm`.
"""

from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

EPS: Final = 1e-5


def layer_norm(
    x: Float[Tensor, "*batch E"], weight: Float[Tensor, " E"], bias: Float[Tensor, " E"], eps: float = EPS
) -> Float[Tensor, "*batch E"]:
    """Bring every row to mean 0 and variance 1, then scale and shift each dimension.

    Example:
        >>> layer_norm(torch.tensor([1.0, 0, 0, 0]), torch.ones(4), torch.zeros(4))
        tensor([ 1.7320, -0.5773, -0.5773, -0.5773])
    """
    # in half precision the squares would lose what they are summed for; PyTorch computes there in float32 too
    exact = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    centred = exact - exact.mean(dim=-1, keepdim=True)  # the mean first: E[x²] − E[x]² would cancel
    variance = centred.square().mean(dim=-1, keepdim=True)
    normed = centred / torch.sqrt(variance + eps)
    return (normed * weight.to(exact.dtype) + bias.to(exact.dtype)).to(x.dtype)
