"""The floor: a page with the slider, the same attention computed, and nothing drawn.

`?num_heads=0` leaves the attention out as well: Streamlit's own floor.
"""

import streamlit as st
import torch

from attention import AttentionConfig
from attention.multi_head import attend_as_configured

torch.set_num_threads(1)
asked = st.query_params
seed = st.slider("Seed", 0, 99, value=0)
if int(asked["num_heads"]):
    with torch.no_grad():
        attend_as_configured(
            AttentionConfig(
                embed_dim=int(asked["embed_dim"]),
                num_heads=int(asked["num_heads"]),
                num_tokens=int(asked["num_tokens"]),
                seed=seed,
                causal=asked["causal"] == "true",
            )
        )
st.html(f'<div class="floor" data-scene="{seed}"></div>')
