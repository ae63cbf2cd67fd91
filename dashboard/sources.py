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
    """Show it."""
    st.code(text(), language="python")
