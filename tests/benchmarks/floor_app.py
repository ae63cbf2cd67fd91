"""The floor: a page with the slider and nothing to draw."""

import streamlit as st

seed = st.slider("Seed", 0, 99, value=0)
st.html(f'<div class="floor" data-scene="{seed}"></div>')
