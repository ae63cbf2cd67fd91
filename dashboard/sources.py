"""The code that ran: the source of the functions behind a picture."""

import inspect
from collections.abc import Callable, Sequence
from functools import cache

import streamlit as st

Code = Callable[..., object] | type


@cache
def text(code: tuple[Code, ...]) -> str:
    """The source of functions and classes, one after the other."""
    return "\n\n".join(inspect.getsource(piece) for piece in code)


def draw(code: Sequence[Code]) -> None:
    """Show it, once the reader asks: a closed expander with the code in it would slow every change."""
    expander = st.expander("The code that ran", icon=":material/code:", key="code", on_change="rerun")
    if expander.open:
        expander.code(text(tuple(code)), language="python", wrap_lines=True)
