"""The router: page config, shared controls, and the page that is open."""

import streamlit as st

from dashboard import assets, controls, style

st.set_page_config(page_title="Attention Lab", page_icon=assets.url("icon.svg"), layout="wide")
style.apply()

page = st.navigation(
    [st.Page("app_pages/heads.py", title="Every head", icon=":material/grid_view:", url_path="heads", default=True)]
)
controls.draw()
page.run()
