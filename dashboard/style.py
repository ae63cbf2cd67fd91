"""The little CSS that `.streamlit/config.toml` has no setting for."""

from pathlib import Path
from typing import Final

import streamlit as st

_CSS: Final = Path(__file__).with_name("style.css")


def apply() -> None:
    """Add the CSS to the page."""
    st.html(_CSS)
