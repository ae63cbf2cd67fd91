"""Every head of a from-scratch attention, beside the verdict against PyTorch."""

import streamlit as st

from attention.config import AttentionConfig
from attention.multi_head import AttentionTrace
from attention.worked_cell import work_out
from dashboard import cached, cell_panel, controls, heatmap, sources, verdict_panel

KEY = "heads_picture"


def summary(config: AttentionConfig) -> str:
    """What the picture shows, in words."""
    mask = "under a causal mask" if config.causal else "without a mask"
    return (
        f"Attention weights of {config.num_heads} heads over {config.num_tokens} tokens {mask}; "
        "rows are queries, columns are keys."
    )


st.title("Every head, checked against PyTorch", anchor=False)
verdict_line = verdict_panel.Line()
scene = cached.Scene()


@st.fragment(key=controls.PICTURE)
def picture() -> None:
    """All heads, and the pinned cell worked out. It does not wait for the verdict."""
    asked = controls.asked()
    config, pin = asked.config, asked.look.pin
    judged = verdict_line.begin(config)

    def trace() -> AttentionTrace:
        return scene.hold(config)

    heatmap.heads(
        cached.picture(config, trace),
        asked.look,
        summary(config),
        cell_panel.html(work_out(trace(), pin.head, pin.query, pin.key)) if pin else "",
        key=KEY,
        on_pin=lambda: controls.keep_pin(KEY),
        on_enlarge=lambda: controls.keep_enlarged(KEY),
    )
    if judged:
        scene.let_go(config)


@st.fragment(key=controls.VERDICT)
def verdict() -> None:
    """The verdict on the scene in the picture."""
    verdict_panel.pause()
    asked = controls.asked()
    ours, inputs = scene.let_go(asked.config)
    found = cached.verdict(asked.config, asked.tolerance, ours, inputs)
    verdict_line.end(asked.config, found)
    verdict_panel.table(found, asked.config.dtype)


picture()
st.header("Step by step against PyTorch", anchor=False)
controls.draw_tolerance()
verdict()
sources.draw()
