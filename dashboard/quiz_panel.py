"""The quiz: the question, the reader's guess, what it came to, and the score."""

import streamlit as st

from attention.bugs.catalogue import BUGS
from attention.bugs.quiz import Judged, judge, questions
from dashboard import break_panel, cached
from dashboard.fragments import PICTURE, VERDICT, rerun
from dashboard.mistakes import BY_NAME, LAST_QUESTION, Mistakes, worst_again


def draw(mistakes: Mistakes) -> None:
    """The question, the reader's guess, and what it came to."""
    assert mistakes.number is not None
    asked_for = questions(mistakes.in_block)
    options = [bug.name for bug in BUGS if bug in asked_for]
    score = st.session_state.setdefault("_score", {})
    right = sum(score.values())
    what = "block" if mistakes.in_block else "attention"
    st.markdown(
        f"**Question {mistakes.number}.** One of {len(options)} mistakes is hidden in this {what}. Which? "
        f"{f'So far {right} of {len(score)} right at the first guess.' if score else ''}"
    )
    place, answer, other = st.columns([3, 1, 1], vertical_alignment="bottom")
    guess = place.selectbox("Your guess", options, index=None, placeholder="Choose a mistake", key="_guess")
    answer.button("Answer", type="primary", on_click=take_answer, args=(mistakes,), width="stretch")
    following = mistakes.number % LAST_QUESTION + 1
    other.button("Next question", on_click=take_next, args=(following,), width="stretch")
    answered = st.session_state.get("_answered")
    if answered and guess and answered == (mistakes.name, mistakes.scene, guess):
        st.markdown(break_panel.why(mistakes.first, judged(mistakes, guess), BY_NAME[guess]))


def judged(mistakes: Mistakes, guess: str) -> Judged:
    """What a guess comes to."""
    name, scene = f"{mistakes.name}: {guess}", mistakes.scene
    return cached.facts(name, scene, lambda: judge(scene, mistakes.first, BY_NAME[guess]))


def take_answer(mistakes: Mistakes) -> None:
    """Judge the guess; only the first of a question counts."""
    state = st.session_state
    if guess := state.get("_guess"):
        state["_answered"] = mistakes.name, mistakes.scene, guess
        right = judged(mistakes, guess).right
        state["_score"].setdefault(mistakes.name, right)
        if right:
            state["_solved"] = mistakes.name
    rerun(PICTURE)()


def take_next(number: int) -> None:
    """Another question."""
    st.query_params["question"] = str(number)
    worst_again("at", "at_step")
    st.session_state["_guess"] = None
    rerun(PICTURE, VERDICT)()


def is_solved(mistakes: Mistakes) -> bool:
    """Whether the reader has found the mistake that is asked for."""
    return bool(st.session_state.get("_solved") == mistakes.name)
