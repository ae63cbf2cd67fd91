"""The mounted heatmap: tiles (the heads, or the steps, of an attention) in one plot, fed with bytes, updated in place.

`st.plotly_chart` would rebuild the plot at every change, lose its zoom, and answer no click on a
cell. The component keeps Plotly's axes, zoom, pan and colour bar mounted and repaints only the
pixels under them.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Final, Literal

import numpy as np
import streamlit as st
from numpy.typing import NDArray
from plotly.colors import get_colorscale

from dashboard import assets
from dashboard.heatmap import seen

Scale = Literal["shared", "per-head"]
Curve = Literal["linear", "sqrt", "log"]

Kind = Literal["weights", "signed", "difference"]

# weights: perceptually even, rising in lightness, and told apart with every common colour blindness;
# signed numbers: two hues that grow from a light middle, which is always 0; differences: sizes from 0 up, by decades
COLOUR_SCALES: Final[dict[Kind, str]] = {"weights": "Viridis", "signed": "RdBu_r", "difference": "Cividis"}
# decades of differences that are told apart
_DECADES: Final = 16

_HTML: Final = """
<div class="heads">
  <div class="bar">
    <button type="button" class="all" hidden></button>
    <span class="readout"></span>
  </div>
  <div class="stage" tabindex="0" role="application" aria-roledescription="heatmap">
    <canvas class="pixels"></canvas>
    <div class="plot"></div>
    <canvas class="marks"></canvas>
    <div class="titles"></div>
    <div class="tip" hidden></div>
  </div>
  <div class="spoken unseen" aria-live="polite"></div>
  <div class="keys unseen"></div>
  <details class="twin"><summary>The numbers as a table</summary></details>
  <section class="below"></section>
</div>
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
class Says:
    """What a picture tells the reader: `hint` while nothing is hovered, `pinned` behind the pinned cell.

    A picture whose `pinned` is empty answers no click. `tallest` caps the height of its tiles, in pixels.
    """

    hint: str = "Hover over a cell for its number; click a title to enlarge its tile."
    pinned: str = ""
    tallest: int | None = None


@dataclass(frozen=True)
class Words:
    """What the picture's parts are called: axes, tiles, numbers, and how a cell is said ("query 3 → key 4")."""

    rows: str = "query (attends)"
    columns: str = "key (attended to)"
    pair: tuple[str, str, str] = ("query", "→", "key")
    tiles: str = "heads"
    number: str = "weight"


ATTENTION: Final = Words()


@dataclass(frozen=True)
class Picture:
    """The numbers of one scene, ready to send: mask bits, then `sent` float32 numbers.

    `low` and `high` are the true range of signed numbers, infinities and NaN left out. Of weights they are 0 and
    1, or the largest weight where dropout has let it grow over 1. Of differences they are the powers of ten that
    enclose those over 0, 16 decades at most; 0 and 0 where there is none. `seen` says what is to be seen. Of `blank`
    rows no number is in it. `row_labels` and `column_labels` are what the tokens of an axis are called, if not by their
    position.
    """

    identity: str
    titles: tuple[str, ...]
    kind: Kind
    words: Words
    queries: int
    keys: int
    low: float
    high: float
    nans: int
    sent: int
    seen: str
    numbers: bytes
    blank: tuple[int, ...] = ()
    row_labels: tuple[str, ...] = ()
    column_labels: tuple[str, ...] = ()

    @property
    def heads(self) -> int:
        """How many tiles there are."""
        return len(self.titles)


def picture(
    tiles: NDArray[np.float32],
    allowed: NDArray[np.bool_] | None,
    identity: str,
    *,
    titles: Sequence[str] | None = None,
    kind: Kind = "weights",
    words: Words = ATTENTION,
    blank: Sequence[int] = (),
    row_labels: Sequence[str] = (),
    column_labels: Sequence[str] = (),
) -> Picture:
    """Pack tiles (H, T, S) and the mask (T, S) of all of them for the browser; no mask where every cell is allowed.

    Numbers of forbidden cells are left out where all of them are nothing (0, or -inf), which halves a causal scene.
    Rows that are `blank`, in every tile, are for the reader to fill in: their numbers and their mask stay here.
    Labels name what is on an axis.

    Raises:
        ValueError: the mask's shape is not that of one tile, or there are not as many titles as tiles; the
            message carries both.
    """
    if tiles.ndim != 3:
        raise ValueError(f"tiles are three axes (tile, row, column), not {tiles.shape}.")
    allowed = np.ones(tiles.shape[1:], dtype=bool) if allowed is None else allowed
    if tiles.shape[1:] != allowed.shape:
        raise ValueError(f"tiles {tiles.shape} need a mask of {tiles.shape[1:]}, not {allowed.shape}.")
    if blank:
        tiles, allowed = tiles.copy(), allowed.copy()
        tiles[:, list(blank)], allowed[list(blank)] = 0, False
    count, queries, keys = tiles.shape
    titles = tuple(f"head {i}" for i in range(count)) if titles is None else tuple(titles)
    if len(titles) != count:
        raise ValueError(f"{count} tiles need as many titles, not {len(titles)}.")
    for name, count_of, labels in (("rows", queries, row_labels), ("columns", keys, column_labels)):
        if labels and len(labels) != count_of:
            raise ValueError(f"{count_of} {name} need as many labels, not {len(labels)}.")
    flat = np.ascontiguousarray(tiles, dtype="<f4").reshape(count, queries * keys)
    places = np.flatnonzero(allowed)
    packed = flat if allowed.all() else flat[:, places]
    if np.count_nonzero(packed) != np.count_nonzero(flat):
        left_out = flat[:, np.flatnonzero(~allowed)]
        if not ((left_out == 0) | np.isneginf(left_out)).all():  # a forbidden cell holds something: that must be seen
            packed, places = flat, np.arange(queries * keys)
    low, high = _range(packed, kind)
    shares = kind == "weights" and (words.pair, words.number) == (ATTENTION.pair, ATTENTION.number)
    found = seen.look(packed, places, allowed, is_signed=kind == "signed", has_rows=shares)
    return Picture(
        identity=identity,
        titles=titles,
        kind=kind,
        words=words,
        queries=queries,
        keys=keys,
        low=low,
        high=high,
        nans=int(np.isnan(packed).sum()),
        sent=packed.size,
        seen=_left_blank(blank) if blank else seen.said(found, kind, words.number, words.pair, titles),
        numbers=_padded(np.packbits(allowed).tobytes()) + packed.tobytes(),
        blank=tuple(blank),
        row_labels=tuple(row_labels),
        column_labels=tuple(column_labels),
    )


def _left_blank(rows: Sequence[int]) -> str:
    """What is to be seen where rows are left blank: of the others nothing is counted, or they would seem masked."""
    return f"{'Row' if len(rows) == 1 else 'Rows'} {', '.join(map(str, rows))} left blank, to be filled in."


def _range(numbers: NDArray[np.float32], kind: Kind) -> tuple[float, float]:
    """The ends of the colour scale."""
    if kind == "weights":
        return 0.0, max(1.0, _largest(numbers))
    finite = numbers[np.isfinite(numbers) & ((numbers > 0) | (kind == "signed"))]
    if not finite.size:
        return 0.0, 0.0
    smallest, largest = float(finite.min()), float(finite.max())
    if kind == "signed":
        return smallest, largest
    high = math.floor(math.log10(largest)) + 1
    low = max(math.floor(math.log10(smallest)), high - _DECADES)
    return 10.0**low, 10.0**high


def _largest(numbers: NDArray[np.float32]) -> float:
    """The largest number, 0 where there is none or NaN is among them."""
    largest = float(numbers.max()) if numbers.size else 0.0
    return largest if np.isfinite(largest) else 0.0


def payload(
    drawn: Picture, look: Look, summary: str, below: str = "", says: Says | None = None, keeps_enlarged: bool = False
) -> bytes:
    """The message: length of the header, header, mask bits, float32 numbers; each part padded to four bytes.

    With `keeps_enlarged` the browser goes on with the tile that the reader has enlarged, whatever `look` says.
    """
    says = says or Says()
    header = {
        "id": drawn.identity,
        "file": f"attention-{drawn.identity}",
        "heads": drawn.heads,
        "titles": drawn.titles,
        "kind": drawn.kind,
        "low": drawn.low,
        "high": drawn.high,
        "rowsName": drawn.words.rows,
        "columnsName": drawn.words.columns,
        "tilesName": drawn.words.tiles,
        "numberName": drawn.words.number,
        "pair": drawn.words.pair,
        "hint": says.hint,
        "pinned": says.pinned,
        "tallest": says.tallest,
        "queries": drawn.queries,
        "keys": drawn.keys,
        "nans": drawn.nans,
        "sent": drawn.sent,
        "blank": drawn.blank,
        "rowLabels": drawn.row_labels,
        "columnLabels": drawn.column_labels,
        "stops": stops(drawn.kind),
        "summary": summary,
        "seen": drawn.seen,
        "below": below,
        "scale": look.scale,
        "curve": look.curve,
        "enlarged": look.enlarged,
        "keepsEnlarged": keeps_enlarged,
        "pin": asdict(look.pin) if look.pin else None,
    }
    text = _padded(json.dumps(header).encode(), b" ")
    return len(text).to_bytes(4, "little") + text + drawn.numbers


def _nothing() -> None:
    """What a picture without a pin calls."""


def clicked(key: str) -> str:
    """The cell that was clicked in the picture `key`, within its `on_pin`: "tile-row-column", or "none"."""
    return str(st.session_state[key]["pin"]).partition("#")[0]


def show(
    drawn: Picture,
    look: Look,
    summary: str,
    below: str = "",
    *,
    key: str,
    says: Says | None = None,
    on_pin: Callable[[], None] = _nothing,
    on_enlarge: Callable[[], None] = _nothing,
) -> None:
    """Mount or update a picture.

    Args:
        drawn: the numbers.
        look: how to draw them.
        summary: says in words what is shown, for those who do not see it.
        below: HTML that belongs to these very numbers, shown under them; every text in it escaped.
        key: the component's name on the page.
        says: what it tells the reader to do, and how tall it may be.
        on_pin: called when a cell was clicked.
        on_enlarge: called when a head was enlarged, or made small again.
    """
    _mount(
        key=key,
        data=payload(drawn, look, summary, below, says, keeps_enlarged=on_enlarge is _nothing),
        on_pin_change=on_pin,
        on_enlarged_change=on_enlarge,
    )


_mount = st.components.v2.component("attention_heads", html=_HTML, js=assets.script("heatmap"), isolate_styles=False)


@cache
def stops(kind: Kind) -> Sequence[tuple[float, tuple[int, ...]]]:
    """A colour scale: places from 0 to 1, and red, green and blue there."""
    return tuple((position, _rgb(colour)) for position, colour in get_colorscale(COLOUR_SCALES[kind]))


def _rgb(colour: str) -> tuple[int, ...]:
    """A colour as Plotly writes it, "#440154" or "rgb(5,48,97)"."""
    if colour.startswith("#"):
        return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return tuple(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))


def _padded(data: bytes, filler: bytes = b"\0") -> bytes:
    return data + filler * (-len(data) % 4)
