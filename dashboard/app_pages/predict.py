"""Predict, then reveal: a row of weights or a mask is blank, the reader fills it in, and it is held against ours."""

from typing import Final

import streamlit as st

from attention import masks, multi_head, predicting, sample, scaled_dot_product
from attention.config import AttentionConfig
from attention.mask_config import MaskConfig
from attention.multi_head import AttentionTrace, Inputs
from attention.predicting import check_mask, check_row
from attention.verify import Verdict, verify
from dashboard import (
    cached,
    controls,
    heatmap,
    lesson,
    page_controls,
    page_fields,
    predict_panel,
    step_picture,
    take_home,
    verdict_panel,
)
from dashboard.fragments import PICTURE, VERDICT
from dashboard.heatmap import Look, Picture, Says
from dashboard.lesson import Lesson
from dashboard.predict_panel import Question
from dashboard.token_names import named, names

KEY: Final = "predict"
Scene = tuple[AttentionConfig, MaskConfig]
LESSON: Final = Lesson(
    title="Predict, then reveal",
    lead="Something is left blank. Work it out from what you see, fill it in, and check it before you look:",
    equation=r"w_j = e^{s_j} \Big/ \textstyle\sum_i e^{s_i} \;\text{ over the keys that may be seen}",
    tries=(
        "Fill the row in: a key that may not be seen gets 0, the others share 1 among them.",
        "Look only at the largest scaled score of the row first: which key gets most, and is it more than half?",
        "Choose **mask**, add a **window** and **documents**, and find the cells that both of them leave.",
        "As a teacher: hide what would give it away with **Teacher's link**, the button that reveals included.",
    ),
    code=(
        sample.draw_tokens,
        sample.draw_parameters,
        masks.grid,
        multi_head.attend,
        scaled_dot_product.scaled_dot_product,
        scaled_dot_product.softmax_over_allowed,
        scaled_dot_product.softmax,
        predicting.check_row,
        predicting.check_mask,
    ),
)
WEIGHTS: Final = heatmap.Words(tiles="pictures")


def asked() -> Scene:
    """The scene and its mask."""
    config = controls.asked().config
    return config, page_controls.mask(config)


line = lesson.begin(LESSON)
held: cached.Held[tuple[Inputs, AttentionTrace]] = cached.Held()


@st.fragment(key=PICTURE)
def picture() -> None:
    """The question, the fields to fill in, and what they came to."""
    config, mask = scene = asked()
    line.begin((KEY, scene))
    left, one, two, right = st.columns([2, 1, 1, 2], vertical_alignment="bottom")
    with left:
        kind = page_fields.question()
    if kind == "mask":
        ask_for_mask(Question(kind, scene), mask)
        return
    with one:
        head = page_fields.which_head(config)
    with two:
        query = page_fields.which_row(mask)
    with right:
        within = page_fields.within()
    ask_for_row(Question(kind, scene, head, query), within)


def trace_of(scene: Scene) -> AttentionTrace:
    """The trace of the scene."""
    return held.hold(scene, lambda: multi_head.draw_and_attend(*scene))[1]


def ask_for_row(question: Question, within: float) -> None:
    """The scaled scores, the weights with one row blank, a field for each of its keys, and how right they are."""
    mask, head, query = question.scene[1], question.head, question.query
    revealed, row_name = predict_panel.is_revealed(question), named(query, names(question.scene)[0])

    def scaled() -> Picture:
        tiles = [trace_of(question.scene).scaled[0, head]]
        return step_picture.of_step("scaled", tiles, ["scaled: q · k / √D"], question.scene)

    def weights() -> Picture:
        title = f"weights of head {head}" + ("" if revealed else f", query {row_name} left blank")
        blank = () if revealed else (query,)
        tiles = [trace_of(question.scene).weights[0, head]]
        return step_picture.of_step("weights", tiles, [title], question.scene, mask.allowed, WEIGHTS, blank=blank)

    look = controls.asked().look
    before, after = st.columns(2, gap="medium")
    name = f"head {head}" + ("" if revealed else f", without row {query}")
    with before:
        heatmap.show(
            cached.picture(f"scaled, head {head}", question.scene, scaled),
            Look(),
            f"The scaled scores of head {head}, before the mask: what the row of query {row_name} is made of.",
            key=f"{KEY}_scaled",
            says=Says(f"What you need: row {row_name}.", tallest=360),
        )
    with after:
        heatmap.show(
            cached.picture(f"weights, {name}", question.scene, weights),
            Look(curve=look.curve),
            f"The weights of head {head}; the row of query {row_name} is {'shown' if revealed else 'left blank'}.",
            key=KEY,
            says=Says("" if revealed else f"Row {row_name} is yours.", tallest=360),
        )
    said = predict_panel.fields(question, mask.num_keys)
    predict_panel.buttons(question, said)

    def row() -> tuple[list[float], list[float]]:
        trace = trace_of(question.scene)
        return trace.scaled[0, head, query].tolist(), trace.weights[0, head, query].tolist()

    scores, right = cached.facts(f"row {query} of head {head}", question.scene, row)
    answer = check_row(right, said, within)
    lesson.put(predict_panel.of_row(question, answer, scores, mask.allowed[query].tolist()))
    st.markdown(predict_panel.said_of_row(question, answer))


def ask_for_mask(question: Question, mask: MaskConfig) -> None:
    """The rules in words, a row of keys for each query, the grid as far as it is filled in, and how right it is."""
    st.markdown(predict_panel.rules(mask))
    fields, drawn = st.columns([3, 4], gap="large")
    with fields:
        said = predict_panel.grid(question, mask)
    beside = ", beside the right one" if predict_panel.is_revealed(question) else ""
    with drawn:
        heatmap.show(
            predict_panel.grids(question, said, mask.allowed),
            Look(curve="linear"),
            f"The mask as you have filled it in{beside}.",
            key=KEY,
            says=Says("1: may attend.", tallest=420),
        )
    predict_panel.buttons(question, said.tolist())
    answer = check_mask(mask.allowed, said)
    st.markdown(predict_panel.said_of_mask(question, answer, said.tolist()))


@st.fragment(key=VERDICT)
def verdict() -> None:
    """The verdict on the scene under its mask: what is asked for is right too."""
    verdict_panel.pause()
    asked_for = controls.asked()
    config, mask = scene = asked()
    inputs, ours = held.let_go(scene) or (None, None)

    def judge() -> Verdict:
        return verify(config, asked_for.tolerance, ours, inputs, mask)

    found = cached.verdict(KEY, scene, asked_for.tolerance, judge)
    lesson.judged(line, (KEY, scene), found, scene)
    if predict_panel.is_shown_revealed():  # the answer is in what can be taken home
        take_home.draw(scene, found)


picture()
lesson.end(LESSON, verdict)
