"""How many heads: the same tokens and weights under 1, 2, 4 and more heads, and what changes with the count."""

from dataclasses import replace
from functools import partial
from typing import Final

import streamlit as st

from attention import head_counts as counting
from attention import multi_head, scaled_dot_product
from attention.config import AttentionConfig, head_counts
from attention.head_counts import HeadStatistics, describe_all, distances_of, score_gap
from attention.multi_head import attend_as_configured
from attention.verify import Verdict, verify
from dashboard import (
    cached,
    chart,
    controls,
    counts_panel,
    heatmap,
    lesson,
    presets,
    step_picture,
    tables,
    take_home,
    verdict_panel,
)
from dashboard.fragments import MORE, PICTURE, VERDICT
from dashboard.heatmap import Look, Says
from dashboard.lesson import Lesson

KEY: Final = "head_counts"
FIRST: Final = (1, 2, 4)
LESSON: Final = Lesson(
    title="How many heads",
    lead="The same tokens and the same projections, cut into more and narrower heads. Their scores add up to those of "
    "one head; each head has a softmax of its own:",
    equation=r"\textstyle\sum_h Q_h K_h^{\top} = Q K^{\top}",
    tries=(
        "Move **Heads**: the last picture follows. Parameters and multiplications stay what they are.",
        "Turn **Causal** off: the mean entropy rises, since the early queries see more keys.",
        "Set **Embed dim** to 16 and **Heads** to 16: heads of width 1 still differ, each by one number a token.",
    ),
    code=(
        multi_head.split_heads,
        multi_head.attend,
        scaled_dot_product.scaled_dot_product,
        scaled_dot_product.softmax_over_allowed,
        scaled_dot_product.softmax,
        counting.describe,
        counting.entropy,
        counting.head_distances,
        counting.matmul_flops,
    ),
    presets=(presets.TWELVE_HEADS,),
    has_more=True,
)
PAIRS: Final = heatmap.Words("head", "head", ("head", "and head", ""), "pictures", "distance, 0 to 1")


def shown(config: AttentionConfig) -> tuple[AttentionConfig, ...]:
    """The scenes side by side: 1, 2 and 4 heads where they divide, and as many as the reader asks for."""
    divide = head_counts(config.embed_dim)
    counts = sorted({*(count for count in FIRST if count in divide), config.num_heads})
    return tuple(replace(config, num_heads=count) for count in counts)


def weights(config: AttentionConfig) -> heatmap.Picture:
    """All heads of one scene."""
    return step_picture.of_heads(config, attend_as_configured(config))


def pairs(config: AttentionConfig) -> heatmap.Picture:
    """How different each pair of heads looks."""
    title = f"distance of each pair of {config.num_heads} heads"
    return step_picture.of_step("weights", [distances_of(config)], [title], config, None, PAIRS)


line = lesson.begin(LESSON)


@st.fragment(key=PICTURE)
def picture() -> None:
    """The heads under each count."""
    asked = controls.asked()
    line.begin((KEY, asked.config))
    scenes = shown(asked.config)
    places = [place for _ in range(0, len(scenes), 2) for place in st.columns(2, gap="medium")]
    for i, (config, place) in enumerate(zip(scenes, places, strict=False)):
        with place:
            st.markdown(counts_panel.heading(config))
            heatmap.show(
                cached.picture("heads", config, partial(weights, config)),
                Look(scale=asked.look.scale, curve=asked.look.curve),
                f"The weights of {config.num_heads} heads over {config.num_tokens} tokens.",
                key=f"{KEY}_{i}",
                says=Says(hint="", tallest=340),
            )


@st.fragment(key=MORE)
def numbers() -> None:
    """Every head count that divides, in numbers."""
    asked = controls.asked()
    config = asked.config
    described: tuple[HeadStatistics, ...] = cached.facts(
        "statistics", replace(config, num_heads=1), lambda: describe_all(config)
    )
    gap = cached.facts("score gap", config, lambda: score_gap(config))
    lesson.put(tables.html(counts_panel.table(described, config, gap), kind="counts"))
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown("**Entropy of each head, mean over its queries**")
        chart.show(
            counts_panel.entropies(described, config),
            counts_panel.entropies_in_words(described),
            key=f"{KEY}_entropy",
            identity=cached.identity(config, "entropy"),
        )
    with right:
        heatmap.show(
            cached.picture("pairs", config, lambda: pairs(config)),
            Look(curve="linear"),
            f"How different each pair of the {config.num_heads} heads looks, from 0 to 1.",
            key=f"{KEY}_pairs",
            says=Says("Half the sum of |w − w′| over a row, the mean over rows.", tallest=320),
        )


@st.fragment(key=VERDICT)
def verdict() -> None:
    """The verdict on every scene in the pictures; the table is of the reader's own, or of the first that differs."""
    verdict_panel.pause()
    asked = controls.asked()

    def judge(config: AttentionConfig) -> Verdict:
        return cached.verdict(KEY, config, asked.tolerance, lambda: verify(config, asked.tolerance))

    found = {scene: judge(scene) for scene in shown(asked.config)}
    first = next((scene for scene, one in found.items() if not one.scene_equal), asked.config)
    lesson.judged(line, (KEY, asked.config), found[first], asked.config)
    st.caption(f"The table is of {first.num_heads} heads. {counts_panel.verdicts(found)}")
    take_home.draw(first, found[first])


picture()
st.header("What changes with the count, and what stays", anchor=False)
numbers()
lesson.end(LESSON, verdict)
