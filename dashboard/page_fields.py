"""The controls that stand on the pages themselves, beside what they choose from, bound to the URL like all others."""

from typing import Final

import streamlit as st

from attention.block import PRE_NORM
from attention.compare import Tolerance
from attention.comparing import COMPARED
from attention.config import AttentionConfig
from attention.differing_calls import PAIR_NAMES, PAIRS
from attention.mask_config import MaskConfig
from attention.mask_lessons import NUMBERS
from attention.multi_head import STEPS as ATTENTION_STEPS
from attention.single_head import STEPS
from attention.verify_block import MAX_DEPTH, BlockConfig
from dashboard.fragments import PICTURE, VERDICT, rerun
from dashboard.link import Parameter, keep_in_url, one_of, say, whole_number

POWERS: Final = ("0", *(f"1e-{n}" for n in range(12, 0, -1)))
LOUDNESS: Final = (1, 3, 10, 30, 100, 300, 1000)
QUESTIONS: Final = ("row", "mask")
WITHIN: Final = ("0.001", "0.01", "0.02", "0.05", "0.1", "0.2")
FEWEST_SEEDS: Final = 10
MOST_SEEDS: Final = 500

_URL: Final = "query-params"


def which_head(scene: AttentionConfig) -> int:
    """Draw the field for the head that a page shows, on the page; the last head where there are not so many."""
    return _place("Head", "of_head", scene.num_heads - 1)


def shown_head(scene: AttentionConfig) -> int:
    """The head that `which_head` says."""
    return min(int(st.session_state.get("of_head", 0)), scene.num_heads - 1)


def which_block(config: BlockConfig) -> int:
    """Draw the field for the block that a page looks into, on the page; the last where there are not so many."""
    return _place("Block", "of_block", config.depth - 1)


def shown_block(config: BlockConfig) -> int:
    """The block that `which_block` says."""
    return min(int(st.session_state.get("of_block", 0)), config.depth - 1)


def which_row(mask: MaskConfig) -> int:
    """Draw the field for the query whose row a page asks for, on the page; the last where there are not so many."""
    return _place("Query", "of_query", mask.num_queries - 1, usual=3)


def _place(label: str, key: str, last: int, usual: int = 0) -> int:
    """Draw a field from 0 to the last, if there is more than one."""
    if last == 0:  # a field needs two ends
        return 0
    usual = min(usual, last)
    say(key, min(st.session_state.get(key, usual), last))
    options = rerun(PICTURE, VERDICT)
    return int(st.number_input(label, 0, last, usual, key=key, bind=_URL, width=160, on_change=options))


def question() -> str:
    """Draw what is asked for, on the page: one of `QUESTIONS`."""
    keep_in_url("ask")
    options = rerun(PICTURE, VERDICT)
    return str(
        st.segmented_control(
            "Fill in", QUESTIONS, default=QUESTIONS[0], required=True, key="ask", bind=_URL, on_change=options
        )
    )


def within() -> float:
    """Draw how far a predicted weight may be off, on the page."""
    keep_in_url("within")
    hint = "How far a weight may be off and still count as right."
    return float(st.select_slider("Right within", WITHIN, value="0.05", key="within", bind=_URL, help=hint))


def closeness() -> Tolerance:
    """Draw rtol and atol of `torch.allclose` in powers of ten, on the page; they begin at its own defaults."""
    keep_in_url("close_rtol", "close_atol")
    left, right = st.columns(2, gap="large")
    rtol = left.select_slider("rtol of allclose", POWERS, value="1e-5", key="close_rtol", bind=_URL)
    atol = right.select_slider("atol of allclose", POWERS, value="1e-8", key="close_atol", bind=_URL)
    return Tolerance(rtol=float(rtol), atol=float(atol))


def pass_rates() -> tuple[str, int]:
    """Draw what the curve is of, on the page: a step, and how many seeds."""
    keep_in_url("pass_step", "pass_seeds")
    left, right = st.columns(2, gap="large")
    step = left.select_slider("Step", ATTENTION_STEPS, value="output", key="pass_step", bind=_URL)
    return step, int(right.slider("Seeds", FEWEST_SEEDS, MOST_SEEDS, 40, 10, key="pass_seeds", bind=_URL))


def which_difference() -> tuple[str, str]:
    """Draw the fields for the switch and for the pair of calls that show it, on the page; returns both."""
    state, topics = st.session_state, tuple(PAIRS)
    say("difference", state.get("difference", topics[0]))
    left, right = st.columns([1, 3])
    topic = left.selectbox("Switch", topics, key="difference", bind=_URL, on_change=rerun(PICTURE, VERDICT))
    names = [pair.name for pair in PAIRS[topic]]
    if len(names) == 1:
        return topic, names[0]
    say("pair", state["pair"] if state.get("pair") in names else names[0])
    options = rerun(PICTURE, VERDICT)
    pair = right.segmented_control("Calls", names, required=True, key="pair", bind=_URL, on_change=options)
    return topic, str(pair)


def shown_difference() -> tuple[str, str]:
    """The switch and the pair of calls that `which_difference` says."""
    state = st.session_state
    topic = str(state["difference"])
    names = [pair.name for pair in PAIRS[topic]]
    return topic, str(state["pair"]) if state.get("pair") in names else names[0]


PARAMETERS: Final[dict[str, Parameter]] = {
    "block_step": Parameter(one_of(*PRE_NORM), kept=True),
    "compare_step": Parameter(one_of(*COMPARED), kept=True),
    "of_block": Parameter(whole_number(0, MAX_DEPTH), int, kept=True),
    "difference": Parameter(one_of(*PAIRS), kept=True),
    "pair": Parameter(one_of(*PAIR_NAMES), kept=True),
    "step": Parameter(one_of(*STEPS), kept=True),
    "of_head": Parameter(whole_number(0, 9999), int, kept=True),
    "of_query": Parameter(whole_number(0, 9999), int, kept=True),
    "ask": Parameter(one_of(*QUESTIONS), kept=True),
    "within": Parameter(one_of(*WITHIN), kept=True),
    "number": Parameter(one_of(*NUMBERS[1:]), kept=True),
    "loudness": Parameter(one_of(*map(str, LOUDNESS)), int, kept=True),
    "close_rtol": Parameter(one_of(*POWERS), kept=True),
    "close_atol": Parameter(one_of(*POWERS), kept=True),
    "pass_step": Parameter(one_of(*ATTENTION_STEPS), kept=True),
    "pass_seeds": Parameter(whole_number(FEWEST_SEEDS, MOST_SEEDS), int, kept=True),
}
