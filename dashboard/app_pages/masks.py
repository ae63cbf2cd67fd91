"""Masks: rules that combine, what they do to the weights, and what a number in place of minus infinity does."""

from typing import Final

import streamlit as st

from attention import claims, finite_mask, mask_config, masks, multi_head, scaled_dot_product
from attention.config import AttentionConfig
from attention.mask_config import MaskConfig
from attention.mask_lessons import NUMBERS, WithAndWithout, number_for_infinity, traps, with_and_without
from attention.multi_head import AttentionTrace, Inputs
from attention.verify import Verdict, verify
from dashboard import (
    cached,
    controls,
    heatmap,
    lesson,
    link,
    mask_panel,
    page_controls,
    page_fields,
    presets,
    step_picture,
    take_home,
    verdict_panel,
)
from dashboard.fragments import MORE, PICTURE, VERDICT
from dashboard.heatmap import Cell, Look, Says
from dashboard.lesson import Lesson
from dashboard.token_names import names

KEY: Final = "masks"
Scene = tuple[AttentionConfig, MaskConfig]
LESSON: Final = Lesson(
    title="Masks",
    lead="A mask is a rule: may this query attend to that key? What is forbidden becomes −∞ before the softmax:",
    equation=r"\mathrm{softmax}\!\left(Q K^{\top} / \sqrt{D} + M\right),\; M \in \{0, -\infty\}",
    tries=(
        "Add **padding** at the start under a causal mask: the first queries see nothing, and their rows are zeros.",
        "Choose **T ≠ S** and change the corner: with fewer queries than keys, top-left hides what a query should see.",
        "Choose −1e4 below and raise the **score scale** to 1000: weight leaks to where none may be.",
    ),
    code=(
        masks.grid,
        masks.causal,
        masks.sliding_window,
        masks.prefix,
        masks.padding,
        masks.documents,
        masks.strided,
        masks.all_of,
        masks.any_of,
        mask_config.MaskConfig,
        multi_head.attend,
        scaled_dot_product.scaled_dot_product,
        scaled_dot_product.softmax_over_allowed,
        scaled_dot_product.softmax,
        finite_mask.attend_with_number,
        number_for_infinity,
    ),
    presets=(presets.MASKED,),
    has_more=True,
)
WEIGHTS: Final = heatmap.Words(tiles="pictures")
CHANGE: Final = heatmap.Words(tiles="pictures", number="difference of weights")


def scene_of(config: AttentionConfig) -> Scene:
    """The scene and its mask."""
    return config, page_controls.mask(config)


def side_by_side(scene: Scene, shown: WithAndWithout, head: int) -> heatmap.Picture:
    """The grid, and the weights without and with the mask, on one scale."""
    three = shown.allowed.float(), shown.without, shown.under
    titles = "may attend: 1", f"head {head} without the mask", f"head {head} under the mask"
    return step_picture.of_step("weights", three, titles, scene, shown.allowed, WEIGHTS)


def change(scene: Scene, shown: WithAndWithout, head: int) -> heatmap.Picture:
    """What the mask changed."""
    difference = [shown.under - shown.without]
    title = f"head {head}: under the mask − without"
    return step_picture.of_step("change", difference, [title], scene, None, CHANGE)


line = lesson.begin(LESSON)
held: cached.Held[tuple[Inputs, AttentionTrace]] = cached.Held()


@st.fragment(key=PICTURE)
def picture() -> None:
    """The grid, one head with and without it, and the difference."""
    asked = controls.asked()
    config, look = asked.config, asked.look
    scene = scene_of(config)
    mask = scene[1]
    head = page_fields.which_head(config)
    line.begin(scene)

    def shown() -> WithAndWithout:
        return with_and_without(mask, head, held.hold(scene, lambda: multi_head.draw_and_attend(config, mask))[1])

    pin = look.pin or Cell(0, 0, 0)
    query, key = min(pin.query, mask.num_queries - 1), min(pin.key, mask.num_keys - 1)
    heatmap.show(
        cached.picture(f"side by side, head {head}", scene, lambda: side_by_side(scene, shown(), head)),
        Look(curve=look.curve, pin=Cell(0, query, key)),
        f"The mask, and the weights of head {head} without and under it; rows are queries, columns are keys.",
        key=KEY,
        says=Says("Click a cell to see which rule forbids it.", "why, stands below", 420),
        on_pin=lambda: controls.keep_pin(KEY, head),
    )
    left, right = st.columns(2, gap="large")
    with left:
        heatmap.show(
            cached.picture(f"change, head {head}", scene, lambda: change(scene, shown(), head)),
            Look(),
            f"What the mask changed in the weights of head {head}.",
            key=f"{KEY}_change",
            says=Says("Red: more weight under the mask.", tallest=360),
        )
    with right:
        lesson.put(mask_panel.html(mask, query, key, names(scene)))


@st.fragment(key=MORE)
def number() -> None:
    """A number in place of minus infinity: where it does the same, and where not."""
    asked = controls.asked()
    config, mask = scene = scene_of(asked.config)
    head = page_fields.shown_head(config)
    link.keep_in_url("number", "loudness")
    left, right = st.columns(2)
    chosen = left.segmented_control(
        "Instead of −∞", NUMBERS[1:], default="-1e4", required=True, key="number", bind="query-params"
    )
    loudness = right.select_slider("Score scale ×", page_fields.LOUDNESS, value=1, key="loudness", bind="query-params")
    try:
        found = number_for_infinity(config, mask, head, chosen, loudness)
    except ValueError as refusal:
        st.warning(f"{str(refusal).capitalize()} PyTorch refuses it too.", icon=":material/block:")
    else:
        titles = f"head {head} with −∞", f"head {head} with {chosen}"
        two = step_picture.of_step(
            "weights", (found.infinite, found.finite), titles, scene, mask.allowed, WEIGHTS, f"scores x {loudness}"
        )
        heatmap.show(
            two,
            Look(curve=asked.look.curve),
            f"Weights of head {head} with minus infinity and with {chosen} for forbidden cells.",
            key=f"{KEY}_number",
            says=Says(mask_panel.said_of(found, chosen, loudness), tallest=360),
        )
    lesson.put(mask_panel.traps_html(traps(config, loudness)))


@st.fragment(key=VERDICT)
def verdict() -> None:
    """The verdict on the scene under its mask."""
    verdict_panel.pause()
    asked = controls.asked()
    config, mask = scene = scene_of(asked.config)
    inputs, ours = held.let_go(scene) or (None, None)

    def judge() -> Verdict:
        return verify(config, asked.tolerance, ours, inputs, mask)

    scripts = cached.facts("claims", scene, lambda: claims.of_mask(config))
    found = cached.verdict(KEY, scene, asked.tolerance, judge)
    lesson.judged(line, scene, found, scene, scripts)
    take_home.draw(scene, found)


picture()
st.header("−∞, or a large negative number?", anchor=False)
number()
lesson.end(LESSON, verdict)
