"""The sidebar's controls as one: what the reader has set, and what of it stands in the URL.

This file and `scene_controls` are the only ones that name a shared key. A widget's key is its name in the URL; a
default is left out of the URL.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import streamlit as st

from attention.compare import Tolerance
from attention.config import RANDOM, AttentionConfig
from attention.verify import ARITHMETIC
from dashboard import (
    comparing,
    gallery,
    heatmap,
    limits,
    link,
    mistakes,
    page_controls,
    scene_controls,
    teaching,
    train_controls,
)
from dashboard.fragments import PICTURE, VERDICT, rerun
from dashboard.heatmap import Cell, Curve, Look, Scale
from dashboard.link import Parameter

DEFAULT_PIN: Final = Cell(head=0, query=9, key=4)
# a segmented control writes its labels to the URL, so these are both
SCALES: Final[tuple[Scale, ...]] = ("shared", "per-head")
CURVES: Final[tuple[Curve, ...]] = ("linear", "sqrt", "log")

_URL: Final = "query-params"
_LONGEST: Final = 12  # characters: nothing longer names a cell or a head


@dataclass(frozen=True)
class Asked:
    """All that the reader has set."""

    config: AttentionConfig
    look: Look
    tolerance: Tolerance


def asked() -> Asked:
    """The values of the widgets, as far as the page goes."""
    state = st.session_state
    config = limits.within(link.page(), scene_controls.scene_asked())
    look = Look(scale=state["scale"], curve=state["curve"], enlarged=_enlarged(config), pin=_pinned(config))
    usual = ARITHMETIC[config.dtype]
    return Asked(config, look, Tolerance(rtol=state.get("rtol", usual.rtol), atol=state.get("atol", usual.atol)))


def address() -> str:
    """The address of what is on screen, for a reader who takes it elsewhere."""
    return link.address(link.said(PARAMETERS, PARAMETERS))


def draw(page: str) -> None:
    """Draw the sidebar: the scene's controls, those of the page (named after its file), the picture's switches."""
    link.open_once(PARAMETERS)
    link.open_page(page)
    with st.sidebar:
        scene_controls.draw(page)
        page_controls.draw(page)
        _picture()
        _say_what_was_refused()


def draw_tolerance() -> None:
    """Draw rtol and atol. They begin as `torch.testing.assert_close` has them for the dtype."""
    usual = ARITHMETIC[scene_controls.dtype()]
    link.keep_in_url("rtol", "atol")
    left, right = st.columns(2)
    for place, name, value in ((left, "rtol", usual.rtol), (right, "atol", usual.atol)):
        place.number_input(
            name, 0.0, 1.0, value=value, step=max(value / 10, 1e-9), format="%.1e", key=name, bind=_URL,
            on_change=rerun(VERDICT),
        )  # fmt: skip


def set_scene(values: Mapping[str, Any]) -> None:
    """Set controls all at once, as a preset does, from a callback; the tolerance goes back to the usual one.

    Sizes that a trained layer has not are those of random weights.
    """
    if set(scene_controls.SIZES) & values.keys():
        st.session_state["weights"] = RANDOM
    st.session_state.update(values)
    scene_controls.forget()
    scene_controls.reset_tolerance()


def keep_pin(key: str, head: int | None = None) -> None:
    """Write the cell that was clicked in the picture `key` to the URL: "head-query-key", or "none".

    `head` is for a picture whose tiles are no heads, but all of that one.
    """
    pin = heatmap.clicked(key)[:_LONGEST]
    clicked = link.cell(pin)
    st.query_params["pin"] = pin if head is None or clicked is None else f"{head}-{clicked.query}-{clicked.key}"


def keep_enlarged(key: str) -> None:
    """Write the head that was enlarged in the picture `key` to the URL, or take it out."""
    head = str(st.session_state[key]["enlarged"])
    if head == "all":
        st.query_params.pop("head", None)
    else:
        st.query_params["head"] = head[:_LONGEST]


def _picture() -> None:
    st.segmented_control(
        "Colour of a weight", CURVES, default="sqrt", required=True,
        key="curve", bind=_URL, help="sqrt shows small weights that a linear scale leaves dark.",
        on_change=rerun(PICTURE),
    )  # fmt: skip
    st.segmented_control(
        "Colour scale", SCALES, default="shared", required=True,
        key="scale", bind=_URL, help="From 0 to 1 for all heads, or to each head's own largest weight.",
        on_change=rerun(PICTURE),
    )  # fmt: skip


def _pinned(config: AttentionConfig) -> Cell | None:
    """The pinned cell, moved into the scene where the scene has become too small for it."""
    text = st.query_params.get("pin", "")
    if text == "none":
        return None
    wanted = link.cell(text) or DEFAULT_PIN
    last = config.num_tokens - 1
    return Cell(min(wanted.head, config.num_heads - 1), min(wanted.query, last), min(wanted.key, last))


def _enlarged(config: AttentionConfig) -> int | None:
    text = st.query_params.get("head", "")
    return int(text) if link.is_whole(text, 0, config.num_heads - 1) else None


def _say_what_was_refused() -> None:
    state = st.session_state
    if refused := link.take_refused():
        usual = {**vars(asked().tolerance), "pin": "the first cell", "head": "all", **state.to_dict()}
        shown = ", ".join(f"{name}={usual.get(name, 'the usual')}" for name in refused)
        st.caption(f":material/info: The link asked for something impossible; shown is {shown}.")


PARAMETERS: Final[dict[str, Parameter]] = {
    **scene_controls.PARAMETERS,
    "curve": Parameter(link.one_of(*CURVES)),
    "scale": Parameter(link.one_of(*SCALES)),
    "rtol": Parameter(link.is_fraction, float, kept=True),
    "atol": Parameter(link.is_fraction, float, kept=True),
    "pin": Parameter(lambda text: text == "none" or link.cell(text) is not None),
    "head": Parameter(link.whole_number(0, 9999)),
    **gallery.PARAMETERS,
    **teaching.PARAMETERS,
    **comparing.PARAMETERS,
    **mistakes.CLICKED,
    **train_controls.PARAMETERS,
    **page_controls.PARAMETERS,
}
