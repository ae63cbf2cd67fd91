"""What the two scripts behind this project assert, as claims about a scene that can be looked at.

They compare with `torch.allclose` at rtol 1e-6 and atol 1e-6, and only what they compare is compared
here; the verdict goes further.
"""

from dataclasses import dataclass, replace
from typing import Final, cast

import torch
from torch import Tensor

from attention import finite_mask, masks, reference, sample, verify_head
from attention.compare import Outcome, Tolerance, compare
from attention.config import AttentionConfig
from attention.multi_head import AttentionTrace, allowed_by, draw_and_attend
from attention.verify import Sides
from attention.verify_block import BlockConfig, each_block
from attention.verify_head import HeadConfig

TOLERANCE: Final = Tolerance(rtol=1e-6, atol=1e-6)


@dataclass(frozen=True)
class Claim:
    """One assertion: what it says, whether it holds, and the numbers it was judged by."""

    text: str
    holds: bool
    found: str


def of_heads(config: AttentionConfig, sides: Sides) -> tuple[Claim, ...]:
    """What the scripts assert of multi-head attention, on a scene and both sides of it."""
    ours, pytorch = (cast(AttentionTrace, side).weights for side in (sides.ours, sides.pytorch))
    square = (len(ours), config.num_heads, config.num_tokens, config.num_tokens)
    return (
        *divides(config),
        close("weights = nn.MultiheadAttention's, per head", ours, pytorch),
        shape("shape of the weights: sequences × heads × tokens × tokens", ours, square),
    )


@torch.no_grad()
def of_mask(config: AttentionConfig) -> tuple[Claim, ...]:
    """What both scripts make of the causal mask: one adds -1e4 to the scores, the other fills in -inf.

    Neither asserts that the two agree, nor that PyTorch does; it is what their pictures rest on.
    """
    (tokens, parameters), trace = draw_and_attend(replace(config, causal=True))
    allowed = masks.grid(masks.causal, config.num_tokens)
    added = finite_mask.attend_with_number(trace.q, trace.k, trace.v, allowed)
    pytorch = reference.attend(tokens, parameters, config.num_heads, allowed)
    return (
        close("causal: -1e4 on the scores = nn.MultiheadAttention's weights", added.weights, pytorch.weights),
        close("causal: -inf = nn.MultiheadAttention's weights", trace.weights, pytorch.weights),
    )


@torch.no_grad()
def of_one_head(config: HeadConfig) -> tuple[Claim, ...]:
    """What the first script asserts of one head, on this scene."""
    trace = verify_head.attend_as_configured(config)
    tokens, weights = verify_head.draw(config)
    pytorch = reference.attend_one(tokens, weights, allowed_by(config.scene))
    return (close("context = F.scaled_dot_product_attention's", trace.context, pytorch.context),)


@torch.no_grad()
def of_block(config: BlockConfig) -> tuple[Claim, ...]:
    """What the first script says of the block: it only prints the shape. That the mask is passed on, it forgets."""
    tokens = sample.draw_stream(config.scene)
    trace = next(each_block(config))
    future = trace.attention.weights[0].triu(1)
    claims = [shape("the block keeps the shape of the tokens", trace.output, tuple(tokens.shape))]
    if config.scene.causal:
        claims.append(
            Claim("the mask reaches the attention", not future.any(), f"{future.max().item():g} on the future")
        )
    return tuple(claims)


def close(text: str, ours: Tensor, pytorch: Tensor) -> Claim:
    """The claim that two tensors are close, shape included (`torch.allclose` alone would broadcast)."""
    found = compare(text, ours, pytorch, TOLERANCE)
    holds = found.outcome in (Outcome.EQUAL, Outcome.CANNOT_TELL)  # which is what allclose would say
    return Claim(text, holds, f"largest difference {found.max_abs:.2e}" if holds else found.reason)


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
