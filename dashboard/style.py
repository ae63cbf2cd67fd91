"""The little CSS that `.streamlit/config.toml` has no setting for."""

import numpy as np
import streamlit as st
from PIL import Image

_CSS = """
<style>
  /* the picture wants the width, and the verdict the first line */
  .stMain .stMainBlockContainer { padding: 3.25rem 2rem 3rem; }
  .st-key-verdict {
    position: sticky; top: 0; z-index: 50;
    background: var(--st-background-color);
    border-bottom: 1px solid var(--st-border-color);
    padding: 0.4rem 0;
  }
  @media (max-width: 640px) {
    .stMain .stMainBlockContainer { padding: 3.25rem 1rem 2rem; }
  }
</style>
"""


def icon() -> Image.Image:
    """The page's icon, a causal triangle. A named icon would be fetched from another server."""
    triangle = np.tril(np.ones((4, 4), dtype=np.uint8)).repeat(8, axis=0).repeat(8, axis=1)
    seen, masked = np.array([38, 130, 142], dtype=np.uint8), np.array([222, 226, 234], dtype=np.uint8)
    return Image.fromarray(np.where(triangle[..., None] == 1, seen, masked))


def apply() -> None:
    """Add it to the page."""
    st.html(_CSS)
