"""What the page of blocks shows besides the steps: the diagram, the charts of the stream, the words."""

from collections.abc import Sequence
from typing import Any, Final

from attention.block import BlockTrace
from attention.compare import Check
from attention.residual import Bent, Inside, mean_norm, step_of
from attention.verify_block import BlockConfig
from dashboard import diagram, tables
from dashboard.diagram import Node
from dashboard.tables import Table, Value

# what each step is
SAID: Final = {
    "norm_1": "the first LayerNorm: each token to mean 0 and variance 1, then scaled and shifted",
    "attention.q": "what each token asks for, of the head shown",
    "attention.k": "what each token answers to",
    "attention.v": "what each token has to give",
    "attention.scores": "each query times each key",
    "attention.scaled": "over √D",
    "attention.masked": "−∞ where a query may not look",
    "attention.weights": "softmax of each row",
    "attention.context": "a mix of the values",
    "attention.merged": "the heads side by side",
    "attention.output": "what attention adds to the stream",
    "sum_1": "the stream plus attention",
    "norm_2": "the second LayerNorm",
    "hidden": "the feed-forward network, widened",
    "activated": "bent by the activation",
    "fed": "narrowed again: what the feed-forward network adds to the stream",
    "sum_2": "the stream plus the feed-forward network",
}

# dash and symbol of the two placements, told apart without their colours
_LINES: Final = (("solid", "circle"), ("dash", "square"))


def drawing(trace: BlockTrace, step: str, index: int) -> str:
    """The block's data flow with the mean token norm on each arrow, as HTML."""
    said = {name: _norm(step_of(trace, name)) for name in ("x", "sum_1", "norm_1", "sum_2", "norm_2", "fed")}
    attended = _norm(trace.attention.output)
    if trace.norm_first:
        names = ("x", "norm 1", "attention", "+", "norm 2", "feed-forward", "+")
        out = (said["x"], said["norm_1"], attended, said["sum_1"], said["norm_2"], said["fed"], said["sum_2"])
        skips = ((0, 3), (3, 6))
        places = {"norm_1": 1, "sum_1": 3, "norm_2": 4, "hidden": 5, "activated": 5, "fed": 5, "sum_2": 6}
    else:
        names = ("x", "attention", "+", "norm 1", "feed-forward", "+", "norm 2")
        out = (said["x"], attended, said["sum_1"], said["norm_1"], said["fed"], said["sum_2"], said["norm_2"])
        skips = ((0, 2), (3, 5))
        places = {"sum_1": 2, "norm_1": 3, "hidden": 4, "activated": 4, "fed": 4, "sum_2": 5, "norm_2": 6}
    marked = names.index("attention") if step.startswith("attention") else places[step]
    kind = "pre-norm" if trace.norm_first else "post-norm"
    title = f"Data flow of block {index}, {kind}; the numbers are mean norms of the tokens"
    return diagram.html([Node(*pair) for pair in zip(names, out, strict=True)], skips, marked, title)


def stream_chart(both: Sequence[tuple[str, Inside]], what: str) -> dict[str, Any]:
    """A Plotly figure of the stream of each placement: its "norm" or what is "kept" of the tokens."""
    both = sorted(both, key=lambda pair: pair[0])  # the same colour for each, whichever the reader chose
    first = both[0][1].stream
    places = list(range(len(first)))
    lowest = min(getattr(point, what) for _, inside in both for point in inside.stream)
    return {
        "data": [
            {
                "type": "scatter", "mode": "lines+markers", "name": name, "x": places,
                "y": [getattr(point, what) for point in inside.stream],
                "line": {"dash": dash}, "marker": {"size": 8, "symbol": symbol},
                "hovertemplate": f"%{{y:.3g}}<extra>{name}</extra>",
            }
            for (name, inside), (dash, symbol) in zip(both, _LINES, strict=True)
        ],
        "layout": {
            "height": 280, "margin": {"l": 50, "r": 10, "t": 30, "b": 70},
            "xaxis": {
                "tickmode": "array", "tickvals": places, "ticktext": [point.place for point in first],
                "tickangle": -40, "zeroline": False,
            },
            "yaxis": {"rangemode": "tozero"} if what == "norm" else {"range": [1.05 * min(-0.1, lowest), 1.05]},
            "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "xanchor": "left"},
        },
    }  # fmt: skip


# what the charts of the stream show
CHARTS: Final = {
    "norm": "Norm of the stream, mean over tokens",
    "kept": "Cosine between the stream and the tokens",
}


def stream_in_words(both: Sequence[tuple[str, Inside]], what: str) -> str:
    """What a chart of the stream shows, for those who do not see it."""
    ends = (f"{name} ends at {getattr(inside.stream[-1], what):.3g}" for name, inside in both)
    return f"{what} of the stream after every addition: " + ", ".join(ends)


def bent_table(bent: Bent) -> str:
    """GELU and ReLU on the same numbers, as HTML."""
    rows: list[tuple[Value, ...]] = [
        ("share of exact zeros", f"{bent.zeros_gelu:.1%}", f"{bent.zeros_relu:.1%}"),
        ("smallest number", f"{bent.gelu.min().item():.3f}", f"{bent.relu.min().item():.3f}"),
        ("largest number", f"{bent.gelu.max().item():.3f}", f"{bent.relu.max().item():.3f}"),
        ("mean norm of a token", f"{mean_norm(bent.gelu):.2f}", f"{mean_norm(bent.relu):.2f}"),
    ]
    caption = f"On the same hidden numbers; largest difference {bent.largest_gap:.3f}"
    return tables.html(Table(caption, ("", "GELU", "ReLU"), rows), kind="ways")


def said_of_paths(config: BlockConfig, fused: Check) -> str:
    """Which of PyTorch's two paths was compared with, and what the other says."""
    odd = config.scene.num_heads % 2 == 1
    taken = "with an odd number of heads it takes the ordinary path too" if odd else f"its first block: {fused.reason}"
    return (
        "PyTorch's nn.TransformerEncoderLayer was built with every option set (batch_first=False, dropout 0, eps 1e-5) "
        "and asked in eval mode, which keeps it on its ordinary path. With batch_first=True and no gradients it takes "
        f"a fused one, torch._transformer_encoder_layer_fwd; {taken}."
    )


def _norm(x: Any) -> str:
    return f"{mean_norm(x):.1f}"
