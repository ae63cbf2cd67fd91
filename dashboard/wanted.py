"""What this visitor wants to be computed: one run of each kind, to begin and to stop; and a training to begin anew."""

from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

import streamlit as st

from attention.trained import TrainConfig
from dashboard import sweeping, training
from dashboard.runs import Runs
from dashboard.training import Take, visitor

Config = TypeVar("Config", bound=Hashable)

_ANEW: Final = "_anew"


class Wanted(Generic[Config]):
    """The run of one kind that a visitor wants.

    Args:
        key: that of the session's state.
        runs: tells the runs of this kind.
    """

    def __init__(self, key: str, runs: Callable[[], Runs[Config, Any]]) -> None:
        self._key, self._runs = key, runs

    def has(self, config: Config) -> bool:
        """Whether this visitor has asked for it, and not stopped it."""
        return bool(st.session_state.get(self._key) == config)

    def start(self, config: Config) -> None:
        """Want it, and nothing that was wanted before."""
        self.stop()
        st.session_state[self._key] = config
        self._runs().join(config, visitor())

    def stop(self) -> None:
        """Want nothing any more."""
        if before := st.session_state.pop(self._key, None):
            self._runs().leave(before, visitor())


TRAINING: Final[Wanted[Take]] = Wanted("_wanted", lambda: training.RUNS)
SWEEP: Final = Wanted("_swept", lambda: sweeping.SWEEPS)


def take_of(config: TrainConfig) -> Take:
    """The run of these settings that this visitor sees: the one that all share, unless it was begun anew."""
    own: Take | None = st.session_state.get(_ANEW)
    return own if own and own.config == config else Take(config)


def anew(take: Take) -> None:
    """Begin anew, at step 0: with a run of one's own, since others may look at this one."""
    TRAINING.stop()
    st.session_state[_ANEW] = Take(take.config, visitor(), take.number + 1)
