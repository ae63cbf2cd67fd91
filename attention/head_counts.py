"""What a head count changes and what it leaves alone, in numbers.

The projections do not depend on the number of heads: q, k and v hold the same numbers, cut into more
and narrower pieces. So parameters and matrix multiplications stay equal, and the scores of all heads
add up to the score of one head; what changes is the scale 1/√D and that every head has a softmax of its own.
"""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from attention.config import AttentionConfig, head_counts
from attention.multi_head import AttentionTrace, attend_as_configured, draw


@dataclass(frozen=True)
class HeadStatistics:
    """One head count in numbers.

    `entropy` is the mean over queries of -Σ w log₂ w, in bits, for each head; `apart` is the mean distance
    between two heads (None where there is one head only); `largest_weight` the mean of each row's largest.
    """

    num_heads: int
    head_dim: int
    entropy: tuple[float, ...]
    largest_weight: float
    apart: float | None
    parameters: int
    matmul_flops: int
    softmax_cells: int


def describe(config: AttentionConfig, trace: AttentionTrace) -> HeadStatistics:
    """The statistics of a scene, whose trace this is."""
    weights = trace.weights[0].double()
    distances = head_distances(weights)
    heads = len(weights)
    pairs = heads * (heads - 1)
    return HeadStatistics(
        num_heads=heads,
        head_dim=config.head_dim,
        entropy=tuple(entropy(weights).mean(-1).tolist()),
        largest_weight=weights.amax(-1).mean().item(),
        apart=distances.sum().item() / pairs if pairs else None,
        parameters=4 * (config.embed_dim**2 + config.embed_dim),
        matmul_flops=matmul_flops(config),
        softmax_cells=heads * config.num_tokens**2,
    )


@torch.no_grad()
def describe_all(config: AttentionConfig) -> tuple[HeadStatistics, ...]:
    """Every head count that divides the config's embed dim, on the same tokens and parameters."""
    inputs = draw(config)
    counts = (replace(config, num_heads=count) for count in head_counts(config.embed_dim))
    return tuple(describe(counted, attend_as_configured(counted, inputs)) for counted in counts)


@torch.no_grad()
def score_gap(config: AttentionConfig) -> float:
    """How far the scores of the config's heads, added up, are from those of one head, in the config's dtype."""
    inputs = draw(config)
    one = attend_as_configured(replace(config, num_heads=1), inputs)
    return largest_score_gap(one, attend_as_configured(config, inputs))


@torch.no_grad()
def distances_of(config: AttentionConfig) -> Float[Tensor, "H H"]:
    """How different the heads of a scene look, each pair."""
    return head_distances(attend_as_configured(config).weights[0].double())


def entropy(weights: Float[Tensor, "*batch S"]) -> Float[Tensor, "*batch"]:
    """-Σ w log₂ w of each row, in bits: 0 where one key has it all, log₂ n where n keys share it evenly.

    Example:
        >>> entropy(torch.tensor([[1.0, 0, 0, 0], [0.25, 0.25, 0.25, 0.25]]))
        tensor([0., 2.])
    """
    nats: Tensor = torch.special.entr(weights).sum(-1)
    return nats / math.log(2)


def head_distances(weights: Float[Tensor, "H T S"]) -> Float[Tensor, "H H"]:
    """How different two heads look: ½ Σ |w - w'| over keys (total variation), the mean over queries; 0 to 1.

    Example:
        >>> head_distances(torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]]))
        tensor([[0., 1.],
                [1., 0.]])
    """
    heads, queries, _ = weights.shape
    distances = torch.cdist(weights.transpose(0, 1), weights.transpose(0, 1), p=1)  # (T, H, H)
    return distances.sum(0) / (2 * queries) if queries else weights.new_zeros(heads, heads)


def matmul_flops(config: AttentionConfig) -> int:
    """Multiplications and additions of all matrix products for one sequence, masked cells included.

    Four projections of 2 · T · E², and scores and context of 2 · T² · E each; the head count is not in it.
    """
    num_tokens, embed_dim = config.num_tokens, config.embed_dim
    return 8 * num_tokens * embed_dim**2 + 4 * num_tokens**2 * embed_dim


def largest_score_gap(one_head: AttentionTrace, many_heads: AttentionTrace) -> float:
    """The largest |Σ over heads of the score - the score of one head|: rounding, and nothing else."""
    return (many_heads.scores.double().sum(1) - one_head.scores.double().sum(1)).abs().max().item()
