"""Every head of a from-scratch attention, beside the verdict against PyTorch."""

from functools import cache

import streamlit as st

from attention.worked_cell import work_out
from dashboard import cached, cell_panel, controls, heatmap, sources, verdict_panel

KEY = "heads_picture"

with st.sidebar:
    config = controls.scene()
    look = controls.look(config)

verdict_line = st.container(key="verdict").empty()
verdict_line.markdown(":gray-badge[:material/hourglass: checking] These numbers are being checked against PyTorch’s.")

trace = cache(lambda: cached.trace_of(config))
drawn = cached.picture(config, trace)
mask = "under a causal mask" if config.causal else "without a mask"
heatmap.heads(
    drawn,
    look,
    f"Attention weights of {config.num_heads} heads over {config.num_tokens} tokens {mask}; rows are queries, columns keys.",
    key=KEY,
    on_pin=lambda: controls.keep_pin(KEY),
    on_enlarge=lambda: controls.keep_enlarged(KEY),
)

if look.pin:
    cell_panel.draw(work_out(trace(), look.pin.head, look.pin.query, look.pin.key))

st.subheader("Step by step against PyTorch")
tolerance = controls.tolerance(config)
verdict = cached.verdict(config, tolerance, trace)
with verdict_line:
    verdict_panel.line(verdict)
verdict_panel.table(verdict, config.dtype)

with st.expander("The code that ran", icon=":material/code:"):
    sources.draw()
