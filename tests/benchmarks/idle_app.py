"""The floor of the load: a page with one slider and nothing else."""

import streamlit as st

st.html(f"<div>{st.slider('Seed', 0, 99, value=0)}</div>")
