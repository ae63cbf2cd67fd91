"""Multi-head attention: the equation in `num_heads` subspaces at once, side by side, then mixed.

Source: "Attention Is All You Need" (Vaswani et al., 2017), section 3.2.2.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attention import masks, sample
from attention.config import AttentionConfig
from attention.mask_config import MaskConfig
from attention.sample import AttentionParameters
from attention.scaled_dot_product import scaled_dot_product

Inputs = tuple[Tensor, AttentionParameters]  # tokens (B, T, E) and the parameters that go with them

STEPS = ("q", "k", "v", "scores", "scaled", "masked", "weights", "context", "merged", "output")
# those of queries and keys
SQUARE = ("scores", "scaled", "masked", "weights", "dropped")


@dataclass(frozen=True)
class AttentionTrace:
    """Every step of one attention; the output is the last of them. Without dropout, `dropped` is `weights` itself."""

    q: Float[Tensor, "B H T D"]
    k: Float[Tensor, "B H S D"]
    v: Float[Tensor, "B H S D"]
    scores: Float[Tensor, "B H T S"]
    scaled: Float[Tensor, "B H T S"]
    masked: Float[Tensor, "B H T S"]
    weights: Float[Tensor, "B H T S"]
    dropped: Float[Tensor, "B H T S"]
    context: Float[Tensor, "B H T D"]
    merged: Float[Tensor, "B T E"]
    output: Float[Tensor, "B T E"]

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of the steps that are compared."""
        return STEPS


def attend(
    tokens: Float[Tensor, "B T in"],
    parameters: AttentionParameters,
    num_heads: int,
    allowed: Bool[Tensor, "#B #H T S"] | Bool[Tensor, "T S"] | None = None,
    drop: Callable[[Tensor], Tensor] | None = None,
    memory: Float[Tensor, "B S in"] | None = None,
) -> AttentionTrace:
    """Attention with `num_heads` heads, keeping each step.

    Args:
        tokens: embeddings; a single sequence (T, in) must be given as (1, T, in).
        parameters: projections in and out, in the dtype of the tokens.
        num_heads: must divide E, the width that comes out.
        allowed: True where a query (row) may attend to a key (column); None where each may to all.
        drop: what dropout does to the weights before they meet the values; None for nothing.
        memory: the tokens that are attended to; None where these are the tokens themselves (self-attention).

    Raises:
        ValueError: the tokens are not (B, T, in) or of another dtype than the parameters, E does not divide
            by `num_heads`, or the mask is of other sizes or not of bool; the message carries the numbers.
    """
    memory = tokens if memory is None else memory
    for x in (tokens, memory):
        check_tokens(x, parameters.w_q)
    batch, num_tokens, _ = tokens.shape
    embed_dim = len(parameters.w_q)
    check_head_count(embed_dim, num_heads)
    q = split_heads(project(tokens, parameters.w_q, parameters.b_q), num_heads)  # (B, H, T, D)
    k = split_heads(project(memory, parameters.w_k, parameters.b_k), num_heads)  # (B, H, S, D)
    v = split_heads(project(memory, parameters.w_v, parameters.b_v), num_heads)
    scores, scaled, masked, weights, dropped, context = scaled_dot_product(q, k, v, allowed, drop)
    merged = context.transpose(1, 2).reshape(batch, num_tokens, embed_dim)  # (B, H, T, D) -> (B, T, H·D)
    output = project(merged, parameters.w_o, parameters.b_o)
    return AttentionTrace(q, k, v, scores, scaled, masked, weights, dropped, context, merged, output)


def check_head_count(embed_dim: int, num_heads: int) -> None:
    """Refuse a number of heads that would leave no whole head width.

    Raises:
        ValueError: as said; the message carries both numbers.
    """
    if isinstance(num_heads, bool) or not isinstance(num_heads, int):
        raise ValueError(f"num_heads is {num_heads!r}; it must be a whole number.")
    if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
        raise ValueError(f"{num_heads} heads do not divide an embedding of {embed_dim} dimensions.")


def check_tokens(tokens: Tensor, weight: Tensor) -> None:
    """Refuse tokens that a projection cannot take, in words that name what is wrong.

    Raises:
        ValueError: the tokens are not three axes, of another width than the weight's, or of another dtype.
    """
    width, shape = weight.shape[1], tuple(tokens.shape)
    if tokens.ndim != 3:
        raise ValueError(f"the tokens are {shape}; they must be (sequences, tokens, {width}).")
    if shape[2] != width:
        raise ValueError(f"the tokens are {shape}, {shape[2]} wide; the projection takes a width of {width}.")
    if tokens.dtype != weight.dtype:
        found, wanted = (str(x.dtype).removeprefix("torch.") for x in (tokens, weight))
        raise ValueError(f"the tokens are {found}, the weights {wanted}; they must be of one dtype.")


def project(
    x: Float[Tensor, "B T in"], weight: Float[Tensor, "out in"], bias: Float[Tensor, " out"]
) -> Float[Tensor, "B T out"]:
    """The projection x Wᵀ + b. The weight is stored (out, in), so it is turned before it multiplies.

    In one call, so that half precision rounds once and not twice.
    """
    batch, num_tokens, width = x.shape
    return torch.addmm(bias, x.reshape(batch * num_tokens, width), weight.mT).view(batch, num_tokens, len(weight))


def split_heads(x: Float[Tensor, "B T E"], num_heads: int) -> Float[Tensor, "B H T D"]:
    """Cut each token's E numbers into H blocks of D, then put heads before tokens.

    The order matters: a `view` straight to (B, H, T, D) has the right shape and mixes tokens
    into heads.
    """
    batch, num_tokens, embed_dim = x.shape
    blocks = x.reshape(batch, num_tokens, num_heads, embed_dim // num_heads)
    return blocks.transpose(1, 2)  # (B, T, H, D) -> (B, H, T, D)


def matrix(step: Tensor, head: int) -> Tensor:
    """A step of the first sequence as (rows, columns): of one within heads, that of one head."""
    return step[0, head] if step.ndim == 4 else step[0]


def draw(config: AttentionConfig) -> Inputs:
    """The tokens and parameters of a config."""
    return sample.draw_tokens(config), sample.draw_parameters(config)


def masked_scene(tokens: Float[Tensor, "B N in"], mask: MaskConfig) -> tuple[Tensor, Tensor, Tensor]:
    """The last tokens, that ask; the grid; and the first tokens, that are asked: as many as the mask says of each."""
    return tokens[:, -mask.num_queries :], mask.allowed, tokens[:, : mask.num_keys]


def attend_masked(config: AttentionConfig, mask: MaskConfig, inputs: Inputs | None = None) -> AttentionTrace:
    """The trace of a config under another mask than its own."""
    tokens, parameters = inputs or draw(config)
    queries, allowed, memory = masked_scene(tokens, mask)
    return attend(queries, parameters, config.num_heads, allowed, memory=memory)


def attend_as_configured(config: AttentionConfig, inputs: Inputs | None = None) -> AttentionTrace:
    """The trace of a config: its own tokens and parameters (drawn here unless handed over) and mask."""
    tokens, parameters = inputs or draw(config)
    return attend(tokens, parameters, config.num_heads, allowed_by(config))


def draw_and_attend(config: AttentionConfig, mask: MaskConfig | None = None) -> tuple[Inputs, AttentionTrace]:
    """What a config draws, and its trace; under another mask than its own if one is given."""
    inputs = draw(config)
    if mask is not None:
        return inputs, attend_masked(config, mask, inputs)
    return inputs, attend_as_configured(config, inputs)


def allowed_by(config: AttentionConfig) -> Bool[Tensor, "T T"] | None:
    """The mask of a config: causal, or none."""
    return masks.grid(masks.causal, config.num_tokens) if config.causal else None
