"""Layer normalisation: by hand, against `nn.LayerNorm`, forward and backward, and what holds for any numbers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from attention.layer_norm import EPS, layer_norm
from tests.attention.scenes import DTYPES, normal


def plain(x: Tensor) -> Tensor:
    """The norm with a scale of 1 and no shift."""
    return layer_norm(x, torch.ones(x.shape[-1], dtype=x.dtype), torch.zeros(x.shape[-1], dtype=x.dtype))


def pytorch(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    module = nn.LayerNorm(len(weight), eps=eps, dtype=x.dtype)
    module.load_state_dict({"weight": weight, "bias": bias})
    found: Tensor = module(x)
    return found


def test_the_variance_is_the_biased_one() -> None:
    # N11: with the unbiased one, and eps outside the root, it would be [1.5, -0.5, -0.5, -0.5]
    expected = torch.tensor([1.73200, -0.57733, -0.57733, -0.57733])
    assert_close(plain(torch.tensor([1.0, 0, 0, 0])), expected, rtol=0, atol=1e-5)


def test_a_large_offset_does_not_cancel() -> None:
    # N13: E[x²] - E[x]² would give [-474, -158, 158, 474]
    row = torch.tensor([10000.0, 10001, 10002, 10003])
    assert_close(plain(row), torch.tensor([-1.34164, -0.44721, 0.44721, 1.34164]), rtol=0, atol=1e-3)


def test_eps_is_1e_5_and_inside_the_root() -> None:
    # a row whose variance is eps itself: 1/√(2 eps), and not 1/(√eps + eps)
    small = EPS**0.5
    found = plain(torch.tensor([small, -small], dtype=torch.float64))
    assert EPS == 1e-5
    assert_close(found, torch.tensor([0.5**0.5, -(0.5**0.5)], dtype=torch.float64))
    assert plain(torch.full((3,), 7.0)).eq(0).all()  # no variance at all: no division by zero


@given(st.data(), st.integers(0, 10**6), st.floats(1e-4, 1e4), st.floats(-1e3, 1e3))
def test_against_pytorch(data: st.DataObject, seed: int, scale: float, offset: float) -> None:
    shape = data.draw(st.sampled_from([(1,), (7,), (3, 1), (3, 5), (2, 3, 5), (2, 3, 1, 11)]))
    x, weight, bias = scale * normal(seed, *shape) + offset, normal(seed + 1, shape[-1]), normal(seed + 2, shape[-1])
    for eps in (1e-5, 1e-12, 0.1):
        assert_close(layer_norm(x, weight, bias, eps), pytorch(x, weight, bias, eps), rtol=1e-7, atol=1e-8)
    assert torch.equal(layer_norm(x, weight, bias), layer_norm(x, weight, bias, 1e-5))


@given(st.integers(0, 10**6))
def test_rows_have_mean_0_and_variance_1_before_scale_and_shift(seed: int) -> None:
    x = 100 * normal(seed, 3, 16) + 50
    found = plain(x)
    assert_close(found.mean(-1), torch.zeros(3, dtype=torch.float64))
    assert_close(found.var(-1, unbiased=False), torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-5)
    assert_close(plain(3 * x - 7), found, rtol=0, atol=1e-6)  # neither size nor offset of a row is seen


def test_gradients_are_those_of_pytorch() -> None:
    x, weight, bias = leaves = [normal(i, *shape).requires_grad_() for i, shape in enumerate([(2, 3, 5), (5,), (5,)])]
    cotangent = normal(4, 2, 3, 5)
    ours = torch.autograd.grad(layer_norm(x, weight, bias), leaves, cotangent)
    theirs = torch.autograd.grad(nn.functional.layer_norm(x, (5,), weight, bias, 1e-5), leaves, cotangent)
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, rtol=1e-9, atol=1e-12)
        assert one.ne(0).all()
    assert torch.autograd.gradcheck(layer_norm, leaves)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1, 300])
def test_every_dtype(dtype: torch.dtype, scale: float) -> None:
    # N09: 300² is more than float16 has
    x, weight, bias = (scale * normal(0, 3, 17)).to(dtype), normal(1, 17, dtype=dtype), normal(2, 17, dtype=dtype)
    found, expected = layer_norm(x, weight, bias), pytorch(x, weight, bias)
    assert found.dtype is dtype
    # one rounding at the end, as PyTorch's: at most the last digit differs
    assert_close(found, expected, rtol=2 * torch.finfo(dtype).eps, atol=4 * torch.finfo(dtype).eps)
    exact = pytorch(x.double(), weight.double(), bias.double())
    assert_close(found.double(), exact, rtol=torch.finfo(dtype).eps, atol=4 * torch.finfo(dtype).eps)


def test_the_input_is_left_alone() -> None:
    x = normal(0, 3, 5)
    before = x.clone()
    plain(x)
    assert torch.equal(x, before)
