"""What the page of head counts shows besides the heads: the table, the chart of entropies, the words."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attention.config import AttentionConfig
from attention.head_counts import HeadStatistics
from attention.verify import Verdict
from dashboard.tables import Mark, Table, Value


def heading(config: AttentionConfig) -> str:
    """One line over the heads of a count, as Markdown."""
    heads = "1 head" if config.num_heads == 1 else f"{config.num_heads} heads"
    return f"**{heads} of width {config.head_dim}**, scores over √{config.head_dim}"


def table(described: Sequence[HeadStatistics], config: AttentionConfig, gap: float) -> Table:
    """One row per head count; the reader's own is strong."""
    rows: list[tuple[Value, ...]] = []
    for found in described:
        count = str(found.num_heads)
        rows.append(
            (
                Mark(count, "strong") if found.num_heads == config.num_heads else count,
                str(found.head_dim),
                f"{1 / math.sqrt(found.head_dim):.3f}",
                f"{sum(found.entropy) / len(found.entropy):.3f}",
                f"{found.largest_weight:.3f}",
                "–" if found.apart is None else f"{found.apart:.3f}",
                f"{found.softmax_cells:,}",
                f"{found.parameters:,}",
                f"{found.matmul_flops / 1e6:,.1f} M",
            )
        )
    head = (
        "heads", "head width", "scale 1/√D", "mean entropy, bits", "mean largest weight", "heads apart",
        "cells of softmax", "parameters", "matrix FLOPs",
    )  # fmt: skip
    groups = (("", 1), ("changes with the count", 6), ("stays", 2))
    caption = (
        f"Every count that divides {config.embed_dim}. Scores of {config.num_heads} heads, added up, are "
        f"{gap:.1e} away from those of one head"
    )
    return Table(caption, head, rows, groups)


def entropies(described: Sequence[HeadStatistics], config: AttentionConfig) -> dict[str, Any]:
    """A Plotly figure: a dot for each head, its mean entropy over the head count; and what even shares would have."""
    dots = [(i, found.num_heads, value) for i, found in enumerate(described) for value in found.entropy]
    seen = range(1, config.num_tokens + 1) if config.causal else [config.num_tokens] * config.num_tokens
    even = sum(math.log2(n) for n in seen) / config.num_tokens
    mean = [sum(found.entropy) / len(found.entropy) for found in described]
    places = list(range(len(described)))
    return {
        "data": [
            {
                "type": "scatter", "mode": "markers", "name": "one head", "x": [x for x, _, _ in dots],
                "y": [y for _, _, y in dots], "marker": {"size": 7, "opacity": 0.45},
                "hovertemplate": "%{y:.3f} bits<extra>one head</extra>",
            },
            {
                "type": "scatter", "mode": "lines+markers", "name": "mean", "x": places, "y": mean,
                "marker": {"size": 9, "symbol": "diamond"},
                "hovertemplate": "%{y:.3f} bits<extra>mean</extra>",
            },
            {
                "type": "scatter", "mode": "lines", "name": "even shares", "x": places, "y": [even] * len(places),
                "line": {"dash": "dot"}, "hovertemplate": "%{y:.3f} bits<extra>even shares</extra>",
            },
        ],
        "layout": {
            "height": 380, "margin": {"l": 50, "r": 10, "t": 30, "b": 50},
            "xaxis": {
                "title": {"text": "heads"}, "tickmode": "array", "tickvals": places,
                "ticktext": [str(found.num_heads) for found in described], "zeroline": False,
            },
            "yaxis": {"title": {"text": "bits"}, "range": [0, 1.08 * max(even, 0.1)]},
            "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "xanchor": "left"},
        },
    }  # fmt: skip


def entropies_in_words(described: Sequence[HeadStatistics]) -> str:
    """What the chart shows, for those who do not see it."""
    means = [(found.num_heads, sum(found.entropy) / len(found.entropy)) for found in described]
    return "Mean entropy of the heads by head count: " + ", ".join(f"{n} heads {mean:.2f} bits" for n, mean in means)


def verdicts(found: Mapping[AttentionConfig, Verdict]) -> str:
    """Which of the pictures are equal to PyTorch's."""
    said = (f"{scene.num_heads}: {'equal' if verdict.equal else 'not equal'}" for scene, verdict in found.items())
    return "All pictures were checked: heads " + ", ".join(said) + "."
