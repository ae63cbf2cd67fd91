"""The control for whose weights a scene has, and what is said of a trained layer."""

from collections.abc import Callable
from typing import Final

import streamlit as st

from attention.config import RANDOM, AttentionConfig
from attention.trained import presets
from attention.trained_layers import TRAINED_LAYERS, TrainedLayer
from dashboard.link import Parameter, one_of

_KEY: Final = "weights"
_HELP: Final = (
    "Random numbers, or those of a trained layer: its attention on a sequence of its task, which the seed chooses."
)
# shows whole blocks: the weights of a layer that is none are random there
_OF_BLOCKS: Final = "block"
# some of its calls are of a whole encoder layer
_OF_CALLS: Final = "pytorch_differs"

PARAMETERS: Final[dict[str, Parameter]] = {_KEY: Parameter(one_of(RANDOM, *TRAINED_LAYERS), kept=True)}


def chosen() -> TrainedLayer | None:
    """The trained layer that the reader has chosen, or None where weights are random."""
    return TRAINED_LAYERS.get(st.session_state.get(_KEY, RANDOM))


def choose(layer: TrainedLayer) -> None:
    """Choose a trained layer, from a callback."""
    st.session_state[_KEY] = layer.name


def layer_on(page: str) -> TrainedLayer | None:
    """The trained layer that a page shows, or None where its weights are random."""
    layer = chosen()
    return None if layer and page == _OF_BLOCKS and not layer.blocks else layer


def draw(page: str, take: Callable[[], None]) -> None:
    """Draw the control; `take` is called when other weights were chosen."""
    options = (RANDOM, *TRAINED_LAYERS)
    st.selectbox("Weights", options, key=_KEY, bind="query-params", on_change=take, help=_HELP)
    if chosen() and not layer_on(page):
        st.caption("Random, on this page: that layer has no feed-forward network, and is no whole block.")


def said(config: AttentionConfig, asked_tokens: int, page: str) -> str:
    """What is known of a scene's trained layer, as Markdown; empty where weights are random."""
    layer = config.trained
    if layer is None:
        return ""
    preset = presets()[layer.task]
    is_whole = config.num_tokens == layer.length and config.causal == layer.causal
    heads = ", ".join(
        f"head {named.head} has {named.weight:.0%} of its weight on **{named.pattern}**"
        for named in preset.heads
        if named.layer == layer.layer and is_whole
    )
    words = [
        f"Trained weights of **{layer.name}**: {preset.config.learns.says}",
        f"Where the task asks, {heads}: means over fresh sequences." if heads else "",
        f"Its sequences have {layer.length} tokens, not {asked_tokens}." if asked_tokens > layer.length else "",
        f"Whole sequences have {layer.length} tokens." if config.num_tokens < layer.length else "",
        f"Trained pre-norm, with ReLU; {_blocks(layer.blocks)} from here on." if page == _OF_BLOCKS else "",
        "Where a whole layer is called, all but its attention is random."
        if page == _OF_CALLS and not layer.blocks
        else "",
        "" if config.causal == layer.causal else f"It was trained {_mask(layer.causal)}.",
    ]
    return " ".join(part for part in words if part)


def _mask(causal: bool) -> str:
    return "with a causal mask" if causal else "without a causal mask"


def _blocks(count: int) -> str:
    return "1 block" if count == 1 else f"{count} blocks"
