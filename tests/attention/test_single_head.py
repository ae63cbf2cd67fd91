"""One head with widths of its own: against `F.scaled_dot_product_attention`, forward and backward."""

import re
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from attention import masks
from attention.single_head import STEPS, HeadTrace, SelfAttention
from tests.attention.scenes import DTYPES, coin, filled, normal


def head(embed_dim: int, head_dim: int, value_dim: int, bias: bool = True, seed: int = 1) -> SelfAttention:
    return filled(SelfAttention(embed_dim, head_dim, value_dim, bias=bias).double(), seed)


def pytorch(module: SelfAttention, x: Tensor, allowed: Tensor | None) -> Tensor:
    """What PyTorch's equation gives for the module's own numbers."""
    q, k, v = (F.linear(x, layer.weight, layer.bias) for layer in (module.w_q, module.w_k, module.w_v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)


@pytest.mark.parametrize(
    ("embed_dim", "head_dim", "value_dim"), [(11, 5, 3), (3, 7, 13), (5, 1, 1), (1, 2, 5), (7, 7, 7)]
)
@pytest.mark.parametrize(("batch", "num_tokens"), [(1, 1), (2, 5), (3, 2)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_against_pytorch(
    embed_dim: int, head_dim: int, value_dim: int, batch: int, num_tokens: int, bias: bool, causal: bool
) -> None:
    module, x = head(embed_dim, head_dim, value_dim, bias), normal(2, batch, num_tokens, embed_dim)
    allowed = masks.grid(masks.causal, num_tokens) if causal else None
    found = module(x, allowed)
    assert found.shape == (batch, num_tokens, value_dim)
    assert_close(found, pytorch(module, x, allowed), rtol=1e-9, atol=1e-12)


@given(st.data(), st.integers(0, 10**6))
def test_against_pytorch_under_any_mask(data: st.DataObject, seed: int) -> None:
    # M01: rows that may attend to nothing among them
    embed_dim, head_dim, value_dim, num_tokens, batch = (data.draw(st.integers(1, most)) for most in (9, 7, 7, 6, 3))
    module, x = head(embed_dim, head_dim, value_dim, seed=seed), normal(seed, batch, num_tokens, embed_dim)
    allowed = coin(seed, num_tokens, num_tokens)
    trace = module.trace(x, allowed)
    assert_close(trace.output, pytorch(module, x, allowed), rtol=1e-9, atol=1e-12)
    assert trace.weights[:, :, ~allowed].eq(0).all()
    assert trace.output[:, masks.empty_rows(allowed)].eq(0).all()


def test_gradients_are_those_of_pytorch() -> None:
    module, allowed, cotangent = head(11, 5, 3), masks.grid(masks.causal, 7), normal(3, 2, 7, 3)
    x = normal(2, 2, 7, 11).requires_grad_()
    leaves = [x, *module.parameters()]
    ours = torch.autograd.grad(module(x, allowed), leaves, cotangent)
    theirs = torch.autograd.grad(pytorch(module, x, allowed), leaves, cotangent)
    for name, one, other in zip(["x", *dict(module.named_parameters())], ours, theirs, strict=True):
        assert_close(one, other, rtol=1e-9, atol=1e-12)
        if name != "w_k.bias":  # a shift of all scores of a row: softmax does not see it
            assert one.abs().max() > 1e-3, name


def test_the_widths_of_the_source() -> None:
    # 256 wide tokens, q and k 64 wide, v as wide as the tokens
    module = SelfAttention(256, head_dim=64)
    shapes = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    assert shapes == {"w_q.weight": (64, 256), "w_k.weight": (64, 256), "w_v.weight": (256, 256)}
    trace = module.trace(normal(0, 1, 5, 256, dtype=torch.float32))
    assert trace.q.shape == trace.k.shape == (1, 1, 5, 64)
    assert trace.v.shape == trace.context.shape == (1, 1, 5, 256)
    assert trace.weights.shape == (1, 1, 5, 5)
    assert trace.output.shape == (1, 5, 256)
    biased = SelfAttention(6, 2, 5, bias=True).state_dict()
    assert {name: len(tensor) for name, tensor in biased.items() if "bias" in name} == {
        "w_q.bias": 2,
        "w_k.bias": 2,
        "w_v.bias": 5,
    }


def test_two_tokens_by_hand() -> None:
    # q = k = x of width 1, v = 2x; scores [[1, 2], [2, 4]]; the rows of weights are 1 : e and 1 : e²
    module = SelfAttention(1, 1)
    with torch.no_grad():
        for layer, number in ((module.w_q, 1.0), (module.w_k, 1.0), (module.w_v, 2.0)):
            layer.weight.fill_(number)
    trace = module.trace(torch.tensor([[[1.0], [2.0]]]))
    e = torch.tensor(1.0).exp().item()
    assert_close(trace.weights[0, 0], torch.tensor([[1 / (1 + e), e / (1 + e)], [1 / (1 + e**2), e**2 / (1 + e**2)]]))
    assert_close(trace.output[0, :, 0], torch.tensor([(2 + 4 * e) / (1 + e), (2 + 4 * e**2) / (1 + e**2)]))


def test_the_scale_is_that_of_queries_and_keys() -> None:
    # N18: not of the tokens, and not of the values
    trace = head(11, 5, 3).trace(normal(0, 2, 7, 11))
    assert_close(trace.scaled, trace.scores / 5**0.5)
    assert_close(trace.scores, trace.q @ trace.k.mT)


def test_the_trace() -> None:
    module, x, allowed = head(11, 5, 3), normal(0, 2, 7, 11), masks.grid(masks.causal, 7)
    trace = module.trace(x, allowed)
    assert torch.equal(module(x, allowed), trace.output)
    assert torch.equal(trace.output, trace.context[:, 0])
    assert trace.steps == STEPS == tuple(f.name for f in fields(HeadTrace) if f.name != "dropped")
    assert trace.dropped is trace.weights
    with pytest.raises(FrozenInstanceError):
        trace.context = trace.v  # type: ignore[misc]


def test_a_later_token_does_not_leak() -> None:
    # M17: to the last bit
    module, x, allowed = head(11, 5, 3), normal(0, 2, 5, 11), masks.grid(masks.causal, 5)
    before = module(x, allowed)
    x[:, -1] += 10
    after = module(x, allowed)
    assert torch.equal(after[:, :-1], before[:, :-1])
    assert after[:, -1].ne(before[:, -1]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype: torch.dtype) -> None:
    # N09
    module, x = head(11, 5, 3), normal(0, 2, 4, 11)
    allowed = masks.grid(masks.causal, 4)
    exact = module(x, allowed).detach()
    found = module.to(dtype)(x.to(dtype), allowed)
    assert found.dtype is dtype
    assert_close(found.double(), exact, rtol=0, atol=40 * torch.finfo(dtype).eps)


def test_one_sequence_alone_or_in_a_batch() -> None:
    # N25: within a tolerance
    module, x = head(11, 5, 3), normal(0, 2, 7, 11)
    assert_close(module(x[1:]), module(x)[1:])


def test_tokens_need_not_be_contiguous() -> None:
    # S03
    module, x = head(11, 5, 3), normal(0, 7, 2, 11)
    turned = x.transpose(0, 1)
    assert not turned.is_contiguous()
    assert_close(module(turned), module(turned.contiguous()), rtol=0, atol=0)


def test_no_tokens() -> None:
    # S16
    assert head(11, 5, 3)(normal(0, 2, 0, 11)).shape == (2, 0, 3)


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (normal(0, 2, 7, 5), "the tokens are (2, 7, 5), 5 wide; the projection takes a width of 11."),
        # S23: data from NumPy is float64, a fresh module float32
        (normal(0, 2, 7, 11).float(), "the tokens are float32, the weights float64; they must be of one dtype."),
    ],
)
def test_tokens_that_do_not_fit_are_refused(x: Tensor, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        head(11, 5, 3)(x)


@pytest.mark.parametrize("widths", [{"embed_dim": 0}, {"head_dim": -1}, {"value_dim": 0}, {"head_dim": True}])
def test_widths_that_are_none_are_refused(widths: dict[str, Any]) -> None:
    ((name, width),) = widths.items()
    with pytest.raises(ValueError, match=re.escape(f"{name} is {width!r}; it must be a whole number from 1 up.")):
        SelfAttention(**{"embed_dim": 6, "head_dim": 2, **widths})
