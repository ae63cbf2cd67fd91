"""What the two scripts behind this project assert, as claims about a scene that can be looked at.

They compare with `torch.allclose` at rtol 1e-6 and atol 1e-6, and only what they compare is compared
here; the verdict goes further.
"""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from attention.compare import Tolerance, largest_distance
from attention.config import AttentionConfig

TOLERANCE: Final = Tolerance(rtol=1e-6, atol=1e-6)


@dataclass(frozen=True)
class Claim:
    """One assertion: what it says, whether it holds, and the numbers it was judged by."""

    text: str
    holds: bool
    found: str


def close(text: str, ours: Tensor, pytorch: Tensor) -> Claim:
    """The claim that two tensors are close, shape included (`torch.allclose` alone would broadcast)."""
    holds = ours.shape == pytorch.shape and torch.allclose(ours, pytorch, rtol=TOLERANCE.rtol, atol=TOLERANCE.atol)
    if ours.shape != pytorch.shape:
        return Claim(text, holds, f"shapes {tuple(ours.shape)} and {tuple(pytorch.shape)}")
    return Claim(text, holds, f"largest difference {largest_distance(ours, pytorch):.2e}")


def divides(config: AttentionConfig) -> tuple[Claim, Claim]:
    """The heads fill the embedding, said both ways."""
    embed_dim, heads, head_dim = config.embed_dim, config.num_heads, config.head_dim
    return (
        Claim("head_dim × num_heads = embed_dim", head_dim * heads == embed_dim, f"{head_dim} × {heads} = {embed_dim}"),
        Claim("d_out % num_heads = 0", embed_dim % heads == 0, f"{embed_dim} % {heads} = {embed_dim % heads}"),
    )


def shape(text: str, found: Tensor, wanted: tuple[int, ...]) -> Claim:
    """The claim that a tensor has a shape."""
    return Claim(text, tuple(found.shape) == wanted, " × ".join(map(str, found.shape)))
