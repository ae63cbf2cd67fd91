"""Masks as rules of (query, key) positions. True = may attend, as in `F.scaled_dot_product_attention`.

`nn.MultiheadAttention` means the opposite by True: it is given `~allowed`.
"""

import torch
from jaxtyping import Bool
from torch import Tensor


def causal(num_tokens: int) -> Bool[Tensor, "T T"]:
    """A query sees itself and what came before it: key ≤ query ("Attention Is All You Need", 3.2.3).

    Example:
        >>> causal(3).int().tolist()
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    position = torch.arange(num_tokens)
    return position[None, :] <= position[:, None]


def full(num_tokens: int) -> Bool[Tensor, "T T"]:
    """Every query sees every key.

    Example:
        >>> full(2).int().tolist()
        [[1, 1], [1, 1]]
    """
    return torch.ones(num_tokens, num_tokens, dtype=torch.bool)
