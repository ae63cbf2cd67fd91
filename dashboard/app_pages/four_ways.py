"""Four ways to the same answer: a list of heads, one packed projection, einsum, and PyTorch's own module."""

from dataclasses import replace
from functools import partial
from typing import Final

import streamlit as st

from attention import claims, copying, dropout, einsum, ladder, multi_head, scaled_dot_product
from attention.claims import Claim
from attention.config import AttentionConfig
from attention.four_ways import WAYS, Answer, FourWays, Timing, differences, draws_for, verify_ways
from attention.tensors import of_ways
from attention.verify import Verdict, sides_of
from dashboard import (
    cached,
    controls,
    heatmap,
    lesson,
    page_controls,
    page_fields,
    presets,
    step_picture,
    tables,
    take_home,
    verdict_panel,
    ways_panel,
)
from dashboard.fragments import MORE, PICTURE, VERDICT
from dashboard.heatmap import Look, Says
from dashboard.lesson import Lesson

KEY: Final = "four_ways"
LESSON: Final = Lesson(
    title="Four ways, one answer",
    lead="A list of heads side by side, one packed projection cut into heads, four einsums, and PyTorch's own module "
    "hold the same weights here. So they must say the same:",
    equation=r"\max |\text{output}_i - \text{output}_j| \approx 0",
    tries=(
        "Turn **Training mode** on: dropout sets weights to 0 and lets the others grow. List and packed still agree.",
        "Set **Precision** to float64, then float16: the differences shrink and grow with it, and nothing else.",
        "Raise **Heads**: the list takes longer with every head, the packed forms do not.",
    ),
    code=(
        ladder.CausalAttention,
        ladder.MultiHeadAttentionWrapper,
        ladder.MultiHeadAttention,
        multi_head.attend,
        scaled_dot_product.scaled_dot_product,
        scaled_dot_product.softmax_over_allowed,
        scaled_dot_product.softmax,
        einsum.attend_by_einsum,
        dropout.dropout,
        copying.read,
        copying.write,
        FourWays,
    ),
    presets=(presets.CHAPTER,),
    has_more=True,
)
WORDS: Final = heatmap.Words(tiles="ways")


def asked_scene() -> AttentionConfig:
    """The scene, which is always causal here."""
    return replace(controls.asked().config, causal=True)


def packed_picture(config: AttentionConfig, answers: tuple[Answer, ...], head: int, note: str) -> heatmap.Picture:
    """One head's weights, each way."""
    weights = [answer.weights[0, head] for answer in answers]
    return step_picture.of_step("weights", weights, WAYS, config, multi_head.allowed_by(config), WORDS, note)


line = lesson.begin(LESSON)


@st.fragment(key=PICTURE)
def picture() -> None:
    """One head, each way."""
    asked, config, probability = controls.asked(), asked_scene(), page_controls.dropout()
    head = page_fields.which_head(config)
    line.begin((KEY, config))
    name = f"dropout {probability}, head {head}"

    def answers() -> tuple[Answer, ...]:
        return FourWays(config, probability).answers()

    heatmap.show(
        cached.picture(name, config, lambda: packed_picture(config, answers(), head, name)),
        Look(curve=asked.look.curve),
        f"The weights of head {head} by each of the four ways.",
        key=KEY,
        says=Says("Weights as they meet the values, dropout included." if probability else "", tallest=300),
    )


@st.fragment(key=MORE)
def more() -> None:
    """How far the outputs of each pair are apart, what dropout does over many draws, and how long each way takes."""
    tolerance, config, probability = controls.asked().tolerance, asked_scene(), page_controls.dropout()

    def apart() -> tuple[tuple[float, ...], ...]:
        return differences(FourWays(config, probability).answers())

    def timings() -> tuple[Timing, ...]:
        return FourWays(config).timings()

    def drift() -> tuple[float, float]:
        ways = FourWays(config, probability)
        return ways.distance_of_mean(draws_for(config)), ways.distance_of_mean(1)

    found = cached.facts(f"differences, dropout {probability}", config, apart)
    lesson.put(tables.html(ways_panel.differences(found, tolerance, probability), kind="ways"))
    if probability:
        off, one = cached.facts(f"mean over draws, dropout {probability}", config, drift)
        st.markdown(ways_panel.said_of_dropout(off, one, draws_for(config)))
    times = cached.facts("timings", config, timings)
    lesson.put(tables.html(ways_panel.timings(times), kind="ways"))


@st.fragment(key=VERDICT)
def verdict() -> None:
    """The verdict on the scene, dropout off."""
    verdict_panel.pause()
    tolerance, config = controls.asked().tolerance, asked_scene()

    def judge() -> tuple[Verdict, tuple[Claim, ...]]:
        sides = sides_of(config)
        return verify_ways(config, tolerance, sides), claims.of_heads(config, sides)

    found, scripts = cached.verdict(KEY, config, tolerance, judge)
    lesson.judged(line, (KEY, config), found, config, scripts)
    probability = page_controls.dropout()
    take_home.draw(
        config,
        found,
        partial(of_ways, dropout=probability),
        f"four ways dropout {probability}",
        ways_panel.REPORTED if probability else "",
    )


picture()
more()
lesson.end(LESSON, verdict)
