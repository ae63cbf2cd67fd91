"""Every head of a from-scratch attention, beside the verdict against PyTorch."""

import streamlit as st

from attention import claims, masks, multi_head, sample, scaled_dot_product
from attention.claims import Claim
from attention.config import AttentionConfig
from attention.multi_head import AttentionTrace, Inputs
from attention.trained.inputs import labels
from attention.verify import Verdict, probe, sides_of
from attention.worked_cell import work_out
from dashboard import (
    cached,
    cell_panel,
    controls,
    further,
    heatmap,
    lesson,
    presets,
    step_picture,
    take_home,
    verdict_panel,
)
from dashboard.fragments import PICTURE, VERDICT
from dashboard.heatmap import Cell
from dashboard.lesson import Lesson

KEY = "heads_picture"
LESSON = Lesson(
    title="Every head, checked against PyTorch",
    lead="Each head asks, for every token (a row), how much it takes from each token that it may see (a column).",
    equation=r"\text{weights} = \mathrm{softmax}\!\left(\frac{Q K^{\top}}{\sqrt{D}}\right)",
    tries=(
        "Turn **Causal** off: the hatched half fills, and every row shares its weight out among more keys.",
        "Move **Heads** to 1 and on: the heads get wider, their scores larger before the scale, their maps fewer.",
        "Click a cell to see its weight worked out; set **Precision** to float16 and see which step moves first.",
    ),
    code=(
        sample.draw_tokens,
        sample.draw_parameters,
        sample._draw,
        masks.causal,
        masks.grid,
        multi_head.attend,
        multi_head.project,
        multi_head.split_heads,
        scaled_dot_product.scaled_dot_product,
        scaled_dot_product.softmax_over_allowed,
        scaled_dot_product.softmax,
    ),
    presets=(presets.TWELVE_HEADS, presets.TWELVE_CAUSAL),
)
SAYS = heatmap.Says(
    hint="Click a cell to work it out; click a title to enlarge its head.", pinned="pinned, worked out below"
)


def summary(config: AttentionConfig) -> str:
    """What the picture shows, in words."""
    mask = "under a causal mask" if config.causal else "without a mask"
    return (
        f"Attention weights of {config.num_heads} heads over {config.num_tokens} tokens {mask}; "
        "rows are queries, columns are keys."
    )


line = lesson.begin(LESSON)
held: cached.Held[tuple[Inputs, AttentionTrace]] = cached.Held()


@st.fragment(key=PICTURE)
def picture() -> None:
    """All heads, and the pinned cell worked out. It does not wait for the verdict."""
    asked = controls.asked()
    config, pin = asked.config, asked.look.pin
    judged = line.begin(config)

    def trace() -> AttentionTrace:
        return held.hold(config, lambda: multi_head.draw_and_attend(config))[1]

    def worked(pin: Cell) -> str:
        return cell_panel.html(work_out(trace(), pin.head, pin.query, pin.key), labels(config))

    heatmap.show(
        cached.picture("heads", config, lambda: step_picture.of_heads(config, trace())),
        asked.look,
        summary(config),
        cached.facts(f"{pin} worked out", config, lambda: worked(pin)) if pin else "",
        key=KEY,
        says=SAYS,
        on_pin=lambda: controls.keep_pin(KEY),
        on_enlarge=lambda: controls.keep_enlarged(KEY),
    )
    if judged:
        held.let_go(config)


@st.fragment(key=VERDICT)
def verdict() -> None:
    """The verdict on the scene in the picture."""
    verdict_panel.pause()
    asked = controls.asked()
    config = asked.config
    inputs, ours = held.let_go(config) or (None, None)

    def judge() -> tuple[Verdict, tuple[Claim, ...]]:
        sides = sides_of(config, ours, inputs)
        return sides.judge(asked.tolerance, probe()), claims.of_heads(config, sides)

    found, scripts = cached.verdict("heads", config, asked.tolerance, judge)
    lesson.judged(line, config, found, config, scripts)
    further.draw(config, asked.tolerance)
    take_home.draw(config, found)


picture()
lesson.end(LESSON, verdict)
