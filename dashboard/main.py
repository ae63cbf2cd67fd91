"""The router: page config, shared controls, and the page that is open."""

import streamlit as st

from dashboard import assets, controls, for_a_class, style, teaching
from dashboard.contents import PAGES

st.set_page_config(page_title="Attention Lab", page_icon=assets.url("icon.svg"), layout="wide")
style.apply()
teaching.apply()


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
page = st.navigation(list(pages.values()), expanded=True)
controls.draw(next(name for name, candidate in pages.items() if candidate == page))
for_a_class.draw()
page.run()
