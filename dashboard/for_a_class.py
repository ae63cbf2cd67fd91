"""The last of the sidebar: the scene pinned as A, to compare others with it, and a link to it for a class."""

import streamlit as st

from dashboard import comparing, controls, limits, link, scene_controls, teaching


def draw() -> None:
    """Draw both buttons."""
    with st.sidebar:
        pressed = st.button(
            "Pin as A, and compare",
            icon=":material/compare:",
            key="compare_from_here",
            help="Keep these settings as A, then move the controls: A, B and their difference stand side by side.",
            on_click=_pin,
            width="stretch",
        )
        if pressed and link.page() != "compare":
            st.switch_page("app_pages/compare.py", query_params={"a": st.query_params["a"]})
        teaching.draw(lambda: link.said(controls.PARAMETERS, vars(scene_controls.DEFAULT)))


def _pin() -> None:
    comparing.pin(limits.within("compare", scene_controls.scene_asked()))
