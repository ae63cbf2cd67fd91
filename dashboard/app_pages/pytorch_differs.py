"""What PyTorch does differently: seven hidden switches, each as two calls side by side on the reader's scene."""

from functools import partial
from typing import Final

import streamlit as st

from attention import differences, differing_scene
from attention.config import AttentionConfig
from attention.differences import Shown, differ, pair_of
from attention.tensors import of_calls
from attention.verify import Verdict, verify
from dashboard import (
    cached,
    controls,
    differs_panel,
    heatmap,
    lesson,
    page_fields,
    step_picture,
    tables,
    take_home,
    verdict_panel,
)
from dashboard.fragments import PICTURE, VERDICT
from dashboard.heatmap import Look, Says
from dashboard.lesson import Lesson

KEY: Final = "pytorch_differs"
LESSON: Final = Lesson(
    title="What PyTorch does differently",
    lead="Calls of PyTorch that look alike do not always mean the same. Choose a switch: both calls run on the scene "
    "with gradients on and in eval mode, unless their code says otherwise.",
    tries=(
        "Choose **is_causal** and **no gradients**: with an even head count the hint alone silently masks nothing.",
        "Choose **empty rows**: zeros, NaN, or the mean of all values, for the same row of the same mask.",
        "Choose **fast path**, then make **Heads** odd: both calls take one path, and the difference goes.",
        "Turn **Causal** off under **mask polarity**: the mask that lets all pass blocks all.",
    ),
    code=(differing_scene.Scene, differing_scene.scene_of, differences.differ),
)
WEIGHTS: Final = heatmap.Words(tiles="calls")


def both(config: AttentionConfig, shown: Shown, note: str) -> heatmap.Picture:
    """What the two calls gave, or the one that did not raise."""
    found = shown.difference
    tiles = [
        (tensor, side.title)
        for tensor, side in ((shown.left, found.left), (shown.right, found.right))
        if tensor is not None
    ]
    called = WEIGHTS if found.step == "weights" else None
    tensors, titles = zip(*tiles, strict=True)
    return step_picture.of_step(found.step, tensors, titles, config, None, called, note)


line = lesson.begin(LESSON)
held: cached.Held[Shown] = cached.Held()


@st.fragment(key=PICTURE)
def picture() -> None:
    """Both answers, what is said of them, their facts, and both calls."""
    asked = controls.asked()
    config, tolerance = asked.config, asked.tolerance
    line.begin((KEY, config))
    topic, name = page_fields.which_difference()
    pair = pair_of(topic, name)
    has_heads = pair.step != "output"
    head = page_fields.which_head(config) if has_heads else 0
    note = f"{topic}, {pair.name}, head {head}"

    def shown() -> Shown:
        return held.hold((note, config, tolerance), lambda: differ(config, topic, name, head, tolerance))

    found = cached.verdict(note, config, tolerance, lambda: shown().difference)
    if found.left.facts or found.right.facts:
        heatmap.show(
            cached.picture(note, config, lambda: both(config, shown(), note)),
            Look(curve=asked.look.curve),
            f"The {pair.step} that two calls of PyTorch give: {' and '.join(pair.titles)}.",
            key=KEY,
            says=Says(f"Head {head} by each call." if has_heads else "The output by each call.", tallest=360),
        )
    held.let_go(None)
    st.markdown(differs_panel.said(found, config.dtype, head))
    for place, side in zip(st.columns(2), (found.left, found.right), strict=True):
        place.code(side.source, language="python", wrap_lines=True)
    lesson.put(tables.html(differs_panel.facts(found), kind="ways"))


@st.fragment(key=VERDICT)
def verdict() -> None:
    """The verdict on the scene."""
    verdict_panel.pause()
    asked = controls.asked()
    config = asked.config

    def judge() -> Verdict:
        return verify(config, asked.tolerance)

    st.caption(differs_panel.COMPARED)
    found = cached.verdict(KEY, config, asked.tolerance, judge)
    lesson.judged(line, (KEY, config), found, config)
    topic, name = page_fields.shown_difference()
    head, titles = page_fields.shown_head(config), pair_of(topic, name).titles
    made = partial(of_calls, topic=topic, name=name, head=head, tolerance=asked.tolerance)
    note = f"The tensors are what the two calls gave, left by {titles[0]}, right by {titles[1]}."
    take_home.draw(config, found, made, f"{topic} {name} head {head}", note)


picture()
lesson.end(LESSON, verdict)
