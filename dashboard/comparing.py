"""The scene that is pinned as A, for the page that compares others with it: in the link, and kept from page to page."""

import re
from contextlib import suppress
from dataclasses import replace
from typing import Final

import streamlit as st

from attention.config import RANDOM, AttentionConfig
from attention.trained_layers import TRAINED_LAYERS
from dashboard import cached
from dashboard.link import Parameter

_KEY: Final = "_a"
_SCENE: Final = re.compile(
    r"(\d{1,2})x(\d{1,3})-of-(\d{1,4})-(causal|full)-seed(\d{1,10})-([a-z0-9]{1,9})(?:-([a-z-]{1,20}\d))?", re.ASCII
)
_BY_SLUG: Final = {layer.slug: name for name, layer in TRAINED_LAYERS.items()}


def pin(scene: AttentionConfig) -> None:
    """Keep a scene as A."""
    st.session_state[_KEY] = st.query_params["a"] = cached.identity(scene)


def pinned(b: AttentionConfig) -> AttentionConfig:
    """The scene that is pinned; until one is, the reader's own under the other mask."""
    text = st.query_params.get("a") or st.session_state.get(_KEY, "")
    found = scene_in(text)
    if found is None:
        return replace(b, causal=not b.causal)
    st.session_state[_KEY] = text
    if st.query_params.get("a") != text:
        st.query_params["a"] = text  # the link forgot it with the last page
    return found


def scene_in(text: str) -> AttentionConfig | None:
    """The scene of a name such as "12x16-of-768-causal-seed42-float32", as `cached.identity` writes it, or None."""
    found = _SCENE.fullmatch(text)
    if found is None:
        return None
    heads, tokens, width, mask, seed, dtype, slug = found.groups()
    with suppress(ValueError):
        return AttentionConfig(
            embed_dim=int(width),
            num_heads=int(heads),
            num_tokens=int(tokens),
            seed=int(seed),
            causal=mask == "causal",
            dtype=dtype,
            weights=_BY_SLUG.get(slug, slug) if slug else RANDOM,
        )
    return None


PARAMETERS: Final[dict[str, Parameter]] = {"a": Parameter(lambda text: scene_in(text) is not None)}
