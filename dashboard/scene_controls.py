"""The controls of the scene, at the top of the sidebar: sizes, seed, mask, precision, whose weights.

A change reruns only what depends on it: the page's fragments, and the fragment of a control that
another control moves. Drawing all controls again at each change would cost the browser more than
the picture does.
"""

from contextlib import suppress
from typing import Final

import streamlit as st
from streamlit.errors import StreamlitAPIException

from attention.config import (
    DTYPES,
    MAX_SEED,
    MAX_TOKENS,
    RANDOM,
    AttentionConfig,
    head_counts,
    nearest_head_count,
)
from attention.trained_layers import TrainedLayer
from attention.verify import ARITHMETIC
from dashboard import link, page_controls, weights
from dashboard.fragments import PICTURE, VERDICT, rerun
from dashboard.link import Parameter

# many divisors each, and close enough together that a step is a step
EMBED_DIMS: Final = (
    *range(1, 9), 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128,
    160, 192, 224, 256, 320, 384, 448, 512, 576, 640, 768, 896, 960, 1024,
)  # fmt: skip
SEEDS_ON_SLIDER: Final = 99
CALLED: Final = {"embed_dim": "embed dim", "num_heads": "heads", "num_tokens": "tokens"}  # where words name them
DEFAULT: Final = AttentionConfig()
SIZES: Final = ("embed_dim", "num_heads")  # which a trained layer has of its own

_URL: Final = "query-params"
_ALWAYS_CAUSAL: Final = "four_ways"  # its classes are
_HEADS: Final = "_heads"
_SEED: Final = "_seed"
_LEFT: Final = "_left"  # tokens and causal, as they were when random weights were left
_NOTICE: Final = "_notice"
_SEED_SLIDER: Final = "_seed_slider"
_TOLD: Final = "_seed_told"  # what the field of the seed shows, while it has not been drawn since the slider moved


def scene_asked() -> AttentionConfig:
    """The scene of the widgets, whatever the page computes of it."""
    state = st.session_state
    layer = weights.layer_on(link.page())
    return AttentionConfig(
        embed_dim=layer.width if layer else state["embed_dim"],
        num_heads=layer.heads if layer else _num_heads(),
        num_tokens=min(state["num_tokens"], layer.length) if layer else state["num_tokens"],
        weights=layer.name if layer else RANDOM,
        seed=state["seed"],
        causal=link.page() == _ALWAYS_CAUSAL or state.get("causal", DEFAULT.causal),
        dtype=dtype(),
    )


def forget() -> None:
    """Forget what was before all was set at once: heads that were moved, and how random weights were left."""
    for key in (_NOTICE, _LEFT):
        st.session_state.pop(key, None)


def tokens_asked() -> int:
    """The number of tokens of the widget, whatever the weights allow."""
    return int(st.session_state["num_tokens"])


def dtype() -> str:
    """The dtype that is set; there may be no box for it yet, where the page shows all of them."""
    return str(st.session_state.get("dtype", DEFAULT.dtype))


def draw(page: str) -> None:
    """Draw them for a page."""
    if layer := weights.layer_on(page):
        _keep_sizes(layer)
    else:
        _sizes()
    st.slider(
        "Tokens", 1, MAX_TOKENS, value=DEFAULT.num_tokens, key="num_tokens", bind=_URL,
        on_change=rerun(PICTURE, VERDICT),
    )  # fmt: skip
    _seed()
    if page == _ALWAYS_CAUSAL:
        st.caption("Causal: always, on this page")
    else:
        _causal()
    if page == "precision":
        st.session_state["dtype"] = dtype()  # said again, or it would be forgotten where no widget has it
        st.caption("Precision: all four, on this page")
    else:
        _precision()
    weights.draw(page, _take_weights)  # the last: what is moved most stands in view


def show_layer(layer: TrainedLayer, seed: int) -> None:
    """Set a trained layer, as it was trained, and one of its sequences; from a callback."""
    weights.choose(layer)
    st.session_state["seed"] = seed
    _take_weights()


def _take_weights() -> None:
    """A trained layer begins as it was trained: with whole sequences, and its mask; random weights where they were."""
    state, layer = st.session_state, weights.chosen()
    now = state["num_tokens"], state.get("causal", DEFAULT.causal)
    if layer is None:
        state["num_tokens"], state["causal"] = state.pop(_LEFT, now)
        return
    state.setdefault(_LEFT, now)
    state["num_tokens"], state["causal"] = layer.length, layer.causal
    if layer.blocks:
        page_controls.take_blocks(layer.blocks)


def _sizes() -> None:
    st.select_slider("Embed dim", EMBED_DIMS, value=DEFAULT.embed_dim, key="embed_dim", bind=_URL, on_change=_fit_heads)
    if _has_heads():
        _move_heads_that_do_not_divide()
        _heads()


def _keep_sizes(layer: TrainedLayer) -> None:
    """Say what a trained layer has, and keep what random weights had."""
    state = st.session_state
    link.keep_undrawn(embed_dim=DEFAULT.embed_dim)
    link.keep_undrawn(num_heads=nearest_head_count(state["embed_dim"], DEFAULT.num_heads))
    state.pop(_NOTICE, None)
    heads = "1 head" if layer.heads == 1 else f"{layer.heads} heads"
    st.container(key="as_trained").caption(f"Embed dim {layer.width}, {heads}: as trained")


def _has_heads() -> bool:
    """Whether the page has that fragment."""
    return link.page() != "one_head"


def _causal() -> None:
    st.toggle(
        "Causal", value=DEFAULT.causal, key="causal", bind=_URL, help="A token sees itself and what came before.",
        on_change=rerun(PICTURE, VERDICT),
    )  # fmt: skip


def _precision() -> None:
    st.selectbox(
        "Precision", list(DTYPES), index=list(DTYPES).index(DEFAULT.dtype), key="dtype", bind=_URL,
        on_change=reset_tolerance, help="The dtype of the numbers on screen. The maths is always checked in float64.",
    )  # fmt: skip


@st.fragment(key=_HEADS)
def _heads() -> None:
    """The head count, which an embed dim may move, and the word about it."""
    embed_dim = st.session_state["embed_dim"]
    counts = head_counts(embed_dim)
    if len(counts) == 1:  # a slider needs two ends
        st.session_state["num_heads"] = 1
        with suppress(StreamlitAPIException):  # a slider has just gone, and its parameter goes with it
            st.query_params.pop("num_heads", None)  # the next slider would take it, whatever a preset has set since
        st.caption(f"Heads: 1, the only count that divides {embed_dim}")
    else:
        nearest = nearest_head_count(embed_dim, DEFAULT.num_heads)
        st.select_slider("Heads", counts, value=nearest, key="num_heads", bind=_URL, on_change=_take_heads)
    if notice := st.session_state.get(_NOTICE):
        st.caption(f":material/info: {notice}")


def _take_heads() -> None:
    had_notice = st.session_state.pop(_NOTICE, None)
    rerun(PICTURE, *([_HEADS] if had_notice else []), VERDICT)()


def _fit_heads() -> None:
    """After a new embed dim: keep the head count, or move it to the nearest that divides, and say so."""
    st.session_state.pop(_NOTICE, None)
    embed_dim = st.session_state["embed_dim"]
    before = st.session_state.get("num_heads") or nearest_head_count(embed_dim, DEFAULT.num_heads)
    fits = before in head_counts(embed_dim)
    st.session_state["num_heads"] = before if fits else _moved(before, embed_dim)
    rerun(PICTURE, *([_HEADS] if _has_heads() else []), VERDICT)()


def _moved(heads: int, embed_dim: int) -> int:
    nearest = nearest_head_count(embed_dim, heads)
    st.session_state[_NOTICE] = f"{heads} heads do not divide {embed_dim}; moved to {nearest}, the nearest that does."
    return nearest


@st.fragment(key=_SEED)
def _seed() -> None:
    """A slider over the first seeds, and a field that takes any."""
    st.session_state.pop(_TOLD, None)
    slider, number = st.columns([3, 2], vertical_alignment="bottom")
    seed = number.number_input(
        "Any seed", 0, MAX_SEED, value=DEFAULT.seed, step=1, key="seed", bind=_URL, label_visibility="collapsed",
        on_change=_take_typed_seed,
    )  # fmt: skip
    link.say(_SEED_SLIDER, min(seed, SEEDS_ON_SLIDER))
    slider.slider("Seed", 0, SEEDS_ON_SLIDER, key=_SEED_SLIDER, on_change=_take_slider_seed)


def _take_slider_seed() -> None:
    state = st.session_state
    state.setdefault(_TOLD, state["seed"])
    state["seed"] = state[_SEED_SLIDER]
    rerun(PICTURE, VERDICT, _SEED)()


def _take_typed_seed() -> None:
    """A page sends the seed that it was last told with every change: until the slider's is drawn, nobody typed it."""
    state = st.session_state
    if state["seed"] == state.get(_TOLD):
        state["seed"] = state[_SEED_SLIDER]
    rerun(PICTURE, VERDICT, _SEED)()


def reset_tolerance() -> None:
    """Put rtol and atol back to the usual ones of the dtype."""
    usual = ARITHMETIC[dtype()]
    st.session_state["rtol"], st.session_state["atol"] = usual.rtol, usual.atol


def _num_heads() -> int:
    """The head count that is set, or the nearest that divides.

    There may be no slider for it, where only one divides or the page has one head: then nobody has moved it yet.
    """
    wanted = st.session_state.get("num_heads") or DEFAULT.num_heads
    return nearest_head_count(st.session_state["embed_dim"], int(wanted))


def _move_heads_that_do_not_divide() -> None:
    """A link, or an embed dim moved while the slider was away, may leave a count that does not divide."""
    state = st.session_state
    asked = state.get("num_heads") or st.query_params.get("num_heads")
    if asked and int(asked) not in head_counts(state["embed_dim"]):
        state["num_heads"] = _moved(int(asked), state["embed_dim"])


PARAMETERS: Final[dict[str, Parameter]] = {
    "embed_dim": Parameter(link.one_of(*map(str, EMBED_DIMS)), int, kept=True),
    # moved to the nearest that divides
    "num_heads": Parameter(lambda text: link.is_whole(text, 0, 9999) and text == str(int(text)), int, kept=True),
    "num_tokens": Parameter(link.whole_number(1, MAX_TOKENS)),
    "seed": Parameter(link.whole_number(0, MAX_SEED)),
    "causal": Parameter(*link.BOOL, kept=True),
    "dtype": Parameter(link.one_of(*DTYPES), kept=True),
    **weights.PARAMETERS,
}
