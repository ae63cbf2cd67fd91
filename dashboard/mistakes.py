"""What is broken on the page of mistakes: its controls, the quiz's question, the step and the cell on screen.

The step and the cell are in the URL only once the reader has picked them: until then the page shows the first step
that is broken, at its worst cell.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import streamlit as st

from attention import multi_head
from attention.block import PRE_NORM
from attention.bugs.catalogue import BUGS, Bug, joined
from attention.bugs.pieces import BlockPieces
from attention.bugs.quiz import question
from attention.config import AttentionConfig
from attention.scenes import with_random_weights
from attention.verify_block import BlockConfig
from dashboard.fragments import PICTURE, VERDICT, rerun
from dashboard.heatmap import Cell
from dashboard.link import Parameter, cell, one_of, whole_number

QUIZZES: Final = ("off", "attention", "block")
BY_NAME: Final = {bug.name: bug for bug in BUGS}
NO_SECOND: Final = "none"
LAST_QUESTION: Final = 999  # that a link may ask for

_URL: Final = "query-params"
_MISTAKES: Final = "_mistakes"


@dataclass(frozen=True)
class Mistakes:
    """What is broken on the page of mistakes: one, or one and a second; `number` is that of the quiz's question."""

    first: Bug
    second: Bug | None
    in_block: bool
    scene: AttentionConfig | BlockConfig
    number: int | None = None

    @property
    def name(self) -> str:
        """What tells these mistakes from others, and gives none away that is asked for."""
        if self.number is not None:
            return f"question {self.number} of {'block' if self.in_block else 'attention'}"
        return self.first.key + (f" with {self.second.key}" if self.second else "")

    @property
    def both(self) -> tuple[Bug, ...]:
        """The mistakes that are made."""
        return (self.first, self.second) if self.second else (self.first,)

    @property
    def pieces(self) -> BlockPieces:
        """What the attention, or the block, is made of."""
        return joined(self.first, self.second)


def cell_at() -> Cell | None:
    """The cell that the reader looks at, or None for the worst."""
    return cell(st.query_params.get("at", ""))


def keep_cell(clicked: str, head: int) -> None:
    """Keep a cell that was clicked ("tile-row-column") in the URL, with the head that it is of."""
    if found := cell(clicked):
        st.query_params["at"] = f"{head}-{found.query}-{found.key}"
    else:
        st.query_params.pop("at", None)


def worst_again(*names: str) -> None:
    """Forget the cell ("at"), or the step ("at_step"), that the reader has picked."""
    for name in names:
        st.query_params.pop(name, None)


def asked(scene: AttentionConfig) -> Mistakes:
    """What is asked of the page of mistakes. One of a block needs a block; of blocks there is one."""
    state = st.session_state
    first, second, number = BY_NAME[state["mistake"]], BY_NAME.get(state["second"]), None
    second = None if second is first else second
    in_block = first.of_block or (second is not None and second.of_block)
    if state.get("quiz", "off") != "off":
        number, in_block = int(st.query_params.get("question", "1")), state["quiz"] == "block"
        first, second = question(in_block, number - 1), None
    config = BlockConfig(with_random_weights(scene), 1, state.get("norm") == "pre", state.get("activation", "gelu"))
    return Mistakes(first, second, in_block, config if in_block else scene, number)


def draw(kind_of_block: Callable[[], None]) -> None:
    """Draw the quiz's switch and both mistakes; `kind_of_block` draws what only a block has."""

    @st.fragment(key=_MISTAKES)
    def fields() -> None:
        state = st.session_state
        quiz = st.segmented_control(
            "Quiz", QUIZZES, default="off", required=True, key="quiz", bind=_URL,
            help="A hidden mistake: find it by what it does, in an attention or in a block.",
            on_change=take_mistake,
        )  # fmt: skip
        if quiz == "off":
            st.selectbox("Mistake", tuple(BY_NAME), key="mistake", bind=_URL, on_change=take_mistake)
            st.selectbox("And a second", (NO_SECOND, *BY_NAME), key="second", bind=_URL, on_change=take_mistake)
        else:
            for key in ("mistake", "second"):  # kept while nobody draws them
                state[key] = state[key]
        if asked(AttentionConfig()).in_block:  # whichever scene
            kind_of_block()

    st.session_state.setdefault("mistake", next(iter(BY_NAME)))
    st.session_state.setdefault("second", NO_SECOND)
    fields()


def take_mistake() -> None:
    """Another mistake: the page opens on the first step that it breaks, at its worst cell."""
    worst_again("at", "at_step")
    rerun(PICTURE, _MISTAKES, VERDICT)()


PARAMETERS: Final[dict[str, Parameter]] = {
    "quiz": Parameter(one_of(*QUIZZES), kept=True),
    "mistake": Parameter(one_of(*BY_NAME), kept=True),
    "second": Parameter(one_of(NO_SECOND, *BY_NAME), kept=True),
}
# what was clicked: no widget holds it
CLICKED: Final[dict[str, Parameter]] = {
    "question": Parameter(whole_number(1, LAST_QUESTION)),
    "at": Parameter(lambda text: cell(text) is not None),
    "at_step": Parameter(one_of(*PRE_NORM, *multi_head.STEPS)),
}
