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

MODULES = [f"attention.{module.name}" for module in pkgutil.iter_modules(attention.__path__)]


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
