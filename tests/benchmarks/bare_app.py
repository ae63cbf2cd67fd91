"""A bare Streamlit page that imports torch: what no page of this kind can be quicker than."""

import streamlit as st
import torch

st.html(f'<div class="bare">{torch.zeros(1).item()}</div>')
