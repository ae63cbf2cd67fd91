"""The router: page config, shared controls, and the page that is open."""

from typing import Final

import streamlit as st

from dashboard import assets, controls, style

# file in app_pages, title, icon; the first is what opens
PAGES: Final = (
    ("heads", "Every head", "grid_view"),
    ("one_head", "One head, step by step", "footprint"),
    ("masks", "Masks", "background_grid_small"),
    ("head_counts", "How many heads", "account_tree"),
    ("four_ways", "Four ways, one answer", "fork_right"),
    ("block", "Transformer block", "layers"),
    ("break_it", "Break it", "bug_report"),
    ("precision", "Precision", "straighten"),
    ("pytorch_differs", "What PyTorch does differently", "difference"),
)

st.set_page_config(page_title="Attention Lab", page_icon=assets.url("icon.svg"), layout="wide")
style.apply()


@st.fragment(run_every=24 * 60 * 60)  # seconds
def ask_again() -> None:
    """Do nothing: what counts is that the page has a clock.

    A page that connects again asks for a whole run if it has one, or if a fragment was the last to run; else for none.
    Where its session is gone by then (the process died, the laptop slept), no fragment is known, and on a page that had
    only been opened no control would do anything.
    """


ask_again()
pages = {
    name: st.Page(f"app_pages/{name}.py", title=title, icon=f":material/{icon}:", url_path=name, default=not place)
    for place, (name, title, icon) in enumerate(PAGES)
}
page = st.navigation(list(pages.values()))
controls.draw(next(name for name, candidate in pages.items() if candidate == page))
page.run()
