"""The transformer block: its data flow, every step before and after, and what the residual stream carries."""

from functools import partial
from typing import Final

import streamlit as st

from attention import block, claims, feed_forward, layer_norm, multi_head, sample, scaled_dot_product
from attention.block import PRE_NORM
from attention.residual import Inside, bend, look_into_both, mean_norm, step_of
from attention.tensors import of_scene
from attention.verify_block import BlockConfig, both_placements, check_fused, each_block, verify_both
from dashboard import (
    block_panel,
    cached,
    chart,
    controls,
    heatmap,
    lesson,
    link,
    page_controls,
    page_fields,
    presets,
    step_picture,
    take_home,
    verdict_panel,
)
from dashboard.fragments import MORE, PICTURE, VERDICT
from dashboard.heatmap import Look, Says
from dashboard.lesson import Lesson

KEY: Final = "block"
LESSON: Final = Lesson(
    title="Transformer block",
    lead="Attention mixes tokens, the feed-forward network works on each alone; both only add to the stream that runs "
    "through. The norm stands after each sum, or before attention and network:",
    equation=r"\mathrm{LN}(x + f(x)) \;\text{ or }\; x + f(\mathrm{LN}(x))",
    tries=(
        "Set **Embed dim** to 256, **Depth** to 8: pre-norm lets the stream grow, post-norm brings it back each time.",
        "Put the **step** on `sum_1`, then on `norm_1`, and compare the colour bars.",
        "Turn **Causal** off and on with the step on `attention.weights`: the mask reaches every block.",
    ),
    code=(
        sample.draw_block,
        block.run_block,
        layer_norm.layer_norm,
        feed_forward.gelu,
        feed_forward.relu,
        multi_head.attend,
        scaled_dot_product.scaled_dot_product,
        scaled_dot_product.softmax_over_allowed,
        scaled_dot_product.softmax,
        each_block,
        look_into_both,
    ),
    presets=(presets.BLOCK,),
    has_more=True,
)


def named(config: BlockConfig) -> tuple[str, str]:
    """The placements of the norm, the reader's own first."""
    own, other = ("pre-norm" if placed.norm_first else "post-norm" for placed in both_placements(config))
    return own, other


line = lesson.begin(LESSON)
held: cached.Held[tuple[Inside, Inside]] = cached.Held()


def insides(config: BlockConfig, index: int) -> tuple[Inside, Inside]:
    """Both placements, looked into at one block; made once for picture and charts."""
    return held.hold((config, index), lambda: look_into_both(config, index))


@st.fragment(key=PICTURE)
def picture() -> None:
    """The data flow, and one step under both placements of the norm."""
    asked = controls.asked()
    config = page_controls.block(asked.config)
    line.begin((KEY, config))
    link.keep_in_url("block_step")
    left, middle, right = st.columns([1, 1, 4], vertical_alignment="bottom")
    with left:
        index = page_fields.which_block(config)
    with middle:
        head = page_fields.which_head(config.scene)
    step = right.select_slider("Step", PRE_NORM, value="attention.weights", key="block_step", bind="query-params")
    own, other = insides(config, index)
    lesson.put(block_panel.drawing(own.trace, step, index))

    two = [multi_head.matrix(step_of(inside.trace, step), head) for inside in (own, other)]

    def packed() -> heatmap.Picture:
        titles = [f"{name}: {step_picture.size(x)}" for name, x in zip(named(config), two, strict=True)]
        hatched = multi_head.allowed_by(config.scene) if step.endswith(("masked", "weights")) else None
        return step_picture.of_step(step, two, titles, config, hatched, note=f"block {index} head {head}")

    norms = " and ".join(f"{mean_norm(x):.3g}" for x in two)
    st.markdown(f"`{step}` of block {index}: {block_panel.SAID[step]}. Mean norm of a row: {norms}.")
    heatmap.show(
        cached.picture(f"{step}, block {index}, head {head}", config, packed),
        Look(scale=asked.look.scale, curve=asked.look.curve),
        f"The step {step} of block {index}, pre-norm and post-norm side by side.",
        key=KEY,
        says=Says(tallest=360),
    )


@st.fragment(key=MORE)
def stream() -> None:
    """What the residual stream carries, and the two activations."""
    config = page_controls.block(controls.asked().config)
    index = page_fields.shown_block(config)
    both = tuple(zip(named(config), insides(config, index), strict=True))
    for what, place in zip(block_panel.CHARTS, st.columns(2), strict=True):
        with place:
            st.markdown(f"**{block_panel.CHARTS[what]}**")
            chart.show(
                block_panel.stream_chart(both, what),
                block_panel.stream_in_words(both, what),
                key=f"{KEY}_{what}",
                identity=cached.identity(config, f"stream {what}"),
            )
    st.subheader("GELU against ReLU", anchor=False)
    bent = bend(both[0][1].trace)
    drawn = step_picture.of_step("activated", [bent.gelu, bent.relu], ["GELU", "ReLU"], config, note=f"block {index}")
    heatmap.show(drawn, Look(), "Hidden numbers after GELU and after ReLU.", key=f"{KEY}_bent", says=Says(tallest=260))
    lesson.put(block_panel.bent_table(bent))


@st.fragment(key=VERDICT)
def verdict() -> None:
    """The verdict on both placements; the table is of the block that is looked into."""
    verdict_panel.pause()
    tolerance = controls.asked().tolerance
    config = page_controls.block(controls.asked().config)
    index = page_fields.shown_block(config)

    found = cached.verdict(KEY, config, tolerance, lambda: verify_both(config, tolerance))
    worse = next((one for one in found if not one.scene_equal), found[0])
    scripts = cached.facts("claims", config, lambda: claims.of_block(config))
    lesson.judged(line, (KEY, config), worse, config, scripts, only=f"{index}: ")
    fused = cached.verdict("fused", config, tolerance, lambda: check_fused(config, tolerance))
    st.caption(block_panel.said_of_paths(config, fused))
    judged = both_placements(config)[found.index(worse)]
    take_home.draw(judged, worse, partial(of_scene, index=index), f"block {index}")


picture()
st.header("What the residual stream carries", anchor=False)
stream()
lesson.end(LESSON, verdict)
