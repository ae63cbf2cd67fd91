"""The two activations: by hand, against PyTorch's, forward and backward."""

import math
import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from attention.feed_forward import ACTIVATIONS, check_activation, gelu, relu
from tests.attention.scenes import DTYPES, normal

PYTORCH: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu}


@pytest.mark.parametrize(
    ("x", "expected"),
    [(-3.0, -0.0040497), (-1.0, -0.1586553), (-0.5, -0.1542688), (0.0, 0.0), (1.0, 0.8413447), (2.0, 1.9544997)],
)
def test_gelu_by_hand(x: float, expected: float) -> None:
    # x · Φ(x), from a table of the normal distribution
    found = gelu(torch.tensor([x], dtype=torch.float64)).item()
    assert found == pytest.approx(expected, abs=1e-7)
    assert found == pytest.approx(x * 0.5 * math.erfc(-x / math.sqrt(2)), abs=1e-15)


def test_gelu_is_not_its_approximation() -> None:
    x = torch.linspace(-4, 4, 81, dtype=torch.float64)
    assert (gelu(x) - F.gelu(x, approximate="tanh")).abs().max() > 1e-4
    assert_close(gelu(x), F.gelu(x), rtol=1e-12, atol=1e-15)


def test_relu_by_hand() -> None:
    assert relu(torch.tensor([-math.inf, -1.0, -0.0, 0.0, 2.5, math.inf])).tolist() == [0, 0, 0, 0, 2.5, math.inf]
    assert relu(torch.tensor([math.nan])).isnan().all()  # it hides nothing


@given(st.sampled_from(list(ACTIVATIONS)), st.sampled_from(DTYPES), st.integers(0, 10**6), st.floats(0.1, 10))
def test_against_pytorch(name: str, dtype: torch.dtype, seed: int, scale: float) -> None:
    x = (scale * normal(seed, 3, 5, 7)).to(dtype)
    found = ACTIVATIONS[name](x)
    exact, eps = PYTORCH[name](x.double()), torch.finfo(dtype).eps
    assert found.dtype is dtype
    # in half precision one rounding, at the end, as PyTorch has it: half a step of the exact answer
    rtol, atol = {2: (0.51 * eps, 1e-6), 4: (8 * eps, 1e-6), 8: (8 * eps, 1e-14)}[dtype.itemsize]
    assert_close(found.double(), exact, rtol=rtol, atol=atol)
    assert_close(found, PYTORCH[name](x), rtol=2 * eps, atol=atol)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_gradients_are_those_of_pytorch(name: str) -> None:
    x, cotangent = (2 * normal(0, 5, 7)).requires_grad_(), normal(1, 5, 7)
    (ours,) = torch.autograd.grad(ACTIVATIONS[name](x), x, cotangent)
    (theirs,) = torch.autograd.grad(PYTORCH[name](x), x, cotangent)
    assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    assert torch.autograd.gradcheck(ACTIVATIONS[name], x)


def test_their_names() -> None:
    assert list(ACTIVATIONS) == ["gelu", "relu"]
    for name in ACTIVATIONS:
        check_activation(name)


@pytest.mark.parametrize("name", ["swish", "GELU", "", None, 3, ["relu"]])
def test_another_activation_is_refused_with_those_there_are(name: str) -> None:
    # S22
    with pytest.raises(ValueError, match=re.escape(f"activation is {name!r}; it must be one of gelu, relu.")):
        check_activation.__wrapped__(name)  # type: ignore[attr-defined]  # what it says where types are not checked


def test_relu_has_no_slope_at_zero() -> None:
    x = torch.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    y = x.detach().clone().requires_grad_()
    relu(x).sum().backward()
    F.relu(y).sum().backward()
    assert torch.equal(x.grad, y.grad)  # type: ignore[arg-type]  # both have one
