"""Multi-head attention as four einsums over the letters B, T, S, H, D and E, without a view or a transpose.

The same equation as `multi_head.attend`, and no line shared with it: another way to the same answer.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attention.sample import AttentionParameters


class EinsumAnswer(NamedTuple):
    """The weights and what comes out."""

    weights: Float[Tensor, "B H T T"]
    output: Float[Tensor, "B T E"]


def attend_by_einsum(
    tokens: Float[Tensor, "B T in"],
    parameters: AttentionParameters,
    num_heads: int,
    allowed: Bool[Tensor, "T T"] | None = None,
) -> EinsumAnswer:
    """Self-attention with `num_heads` heads. Every query must see at least one key.

    Args:
        tokens: embeddings.
        parameters: projections in and out.
        num_heads: must divide E.
        allowed: True where a query may attend to a key; None where each may to all.
    """
    p = parameters
    per_head = {
        name: getattr(p, name).unflatten(0, (num_heads, -1)) for name in ("w_q", "w_k", "w_v", "b_q", "b_k", "b_v")
    }
    q, k, v = (
        torch.einsum("bte,hde->bhtd", tokens, per_head[f"w_{name}"]) + per_head[f"b_{name}"][:, None] for name in "qkv"
    )
    scaled = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(q.shape[-1])
    masked = scaled if allowed is None else scaled.masked_fill(~allowed, -math.inf)
    weights = torch.softmax(masked, dim=-1)
    context = torch.einsum("bhts,bhsd->bthd", weights, v)
    output = torch.einsum("bthd,ehd->bte", context, p.w_o.unflatten(1, (num_heads, -1))) + p.b_o
    return EinsumAnswer(weights, output)
