"""The little CSS that `.streamlit/config.toml` has no setting for."""

import numpy as np
import streamlit as st
from PIL import Image

_CSS = """
<style>
  /* the picture wants the width and the height */
  .stMain .stMainBlockContainer { padding: 3.25rem 2rem 3rem; }
  [data-testid="stSidebar"][aria-expanded="true"] ~ .stMain .stMainBlockContainer,
  :has(> [data-testid="stSidebar"][aria-expanded="true"]) .stMainBlockContainer { padding-top: 1.25rem; }
  .stMain h1 { padding: 0; }
  .st-key-verdict {
    position: sticky; top: 0; z-index: 50;
    background: var(--st-background-color);
    border-bottom: 1px solid var(--st-border-color);
    padding: 0.4rem 0;
  }
  .tables { display: flex; flex-wrap: wrap; gap: 1.5rem 2.5rem; overflow-x: auto; }
  .tables table { border-collapse: collapse; font-size: 0.875rem; font-variant-numeric: tabular-nums; flex: 1 1 auto; align-self: flex-start; margin: 0; }
  .tables caption { text-align: left; font-weight: 600; padding-bottom: 0.35rem; caption-side: top; color: inherit; white-space: nowrap; }
  .tables th, .tables td { border: 0; border-bottom: 1px solid var(--st-border-color); padding: 0.3rem 0.6rem; text-align: left; font-weight: 400; white-space: nowrap; }
  .tables th:first-child { padding-left: 0; }
  .tables thead th { opacity: 0.75; white-space: normal; vertical-align: bottom; }
  .tables .groups th { font-weight: 600; border-bottom: 0; padding-bottom: 0; text-align: right; }
  .tables td { text-align: right; }
  .tables thead th:not(:first-child) { text-align: right; }
  .tables.cell table:first-child :is(td, th):nth-child(2), .tables.steps :is(td, th):nth-child(2) { text-align: left; }
  .tables .strong { font-weight: 700; }
  .tables .code { font-family: var(--st-code-font); }
  .tables .good { color: var(--st-green-text-color, #12723b); }
  .tables .bad { color: var(--st-red-text-color, #b3261e); font-weight: 700; }
  @media (max-width: 640px) {
    .stMain .stMainBlockContainer { padding: 3.25rem 1rem 2rem !important; }
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
