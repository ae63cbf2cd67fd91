"""Dropout: what is left grows so that the mean stays, and chance comes from where it was asked to come."""

import math
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from attention.dropout import check_probability, dropout
from attention.scaled_dot_product import scaled_dot_product
from tests.attention.scenes import DTYPES, generator, normal

PROBABILITIES = st.floats(0.01, 0.99)


@given(PROBABILITIES, st.integers(0, 10**6), st.sampled_from(DTYPES))
def test_each_number_is_0_or_grows(p: float, seed: int, dtype: torch.dtype) -> None:
    x = normal(seed, 3, 5, 7, dtype=dtype)
    before = x.clone()
    found = dropout(x, p, generator(seed))
    kept = found.ne(0)
    assert found.dtype is dtype
    assert torch.equal(found[kept], (x / (1 - p))[kept])
    assert torch.equal(x, before)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_how_many_are_dropped_and_that_the_mean_stays(p: float) -> None:
    n = 100_000
    found = dropout(torch.ones(n, dtype=torch.float64), p, generator(0))
    within = 4 * math.sqrt(p * (1 - p) / n)
    assert found.eq(0).double().mean().item() == pytest.approx(p, abs=within)
    assert found.mean().item() == pytest.approx(1, abs=within / (1 - p))


def test_every_number_is_dropped_on_its_own() -> None:
    # neither whole rows nor the same cells of each row
    kept = dropout(torch.ones(200, 300), 0.5, generator(1)).ne(0).double()
    for axis in (0, 1):
        assert (kept.mean(axis) - 0.5).abs().max() < 0.2
    assert torch.corrcoef(kept[:, :50].T).fill_diagonal_(0).abs().max() < 0.35


def test_0_changes_nothing_and_1_leaves_nothing() -> None:
    x = normal(0, 3, 5)
    assert dropout(x, 0.0) is x
    # N15: zeros, as F.dropout has it, and not 0 / 0
    assert torch.equal(dropout(x, 1.0), torch.zeros(3, 5, dtype=torch.float64))


def test_the_seed_decides() -> None:
    x = normal(0, 9, 11)
    same = [dropout(x, 0.5, generator(7)) for _ in range(2)]
    assert torch.equal(*same)
    assert not torch.equal(dropout(x, 0.5, generator(8)), same[0])
    one = generator(7)
    assert not torch.equal(dropout(x, 0.5, one), dropout(x, 0.5, one))  # a generator goes on


def test_a_change_of_precision_changes_nothing_that_is_dropped() -> None:
    # R08
    kept = [dropout(torch.ones(9, 11, dtype=dtype), 0.5, generator(3)).ne(0) for dtype in DTYPES]
    for other in kept[1:]:
        assert torch.equal(other, kept[0])


def test_chance_comes_from_the_generator_or_from_pytorch() -> None:
    # R07, X01
    x = normal(0, 9, 11)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        before = torch.get_rng_state()
        expected = dropout(x, 0.5, generator(5))
        assert torch.equal(torch.get_rng_state(), before)
        torch.manual_seed(2)
        assert torch.equal(dropout(x, 0.5, generator(5)), expected)
        # with no generator it is the state of the process that is read, and moved on
        torch.manual_seed(3)
        first, second = dropout(x, 0.5), dropout(x, 0.5)
        torch.manual_seed(3)
        assert torch.equal(dropout(x, 0.5), first)
        assert not torch.equal(first, second)


@given(PROBABILITIES, st.integers(0, 10**6))
def test_gradients_pass_where_numbers_do(p: float, seed: int) -> None:
    x, cotangent = normal(seed, 5, 7).requires_grad_(), normal(seed + 1, 5, 7)
    found = dropout(x, p, generator(seed))
    (gradient,) = torch.autograd.grad(found, x, cotangent)
    assert_close(gradient, torch.where(found.ne(0), cotangent / (1 - p), 0.0))


@pytest.mark.parametrize("p", [1.5, -0.1, math.nan, math.inf, True, "0.5", None])
def test_what_is_no_probability_is_refused(p: float) -> None:
    # N15: PyTorch's own message for -0.1 misleads
    said = re.escape(f"dropout is {p!r}; it must be a number from 0 to 1.")
    with pytest.raises(ValueError, match=said):
        check_probability.__wrapped__(p)  # type: ignore[attr-defined]  # what it says where types are not checked
    if isinstance(p, float):
        with pytest.raises(ValueError, match=said):
            dropout(torch.ones(2), p)


def test_on_attention_weights() -> None:
    # N14: the weights that are shown sum to 1; what meets the values is another step
    q, k, v = normal(0, 2, 3, 5, 7), normal(1, 2, 3, 5, 7), normal(2, 2, 3, 5, 11)
    plain = scaled_dot_product(q, k, v)
    steps = scaled_dot_product(q, k, v, None, lambda weights: dropout(weights, 0.5, generator(4)))
    assert torch.equal(steps.weights, plain.weights)
    assert_close(steps.weights.sum(-1), torch.ones(2, 3, 5, dtype=torch.float64))
    assert steps.dropped.sum(-1).max() > 1.1
    assert_close(steps.context, steps.dropped @ v)
    assert not torch.equal(steps.context, plain.context)
    assert plain.dropped is plain.weights
    # with one key the weight reads 1, and only 0 or 1.25 meets the value
    one = scaled_dot_product(q, k[:, :, :1], v[:, :, :1], None, lambda weights: dropout(weights, 0.2, generator(4)))
    assert one.weights.eq(1).all()
    assert set(one.dropped.flatten().tolist()) == {0.0, 1.25}


def test_dropout_of_everything_has_gradients_of_zero() -> None:
    x = torch.ones(3, requires_grad=True)
    dropout(x, 1.0).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 0.0, 0.0]
