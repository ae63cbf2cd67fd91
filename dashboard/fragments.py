"""The fragments that every page has, and the callback by which a control runs only those that depend on it.

The picture first. A control that another has moved comes before the verdict, which may take long: until it is drawn
again, the page would send its old value with the reader's next change. The field of the seed alone comes last, since
drawing it costs the browser as much as the picture; `controls` knows what it was last told.
"""

from collections.abc import Callable
from typing import Final

import streamlit as st

# in the order in which they run
PICTURE: Final = "picture"
VERDICT: Final = "verdict"
# of pages that have more to show than one picture
MORE: Final = "more"

_HAS_MORE: Final = "_has_more"


def begin_page(has_more: bool) -> None:
    """Say whether the page that is being drawn has the fragment MORE: it then depends on every control."""
    st.session_state[_HAS_MORE] = has_more


def rerun(*fragments: str) -> Callable[[], None]:
    """A callback that runs these fragments again, and nothing else."""

    def run() -> None:
        more = [MORE] if st.session_state.get(_HAS_MORE) else []
        st.rerun([*fragments, *more])

    return run
