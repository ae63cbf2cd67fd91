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
from attention.multi_head import AttentionTrace, allowed_by, attend_as_configured
from attention.verify import Verdict, verify
from dashboard import heatmap

Trace = Callable[[], AttentionTrace]


@torch.no_grad()
def trace_of(config: AttentionConfig) -> AttentionTrace:
    """The trace of a scene. Not cached: its tensors could be changed by whoever holds them."""
    return attend_as_configured(config)


@st.cache_data(max_entries=256, max_size="200MB", show_spinner=False)
def picture(config: AttentionConfig, _trace: Trace) -> heatmap.Picture:
    """The weights of every head, packed for the browser."""
    weights = _trace().weights[0].float().numpy()
    allowed = allowed_by(config)
    mask = np.ones(weights.shape[1:], dtype=bool) if allowed is None else allowed.numpy()
    return heatmap.picture(weights, mask, identity(config))


@st.cache_data(max_entries=1024, max_size="50MB", show_spinner=False)
def verdict(config: AttentionConfig, tolerance: Tolerance) -> Verdict:
    """The verdict of a scene under the reader's tolerance."""
    return verify(config, tolerance)


def identity(config: AttentionConfig) -> str:
    """A scene's name, for files and for telling two pictures apart."""
    mask = "causal" if config.causal else "full"
    size = f"{config.num_heads}x{config.num_tokens}-of-{config.embed_dim}"
    return f"{size}-{mask}-seed{config.seed}-{config.dtype}"
