"""The shared controls: widgets to an `AttentionConfig`, bound to the URL.

This is the only file that names a shared key. A widget's key is its name in the URL; a default
is left out of the URL.
"""

from typing import Final

import streamlit as st

from attention.compare import Tolerance
from attention.config import (
    DTYPES,
    MAX_SEED,
    MAX_TOKENS,
    AttentionConfig,
    head_counts,
    nearest_head_count,
)
from attention.verify import ARITHMETIC
from dashboard.heatmap import Cell, Look

# many divisors each, and close enough together that a step is a step
EMBED_DIMS: Final = (
    *range(1, 9), 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128,
    160, 192, 224, 256, 320, 384, 448, 512, 576, 640, 768, 896, 960, 1024,
)  # fmt: skip
SEEDS_ON_SLIDER: Final = 99
DEFAULT: Final = AttentionConfig()
DEFAULT_PIN: Final = Cell(head=0, query=9, key=4)
SCALES: Final = {"common": "All heads alike", "head": "Each head its own"}
CURVES: Final = {"linear": "Linear", "root": "√", "log": "Log"}

_URL: Final = "query-params"
_NOTICE: Final = "_notice"
_SEED_SLIDER: Final = "_seed_slider"


def scene() -> AttentionConfig:
    """Draw the five controls and the dtype; return the scene that they ask for."""
    asked = _asked_by_link()
    embed_dim = st.select_slider(
        "Embed dim", EMBED_DIMS, value=DEFAULT.embed_dim, key="embed_dim", bind=_URL, on_change=_fit_heads
    )
    heads = _heads(embed_dim, asked.get("num_heads"))
    if notice := st.session_state.get(_NOTICE):
        st.caption(f":material/info: {notice}")
    tokens = st.slider("Tokens", 1, MAX_TOKENS, value=DEFAULT.num_tokens, key="num_tokens", bind=_URL)
    seed = _seed()
    causal = st.toggle(
        "Causal", value=DEFAULT.causal, key="causal", bind=_URL, help="A token sees itself and what came before it."
    )
    dtype = st.segmented_control(
        "Precision", list(DTYPES), default=DEFAULT.dtype, required=True, key="dtype", bind=_URL,
        on_change=_reset_tolerance, help="The dtype of the numbers on screen. The maths is always checked in float64.",
    )  # fmt: skip
    config = AttentionConfig(
        embed_dim=embed_dim, num_heads=heads, num_tokens=tokens, seed=seed, causal=causal, dtype=str(dtype)
    )
    _say_what_was_refused(asked)
    return config


def look(config: AttentionConfig) -> Look:
    """Draw the switches of the picture; return how it is to be drawn."""
    curve = st.segmented_control(
        "Colour grows with", list(CURVES), default="root", required=True, format_func=CURVES.__getitem__,
        key="curve", bind=_URL, help="√ shows small weights that a linear scale leaves dark; the colour bar says which.",
    )  # fmt: skip
    scale = st.segmented_control(
        "Colour scale", list(SCALES), default="common", required=True, format_func=SCALES.__getitem__,
        key="scale", bind=_URL, help="From 0 to 1 for all heads, or from 0 to each head's largest weight.",
    )  # fmt: skip
    return Look(scale=scale, curve=curve, enlarged=_enlarged(config), pin=pinned(config))


def tolerance(config: AttentionConfig) -> Tolerance:
    """Draw rtol and atol; return them. They begin as `torch.testing.assert_close` has them for the dtype."""
    usual = ARITHMETIC[config.dtype]
    left, right = st.columns(2)
    options = {"min_value": 0.0, "max_value": 1.0, "format": "%.1e", "bind": _URL}
    rtol = left.number_input("rtol", value=usual.rtol, step=max(usual.rtol / 10, 1e-9), key="rtol", **options)
    atol = right.number_input("atol", value=usual.atol, step=max(usual.atol / 10, 1e-9), key="atol", **options)
    return Tolerance(rtol=rtol, atol=atol)


def pinned(config: AttentionConfig) -> Cell | None:
    """The pinned cell, moved into the scene where the scene has become too small for it."""
    text = st.query_params.get("pin")
    if text == "none":
        return None
    wanted = DEFAULT_PIN
    parts = (text or "").split("-")
    if len(parts) == 3 and all(part.isdecimal() and len(part) < 5 for part in parts):
        wanted = Cell(*map(int, parts))
    last = config.num_tokens - 1
    return Cell(min(wanted.head, config.num_heads - 1), min(wanted.query, last), min(wanted.key, last))


def keep_pin(key: str) -> None:
    """Write the cell that was clicked in the picture `key` to the URL."""
    pin = st.session_state[key].get("pin")
    st.query_params["pin"] = f"{pin['head']}-{pin['query']}-{pin['key']}" if pin else "none"


def keep_enlarged(key: str) -> None:
    """Write the head that was enlarged in the picture `key` to the URL."""
    head = st.session_state[key].get("enlarged")
    if head is None:
        st.query_params.pop("head", None)
    else:
        st.query_params["head"] = str(head)


def _enlarged(config: AttentionConfig) -> int | None:
    text = st.query_params.get("head", "")
    head = int(text) if text.isdecimal() and len(text) < 5 else None
    return head if head is not None and head < config.num_heads else None


def _heads(embed_dim: int, asked: str | None) -> int:
    counts = head_counts(embed_dim)
    nearest = nearest_head_count(embed_dim, DEFAULT.num_heads)
    if asked and asked.isdecimal() and len(asked) < 5 and int(asked) not in counts:
        st.session_state["num_heads"] = _moved(int(asked), embed_dim)
    if len(counts) == 1:  # a slider needs two ends
        st.session_state.pop("num_heads", None)
        st.caption(f"Heads: 1, the only count that divides {embed_dim}")
        return 1
    return st.select_slider("Heads", counts, value=nearest, key="num_heads", bind=_URL, on_change=_forget_notice)


def _fit_heads() -> None:
    """After a new embed dim: keep the head count, or move it to the nearest that divides, and say so."""
    _forget_notice()
    before = st.session_state.get("num_heads", 1)
    embed_dim = st.session_state["embed_dim"]
    fits = before in head_counts(embed_dim)
    st.session_state["num_heads"] = before if fits else _moved(before, embed_dim)


def _moved(heads: int, embed_dim: int) -> int:
    nearest = nearest_head_count(embed_dim, heads)
    st.session_state[_NOTICE] = f"{heads} heads do not divide {embed_dim}; moved to {nearest}, the nearest that does."
    return nearest


def _forget_notice() -> None:
    st.session_state.pop(_NOTICE, None)


def _seed() -> int:
    slider, number = st.columns([3, 2], vertical_alignment="bottom")
    seed = number.number_input(
        "Any seed", 0, MAX_SEED, value=DEFAULT.seed, step=1, key="seed", bind=_URL, label_visibility="collapsed"
    )
    st.session_state[_SEED_SLIDER] = min(seed, SEEDS_ON_SLIDER)
    slider.slider("Seed", 0, SEEDS_ON_SLIDER, key=_SEED_SLIDER, on_change=_take_slider_seed)
    return seed


def _take_slider_seed() -> None:
    st.session_state["seed"] = st.session_state[_SEED_SLIDER]


def _reset_tolerance() -> None:
    usual = ARITHMETIC[st.session_state["dtype"]]
    st.session_state["rtol"], st.session_state["atol"] = usual.rtol, usual.atol


def _asked_by_link() -> dict[str, str]:
    """The parameters of the link that opened this session, once."""
    if "_opened" in st.session_state:
        return {}
    st.session_state["_opened"] = True
    return st.query_params.to_dict()


def _say_what_was_refused(asked: dict[str, str]) -> None:
    names = ("embed_dim", "num_heads", "num_tokens", "seed", "causal", "dtype")
    refused = [name for name in names if name in asked and not _same(asked[name], st.session_state.get(name))]
    if refused and not st.session_state.get(_NOTICE):
        shown = ", ".join(f"{name}={st.session_state.get(name)}" for name in refused)
        st.caption(f":material/info: The link asked for something impossible; shown is {shown}.")


def _same(text: str, value: object) -> bool:
    return text.lower() == str(value).lower()
