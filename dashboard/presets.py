"""Scenes that can be set up by one click: the numbers of the two scripts that this project was built from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import streamlit as st

from dashboard.controls import set_scene


@dataclass(frozen=True)
class Preset:
    """A button's label, what it sets up in words, and the values of the controls."""

    label: str
    hint: str
    values: tuple[tuple[str, Any], ...]


def _preset(label: str, hint: str, **values: Any) -> Preset:
    return Preset(label, hint, tuple(values.items()))


ONE_HEAD: Final = _preset(
    "Script: one head",
    "Seed 42, 5 tokens of 256, queries and keys of 64, values of 256, no mask; compared at 1e-6 and 1e-6.",
    embed_dim=256, head_dim=64, value_dim=256, num_tokens=5, seed=42, causal=False, dtype="float32",
)  # fmt: skip
TWELVE_HEADS: Final = _preset(
    "Script: 12 heads",
    "Seed 42, 5 tokens of 768, 12 heads of 64, no mask; compared at 1e-6 and 1e-6.",
    embed_dim=768, num_heads=12, num_tokens=5, seed=42, causal=False, dtype="float32",
)  # fmt: skip
TWELVE_CAUSAL: Final = _preset(
    "Script: 12 heads, causal",
    "Seed 42, 5 tokens of 768, 12 heads of 64, under the causal mask.",
    embed_dim=768, num_heads=12, num_tokens=5, seed=42, causal=True, dtype="float32",
)  # fmt: skip
MASKED: Final = _preset(
    "Scripts: the causal mask",
    "Seed 42, 5 tokens of 768, 12 heads of 64; one script adds −1e4 to the scores, the other fills in −∞.",
    embed_dim=768, num_heads=12, num_tokens=5, seed=42, causal=True, dtype="float32",
    rules=[], number="-1e4", loudness=1,
)  # fmt: skip
CHAPTER: Final = _preset(
    "Chapter: its three classes",
    "Seed 42, 5 tokens of 768, 12 heads of 64, causal, no dropout: a list of heads and a packed projection.",
    embed_dim=768, num_heads=12, num_tokens=5, seed=42, causal=True, dtype="float32", training=False,
)  # fmt: skip
BLOCK: Final = _preset(
    "Script: the block",
    "Seed 42, 5 tokens of 768, 12 heads, causal, one block, GELU.",
    embed_dim=768, num_heads=12, num_tokens=5, seed=42, causal=True, dtype="float32", depth=1, activation="gelu",
    norm="post",
)  # fmt: skip


def draw(presets: Sequence[Preset]) -> None:
    """Draw a button for each."""
    with st.container(horizontal=True, key="presets"):
        for preset in presets:
            st.button(preset.label, help=preset.hint, on_click=set_scene, args=(dict(preset.values),), type="secondary")
