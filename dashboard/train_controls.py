"""The controls of the page that trains, on the page itself, bound to the URL like all others."""

from typing import Any, Final

import streamlit as st

from attention.config import MAX_SEED
from attention.trained.config import MAX_LAYERS, TrainConfig
from attention.trained.tasks import TASKS
from dashboard.link import BOOL, Parameter, keep_in_url, one_of, whole_number

HEADS: Final = (1, 2, 4, 8)
FIRST: Final = "repeat"
_URL: Final = "query-params"
# what each task is first trained with
USUAL: Final[dict[str, dict[str, Any]]] = {
    "previous": {"train_layers": 1, "train_heads": 1, "train_causal": True},
    "reverse": {"train_layers": 1, "train_heads": 1, "train_causal": False},
    "repeat": {"train_layers": 2, "train_heads": 4, "train_causal": True},
    "sort": {"train_layers": 2, "train_heads": 4, "train_causal": False},
    "two keys": {"train_layers": 1, "train_heads": 2, "train_causal": True},
    "brackets": {"train_layers": 2, "train_heads": 4, "train_causal": True},
    "agreement": {"train_layers": 2, "train_heads": 4, "train_causal": True},
}


def draw() -> TrainConfig:
    """Draw them; returns what is to be trained."""
    state = st.session_state
    keep_in_url("task", *USUAL[FIRST], "train_feed_forward", "train_seed")
    usual = USUAL[state.get("task", FIRST)]
    left, *others = st.columns([3, 2, 2, 1.4, 1.6, 1.6], vertical_alignment="bottom", gap="medium")
    task = left.selectbox(
        "Task", tuple(TASKS), index=tuple(TASKS).index(FIRST), key="task", bind=_URL, on_change=_usual
    )
    places = iter(others)
    layers = next(places).slider("Layers", 1, MAX_LAYERS, usual["train_layers"], key="train_layers", bind=_URL)
    heads = next(places).select_slider("Heads", HEADS, usual["train_heads"], key="train_heads", bind=_URL)
    causal = next(places).toggle("Causal", usual["train_causal"], key="train_causal", bind=_URL)
    feed_forward = next(places).toggle("Feed-forward", False, key="train_feed_forward", bind=_URL)
    seed = next(places).number_input("Seed", 0, MAX_SEED, 0, key="train_seed", bind=_URL)
    return TrainConfig(
        task=task, layers=layers, heads=heads, causal=causal, feed_forward=feed_forward, seed=int(seed)
    )  # fmt: skip


def _usual() -> None:
    """Another task begins with what it is usually trained with."""
    st.session_state.update(USUAL[st.session_state["task"]])


PARAMETERS: Final[dict[str, Parameter]] = {
    "task": Parameter(one_of(*TASKS), kept=True),
    "train_layers": Parameter(whole_number(1, MAX_LAYERS), int, kept=True),
    "train_heads": Parameter(one_of(*map(str, HEADS)), int, kept=True),
    "train_causal": Parameter(*BOOL, kept=True),
    "train_feed_forward": Parameter(*BOOL, kept=True),
    "train_seed": Parameter(whole_number(0, MAX_SEED), int, kept=True),
}
