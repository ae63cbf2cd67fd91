"""The largest scene that each page computes, so that no link can take the machine from the rest of a class.

The bound is a second of one core and 100 MB, to the finished verdict; `python -m tests.benchmarks.largest` opens every
page at its limits and measures both. The first page alone goes further in memory: all of its 32 heads × 256 tokens.

A scene that is larger is made smaller, which the page says: first the embed dim, then the heads where they no longer
divide it, then the tokens, of which the first stay as they are, and last the number of blocks.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

from attention.config import MAX_EMBED_DIM, MAX_HEADS, MAX_TOKENS, AttentionConfig, nearest_head_count


@dataclass(frozen=True)
class Limit:
    """The largest embed dim, number of tokens, weights (heads × tokens²), and numbers a step (tokens × embed dim)."""

    embed_dim: int = MAX_EMBED_DIM
    tokens: int = MAX_TOKENS
    weights: int = MAX_HEADS * MAX_TOKENS**2
    numbers: int = MAX_TOKENS * MAX_EMBED_DIM
    why: str = "more would take over a second, or 100 MB, of a machine that others share"


_NONE: Final = Limit()
# by the name of the page's file; "further" is the expander of properties and gradients
LIMITS: Final[dict[str, Limit]] = {
    "further": Limit(embed_dim=768, tokens=128, weights=12 * 112**2),
    "masks": Limit(embed_dim=768, tokens=128, weights=12 * 128**2),
    "head_counts": Limit(embed_dim=768, tokens=112, weights=12 * 112**2),
    "four_ways": Limit(embed_dim=768, tokens=64, weights=12 * 48**2),
    "block": Limit(embed_dim=768, tokens=96, weights=12 * 64**2, numbers=768 * 24),
    "break_it": Limit(embed_dim=768, tokens=128, weights=12 * 64**2, numbers=768 * 32),
    "precision": Limit(embed_dim=768, tokens=40, weights=12 * 40**2),
    "pytorch_differs": Limit(embed_dim=768, tokens=128, weights=12 * 128**2),
    "compare": Limit(embed_dim=768, tokens=112, weights=12 * 96**2),
    "predict": Limit(tokens=8, why="as much as one fills in by hand"),
}
# seconds that all blocks may take together
_BLOCKS: Final = 0.6


def within(page: str, config: AttentionConfig) -> AttentionConfig:
    """The scene, or the largest like it that the page computes."""
    limit = LIMITS.get(page, _NONE)
    embed_dim = min(config.embed_dim, limit.embed_dim)
    heads = nearest_head_count(embed_dim, config.num_heads)
    tokens = min(config.num_tokens, limit.tokens, math.isqrt(limit.weights // heads), limit.numbers // embed_dim)
    return replace(config, embed_dim=embed_dim, num_heads=heads, num_tokens=tokens)


def depth_within(scene: AttentionConfig, depth: int) -> int:
    """The number of blocks, or as many as are done in time; `scene` is within the page's limit."""
    return max(1, min(depth, int(_BLOCKS / time_of_block(scene))))


def time_of_block(scene: AttentionConfig) -> float:
    """About how many seconds one block takes, under both placements of the norm, up to its verdict.

    A rule from eight sizes on one core: for every number drawn, for the projections, and for what each head attends.
    """
    width, tokens = scene.embed_dim, scene.num_tokens
    return 3.1e-7 * width**2 + 1.05e-8 * width**2 * tokens + 6.4e-7 * scene.num_heads * tokens**2


def said(
    asked: AttentionConfig, shown: AttentionConfig, asked_depth: int = 1, shown_depth: int = 1, *, page: str = ""
) -> str:
    """What a page has made smaller, in words, and why; empty where nothing."""
    pairs = {
        "embed dim": (asked.embed_dim, shown.embed_dim),
        "heads": (asked.num_heads, shown.num_heads),
        "tokens": (asked.num_tokens, shown.num_tokens),
        "depth": (asked_depth, shown_depth),
    }
    smaller = [f"{name} {less}, not {wanted}" for name, (wanted, less) in pairs.items() if less != wanted]
    if not smaller:
        return ""
    return f"Shown with {', '.join(smaller)}: {LIMITS.get(page, _NONE).why}."
