"""The package as a whole: what importing it brings along, its examples, and its masks where shapes are not checked."""

import doctest
import importlib
import pkgutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch
from jaxtyping import TypeCheckError

import attention
from attention import masks
from attention.scaled_dot_product import scaled_dot_product
from tests.attention.conftest import SHAPED

MODULES = [module.name for module in pkgutil.walk_packages(attention.__path__, "attention.")]


def fresh(script: str) -> str:
    """What a script prints in a process of its own, where no hook checks shapes."""
    root = Path(attention.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_it_brings_neither_streamlit_nor_plotly() -> None:
    script = f"""
import importlib, sys
for name in {MODULES!r}:
    importlib.import_module(name)
print(sorted({{name.partition(".")[0] for name in sys.modules}} & {{"streamlit", "plotly", "dashboard", "attention"}}))
"""
    assert fresh(script) == "['attention']"


def test_what_it_offers_is_there() -> None:
    assert len(attention.__all__) == len(set(attention.__all__)) == 6
    for name in attention.__all__:
        assert getattr(attention, name).__doc__


def test_shapes_are_checked_while_these_tests_run() -> None:
    q, k = torch.zeros(1, 1, 2, 3), torch.zeros(1, 1, 2, 5)
    with pytest.raises(TypeCheckError, match=r"f32\[1,1,2,5\]"):
        scaled_dot_product(q, k, q, masks.grid(masks.full, 2))
    with_shapes = {name for name in MODULES if "jaxtyping" in source(name)}
    assert with_shapes == set(SHAPED)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_right(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert failed == 0
    assert tried == source(name).count(">>>")


def source(name: str) -> str:
    return Path(importlib.import_module(name).__file__ or "").read_text(encoding="utf-8")


MASKS = {
    "torch.ones(6, 6).tril().bool()": "masked",
    "torch.ones(6, 6).tril()": "refused",  # M07: ones and zeros would only shift the scores
    "torch.ones(6, 6).tril().long()": "refused",  # M30
    "torch.ones(4, 4).tril().bool()": "refused",  # S14
    "torch.ones(1, 1).tril().bool()": "refused",  # S14: broadcast over six, it would mask nothing
}
SCRIPT = f"""
import torch
from attention.scaled_dot_product import scaled_dot_product
x = torch.arange(18.0).view(1, 1, 6, 3)
for mask in {list(MASKS)}:
    try:
        weights = scaled_dot_product(x, x, x, eval(mask)).weights
    except ValueError:
        print("refused")
    else:
        print("masked" if weights.triu(1).eq(0).all() else "not masked")
"""


@cache
def what_masks_do() -> dict[str, str]:
    return dict(zip(MASKS, fresh(SCRIPT).splitlines(), strict=True))


@pytest.mark.parametrize("mask", MASKS)
def test_a_mask_that_does_not_fit_is_refused(mask: str) -> None:
    assert what_masks_do()[mask] == MASKS[mask]


# what a reader may type, and what is said; tokens are 4 wide, six of them
REFUSED = {
    # S11: one sequence without its batch axis is never taken for another picture
    "CausalAttention(4, 2, 8, 0.0)(x[0])": "the tokens are (6, 4); they must be (sequences, tokens, 4).",
    "MultiHeadAttentionWrapper(4, 2, 8, 0.0, 2)(x[0])": "the tokens are (6, 4); they must be (sequences, tokens, 4).",
    "MultiHeadAttention(4, 6, 8, 0.0, 2)(x[0])": "the tokens are (6, 4); they must be (sequences, tokens, 4).",
    "SelfAttention(4, 2)(x[0])": "the tokens are (6, 4); they must be (sequences, tokens, 4).",
    "TransformerBlock(4, 2)(x[0])": "the tokens are (6, 4); they must be (sequences, tokens, 4).",
    "TransformerBlock(4, 2, norm_first=True)(x[0])": "the tokens are (6, 4); they must be (sequences, tokens, 4).",
    "CausalAttention(4, 2, 8, 0.0)(x[0, 0])": "the tokens are (4,); they must be (sequences, tokens, 4).",
    # S07: a number of heads that is none
    "MultiHeadAttention(4, 4, 8, 0.0, 2.0)": "num_heads is 2.0; it must be a whole number.",
    "MultiHeadAttentionWrapper(4, 4, 8, 0.0, 2.0)": "num_heads is 2.0; it must be a whole number.",
    "TransformerBlock(4, 2.0)": "num_heads is 2.0; it must be a whole number.",
    "SelfAttention(4, 2.0)": "head_dim is 2.0; it must be a whole number from 1 up.",
    # S14, M07, M30: a mask for fewer tokens, and masks of numbers
    "TransformerBlock(4, 2)(x, causal[:4, :4])": "the mask is (4, 4); it must end in (6, 6), queries by keys.",
    "TransformerStack(2, 4, 2)(x, causal[:1, :1])": "the mask is (1, 1); it must end in (6, 6), queries by keys.",
    "SelfAttention(4, 2)(x, causal[:1, :1])": "the mask is (1, 1); it must end in (6, 6), queries by keys.",
    "TransformerBlock(4, 2)(x, causal.float())": (
        "the mask holds torch.float32; it must be bool, True where a query may attend."
    ),
    "SelfAttention(4, 2)(x, causal.long())": (
        "the mask holds torch.int64; it must be bool, True where a query may attend."
    ),
    # S23: numbers from NumPy are float64
    "TransformerStack(2, 4, 2)(x.double())": "the tokens are float64, the weights float32; they must be of one dtype.",
    # N15, S22
    "dropout(x, '0.5')": "dropout is '0.5'; it must be a number from 0 to 1.",
    "TransformerBlock(4, 2, None)": "dropout is None; it must be a number from 0 to 1.",
    "TransformerBlock(4, 2, activation=None)": "activation is None; it must be one of gelu, relu.",
    "TransformerStack(2.0, 4, 2)": "num_blocks is 2.0; it must be a whole number from 1 up.",
    # rules
    "masks.sliding_window(2.0)": "the window is 2.0; it must be a whole number.",
    "masks.strided('2')": "the stride is '2'; it must be a whole number.",
    "masks.documents([2, None])": "the length of a document is None; it must be a whole number.",
    "MaskConfig(num_queries=3, num_keys=2.0)": "num_keys is 2.0; it must be a whole number.",
    "MaskConfig(num_queries=3, num_keys=3, window='2')": "window is '2'; it must be a whole number.",
    "MaskConfig(num_queries=3, num_keys=3, padding_right=None)": "padding_right is None; it must be a whole number.",
    "MaskConfig(num_queries=3, num_keys=3, causal='no')": "causal is 'no'; it must be True or False.",
    "masks.grid(masks.causal, 2, 5, 'middle')": "'middle' is not a valid Corner",
    "TransformerBlock(4, 2, norm_first='post')": "norm_first is 'post'; it must be True or False.",
    "MaskConfig(num_queries=3, num_keys=3, corner='top-left')": (
        "corner is 'top-left'; it must be one of top-left, bottom-right."
    ),
}
REFUSALS = f"""
import torch
from attention import masks
from attention.block import TransformerBlock, TransformerStack
from attention.dropout import dropout
from attention.ladder import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper
from attention.mask_config import MaskConfig
from attention.single_head import SelfAttention
x, causal = torch.randn(1, 6, 4), torch.ones(6, 6).tril().bool()
for typed in {list(REFUSED)}:
    try:
        print("not refused:", eval(typed))
    except ValueError as refused:
        print(refused)
"""


@cache
def what_is_said() -> dict[str, str]:
    return dict(zip(REFUSED, fresh(REFUSALS).splitlines(), strict=True))


@pytest.mark.parametrize("typed", REFUSED)
def test_what_does_not_fit_is_refused_in_words(typed: str) -> None:
    assert what_is_said()[typed] == REFUSED[typed]
