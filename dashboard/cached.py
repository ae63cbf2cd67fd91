"""From a config to what a page shows, cached: small frozen values and bytes, which nobody can change.

The cache is one for all visitors. Every entry is keyed by the frozen config alone, and every
cache is bounded in entries and in bytes.
"""

from collections.abc import Callable

import numpy as np
import streamlit as st
import torch

from attention.compare import Tolerance
from attention.config import AttentionConfig
from attention.multi_head import AttentionTrace, Inputs, allowed_by, attend_as_configured, draw
from attention.verify import Verdict, verify
from dashboard import heatmap

Trace = Callable[[], AttentionTrace]


class Scene:
    """What one visitor's picture was made of, kept until its verdict is found, so that it is made once.

    Not in a cache: tensors could be changed by whoever holds them, and a large scene is 60 MB.
    """

    def __init__(self) -> None:
        self._held: tuple[AttentionConfig, Inputs, AttentionTrace] | None = None

    @torch.no_grad()
    def hold(self, config: AttentionConfig) -> AttentionTrace:
        """Make the scene and hold it; return its trace."""
        if self._held is None or self._held[0] != config:
            self._held = None  # before the next is made: two would be twice the memory
            inputs = draw(config)
            self._held = config, inputs, attend_as_configured(config, inputs)
        return self._held[2]

    def let_go(self, config: AttentionConfig) -> tuple[AttentionTrace | None, Inputs | None]:
        """Hand out trace and inputs, if they are still those of the config, and hold nothing any more."""
        held, self._held = self._held, None
        return (held[2], held[1]) if held and held[0] == config else (None, None)


@st.cache_data(max_entries=256, max_size="200MB", show_spinner=False)
def picture(config: AttentionConfig, _trace: Trace) -> heatmap.Picture:
    """The weights of every head, packed for the browser."""
    weights = _trace().weights[0].float().numpy()
    allowed = allowed_by(config)
    mask = np.ones(weights.shape[1:], dtype=bool) if allowed is None else allowed.numpy()
    return heatmap.picture(weights, mask, identity(config))


@st.cache_data(max_entries=1024, max_size="50MB", show_spinner=False)
def verdict(
    config: AttentionConfig, tolerance: Tolerance, _ours: AttentionTrace | None = None, _inputs: Inputs | None = None
) -> Verdict:
    """The verdict of a scene under the reader's tolerance."""
    return verify(config, tolerance, _ours, _inputs)


def identity(config: AttentionConfig) -> str:
    """A scene's name, for files and for telling two pictures apart."""
    mask = "causal" if config.causal else "full"
    size = f"{config.num_heads}x{config.num_tokens}-of-{config.embed_dim}"
    return f"{size}-{mask}-seed{config.seed}-{config.dtype}"
