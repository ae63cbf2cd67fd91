"""An attention and a block in pieces, any of which can be replaced; unreplaced they are the library's own.

`multi_head.attend` and `block.run_block` stay as plain as the equation; these say the same with every step named as
a piece. With all pieces right the traces are the same to the last bit, which a test sees to.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from attention.block import BlockTrace
from attention.feed_forward import ACTIVATIONS
from attention.layer_norm import layer_norm
from attention.multi_head import AttentionTrace, project, split_heads
from attention.sample import AttentionParameters, BlockParameters
from attention.scaled_dot_product import softmax_over_allowed


def values(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """What is mixed: the values."""
    return v


def score(q: Tensor, k: Tensor) -> Tensor:
    """How well each query fits each key."""
    return q @ k.mT


def scale(scores: Tensor, head_dim: int, num_heads: int) -> Tensor:
    """Scores back to about unit variance."""
    return scores / math.sqrt(head_dim)


def mask(scaled: Tensor, allowed: Tensor) -> Tensor:
    """Forbidden scores become minus infinity."""
    return torch.where(allowed, scaled, -math.inf)


def normalise(masked: Tensor, scaled: Tensor, allowed: Tensor) -> Tensor:
    """The softmax."""
    return softmax_over_allowed(masked, allowed)  # over keys: the last axis


def as_they_are(weights: Tensor, allowed: Tensor) -> Tensor:
    """Weights meet the values, and are shown, as they are."""
    return weights


def merge(context: Tensor) -> Tensor:
    """Heads side by side."""
    batch, heads, num_tokens, head_dim = context.shape
    return context.transpose(1, 2).reshape(batch, num_tokens, heads * head_dim)


def pass_on(allowed: Tensor | None) -> Tensor | None:
    """What a block hands to its attention as the mask."""
    return allowed


def place(norm_first: bool) -> bool:
    """Where a block has its norms: before, or after."""
    return norm_first


def activate(hidden: Tensor, activation: str) -> Tensor:
    """The activation that was asked for."""
    return ACTIVATIONS[activation](hidden)


def add(stream: Tensor, branch: Tensor) -> Tensor:
    """The residual: a branch adds to what went into it."""
    return stream + branch


@dataclass(frozen=True)
class Pieces:
    """An attention in pieces, in the order in which they run.

    `after` is what happens to the weights before they meet the values, `show` what is handed out as the weights.
    """

    project: Callable[[Tensor, Tensor, Tensor], Tensor] = project
    split: Callable[[Tensor, int], Tensor] = split_heads
    values: Callable[[Tensor, Tensor, Tensor], Tensor] = values
    score: Callable[[Tensor, Tensor], Tensor] = score
    scale: Callable[[Tensor, int, int], Tensor] = scale
    mask: Callable[[Tensor, Tensor], Tensor] = mask
    normalise: Callable[[Tensor, Tensor, Tensor], Tensor] = normalise
    after: Callable[[Tensor, Tensor], Tensor] = as_they_are
    show: Callable[[Tensor, Tensor], Tensor] = as_they_are
    merge: Callable[[Tensor], Tensor] = merge
    project_out: Callable[[Tensor, Tensor, Tensor], Tensor] = project


RIGHT: Final = Pieces()


@dataclass(frozen=True)
class BlockPieces:
    """A block in pieces; the attention in it, in its own."""

    attention: Pieces = RIGHT
    place: Callable[[bool], bool] = place
    pass_on: Callable[[Tensor | None], Tensor | None] = pass_on
    norm: Callable[[Tensor, Tensor, Tensor], Tensor] = layer_norm
    second_norm: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None  # None: the same as the first
    activate: Callable[[Tensor, str], Tensor] = activate
    add: Callable[[Tensor, Tensor], Tensor] = add


RIGHT_BLOCK: Final = BlockPieces()


def attend(
    tokens: Tensor,
    parameters: AttentionParameters,
    num_heads: int,
    allowed: Tensor | None = None,
    pieces: Pieces = RIGHT,
    memory: Tensor | None = None,
) -> AttentionTrace:
    """`multi_head.attend` in pieces; a mask that was not given is one that allows everything."""
    memory = tokens if memory is None else memory
    if allowed is None:
        allowed = torch.ones(tokens.shape[1], memory.shape[1], dtype=torch.bool)
    q, k, v = (
        pieces.split(pieces.project(x, getattr(parameters, f"w_{name}"), getattr(parameters, f"b_{name}")), num_heads)
        for name, x in (("q", tokens), ("k", memory), ("v", memory))
    )
    steps = within_heads(q, k, v, allowed, pieces)
    merged = pieces.merge(steps["context"])
    output = pieces.project_out(merged, parameters.w_o, parameters.b_o)
    return AttentionTrace(**steps, merged=merged, output=output)


def within_heads(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, pieces: Pieces) -> dict[str, Tensor]:
    """From q (B, H, T, D), k (B, H, S, D) and v (B, H, S, V): all steps from q to the context, by name."""
    v = pieces.values(q, k, v)
    scores = pieces.score(q, k)
    scaled = pieces.scale(scores, q.shape[-1], q.shape[1])
    masked = pieces.mask(scaled, allowed)
    weights = pieces.normalise(masked, scaled, allowed)
    dropped = pieces.after(weights, allowed)
    return {
        "q": q, "k": k, "v": v, "scores": scores, "scaled": scaled, "masked": masked,
        "weights": pieces.show(weights, allowed), "dropped": dropped, "context": dropped @ v,
    }  # fmt: skip


def run_block(
    x: Tensor,
    parameters: BlockParameters,
    num_heads: int,
    allowed: Tensor | None = None,
    pieces: BlockPieces = RIGHT_BLOCK,
    *,
    norm_first: bool = False,
    activation: str = "gelu",
) -> BlockTrace:
    """`block.run_block` in pieces. The trace says where its norms really stand, whatever was asked for."""
    p = parameters
    first = pieces.place(norm_first)

    def norm(number: int, of: Tensor) -> Tensor:
        normed = (pieces.second_norm or pieces.norm) if number == 2 else pieces.norm
        return normed(of, getattr(p, f"norm_{number}_weight"), getattr(p, f"norm_{number}_bias"))

    norm_1 = norm(1, x) if first else None
    attention = attend(
        x if norm_1 is None else norm_1, p.attention, num_heads, pieces.pass_on(allowed), pieces.attention
    )
    sum_1 = pieces.add(x, attention.output)
    norm_1 = norm(1, sum_1) if norm_1 is None else norm_1
    norm_2 = norm(2, sum_1) if first else None
    hidden = project(norm_1 if norm_2 is None else norm_2, p.w_1, p.b_1)
    activated = pieces.activate(hidden, activation)
    fed = project(activated, p.w_2, p.b_2)
    sum_2 = pieces.add(norm_1 if norm_2 is None else sum_1, fed)
    norm_2 = norm(2, sum_2) if norm_2 is None else norm_2
    return BlockTrace(first, x, attention, sum_1, norm_1, hidden, activated, fed, sum_2, norm_2)
