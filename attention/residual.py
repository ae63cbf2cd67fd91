"""What the residual stream of a stack of blocks carries, and what GELU and ReLU make of the same numbers."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import tee
from typing import Any

from torch import Tensor

from attention import sample
from attention.block import BlockTrace
from attention.feed_forward import gelu, relu
from attention.verify_block import BlockConfig, both_placements, draw_blocks, each_block


@dataclass(frozen=True)
class StreamPoint:
    """The stream after one addition (or at its start), as means over tokens.

    `norm` is the length of a token's vector, `added` that of what was added to it, `kept` the cosine
    between the stream and the tokens that it began with.
    """

    place: str
    norm: float
    added: float
    kept: float


@dataclass(frozen=True)
class Inside:
    """One block's trace, and the stream through all of the blocks."""

    trace: BlockTrace
    stream: tuple[StreamPoint, ...]


def look_into_both(config: BlockConfig, index: int) -> tuple[Inside, Inside]:
    """Run the blocks of a scene under both placements of the norm, its own first, and keep the trace of one block.

    Both run side by side, so that each block's parameters are drawn once.

    Raises:
        IndexError: there is no such block; the message carries the depth.
    """
    if not 0 <= index < config.depth:
        raise IndexError(f"block {index}: there are {config.depth}.")
    start = sample.draw_stream(config.scene)
    placements = both_placements(config)
    streams = [[StreamPoint("tokens", mean_norm(start), 0.0, _cosine(start, start))] for _ in placements]
    kept: tuple[BlockTrace, ...] = ()
    drawn = tee(draw_blocks(config), len(placements))
    blocks = (each_block(placed, parameters) for placed, parameters in zip(placements, drawn, strict=True))
    for i, traces in enumerate(zip(*blocks, strict=True)):
        for stream, placed, trace in zip(streams, placements, traces, strict=True):
            stream += _added(i, placed, trace, start)
        kept = traces if i == index else kept
    own, other = (Inside(trace, tuple(stream)) for trace, stream in zip(kept, streams, strict=True))
    return own, other


def _added(index: int, config: BlockConfig, trace: BlockTrace, start: Tensor) -> Iterator[StreamPoint]:
    """The stream after attention, and after the feed-forward network."""
    after = (trace.sum_1, trace.sum_2) if config.norm_first else (trace.norm_1, trace.norm_2)
    both = zip(("attention", "feed-forward"), after, (trace.attention.output, trace.fed), strict=True)
    for name, stream, added in both:
        yield StreamPoint(f"{index}: {name}", mean_norm(stream), mean_norm(added), _cosine(stream, start))


@dataclass(frozen=True)
class Bent:
    """The hidden numbers of a feed-forward network after GELU and after ReLU."""

    gelu: Tensor
    relu: Tensor
    zeros_gelu: float
    zeros_relu: float
    largest_gap: float


def bend(trace: BlockTrace) -> Bent:
    """Both activations of a trace's hidden numbers, of the first sequence."""
    after_gelu, after_relu = gelu(trace.hidden[0]), relu(trace.hidden[0])
    return Bent(
        gelu=after_gelu,
        relu=after_relu,
        zeros_gelu=_share_of_zeros(after_gelu),
        zeros_relu=_share_of_zeros(after_relu),
        largest_gap=(after_gelu.double() - after_relu.double()).abs().max().item(),
    )


def mean_norm(x: Tensor) -> float:
    """The mean length of the vectors in the last axis; where there are heads, of each head's."""
    numbers = x.double()
    finite = numbers.masked_fill(numbers.isinf(), 0.0)
    return float(finite.norm(dim=-1).mean())


def _cosine(x: Tensor, y: Tensor) -> float:
    a, b = x.double(), y.double()
    length = a.norm(dim=-1) * b.norm(dim=-1)
    return float(((a * b).sum(-1) / length.clamp_min(1e-300)).mean())


def _share_of_zeros(x: Tensor) -> float:
    return (x == 0).double().mean().item() if x.numel() else math.nan


def step_of(trace: Any, step: str) -> Tensor:
    """A step of a trace by its name, in which a dot leads into the attention."""
    for part in step.split("."):
        trace = getattr(trace, part)
    found: Tensor = trace
    return found
