"""The code that ran: the source of the functions behind a picture."""

import inspect
from functools import cache

import streamlit as st

from attention import masks, multi_head, sample, scaled_dot_product


@cache
def text() -> str:
    """The functions from the seed to the output, in the order in which they ran."""
    functions = (
        sample.draw_tokens,
        sample.draw_parameters,
        sample._draw,
        masks.causal,
        multi_head.attend,
        multi_head.project,
        multi_head.split_heads,
        scaled_dot_product.scaled_dot_product,
        scaled_dot_product.softmax_over_allowed,
        scaled_dot_product.softmax,
    )
    return "\n\n".join(inspect.getsource(function) for function in functions)


def draw() -> None:
    """Show it, once the reader asks: a closed expander with the code in it would slow every change."""
    expander = st.expander("The code that ran", icon=":material/code:", key="code", on_change="rerun")
    if expander.open:
        expander.code(text(), language="python")
