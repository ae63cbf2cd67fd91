"""The controls of the page that trains, on the page itself, bound to the URL like all others."""

from dataclasses import replace
from typing import Final

import streamlit as st

from attention.config import MAX_SEED
from attention.trained import LESSONS, TASKS, TrainConfig
from attention.trained.config import MAX_LAYERS
from dashboard.link import BOOL, Parameter, keep_in_url, one_of, whole_number

HEADS: Final = (1, 2, 4, 8)
FIRST: Final = "repeat"
_URL: Final = "query-params"
_OF_TASK: Final = ("train_layers", "train_heads", "train_causal", "train_feed_forward")


def draw() -> TrainConfig:
    """Draw them; returns what is to be trained: the task's lesson, but for what the reader has changed."""
    names = tuple(TASKS)
    keep_in_url("task", "train_seed", *_OF_TASK)
    with st.container(
        horizontal=True, vertical_alignment="bottom", gap="medium"
    ):  # as many in a row as there is room for
        task = st.selectbox(
            "Task", names, index=names.index(FIRST), key="task", bind=_URL, on_change=_take_task, width=220
        )
        lesson = LESSONS[task].works
        layers = st.slider("Layers", 1, MAX_LAYERS, lesson.layers, key="train_layers", bind=_URL, width=160)
        heads = st.select_slider("Heads", HEADS, lesson.heads, key="train_heads", bind=_URL, width=160)
        causal = st.toggle("Causal", lesson.causal, key="train_causal", bind=_URL)
        feed_forward = st.toggle("Feed-forward", lesson.feed_forward, key="train_feed_forward", bind=_URL)
        seed = st.number_input("Seed", 0, MAX_SEED, lesson.seed, key="train_seed", bind=_URL, width=160)
    return replace(
        lesson, layers=layers, heads=heads, causal=causal, feed_forward=feed_forward, seed=int(seed)
    )  # fmt: skip


def set_up(config: TrainConfig) -> None:
    """Set layers, heads and mask to those of a config, in a callback; all else stays."""
    for name in ("train_layers", "train_heads", "train_causal"):
        st.session_state[name] = getattr(config, name.removeprefix("train_"))


def _take_task() -> None:
    """Another task begins as its lesson does."""
    lesson = LESSONS[st.session_state["task"]].works
    for name in _OF_TASK:
        st.session_state[name] = getattr(lesson, name.removeprefix("train_"))


PARAMETERS: Final[dict[str, Parameter]] = {
    "task": Parameter(one_of(*TASKS), kept=True),
    "train_layers": Parameter(whole_number(1, MAX_LAYERS), int, kept=True),
    "train_heads": Parameter(one_of(*map(str, HEADS)), int, kept=True),
    "train_causal": Parameter(*BOOL, kept=True),
    "train_feed_forward": Parameter(*BOOL, kept=True),
    "train_seed": Parameter(whole_number(0, MAX_SEED), int, kept=True),
}
