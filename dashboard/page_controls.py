"""The controls that belong to one page, in the sidebar under those that all pages share, bound to the URL like them.

The router draws them, so that their values outlive a visit to another page.
"""

from typing import Final

import streamlit as st

from attention.config import MAX_TOKENS, AttentionConfig
from attention.feed_forward import ACTIVATIONS
from attention.mask_config import MaskConfig
from attention.masks import Corner
from attention.verify_block import MAX_DEPTH, BlockConfig
from attention.verify_head import HeadConfig
from dashboard import limits, link, mistakes, page_fields, weights
from dashboard.fragments import PICTURE, VERDICT, rerun
from dashboard.link import BOOL, Parameter, one_of, whole_number

WIDTHS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
RULES: Final = ("window", "prefix", "padding", "documents", "strided", "T ≠ S")
NORMS: Final = ("post", "pre")

_WIDTH: Final = 64
_URL: Final = "query-params"
_MASK: Final = "_mask"


def head(scene: AttentionConfig) -> HeadConfig:
    """What is asked of one head; of a trained layer it is the head that `page_fields` has."""
    state = st.session_state
    if layer := scene.trained:
        return HeadConfig(scene, layer.head_dim, layer.head_dim, page_fields.shown_head(scene))
    return HeadConfig(scene, head_dim=state["head_dim"], value_dim=state["value_dim"])


def mask(scene: AttentionConfig) -> MaskConfig:
    """What is asked of the mask; queries and keys no more than there are tokens."""
    state, rules = st.session_state, st.session_state["rules"]
    unequal = "T ≠ S" in rules
    return MaskConfig(
        num_queries=min(state["queries"], scene.num_tokens) if unequal else scene.num_tokens,
        num_keys=min(state["keys"], scene.num_tokens) if unequal else scene.num_tokens,
        causal=scene.causal,
        window=state["window"] if "window" in rules else None,
        prefix=state["prefix"] if "prefix" in rules else None,
        padding_left=state["pad_left"] if "padding" in rules else 0,
        padding_right=state["pad_right"] if "padding" in rules else 0,
        document=state["document"] if "documents" in rules else None,
        stride=state["stride"] if "strided" in rules else None,
        corner=Corner(state["corner"]) if unequal else Corner.TOP_LEFT,
    )


def block(scene: AttentionConfig) -> BlockConfig:
    """What is asked of the blocks."""
    state = st.session_state
    return BlockConfig(scene, depth=depths(scene)[1], norm_first=state["norm"] == "pre", activation=state["activation"])


def depths(scene: AttentionConfig) -> tuple[int, int]:
    """How many blocks are asked, of those that there are, and how many the page computes."""
    asked, layer = int(st.session_state["depth"]), scene.trained
    asked = min(asked, layer.blocks) if layer else asked
    return asked, limits.depth_within(scene, asked)


def take_blocks(count: int) -> None:
    """Set up trained blocks as they were trained, from a callback."""
    st.session_state.update(depth=count, norm="pre", activation="relu")


def dropout() -> float:
    """The probability of dropout: 0 in eval mode."""
    return float(st.session_state["dropout"]) if st.session_state["training"] else 0.0


def draw(page: str) -> None:
    """Draw the controls of a page, if it has any."""
    drawers = {
        "one_head": lambda: _head(page),
        "masks": _mask,
        "predict": _mask,
        "four_ways": _ways,
        "block": _block,
        "break_it": lambda: mistakes.draw(_kind_of_block),
    }
    if page in drawers:
        st.subheader("On this page", anchor=False)
        drawers[page]()


def _head(page: str) -> None:
    if layer := weights.layer_on(page):
        link.keep_undrawn(head_dim=_WIDTH, value_dim=_WIDTH)
        st.caption(f"Head width {layer.head_dim}: as trained")
        return
    for label, key, hint in (
        ("Head width", "head_dim", "D, the width of q and k; scores are divided by √D."),
        ("Value width", "value_dim", "The width of v, and of what the head gives out."),
    ):
        st.select_slider(
            label, WIDTHS, value=_WIDTH, key=key, bind=_URL, help=hint, on_change=rerun(PICTURE, VERDICT)
        )  # fmt: skip


def _mask() -> None:
    @st.fragment(key=_MASK)
    def fields() -> None:
        rules = st.pills(
            "Rules", RULES, selection_mode="multi", key="rules", bind=_URL,
            help="A query sees what all of them allow, and Causal too where it is on; a prefix is seen by everybody.",
            on_change=rerun(PICTURE, _MASK, VERDICT),
        )  # fmt: skip
        for rule, label, key, smallest, largest, value in _SLIDERS:
            if rule in rules:
                st.slider(
                    label, smallest, largest, value, key=key, bind=_URL, on_change=rerun(PICTURE, VERDICT)
                )  # fmt: skip
        if "T ≠ S" in rules:
            st.segmented_control(
                "Aligned at", list(Corner), default=Corner.BOTTOM_RIGHT, required=True, key="corner", bind=_URL,
                help="Which corner of the grid queries and keys share.", on_change=rerun(PICTURE, VERDICT),
            )  # fmt: skip

    # what a slider that is not drawn would say
    for _, _, key, _, _, value in _SLIDERS:
        st.session_state.setdefault(key, value)
    st.session_state.setdefault("corner", Corner.BOTTOM_RIGHT)
    fields()


def _ways() -> None:
    st.toggle(
        "Training mode", key="training", bind=_URL,
        help="Dropout acts on the attention weights; in eval mode it never does.",
        on_change=rerun(PICTURE, VERDICT),
    )  # fmt: skip
    st.slider("Dropout", 0.0, 0.9, 0.3, 0.1, key="dropout", bind=_URL, on_change=rerun(PICTURE, VERDICT))


def _block() -> None:
    st.slider("Depth", 1, MAX_DEPTH, 2, key="depth", bind=_URL, on_change=rerun(PICTURE, VERDICT))
    _kind_of_block()


def _kind_of_block() -> None:
    st.segmented_control(
        "Norm", NORMS, default="post", required=True, key="norm", bind=_URL,
        help="After each sum, as in the paper: LN(x + f(x)); or before: x + f(LN(x)).",
        on_change=rerun(PICTURE, VERDICT),
    )  # fmt: skip
    st.segmented_control(
        "Activation", list(ACTIVATIONS), default="gelu", required=True, key="activation", bind=_URL,
        on_change=rerun(PICTURE, VERDICT),
    )  # fmt: skip


# rule, label, key, smallest, largest, value to begin with
_SLIDERS: Final = (
    ("window", "Window: keys fewer positions away than", "window", 1, 64, 4),
    ("prefix", "Prefix: keys that all see", "prefix", 0, 64, 3),
    ("padding", "Padding at the start", "pad_left", 0, 64, 2),
    ("padding", "Padding at the end", "pad_right", 0, 64, 0),
    ("documents", "Document length", "document", 1, 64, 6),
    ("strided", "Every so manieth key", "stride", 1, 32, 3),
    ("T ≠ S", "Queries: the last tokens", "queries", 1, MAX_TOKENS, 6),
    ("T ≠ S", "Keys: the first tokens", "keys", 1, MAX_TOKENS, 10),
)

PARAMETERS: Final[dict[str, Parameter]] = {
    "head_dim": Parameter(one_of(*map(str, WIDTHS)), int, kept=True),
    "value_dim": Parameter(one_of(*map(str, WIDTHS)), int, kept=True),
    "rules": Parameter(one_of(*RULES), str, many=True, kept=True),
    **{key: Parameter(whole_number(low, high), int, kept=True) for _, _, key, low, high, _ in _SLIDERS},
    "corner": Parameter(one_of(*Corner), Corner, kept=True),
    "training": Parameter(*BOOL, kept=True),
    "dropout": Parameter(one_of(*(f"{n / 10:.1f}" for n in range(10)), "0"), float, kept=True),
    "depth": Parameter(whole_number(1, MAX_DEPTH), int, kept=True),
    "norm": Parameter(one_of(*NORMS), kept=True),
    "activation": Parameter(one_of(*ACTIVATIONS), kept=True),
    **mistakes.PARAMETERS,
    **page_fields.PARAMETERS,
}
