"""Break it: a mistake on a switch, the first step that it breaks, and what gave it away; or a quiz of them."""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Final

import streamlit as st
from torch import Tensor, float64

from attention import multi_head
from attention.block import POST_NORM, PRE_NORM
from attention.bugs import pieces
from attention.bugs.caught import both_with, first_step, verify_with
from attention.compare import Check, compare
from attention.multi_head import allowed_by, matrix
from attention.properties import properties
from attention.scenes import config_of
from attention.tensors import with_mistake
from attention.verify import MATHS, Trace, Verdict, report
from attention.verify_block import BlockConfig
from dashboard import (
    break_panel,
    cached,
    controls,
    further,
    heatmap,
    lesson,
    link,
    quiz_panel,
    step_picture,
    tables,
    take_home,
    verdict_panel,
)
from dashboard.fragments import MORE, PICTURE, VERDICT, rerun
from dashboard.heatmap import Cell, Look, Picture, Says
from dashboard.lesson import Lesson
from dashboard.mistakes import Mistakes, cell_at, keep_cell, worst_again
from dashboard.mistakes import asked as mistakes_asked

KEY: Final = "break_it"
LESSON: Final = Lesson(
    title="Break it",
    lead="A green light is worth what it can catch. Put a mistake into the attention, or into a block around it: the "
    "first step that differs from PyTorch's is named, and shown at its worst cell.",
    tries=(
        "Choose **Mask after the softmax**, then the same **divided by the row's sum**: only one of them is wrong.",
        "Choose **Softmax without its maximum**: every number here is right, and only the fixed probe catches it.",
        "Set **Tokens** to 1 or **Heads** to 1 and look what the note under the verdict says.",
        "Turn the **Quiz** on: one mistake is hidden, and you find it.",
    ),
    code=(pieces.attend, pieces.run_block, both_with, verify_with),
    has_more=True,
)


def asked() -> Mistakes:
    """What is broken, in which scene."""
    return mistakes_asked(controls.asked().config)


def steps_of(mistakes: Mistakes) -> tuple[str, ...]:
    """The steps of the scene."""
    if not isinstance(mistakes.scene, BlockConfig):
        return multi_head.STEPS
    return PRE_NORM if mistakes.scene.norm_first else POST_NORM


line = lesson.begin(LESSON)
held: cached.Held[tuple[Trace, Trace]] = cached.Held()


def both(mistakes: Mistakes) -> tuple[Trace, Trace]:
    """Ours, with the mistake, and PyTorch's."""
    made = partial(both_with, mistakes.scene, mistakes.pieces)
    return held.hold((mistakes.scene, mistakes.name), made)


def first_broken(mistakes: Mistakes) -> str:
    """The first step that differs in float64; where none does, the one that the mistake is about.

    A quiz then shows the last step: that of the mistake would give it away.
    """

    def found() -> str | None:
        return first_step(report(*both_with(mistakes.scene, mistakes.pieces, float64), MATHS))

    config = mistakes.scene
    own = mistakes.first.first_step(config.norm_first if isinstance(config, BlockConfig) else None)
    if mistakes.number is not None:
        own = steps_of(mistakes)[-1]
    return cached.facts(f"first step of {mistakes.name}", config, found) or own


def step_picked(mistakes: Mistakes, broken: str) -> str:
    """The step on screen: the first broken one, until the reader picks another."""
    steps, picked = steps_of(mistakes), st.query_params.get("at_step", "")
    link.say("_at_step", picked if picked in steps else broken)
    return st.select_slider("Step", steps, key="_at_step", on_change=take_step)


def take_step() -> None:
    """Keep the step that was picked in the URL, and go to its worst cell."""
    st.query_params["at_step"] = st.session_state["_at_step"]
    to_the_worst()


def to_the_worst() -> None:
    """Look at the worst cell."""
    worst_again("at")
    rerun(PICTURE)()


def cell_picked(check: Check, shape: tuple[int, ...]) -> Cell:
    """The cell on screen: the worst, until the reader picks another that this step has."""
    _, *rest = shape
    picked = cell_at()
    if picked and picked.query < rest[-2] and picked.key < rest[-1] and (len(rest) == 2 or picked.head < rest[0]):
        return picked
    worst = (check.worst or (0,) * len(shape))[1:]
    return Cell(*worst) if len(worst) == 3 else Cell(0, *worst)


def take_cell(head: int, key: str) -> None:
    """Keep the cell that was clicked in the URL."""
    keep_cell(heatmap.clicked(key), head)


@st.fragment(key=PICTURE)
def picture() -> None:
    """One step of ours and of PyTorch's, and how far they are apart, at the worst cell."""
    mistakes = asked()
    line.begin((KEY, mistakes.name, mistakes.scene))
    if mistakes.number is None:
        for bug in mistakes.both:
            st.markdown(break_panel.said(bug))
    else:
        quiz_panel.draw(mistakes)
    left, middle, right = st.columns([5, 1, 2], vertical_alignment="bottom")
    with left:
        step = step_picked(mistakes, first_broken(mistakes))
    ours, pytorch = (attrgetter(step)(trace) for trace in both(mistakes))
    tolerance = controls.asked().tolerance
    check = compare(step, ours, pytorch, tolerance)
    at = cell_picked(check, ours.shape)
    if ours.ndim == 4 and ours.shape[1] > 1:
        link.say("_at_head", at.head)
        middle.number_input("Head", 0, ours.shape[1] - 1, key="_at_head", on_change=take_head, args=(at,))
    right.button("To the worst cell", icon=":material/my_location:", on_click=to_the_worst, key="_worst")
    show_step(mistakes, step, (ours, pytorch), at, check)


def take_head(at: Cell) -> None:
    """Look at another head, at the same cell."""
    keep_cell(f"0-{at.query}-{at.key}", st.session_state["_at_head"])
    rerun(PICTURE)()


def show_step(mistakes: Mistakes, step: str, both: tuple[Tensor, Tensor], at: Cell, check: Check) -> None:
    """Both pictures of a step, and the numbers of the cell below them."""
    config = mistakes.scene
    two = [matrix(tensor, at.head) for tensor in both]
    hatched = allowed_by(config_of(mistakes.scene)) if step.endswith(("masked", "weights")) else None
    note = f"{mistakes.name} head {at.head}"

    def packed() -> Picture:
        titles = [f"{side}: {step_picture.size(two[0])}" for side in ("ours", "PyTorch's")]
        return step_picture.of_step(step, two, titles, config, hatched, note=note)

    def difference() -> Picture:
        return step_picture.of_difference(step, two[0], two[1], config, hatched, note)

    look, pin = controls.asked().look, Cell(0, at.query, at.key)
    pictures: tuple[tuple[str, Callable[[], Picture], str], ...] = (
        (KEY, packed, f"The step {step}, ours and PyTorch's."),
        (f"{KEY}_apart", difference, f"How far ours and PyTorch's are apart at {step}, by powers of ten."),
    )
    for (key, make, summary), place in zip(pictures, st.columns([2, 1], gap="small"), strict=True):
        with place:
            heatmap.show(
                cached.picture(f"{key} {step} {note}", config, make),
                Look(scale=look.scale, curve=look.curve, pin=pin) if key == KEY else Look(pin=pin),
                summary,
                key=key,
                says=Says("Click a cell for its numbers.", "its numbers below", 380),
                on_pin=partial(take_cell, at.head, key),
            )
    ours, pytorch = (tensor[at.query, at.key].item() for tensor in two)
    st.markdown(break_panel.cell(step, check, at, both[0].ndim == 4, ours, pytorch, config))


@st.fragment(key=MORE)
def more() -> None:
    """Every head under the mistake, what gave it away, and the right code beside the wrong."""
    mistakes = asked()
    config, attention = mistakes.scene, config_of(mistakes.scene)
    st.header("Every head, with the mistake", anchor=False)

    def heads() -> Picture:
        ours, _ = both_with(config, mistakes.pieces)
        weights = attrgetter("attention.weights" if mistakes.in_block else "weights")(ours)
        titles = [f"head {head}" for head in range(weights.shape[1])]
        allowed = allowed_by(attention)
        return step_picture.of_step("weights", list(weights[0]), titles, config, allowed, note=mistakes.name)

    look = controls.asked().look
    heatmap.show(
        cached.picture(f"heads {mistakes.name}", config, heads),
        Look(scale=look.scale, curve=look.curve),
        "The weights of every head, with the mistake in them.",
        key=f"{KEY}_heads",
        says=Says(tallest=420),
    )
    st.header("What gave it away", anchor=False)
    found = cached.facts(
        f"properties of {mistakes.name}", attention, lambda: properties(attention, mistakes.pieces.attention)
    )
    lesson.put(tables.html(further.of_properties(found), kind="claims"))
    if all(one.holds for one in found):
        st.markdown("All of it holds, mistake or not: only the comparison with PyTorch tells.")
    elif all(bug.right for bug in mistakes.both):
        st.markdown(
            "No mistake all the same: the numbers are right up to rounding. But the softmax ran over later tokens too, "
            "so the last bits of earlier outputs move with them."
        )
    if mistakes.number is None or quiz_panel.is_solved(mistakes):
        beside(mistakes)


def beside(mistakes: Mistakes) -> None:
    """The right code beside the wrong, of each mistake."""
    st.header("The code, right and wrong", anchor=False)
    for bug in mistakes.both:
        for correct, wrong in bug.swaps:
            sides = ("✓ the usual way", correct), (f"{'✓' if bug.right else '✗'} {bug.name}", wrong)
            for place, (title, piece) in zip(st.columns(2), sides, strict=True):
                place.markdown(title)
                place.code(break_panel.code(piece), language="python", wrap_lines=True)


@st.fragment(key=VERDICT)
def verdict() -> None:
    """The verdict on the scene with the mistake in it."""
    verdict_panel.pause()
    mistakes, tolerance = asked(), controls.asked().tolerance
    held.let_go(None)

    def judged() -> Verdict:
        return verify_with(mistakes.scene, mistakes.pieces, tolerance)

    found = cached.verdict(f"broken by {mistakes.name}", mistakes.scene, tolerance, judged)
    lesson.judged(line, (KEY, mistakes.name, mistakes.scene), found, mistakes.scene)
    made = partial(with_mistake, pieces=mistakes.pieces)
    take_home.draw(mistakes.scene, found, made, mistakes.name, break_panel.reported(mistakes))


picture()
more()
lesson.end(LESSON, verdict)
