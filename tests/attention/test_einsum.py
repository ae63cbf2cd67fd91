"""Four einsums: another way to the same answer, held against `nn.MultiheadAttention` and against the first way."""

import ast
import inspect
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from attention import einsum, masks
from attention.einsum import attend_by_einsum
from attention.multi_head import attend
from attention.sample import AttentionParameters
from tests.attention.scenes import DTYPES, coin, module_answer, normal, random_parameters, torch_module


@given(st.data(), st.integers(0, 10**6))
def test_against_pytorch_under_any_mask(data: st.DataObject, seed: int) -> None:
    num_heads, head_dim, num_tokens, batch = (data.draw(st.integers(1, most)) for most in (4, 5, 7, 3))
    embed_dim = num_heads * head_dim
    tokens, parameters = normal(seed, batch, num_tokens, embed_dim), random_parameters(seed, embed_dim)
    allowed = coin(seed, num_tokens, num_tokens) | torch.eye(num_tokens).bool()
    found = attend_by_einsum(tokens, parameters, num_heads, allowed)
    weights, output = module_answer(torch_module(parameters, num_heads), tokens, allowed)
    assert_close(found.weights, weights, rtol=1e-7, atol=1e-9)
    assert_close(found.output, output, rtol=1e-7, atol=1e-9)
    ours = attend(tokens, parameters, num_heads, allowed)
    assert_close(found.weights, ours.weights, rtol=1e-9, atol=1e-12)
    assert_close(found.output, ours.output, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("num_heads", [1, 3, 5])
def test_no_mask_and_tokens_of_another_width(num_heads: int) -> None:
    drawn = random_parameters(1, 15)
    wide = {name: normal(place, 15, 7) for place, name in enumerate(("w_q", "w_k", "w_v"))}
    scene = normal(2, 2, 5, 7), replace(drawn, **wide), num_heads
    found, expected = attend_by_einsum(*scene), attend(*scene)
    assert_close(found.weights, expected.weights, rtol=1e-9, atol=1e-12)
    assert_close(found.output, expected.output, rtol=1e-9, atol=1e-12)
    full = attend_by_einsum(*scene, masks.grid(masks.full, 5))
    assert torch.equal(found.output, full.output)


def test_gradients_are_those_of_pytorch() -> None:
    num_heads, embed_dim, allowed = 3, 15, masks.grid(masks.causal, 7)
    drawn, cotangent = random_parameters(3, embed_dim), normal(5, 2, 7, embed_dim)
    leaves = AttentionParameters(*(getattr(drawn, f.name).clone().requires_grad_() for f in fields(drawn)))
    module = torch_module(drawn, num_heads)
    ours, theirs = (normal(4, 2, 7, embed_dim).requires_grad_() for _ in range(2))
    attend_by_einsum(ours, leaves, num_heads, allowed).output.backward(cotangent)
    module_answer(module, theirs, allowed)[1].backward(cotangent)

    def packed(kind: str) -> Tensor:
        return torch.cat([getattr(leaves, f"{kind}_{name}").grad for name in "qkv"])

    assert_close(ours.grad, theirs.grad, rtol=1e-7, atol=1e-9)
    assert_close(packed("w"), module.in_proj_weight.grad, rtol=1e-7, atol=1e-9)
    assert_close(packed("b"), module.in_proj_bias.grad, rtol=1e-7, atol=1e-9)
    assert_close(leaves.w_o.grad, module.out_proj.weight.grad, rtol=1e-7, atol=1e-9)
    assert_close(leaves.b_o.grad, module.out_proj.bias.grad, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype: torch.dtype) -> None:
    # N09
    tokens, parameters, allowed = normal(0, 2, 5, 12), random_parameters(1, 12), masks.grid(masks.causal, 5)
    exact = attend_by_einsum(tokens, parameters, 3, allowed)
    found = attend_by_einsum(tokens.to(dtype), parameters.to(dtype), 3, allowed)
    assert found.weights.dtype is found.output.dtype is dtype
    assert found.weights.triu(1).eq(0).all()
    assert_close(found.output.double(), exact.output, rtol=0, atol=60 * torch.finfo(dtype).eps)


def test_a_later_token_does_not_leak() -> None:
    # M17
    tokens, parameters, allowed = normal(0, 2, 5, 12), random_parameters(1, 12), masks.grid(masks.causal, 5)
    before = attend_by_einsum(tokens, parameters, 3, allowed).output
    tokens[:, -1] += 10
    after = attend_by_einsum(tokens, parameters, 3, allowed).output
    assert torch.equal(after[:, :-1], before[:, :-1])
    assert after[:, -1].ne(before[:, -1]).all()


def test_no_line_is_shared_with_the_first_way() -> None:
    imported = {
        node.module: [name.name for name in node.names]
        for node in ast.walk(ast.parse(inspect.getsource(einsum)))
        if isinstance(node, ast.ImportFrom) and "attention" in (node.module or "")
    }
    assert imported == {"attention.sample": ["AttentionParameters"]}
    called = {
        node.attr
        for node in ast.walk(ast.parse(inspect.getsource(attend_by_einsum)))
        if isinstance(node, ast.Attribute)
    }
    assert not called & {"view", "transpose", "reshape", "permute", "mT", "T"}
