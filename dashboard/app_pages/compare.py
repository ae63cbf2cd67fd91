"""Compare: a setting that is pinned as A, the reader's own as B, both on one colour scale, and their difference."""

from dataclasses import replace
from functools import partial
from typing import Final

import streamlit as st

from attention import comparing as subtracting
from attention import head_counts, multi_head, sample, scaled_dot_product
from attention.comparing import COMPARED, Apart, Gap, apart
from attention.config import AttentionConfig
from attention.head_counts import HeadStatistics, describe
from attention.multi_head import AttentionTrace, attend_as_configured
from attention.tensors import of_two
from attention.verify import Verdict, verify
from dashboard import (
    cached,
    compare_panel,
    comparing,
    controls,
    heatmap,
    lesson,
    limits,
    link,
    presets,
    step_picture,
    tables,
    take_home,
    verdict_panel,
)
from dashboard.fragments import PICTURE, VERDICT
from dashboard.heatmap import Look, Picture, Says
from dashboard.lesson import Lesson

KEY: Final = "compare"
LESSON: Final = Lesson(
    title="Compare two settings",
    lead="A is pinned, B is what the controls say. Both are drawn on one colour scale, and below them what B has more "
    "than A, cell by cell:",
    equation=r"B - A",
    tries=(
        "As it opens, A is B without its mask: what a query had on later tokens, earlier ones get. The last row stays.",
        "Press **Pin as A**, then halve **Heads**: single maps cannot be subtracted then, so their means are.",
        "Turn **Causal** off, pin, and add a **token**: every query gives the new key what it takes from the others.",
        "Pin, and set **Precision** to bfloat16: the maps look the same, and the difference says how far they are not.",
    ),
    code=(
        sample.draw_tokens,
        sample.draw_parameters,
        multi_head.attend,
        scaled_dot_product.scaled_dot_product,
        scaled_dot_product.softmax_over_allowed,
        scaled_dot_product.softmax,
        subtracting.apart,
        head_counts.entropy,
    ),
    presets=(presets.TWELVE_CAUSAL,),
)
Pair = tuple[AttentionConfig, AttentionConfig]
Traces = tuple[AttentionTrace, AttentionTrace]
NUMBER: Final = "difference, B − A"


def asked() -> Pair:
    """A and B, each within what the page computes."""
    b = controls.asked().config
    return limits.within("compare", comparing.pinned(b)), b


def tiles(config: AttentionConfig, trace: AttentionTrace, step: str) -> Picture:
    """A step of every head of a scene; of one without heads, all of it."""
    found = getattr(trace, step)[0]
    numbers = list(found) if found.ndim == 3 else [found]
    titles = [f"head {head}" for head in range(len(numbers))] if found.ndim == 3 else [step]
    return step_picture.of_step(
        step, numbers, titles, config, multi_head.allowed_by(config) if step == "weights" else None
    )


def difference(pair: Pair, found: Apart, step: str) -> Picture:
    """What B has more than A."""
    count = found.gap.matrices
    alone = "mean over heads" if found.gap.of_mean else step
    titles = [alone] if count == 1 else [f"head {head}" for head in range(count)]
    called = replace(step_picture.words(step), number=NUMBER)
    note = f"{step} less {cached.identity(pair[0])}"
    b = replace(pair[1], num_tokens=min(one.num_tokens for one in pair))
    same = compare_panel.shares_tokens(pair)
    return step_picture.of_step("change", list(found.by), titles, b, found.allowed, called, note, labelled=same)


line = lesson.begin(LESSON)
held: cached.Held[Traces] = cached.Held()


@st.fragment(key=PICTURE)
def picture() -> None:
    """A and B side by side, what they have in numbers, and their difference."""
    look = controls.asked().look
    a, b = pair = asked()
    line.begin((KEY, pair))

    def traces() -> Traces:
        return held.hold(pair, lambda: (attend_as_configured(a), attend_as_configured(b)))

    link.keep_in_url("compare_step")
    step = st.select_slider("Step", COMPARED, value="weights", key="compare_step", bind="query-params")

    def drawn_of(side: int) -> Picture:
        return cached.picture(step, pair[side], lambda: tiles(pair[side], traces()[side], step))

    def described_of(side: int) -> HeadStatistics:
        return cached.facts("described", pair[side], lambda: describe(pair[side], traces()[side]))

    both = compare_panel.on_one_scale([drawn_of(0), drawn_of(1)])
    for name, place, drawn, config in zip("AB", st.columns(2, gap="medium"), both, pair, strict=True):
        with place:
            st.markdown(compare_panel.heading(name, config, pair))
            heatmap.show(
                drawn,
                Look(curve=look.curve),
                f"{name}: {step} of {config.num_heads} heads over {config.num_tokens} tokens.",
                key=f"{KEY}_{name}",
                says=Says("", tallest=340),
            )

    name = f"{step}, less {cached.identity(a)}"
    once: cached.Held[Apart | None] = cached.Held()

    def subtracted() -> Apart | None:
        return once.hold(name, lambda: apart(step, *traces(), pair))

    def in_numbers() -> Gap | None:
        found = subtracted()
        return found.gap if found else None

    def packed() -> Picture:
        found = subtracted()
        assert found is not None
        return difference(pair, found, step)

    gap = cached.facts(f"gap: {name}", b, in_numbers)
    st.markdown(compare_panel.said(gap, step, pair))
    if gap:
        heatmap.show(
            cached.picture(f"difference: {name}", b, packed),
            Look(curve=look.curve),
            f"What B has more than A, of {step}.",
            key=f"{KEY}_difference",
            says=Says("Red: more in B. Blue: more in A.", tallest=340),
        )
    described = [described_of(0), described_of(1)]
    lesson.put(tables.html(compare_panel.table(pair, described), kind="ways"))


@st.fragment(key=VERDICT)
def verdict() -> None:
    """The verdict on both; the table is of the first that differs, or of B."""
    verdict_panel.pause()
    tolerance = controls.asked().tolerance
    a, b = pair = asked()
    held.let_go(None)

    def judge(config: AttentionConfig) -> Verdict:
        return cached.verdict(KEY, config, tolerance, lambda: verify(config, tolerance))

    found = {"A": judge(a), "B": judge(b)}
    worse = next((name for name, one in found.items() if not one.scene_equal), "B")
    lesson.judged(line, (KEY, pair), found[worse], a if worse == "A" else b)
    st.caption(compare_panel.said_of_verdicts(found, worse))
    name = cached.identity(a)
    note = f"The tensors are of both, A being {name}; script and report are of B."
    take_home.draw(b, found["B"], partial(of_two, a=a), f"with {name}", note)


picture()
lesson.end(LESSON, verdict)
