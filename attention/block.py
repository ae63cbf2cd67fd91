"""The transformer block: attention, residual, norm, feed-forward, residual, norm; and a stack of them.

Source: "Attention Is All You Need", section 3.1 (norm after the sum: LN(x + f(x))), and "On Layer
Normalization in the Transformer Architecture" (Xiong et al., 2020; norm before: x + f(LN(x))).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention import multi_head
from attention.dropout import check_probability, dropout
from attention.feed_forward import ACTIVATIONS, check_activation
from attention.layer_norm import layer_norm
from attention.multi_head import AttentionTrace, attend, check_head_count, project
from attention.sample import AttentionParameters, BlockParameters

_ATTENTION = tuple(f"attention.{step}" for step in multi_head.STEPS)
POST_NORM = (*_ATTENTION, "sum_1", "norm_1", "hidden", "activated", "fed", "sum_2", "norm_2")
PRE_NORM = ("norm_1", *_ATTENTION, "sum_1", "norm_2", "hidden", "activated", "fed", "sum_2")


@dataclass(frozen=True)
class BlockTrace:
    """Every step of one block. In which order they come, `steps` says; the output is the last of them.

    `attention` has the steps of an `AttentionTrace`; PyTorch's makes some of them when they are asked for.
    """

    norm_first: bool
    x: Float[Tensor, "B T E"]
    attention: Any
    sum_1: Float[Tensor, "B T E"]
    norm_1: Float[Tensor, "B T E"]
    hidden: Float[Tensor, "B T F"]
    activated: Float[Tensor, "B T F"]
    fed: Float[Tensor, "B T E"]
    sum_2: Float[Tensor, "B T E"]
    norm_2: Float[Tensor, "B T E"]

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of the steps, in the order in which they were computed."""
        return PRE_NORM if self.norm_first else POST_NORM

    @property
    def output(self) -> Float[Tensor, "B T E"]:
        """What the block gives out."""
        return self.sum_2 if self.norm_first else self.norm_2


def run_block(
    x: Float[Tensor, "B T E"],
    parameters: BlockParameters,
    num_heads: int,
    allowed: Bool[Tensor, "#B #H T T"] | Bool[Tensor, "T T"] | None = None,
    *,
    norm_first: bool = False,
    activation: str = "gelu",
    drop: Callable[[Tensor], Tensor] | None = None,
) -> BlockTrace:
    """One block, keeping each step.

    Args:
        x: tokens, or what an earlier block gave out.
        parameters: of attention, norms and feed-forward network.
        num_heads: must divide E.
        allowed: the mask that the attention gets; None where every token sees every token.
        norm_first: whether a norm stands before attention and before the feed-forward network, or after each sum.
        activation: "gelu" or "relu".
        drop: dropout, where `nn.TransformerEncoderLayer` has it: on the attention weights, on what attention
            gives out, after the activation, and on what the feed-forward network gives out; None for nothing.

    Raises:
        ValueError: as `multi_head.attend`; or there is no such activation.
    """
    check_activation(activation)
    drop = drop or _keep
    p = parameters

    def norm_by(number: int, of: Tensor) -> Tensor:
        return layer_norm(of, getattr(p, f"norm_{number}_weight"), getattr(p, f"norm_{number}_bias"))

    def attend_to(tokens: Tensor) -> AttentionTrace:
        return attend(tokens, p.attention, num_heads, allowed, drop)

    def feed(tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = project(tokens, p.w_1, p.b_1)  # (B, T, E) -> (B, T, F)
        activated = ACTIVATIONS[activation](hidden)
        return hidden, activated, project(drop(activated), p.w_2, p.b_2)  # back to (B, T, E)

    if norm_first:
        norm_1 = norm_by(1, x)
        attention = attend_to(norm_1)
        sum_1 = x + drop(attention.output)
        norm_2 = norm_by(2, sum_1)
        hidden, activated, fed = feed(norm_2)
        sum_2 = sum_1 + drop(fed)
    else:
        attention = attend_to(x)
        sum_1 = x + drop(attention.output)
        norm_1 = norm_by(1, sum_1)
        hidden, activated, fed = feed(norm_1)
        sum_2 = norm_1 + drop(fed)
        norm_2 = norm_by(2, sum_2)
    return BlockTrace(norm_first, x, attention, sum_1, norm_1, hidden, activated, fed, sum_2, norm_2)


class TransformerBlock(nn.Module):
    """One block: (B, T, embed_dim) to the same.

    Args:
        embed_dim: the width of the tokens.
        num_heads: must divide it.
        dropout: the probability, at all the places that `run_block` lists, in training.
        norm_first: pre-norm (True) or post-norm.
        activation: "gelu" or "relu".
        feed_forward_dim: the width in the feed-forward network; 4 × embed_dim unless given.

    Raises:
        ValueError: a number does not fit; the message carries it.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        norm_first: bool = False,
        *,
        activation: str = "gelu",
        feed_forward_dim: int | None = None,
    ) -> None:
        super().__init__()
        check_head_count(embed_dim, num_heads)
        check_probability(dropout)
        check_activation(activation)
        if not isinstance(norm_first, bool):
            raise ValueError(f"norm_first is {norm_first!r}; it must be True or False.")
        hidden = 4 * embed_dim if feed_forward_dim is None else feed_forward_dim
        if isinstance(hidden, bool) or not isinstance(hidden, int) or hidden < 1:
            raise ValueError(f"feed_forward_dim is {hidden!r}; it must be a whole number from 1 up.")
        self.num_heads, self.dropout, self.norm_first, self.activation = num_heads, dropout, norm_first, activation
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(embed_dim, embed_dim) for _ in range(4))
        self.norm_1, self.norm_2 = nn.LayerNorm(embed_dim), nn.LayerNorm(embed_dim)
        self.w_1, self.w_2 = nn.Linear(embed_dim, hidden), nn.Linear(hidden, embed_dim)

    def forward(
        self,
        x: Float[Tensor, "B T E"],
        allowed: Bool[Tensor, "#B #H T T"] | Bool[Tensor, "T T"] | None = None,
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "B T E"]:
        """What the block makes of the tokens; in training, dropout draws from `generator`."""
        return self.trace(x, allowed, generator).output

    def trace(
        self,
        x: Float[Tensor, "B T E"],
        allowed: Bool[Tensor, "#B #H T T"] | Bool[Tensor, "T T"] | None = None,
        generator: torch.Generator | None = None,
    ) -> BlockTrace:
        """Every step."""
        return run_block(
            x,
            self.held(),
            self.num_heads,
            allowed,
            norm_first=self.norm_first,
            activation=self.activation,
            drop=partial(dropout, p=self.dropout if self.training else 0.0, generator=generator),
        )

    def held(self) -> BlockParameters:
        """The module's own parameters, not copies, so that gradients reach them."""
        attention = [t for layer in (self.w_q, self.w_k, self.w_v, self.w_o) for t in (layer.weight, layer.bias)]
        rest = [t for layer in (self.norm_1, self.norm_2, self.w_1, self.w_2) for t in (layer.weight, layer.bias)]
        return BlockParameters(AttentionParameters(*attention), *rest)


class TransformerStack(nn.Module):
    """Blocks, one after the other; the arguments are those of `TransformerBlock`."""

    def __init__(
        self,
        num_blocks: int,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        norm_first: bool = False,
        *,
        activation: str = "gelu",
        feed_forward_dim: int | None = None,
    ) -> None:
        super().__init__()
        if isinstance(num_blocks, bool) or not isinstance(num_blocks, int) or num_blocks < 1:
            raise ValueError(f"num_blocks is {num_blocks!r}; it must be a whole number from 1 up.")
        self.blocks = nn.ModuleList(
            TransformerBlock(
                embed_dim, num_heads, dropout, norm_first, activation=activation, feed_forward_dim=feed_forward_dim
            )
            for _ in range(num_blocks)
        )

    def forward(
        self,
        x: Float[Tensor, "B T E"],
        allowed: Bool[Tensor, "#B #H T T"] | Bool[Tensor, "T T"] | None = None,
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "B T E"]:
        """What the last block gives out."""
        return self.trace(x, allowed, generator)[-1].output

    def trace(
        self,
        x: Float[Tensor, "B T E"],
        allowed: Bool[Tensor, "#B #H T T"] | Bool[Tensor, "T T"] | None = None,
        generator: torch.Generator | None = None,
    ) -> tuple[BlockTrace, ...]:
        """Every step of every block."""
        traces: list[BlockTrace] = []
        for block in cast("list[TransformerBlock]", self.blocks):  # a ModuleList forgets what it holds
            traces.append(block.trace(x, allowed, generator))
            x = traces[-1].output
        return tuple(traces)


def _keep(x: Tensor) -> Tensor:
    return x
