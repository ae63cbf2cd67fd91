"""What this visitor trains: which run of the settings on screen is theirs, to begin, to stop, and to begin anew."""

from typing import Final

import streamlit as st

from attention.trained import TrainConfig
from dashboard import training
from dashboard.training import Take, visitor

_WANTED: Final = "_wanted"
_ANEW: Final = "_anew"


def take_of(config: TrainConfig) -> Take:
    """The run of these settings that this visitor sees: the one that all share, unless it was begun anew."""
    own: Take | None = st.session_state.get(_ANEW)
    return own if own and own.config == config else Take(config)


def is_wanted(take: Take) -> bool:
    """Whether this visitor has asked for it, and not stopped it."""
    return bool(st.session_state.get(_WANTED) == take)


def start(take: Take) -> None:
    """Want it, and nothing that was wanted before."""
    stop()
    st.session_state[_WANTED] = take
    training.RUNS.join(take, visitor())


def stop() -> None:
    """Want nothing any more."""
    if before := st.session_state.pop(_WANTED, None):
        training.RUNS.leave(before, visitor())


def anew(take: Take) -> None:
    """Begin anew, at step 0: with a run of one's own, since others may look at this one."""
    stop()
    number = take.number + 1
    st.session_state[_ANEW] = Take(take.config, visitor(), number)
