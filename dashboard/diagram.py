"""The data flow of one block as a drawing: boxes, sums, and the residual connections over them.

Plain HTML in a CSS grid: Streamlit takes SVG out of what it shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Node:
    """One station: a box with a name, or a sum ("+"); `out` is said on the arrow that leaves it."""

    name: str
    out: str


def html(nodes: Sequence[Node], skips: Sequence[tuple[int, int]], marked: int | None, title: str) -> str:
    """The drawing, with every text escaped.

    Args:
        nodes: the stations, from left to right.
        skips: from the arrow that leaves one node to another node, a sum.
        marked: the node whose step is shown below.
        title: says in words what is drawn.
    """
    # node i stands in column 2i + 1 and its arrow in column 2i + 2, both in the second row; skips span the first
    parts = [f'<div class="skip" style="grid-column: {2 * a + 2} / {2 * b + 2}"></div>' for a, b in skips]
    for i, node in enumerate(nodes):
        kind = ("sum" if node.name == "+" else "box") + (" marked" if i == marked else "")
        parts.append(f'<div class="{kind}" style="grid-column: {2 * i + 1}">{escape(node.name)}</div>')
        parts.append(f'<div class="arrow" style="grid-column: {2 * i + 2}"><span>{escape(node.out)}</span></div>')
    return f'<div class="diagram" tabindex="0" role="img" aria-label="{escape(title)}">{"".join(parts)}</div>'
