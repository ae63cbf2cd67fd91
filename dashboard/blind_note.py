"""The note on every page whose settings hide mistakes: which, and one click to settings that show them."""

from functools import partial
from typing import Final

import streamlit as st

from attention.bugs.blind_spots import BlindSpots, blind_spots
from attention.bugs.catalogue import BY_KEY
from attention.scenes import Scene
from dashboard.controls import set_scene
from dashboard.scene_controls import CALLED

# so many stand in the note by name
_NAMED: Final = 4
_CALLED: Final = {**CALLED, "head_dim": "head width", "value_dim": "value width", "rules": "no rules"}


def badge(scene: Scene) -> str:
    """For the verdict's line, as Markdown: how many mistakes these settings hide; empty where none."""
    found = blind_spots(scene)
    return (
        f" :orange-badge[:material/visibility_off: hides {len(found.hidden)} of {found.of} mistakes]"
        if found.hidden
        else ""
    )


def draw(scene: Scene) -> None:
    """Draw the note, where there is something to say."""
    found = blind_spots(scene)
    if not found.hidden:
        return
    st.markdown(said(found))
    if found.instead:
        st.button(
            f"Show them: {settings(found)}",
            icon=":material/visibility:",
            on_click=partial(_set, found),
            key="show_hidden",
        )


def said(found: BlindSpots) -> str:
    """Which mistakes cannot show, as Markdown."""
    names = [BY_KEY[key].name for key in found.hidden]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    listed = ", ".join(names[:_NAMED]) + more
    return (
        f":orange-badge[:material/visibility_off: hidden here] **These settings cannot show {len(names)} of {found.of} "
        f"mistakes**: {listed}. Every step would stay equal; only the fixed probe would tell."
    )


def settings(found: BlindSpots) -> str:
    """The settings that show more, in words."""
    return ", ".join(_setting(name, value) for name, value in found.instead)


def _setting(name: str, value: object) -> str:
    if isinstance(value, bool):
        return name if value else f"not {name}"
    if name == "weights":
        return f"{value} weights"
    if isinstance(value, str):
        return value
    return _CALLED[name] if isinstance(value, (list, tuple)) else f"{_CALLED[name]} {value}"


def _set(found: BlindSpots) -> None:
    set_scene(dict(found.instead))
    st.rerun()  # the sidebar shows other settings now
