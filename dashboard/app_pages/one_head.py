"""One head, step by step: from the tokens to the context, every step a picture."""

from collections.abc import Callable
from functools import partial
from typing import Final

import streamlit as st
from torch import Tensor

from attention import claims, masks, sample, scaled_dot_product, single_head, verify_head
from attention.multi_head import SQUARE, allowed_by
from attention.single_head import STEPS, HeadTrace
from attention.trained.inputs import labels
from attention.verify import Verdict
from attention.verify_head import HeadConfig
from attention.worked_cell import work_out_row
from dashboard import (
    cached,
    controls,
    heatmap,
    lesson,
    link,
    page_controls,
    page_fields,
    presets,
    row_panel,
    step_picture,
    take_home,
    verdict_panel,
)
from dashboard.fragments import PICTURE, VERDICT
from dashboard.heatmap import Cell, Look, Picture, Says
from dashboard.lesson import Lesson

KEY: Final = "one_head"
LESSON: Final = Lesson(
    title="One head, step by step",
    lead="What a single head does to the tokens, one step at a time:",
    equation=r"\text{context} = \mathrm{softmax}\!\left(Q K^{\top} / \sqrt{D} + \text{mask}\right) V",
    tries=(
        "Put the **step** on `scores` and go on with the right arrow key: scaled, masked, weights.",
        "Set **Head width** to 1, then to 1024: the scores grow with √D, the scaled ones do not.",
        "Set **Value width** to another number: only `v` and the context change their shape.",
    ),
    code=(
        sample.draw_tokens,
        sample.draw_head,
        masks.causal,
        single_head.SelfAttention,
        single_head.attend_one,
        scaled_dot_product.scaled_dot_product,
        scaled_dot_product.softmax_over_allowed,
        scaled_dot_product.softmax,
    ),
    presets=(presets.ONE_HEAD,),
)
# what each step is made of, and how
MADE_OF: Final = {
    "q": (("tokens",), r"Q = X W_Q^{\top}$, what each token asks for"),
    "k": (("tokens",), r"K = X W_K^{\top}$, what each token answers to"),
    "v": (("tokens",), r"V = X W_V^{\top}$, what each token has to give"),
    "scores": (("q", "k"), r"Q K^{\top}$, each query times each key"),
    "scaled": (("scores",), r"Q K^{\top} / \sqrt{D}$, back to a variance of about 1"),
    "masked": (("scaled",), r"-\infty$ where a query may not look"),
    "weights": (("masked",), r"\mathrm{softmax}$ of each row: its numbers sum to 1"),
    "context": (("weights", "v"), r"\text{weights} \cdot V$, a mix of the values"),
}


def matrix(step: str, trace: HeadTrace, tokens: Tensor) -> Tensor:
    """A step as (rows, columns)."""
    return tokens[0] if step == "tokens" else getattr(trace, step)[0, 0]


def packed(step: str, config: HeadConfig, made: Callable[[], tuple[Tensor, HeadTrace]]) -> Picture:
    """The picture of a step."""
    tokens, trace = made()
    found = matrix(step, trace, tokens)
    hatched = allowed_by(config.scene) if step in ("masked", "weights") else None
    return step_picture.of_step(step, [found], [f"{step}: {step_picture.size(found)}"], config, hatched)


line = lesson.begin(LESSON)
held: cached.Held[tuple[Tensor, HeadTrace]] = cached.Held()


@st.fragment(key=PICTURE)
def picture() -> None:
    """The step that the scrubber is at, what it was made of, and the chosen query's row."""
    asked = controls.asked()
    if asked.config.trained:
        page_fields.which_head(asked.config)
    config = page_controls.head(asked.config)
    link.keep_in_url("step")
    step = st.select_slider("Step", STEPS, value="weights", key="step", bind="query-params")
    line.begin(config)

    def made() -> tuple[Tensor, HeadTrace]:
        return held.hold(config, lambda: (verify_head.draw(config)[0], verify_head.attend_as_configured(config)))

    sources, how = MADE_OF[step]
    st.markdown(f"`{step}` = ${how}")
    last = config.scene.num_tokens - 1
    pin = asked.look.pin or Cell(0, last, last)
    before, after = st.columns([2, 3], gap="medium")
    for place, source in enumerate(sources):
        with before:
            heatmap.show(
                cached.picture(source, config, partial(packed, source, config, made)),
                Look(scale=asked.look.scale, curve=asked.look.curve),
                f"{source}, from which {step} is made",
                key=f"{KEY}_from_{place}",
                says=Says(hint="", tallest=380 // len(sources)),
            )
    with after:
        square = step in SQUARE
        heatmap.show(
            cached.picture(step, config, partial(packed, step, config, made)),
            Look(scale=asked.look.scale, curve=asked.look.curve, pin=Cell(0, pin.query, pin.key) if square else None),
            f"The step {step} of one head over {config.scene.num_tokens} tokens.",
            key=KEY,
            says=Says("Click a cell to work its query out.", "worked out below", 440) if square else Says(""),
            on_pin=lambda: controls.keep_pin(KEY),
        )
    lesson.put(row_panel.html(work_out_row(made()[1], 0, pin.query), labels(config.scene)))


@st.fragment(key=VERDICT)
def verdict() -> None:
    """The verdict on the scene in the picture."""
    verdict_panel.pause()
    asked = controls.asked()
    config = page_controls.head(asked.config)
    made = held.let_go(config)

    def judge() -> Verdict:
        return verify_head.verify_head(config, asked.tolerance, made[1] if made else None)

    scripts = cached.facts("claims", config, lambda: claims.of_one_head(config))
    found = cached.verdict(KEY, config, asked.tolerance, judge)
    lesson.judged(line, config, found, config, scripts)
    take_home.draw(config, found)


picture()
lesson.end(LESSON, verdict)
