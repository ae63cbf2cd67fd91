"""Three rungs to multi-head attention: one causal head; heads side by side; one packed projection.

Constructor arguments and state-dict names (`W_query`, `W_key`, `W_value`, `out_proj`, `mask`) are
those of "Build a Large Language Model (From Scratch)" (Raschka, 2024), chapter 3, so that a
reader's own checkpoint loads. `forward` is always the last step of `trace`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention import masks
from attention.dropout import check_probability, dropout
from attention.multi_head import AttentionTrace, attend, check_head_count
from attention.sample import AttentionParameters
from attention.single_head import HeadTrace, attend_one


class _Causal(nn.Module):
    """What all three share: the projections in, the mask for `context_length` tokens, and dropout."""

    mask: Tensor

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool) -> None:
        super().__init__()
        check_probability(dropout)
        for name, size in (("d_in", d_in), ("d_out", d_out), ("context_length", context_length)):
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ValueError(f"{name} is {size!r}; it must be a whole number from 1 up.")
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = dropout
        # as the book keeps it: 1 where blocked
        self.register_buffer("mask", (~masks.grid(masks.causal, context_length)).float())

    def allowed(self, x: Tensor) -> Bool[Tensor, "T T"]:
        """The part of the mask that is for these tokens, turned to True = may attend.

        Raises:
            ValueError: there are more tokens than the mask was made for (S14).
        """
        num_tokens, longest = x.shape[-2] if x.ndim > 1 else 0, len(self.mask)
        if num_tokens > longest:
            raise ValueError(f"there are {num_tokens} tokens; this was built for a context_length of {longest}.")
        return self.mask[:num_tokens, :num_tokens] == 0

    def drop(self, generator: torch.Generator | None) -> "partial[Tensor]":
        """Dropout while training, nothing in eval mode (N15)."""
        return partial(dropout, p=self.dropout if self.training else 0.0, generator=generator)


class CausalAttention(_Causal):
    """One head under a causal mask: (B, T, d_in) to (B, T, d_out).

    Args:
        d_in: the width of the tokens.
        d_out: the width of q, k and v.
        context_length: the most tokens that it can take.
        dropout: the probability of an attention weight to be set to 0 in training.
        qkv_bias: whether the projections have a bias.
    """

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False) -> None:
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)

    def forward(self, x: Float[Tensor, "B T in"], generator: torch.Generator | None = None) -> Float[Tensor, "B T out"]:
        """The context of every token; in training, dropout draws from `generator`."""
        return self.trace(x, generator).output

    def trace(self, x: Float[Tensor, "B T in"], generator: torch.Generator | None = None) -> HeadTrace:
        """Every step.

        Raises:
            ValueError: there are more tokens than `context_length`, or tokens of another width.
        """
        return attend_one(x, (self.W_query, self.W_key, self.W_value), self.allowed(x), self.drop(generator))


@dataclass(frozen=True)
class ListTrace:
    """Every step of a list of heads."""

    heads: tuple[HeadTrace, ...]
    merged: Float[Tensor, "B T HD"]
    output: Float[Tensor, "B T HD"]

    @property
    def weights(self) -> Float[Tensor, "B H T T"]:
        """The weights of all heads, as the packed form has them."""
        return torch.cat([head.weights for head in self.heads], dim=1)

    @property
    def dropped(self) -> Float[Tensor, "B H T T"]:
        """The weights of all heads after dropout."""
        return torch.cat([head.dropped for head in self.heads], dim=1)


class MultiHeadAttentionWrapper(nn.Module):
    """A list of heads side by side, then mixed: (B, T, d_in) to (B, T, num_heads · d_out).

    `d_out` is the width of each head; the other arguments are those of `CausalAttention`.
    """

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__()
        check_head_count(d_out * num_heads if isinstance(num_heads, int) else 0, num_heads)
        self.heads = nn.ModuleList(
            CausalAttention(d_in, d_out, context_length, dropout, qkv_bias) for _ in range(num_heads)
        )
        self.out_proj = nn.Linear(d_out * num_heads, d_out * num_heads)

    def forward(self, x: Float[Tensor, "B T in"], generator: torch.Generator | None = None) -> Float[Tensor, "B T HD"]:
        """The mixed context of every token; in training, dropout draws from `generator`, head after head."""
        return self.trace(x, generator).output

    def trace(self, x: Float[Tensor, "B T in"], generator: torch.Generator | None = None) -> ListTrace:
        """Every step of every head."""
        heads = tuple(head.trace(x, generator) for head in self.each_head())
        merged = torch.cat([head.output for head in heads], dim=-1)  # H of (B, T, D) -> (B, T, H·D)
        return ListTrace(heads, merged, self.out_proj(merged))

    def each_head(self) -> Iterator[CausalAttention]:
        """The heads, in their order."""
        return iter(cast("list[CausalAttention]", self.heads))  # a ModuleList forgets what it holds


class MultiHeadAttention(_Causal):
    """One packed projection, split into heads, then mixed: (B, T, d_in) to (B, T, d_out).

    `d_out` is the width of all heads together; the other arguments are those of `CausalAttention`.

    Raises:
        ValueError: `num_heads` does not divide `d_out`.
    """

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        check_head_count(d_out, num_heads)
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.num_heads = num_heads
        self.out_proj = nn.Linear(d_out, d_out)

    def forward(self, x: Float[Tensor, "B T in"], generator: torch.Generator | None = None) -> Float[Tensor, "B T out"]:
        """The mixed context of every token; in training, dropout draws from `generator`."""
        return self.trace(x, generator).output

    def trace(self, x: Float[Tensor, "B T in"], generator: torch.Generator | None = None) -> AttentionTrace:
        """Every step of all heads at once."""
        return attend(x, packed_parameters(self), self.num_heads, self.allowed(x), self.drop(generator))


def packed_parameters(module: MultiHeadAttention) -> AttentionParameters:
    """The module's own parameters, not copies, so that gradients reach them; a bias that is not there is zeros."""
    q, k, v, o = module.W_query, module.W_key, module.W_value, module.out_proj
    pairs = [(layer.weight, layer.bias if layer.bias is not None else zeros(layer)) for layer in (q, k, v, o)]
    return AttentionParameters(*(tensor for pair in pairs for tensor in pair))


def zeros(layer: nn.Linear) -> Float[Tensor, " out"]:
    """The bias of a layer that has none."""
    return layer.weight.new_zeros(len(layer.weight))
