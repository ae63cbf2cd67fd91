"""Precision: one scene in four dtypes, how far each step is off, and what `torch.allclose` says of it."""

from dataclasses import replace
from typing import Final

import streamlit as st

from attention import multi_head, precision, sample, scaled_dot_product
from attention.compare import Tolerance
from attention.config import DTYPES, AttentionConfig
from attention.precision import Closeness, Measured, Tiles
from attention.verify import Verdict, verify
from dashboard import (
    cached,
    chart,
    controls,
    heatmap,
    lesson,
    page_fields,
    precision_panel,
    presets,
    progress,
    scene_controls,
    step_picture,
    tables,
    take_home,
    verdict_panel,
)
from dashboard.fragments import MORE, PICTURE, VERDICT
from dashboard.heatmap import Look, Says
from dashboard.lesson import Lesson

KEY: Final = "precision"
LESSON: Final = Lesson(
    title="Precision",
    lead="The same scene in float64, float32, bfloat16 and float16. Every operation rounds, so two right programs "
    "differ in the last digits, and a comparison needs a tolerance:",
    equation=r"|\text{ours} - \text{PyTorch's}| \le \text{atol} + \text{rtol} \cdot |\text{PyTorch's}|",
    tries=(
        "Leave **rtol** and **atol of allclose** at its defaults, 1e-5 and 1e-8: correct code fails in half precision.",
        "Move **atol of allclose** up until float32 passes: the dotted line in the curve goes with it.",
        "Raise **Embed dim**: sums get longer, and the distance from the float64 answer grows in every precision.",
    ),
    code=(
        sample.draw_tokens,
        sample.draw_parameters,
        multi_head.attend,
        multi_head.project,
        scaled_dot_product.scaled_dot_product,
        scaled_dot_product.softmax_over_allowed,
        scaled_dot_product.softmax,
        precision.measure,
        precision.budget,
        precision.closeness,
        precision.smallest_atol,
        precision.pass_rates,
    ),
    presets=(presets.TWELVE_HEADS, presets.TWELVE_CAUSAL),
    has_more=True,
)
WEIGHTS: Final = heatmap.Words(tiles="precisions")
NeededBySeed = tuple[tuple[str, tuple[float, ...]], ...]
OFF: Final = heatmap.Words(tiles="precisions", number="off, in eps")


def asked_scene() -> AttentionConfig:
    """The scene; its own dtype is not asked, so that all of them share what is computed."""
    return replace(controls.asked().config, dtype=scene_controls.DEFAULT.dtype)


def weights(scene: AttentionConfig, tiles: Tiles, head: int) -> heatmap.Picture:
    """One head in every dtype."""
    allowed = multi_head.allowed_by(scene)
    return step_picture.of_step("weights", tiles.weights, list(DTYPES), scene, allowed, WEIGHTS, f"head {head}")


def off(scene: AttentionConfig, tiles: Tiles, head: int) -> heatmap.Picture:
    """How far each of them is off the float64 answer."""
    titles = precision_panel.off_titles(tiles.furthest)
    allowed = multi_head.allowed_by(scene)
    return step_picture.of_step("off", tiles.off, titles, scene, allowed, OFF, f"head {head}")


def measured(scene: AttentionConfig) -> Measured:
    """Every step's budget, from the cache."""
    return cached.facts("measured", scene, lambda: precision.measure(scene)[0])


line = lesson.begin(LESSON)
held: cached.Held[tuple[Measured, Tiles]] = cached.Held()


@st.fragment(key=PICTURE)
def picture() -> None:
    """One head in every dtype, how far it is off, and how far every step is."""
    asked, scene = controls.asked(), asked_scene()
    head = page_fields.which_head(scene)
    line.begin((KEY, asked.config))

    def found() -> tuple[Measured, Tiles]:
        return held.hold((scene, head), lambda: precision.measure(scene, head))

    heatmap.show(
        cached.picture(f"precisions, head {head}", scene, lambda: weights(scene, found()[1], head)),
        Look(curve=asked.look.curve),
        f"The weights of head {head} in float64, float32, bfloat16 and float16.",
        key=KEY,
        says=Says(tallest=280),
    )
    heatmap.show(
        cached.picture(f"off, head {head}", scene, lambda: off(scene, found()[1], head)),
        Look(),
        f"How far each weight of head {head} is off the float64 answer, as a multiple of each precision's eps.",
        key=f"{KEY}_off",
        says=Says(
            "Off the float64 answer: over the tile the most, in the cells multiples of the precision's eps.",
            tallest=280,
        ),
    )
    budgets = cached.facts("measured", scene, lambda: found()[0]).budgets
    held.let_go((scene, head))
    st.markdown(
        "**Largest distance of each step from the float64 answer** on the very numbers that the precision holds. "
        "In float64 PyTorch's own is that answer, so it has no line."
    )
    chart.show(
        precision_panel.errors_chart(budgets),
        precision_panel.errors_in_words(budgets),
        key=f"{KEY}_errors",
        identity=cached.identity(scene, "distances"),
    )
    st.markdown(precision_panel.said_of_budgets(budgets))
    lesson.put(tables.html(precision_panel.budget_table(budgets), kind="budget"))


@st.fragment(key=MORE)
def more() -> None:
    """What `torch.allclose` says at the reader's tolerance, and how often over many seeds."""
    scene, tolerance = asked_scene(), page_fields.closeness()

    def close() -> tuple[Closeness, ...]:
        return precision.closeness(scene, tolerance)

    found = cached.facts(f"closeness at {tolerance.rtol} and {tolerance.atol}", scene, close)
    lesson.put(tables.html(precision_panel.closeness_table(found, tolerance), kind="close"))
    st.markdown(precision_panel.said_of_closeness(found))
    st.subheader("How often, over many seeds", anchor=False)
    curve(scene, tolerance)


def rates_name(step: str, tolerance: Tolerance, seeds: int) -> str:
    """What tells a curve from others of the same scene."""
    return f"pass rates of {step} at rtol {tolerance.rtol}, {seeds} seeds"


def curve(scene: AttentionConfig, tolerance: Tolerance) -> None:
    """The share of seeds that pass over atol: of a few at once, of all when asked. It takes longest, and comes last."""
    step, wanted = page_fields.pass_rates()
    scene = replace(scene, seed=0)  # the seeds are the same for every reader
    each = precision.time_of_seed(scene)
    most = precision.seeds_for(scene, wanted, precision.SECONDS)
    few = precision.seeds_for(scene, wanted, precision.AT_ONCE)
    said, button = st.empty(), st.empty()

    def known(seeds: int) -> NeededBySeed | None:
        return cached.known(rates_name(step, tolerance, seeds), scene)

    asked_for = known(most) is not None or few == most
    if not asked_for:
        asked_for = button.button(f"All {most} seeds (about {(most - few) * each:.0f} s)", key="all_seeds")
    seeds = most if asked_for else few
    said.caption(precision_panel.said_of_seeds(seeds, wanted, each))
    found = known(seeds)
    if found is None:
        steps = precision.pass_rates(scene, seeds, step, tolerance.rtol)
        done = precision.by_dtype(progress.through(steps, seeds, "seed"))
        found = cached.facts(rates_name(step, tolerance, seeds), scene, lambda: done)
    if seeds == most:
        button.empty()  # nothing is left to ask for
    needed = dict(found)
    chart.show(
        precision_panel.rates_chart(needed, tolerance.atol),
        precision_panel.rates_in_words(needed, step),
        key=f"{KEY}_rates",
        identity=cached.identity(scene, f"{seeds} seeds {step}"),
    )
    lesson.put(tables.html(precision_panel.rates_table(needed, tolerance.atol), kind="rates"))


@st.fragment(key=VERDICT)
def verdict() -> None:
    """The verdict on every dtype; the table is of the one that Precision is set to on the other pages."""
    verdict_panel.pause()
    asked, scene = controls.asked(), asked_scene()
    config = asked.config

    budgets = measured(scene)

    def judge() -> Verdict:
        return precision.judged(verify(config, asked.tolerance), config.dtype, budgets)

    found = cached.verdict(KEY, config, asked.tolerance, judge)
    lesson.judged(line, (KEY, config), found, config, only=f"{config.dtype}: ")
    st.caption(
        f"The table is of {config.dtype}, which Precision is set to on the other pages, at your tolerance. "
        "The line above speaks of all four: of the others it takes the maths and the budgets."
    )
    take_home.draw(config, found, note=precision_panel.REPORTED)


picture()
st.header("What torch.allclose says", anchor=False)
place = st.container()  # filled last: the curve takes longest, and nothing is to wait for it
lesson.end(LESSON, verdict)
with place:
    more()
