"""Multi-head attention: the equation in `num_heads` subspaces at once, side by side, then mixed.

Source: "Attention Is All You Need" (Vaswani et al., 2017), section 3.2.2.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attention import masks, sample
from attention.config import AttentionConfig
from attention.sample import AttentionParameters
from attention.scaled_dot_product import scaled_dot_product

Inputs = tuple[Tensor, AttentionParameters]  # tokens (B, T, E) and the parameters that go with them

STEPS = ("q", "k", "v", "scores", "scaled", "masked", "weights", "context", "merged", "output")


@dataclass(frozen=True)
class AttentionTrace:
    """Every step of one attention; the output is the last of them."""

    q: Float[Tensor, "B H T D"]
    k: Float[Tensor, "B H T D"]
    v: Float[Tensor, "B H T D"]
    scores: Float[Tensor, "B H T T"]
    scaled: Float[Tensor, "B H T T"]
    masked: Float[Tensor, "B H T T"]
    weights: Float[Tensor, "B H T T"]
    context: Float[Tensor, "B H T D"]
    merged: Float[Tensor, "B T E"]
    output: Float[Tensor, "B T E"]


def attend(
    tokens: Float[Tensor, "B T E"],
    parameters: AttentionParameters,
    num_heads: int,
    allowed: Bool[Tensor, "#B #H T T"] | Bool[Tensor, "T T"] | None = None,
) -> AttentionTrace:
    """Self-attention with `num_heads` heads, keeping each step.

    Args:
        tokens: embeddings; a single sequence (T, E) must be given as (1, T, E).
        parameters: projections in and out, in the dtype of the tokens.
        num_heads: must divide E.
        allowed: True where a query (row) may attend to a key (column); None where each may to all.

    Raises:
        ValueError: E does not divide by `num_heads`, or the mask is of other sizes or not of bool;
            the message carries the numbers.
    """
    batch, num_tokens, embed_dim = tokens.shape
    if num_heads < 1 or embed_dim % num_heads:
        raise ValueError(f"{num_heads} heads do not divide an embedding of {embed_dim} dimensions.")
    q = split_heads(project(tokens, parameters.w_q, parameters.b_q), num_heads)  # (B, H, T, D)
    k = split_heads(project(tokens, parameters.w_k, parameters.b_k), num_heads)
    v = split_heads(project(tokens, parameters.w_v, parameters.b_v), num_heads)
    scores, scaled, masked, weights, context = scaled_dot_product(q, k, v, allowed)
    merged = context.transpose(1, 2).reshape(batch, num_tokens, embed_dim)  # (B, H, T, D) -> (B, T, H·D)
    output = project(merged, parameters.w_o, parameters.b_o)
    return AttentionTrace(q, k, v, scores, scaled, masked, weights, context, merged, output)


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


def draw(config: AttentionConfig) -> Inputs:
    """The tokens and parameters of a config."""
    return sample.draw_tokens(config), sample.draw_parameters(config)


def attend_as_configured(config: AttentionConfig, inputs: Inputs | None = None) -> AttentionTrace:
    """The trace of a config: its own tokens and parameters (drawn here unless handed over) and mask."""
    tokens, parameters = inputs or draw(config)
    return attend(tokens, parameters, config.num_heads, allowed_by(config))


def allowed_by(config: AttentionConfig) -> Bool[Tensor, "T T"] | None:
    """The mask of a config: causal, or none."""
    return masks.causal(config.num_tokens) if config.causal else None
