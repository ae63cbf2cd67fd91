"""The mounted heatmap of all heads: one tiled plot that is fed with bytes and updated in place.

`st.plotly_chart` would rebuild the plot at every change, lose its zoom, and answer no click on a
cell. The component keeps Plotly's axes, zoom, pan and colour bar mounted and repaints only the
pixels under them.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal

import numpy as np
import streamlit as st
from numpy.typing import NDArray
from plotly.colors import get_colorscale

from dashboard import assets

Scale = Literal["shared", "per-head"]
Curve = Literal["linear", "sqrt", "log"]

# perceptually even, rising in lightness, and told apart with every common colour blindness
COLOUR_SCALE: Final = "Viridis"

_HTML: Final = """
<div class="heads">
  <div class="bar">
    <button type="button" class="all" hidden></button>
    <span class="readout" aria-live="polite"></span>
  </div>
  <div class="stage" tabindex="0" role="group">
    <canvas class="pixels"></canvas>
    <div class="plot"></div>
    <canvas class="marks"></canvas>
    <div class="titles"></div>
    <div class="tip" hidden></div>
  </div>
  <section class="below"></section>
</div>
"""

# Sent with every message, so it holds only the way to the files.
_JS: Final = """
const ready = (async () => {
  const { load } = await import(new URL("%(loader)s", location.origin).href);
  return load();
})();
export default function (component) {
  let stopped = false;
  let stop = () => {};
  const { parentElement } = component;
  parentElement.latest = component;
  ready.then((draw) => {
    if (!stopped && parentElement.latest === component) stop = draw(component);
  });
  return () => { stopped = true; stop(); };
}
"""


@dataclass(frozen=True)
class Cell:
    """One cell of one head; all three count from 0."""

    head: int
    query: int
    key: int


@dataclass(frozen=True)
class Look:
    """How the picture is drawn: nothing here changes a number.

    `scale` is "shared" (0 to 1 for every head) or "per-head" (0 to the head's own largest weight);
    `curve` is how colour grows with the weight.
    """

    scale: Scale = "shared"
    curve: Curve = "sqrt"
    enlarged: int | None = None
    pin: Cell | None = None


@dataclass(frozen=True)
class Picture:
    """The numbers of one scene, ready to send: mask bits, then `sent` float32 weights."""

    identity: str
    heads: int
    queries: int
    keys: int
    nans: int
    sent: int
    numbers: bytes


def picture(weights: NDArray[np.float32], allowed: NDArray[np.bool_], identity: str) -> Picture:
    """Pack weights (H, T, S) and mask (T, S) for the browser.

    Weights of forbidden cells are left out where all of them are zero, which halves a causal scene.

    Raises:
        ValueError: the mask's shape is not that of one head; the message carries both.
    """
    if weights.ndim != 3 or weights.shape[1:] != allowed.shape:
        raise ValueError(f"weights {weights.shape} need a mask of {weights.shape[1:]}, not {allowed.shape}.")
    heads, queries, keys = weights.shape
    flat = np.ascontiguousarray(weights, dtype="<f4").reshape(heads, queries * keys)
    packed = flat if allowed.all() else flat[:, np.flatnonzero(allowed)]
    if np.count_nonzero(packed) != np.count_nonzero(flat):  # a forbidden cell holds something: that must be seen
        packed = flat
    return Picture(
        identity=identity,
        heads=heads,
        queries=queries,
        keys=keys,
        nans=int(np.isnan(packed).sum()),
        sent=packed.size,
        numbers=_padded(np.packbits(allowed).tobytes()) + packed.tobytes(),
    )


def payload(drawn: Picture, look: Look, summary: str, below: str) -> bytes:
    """The message: length of the header, header, mask bits, float32 weights; each part padded to four bytes."""
    header = {
        "id": drawn.identity,
        "file": f"attention-{drawn.identity}",
        "heads": drawn.heads,
        "queries": drawn.queries,
        "keys": drawn.keys,
        "nans": drawn.nans,
        "sent": drawn.sent,
        "stops": _stops(),
        "summary": summary,
        "below": below,
        "scale": look.scale,
        "curve": look.curve,
        "enlarged": look.enlarged,
        "pin": asdict(look.pin) if look.pin else None,
    }
    text = _padded(json.dumps(header).encode(), b" ")
    return len(text).to_bytes(4, "little") + text + drawn.numbers


def heads(
    drawn: Picture,
    look: Look,
    summary: str,
    below: str,
    *,
    key: str,
    on_pin: Callable[[], None],
    on_enlarge: Callable[[], None],
) -> None:
    """Mount or update the picture.

    Args:
        drawn: the numbers.
        look: how to draw them.
        summary: says in words what is shown, for those who do not see it.
        below: HTML that belongs to these very numbers, shown under them; every text in it escaped.
        key: the component's name on the page.
        on_pin: called when a cell was clicked.
        on_enlarge: called when a head was enlarged, or made small again.
    """
    _mount(
        key=key,
        data=payload(drawn, look, summary, below),
        on_pin_change=on_pin,
        on_enlarged_change=on_enlarge,
    )


_mount = st.components.v2.component(
    "attention_heads", html=_HTML, js=_JS % {"loader": assets.url("load.js")}, isolate_styles=False
)


def _stops() -> Sequence[tuple[float, list[int]]]:
    return [
        (position, [int(colour[i : i + 2], 16) for i in (1, 3, 5)]) for position, colour in get_colorscale(COLOUR_SCALE)
    ]


def _padded(data: bytes, filler: bytes = b"\0") -> bytes:
    return data + filler * (-len(data) % 4)
