"""PyTorch's side: each step is what the modules give, by calls of its own, whoever asks."""

import ast
import inspect
from dataclasses import fields

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from attention import masks, reference
from attention.multi_head import STEPS, AttentionTrace
from attention.sample import AttentionParameters
from attention.single_head import HeadTrace
from tests.attention.scenes import (
    DTYPES,
    assert_same,
    hard_scene,
    module_answer,
    normal,
    random_parameters,
    torch_module,
)


def with_an_empty_row() -> tuple[Tensor, AttentionParameters, int, Tensor]:
    """The hard scene, where query 2 of the first sequence may attend to nothing."""
    tokens, parameters, num_heads, allowed = hard_scene()
    allowed = allowed.clone()
    allowed[0, :, 2] = False
    return tokens, parameters, num_heads, allowed


def test_no_code_is_shared_with_what_is_checked() -> None:
    tree = ast.parse(inspect.getsource(reference))
    taken = {
        (node.module, name.name) if isinstance(node, ast.ImportFrom) else name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    ours = {name for name in taken if "attention" in (name[0] or "" if isinstance(name, tuple) else name)}
    assert ours == {
        ("attention.multi_head", "STEPS"),  # their names
        ("attention.sample", "AttentionParameters"),
        ("attention.sample", "HeadWeights"),
        ("attention.single_head", "HeadTrace"),
    }
    # and the values that are taken do not compute
    assert not [name for name, _ in inspect.getmembers(AttentionTrace, inspect.isfunction) if not name.startswith("_")]


def test_every_step_is_what_pytorch_gives() -> None:
    tokens, parameters, num_heads, allowed = hard_scene()
    trace, p = reference.attend(tokens, parameters, num_heads, allowed), parameters
    projections = {"q": (p.w_q, p.b_q), "k": (p.w_k, p.b_k), "v": (p.w_v, p.b_v)}
    heads = {
        step: torch.stack(F.linear(tokens, w, b).chunk(num_heads, dim=-1), dim=1)
        for step, (w, b) in projections.items()
    }
    scores = torch.einsum("bhtd,bhsd->bhts", heads["q"], heads["k"])
    weights, output = module_answer(torch_module(parameters, num_heads), tokens, allowed)
    context = F.scaled_dot_product_attention(heads["q"], heads["k"], heads["v"], attn_mask=allowed)
    expected = AttentionTrace(
        **heads,
        scores=scores,
        scaled=scores / 5**0.5,
        masked=(scores / 5**0.5).masked_fill(~allowed, float("-inf")),
        weights=weights,
        dropped=weights,
        context=context,
        merged=torch.cat([context[:, head] for head in range(num_heads)], dim=-1),
        output=output,
    )
    assert_same(trace, expected)
    full = torch.ones(7, 7, dtype=torch.bool)
    without = reference.attend(tokens, parameters, num_heads)
    assert_same(without, reference.attend(tokens, parameters, num_heads, full), rtol=0, atol=0)
    # the steps that come from different calls belong together
    assert_close(trace.weights @ trace.v, trace.context, rtol=1e-7, atol=1e-9)
    assert_close(F.linear(trace.merged, p.w_o, p.b_o), trace.output, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("num_heads", [1, 3, 4])  # an even count is what PyTorch's fused path asks for
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_path_does_not_depend_on_gradients(num_heads: int, dtype: torch.dtype) -> None:
    tokens, parameters = normal(0, 2, 5, 12, dtype=dtype), random_parameters(1, 12, dtype)
    scene = parameters, num_heads, masks.grid(masks.causal, 5)
    plain = reference.attend(tokens, *scene)
    recorded = reference.attend(tokens.clone().requires_grad_(), *scene)
    with torch.no_grad():
        off = reference.attend(tokens, *scene)
    with torch.inference_mode():
        inference = reference.attend(tokens, *scene)
    eps = torch.finfo(dtype).eps
    for step in STEPS:
        expected = getattr(plain, step)
        assert expected.dtype is dtype
        assert torch.equal(getattr(recorded, step), expected), step
        assert torch.equal(getattr(off, step), expected), step
        # here PyTorch takes another kernel for the projection: the same path, other last digits
        assert_close(getattr(inference, step), expected.detach(), rtol=4 * eps, atol=8 * eps)


@pytest.mark.parametrize("gradients", [True, False])
def test_an_empty_row_is_zeros_where_the_module_gives_nan(gradients: bool) -> None:
    # M02: asked for its weights, nn.MultiheadAttention of this version gives NaN for such a row
    tokens, parameters, num_heads, allowed = with_an_empty_row()
    with torch.set_grad_enabled(gradients):
        weights, output = module_answer(torch_module(parameters, num_heads), tokens, allowed)
        trace = reference.attend(tokens, parameters, num_heads, allowed)
    assert weights[0, :, 2].isnan().all()
    assert output[0, 2].isnan().all()
    for step in ("weights", "context"):
        assert getattr(trace, step)[0, :, 2].eq(0).all()
    assert torch.equal(trace.output[0, 2], parameters.b_o)
    # all other rows are the module's
    rows = ~weights.isnan()
    assert_close(trace.weights[rows], weights[rows].detach(), rtol=1e-7, atol=1e-9)
    rows = ~output.isnan()
    assert_close(trace.output[rows], output[rows].detach(), rtol=1e-7, atol=1e-9)
    assert all(getattr(trace, step).isfinite().all() for step in STEPS if step != "masked")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [True, False])
def test_no_exception_in_any_dtype(dtype: torch.dtype, causal: bool) -> None:
    # M09: nn.MultiheadAttention raises for is_causal=True alone
    allowed = masks.grid(masks.causal, 4) if causal else masks.grid(masks.full, 4)
    trace = reference.attend(normal(2, 1, 4, 6, dtype=dtype), random_parameters(3, 6, dtype), 3, allowed)
    assert trace.weights.triu(1).eq(0).all() == causal
    assert trace.weights.shape == (1, 3, 4, 4)  # S10: not averaged over heads


def test_the_module_holds_the_numbers_and_leaves_them_alone() -> None:
    tokens, parameters, num_heads, allowed = hard_scene()
    kept = {f.name: getattr(parameters, f.name).clone() for f in fields(parameters)}
    module, other = reference.as_module(parameters, num_heads), torch_module(parameters, num_heads)
    assert not module.training
    assert not module.batch_first
    assert module.dropout == 0
    for (name, one), (_, two) in zip(module.named_parameters(), other.named_parameters(), strict=True):
        assert torch.equal(one, two), name
    reference.attend(tokens, parameters, num_heads, allowed)
    for name, before in kept.items():
        assert torch.equal(getattr(parameters, name), before), name


def test_gradients_reach_the_tokens() -> None:
    tokens, parameters, num_heads, allowed = with_an_empty_row()
    tokens.requires_grad_()
    reference.attend(tokens, parameters, num_heads, allowed).output.sum().backward()
    assert tokens.grad is not None
    assert tokens.grad.isfinite().all()


def test_other_tokens_that_are_attended_to() -> None:
    # M13: T queries, S keys, and a row without any
    num_heads, embed_dim = 3, 15
    tokens, memory, parameters = normal(1, 2, 4, embed_dim), normal(2, 2, 7, embed_dim), random_parameters(3, embed_dim)
    allowed = masks.grid(masks.causal, 4, 7)
    trace = reference.attend(tokens, parameters, num_heads, allowed, memory=memory)
    output, weights = torch_module(parameters, num_heads)(
        tokens, memory, memory, attn_mask=~allowed, average_attn_weights=False
    )
    assert_close(trace.weights, weights, rtol=1e-7, atol=1e-9)
    assert_close(trace.output, output, rtol=1e-7, atol=1e-9)
    p = parameters
    for step, x, w, b in (("q", tokens, p.w_q, p.b_q), ("k", memory, p.w_k, p.b_k), ("v", memory, p.w_v, p.b_v)):
        assert_close(getattr(trace, step), torch.stack(F.linear(x, w, b).chunk(num_heads, -1), 1))
    assert_close(trace.scaled, trace.q @ trace.k.mT / 5**0.5)
    assert torch.equal(trace.masked.isinf(), ~allowed.expand(2, 3, 4, 7))
    assert_close(trace.context, trace.weights @ trace.v)

    allowed[2] = False
    empty = reference.attend(tokens, parameters, num_heads, allowed, memory=memory)
    assert empty.weights[:, :, 2].eq(0).all()
    assert torch.equal(empty.output[:, 2], p.b_o.expand(2, -1))
    assert_close(empty.output[:, [0, 1, 3]], output[:, [0, 1, 3]], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_every_step_of_one_head_is_what_pytorch_gives(bias: bool, masked: bool) -> None:
    # M01: the mask has a row without any key
    shapes = {"w_q": (5, 11), "w_k": (5, 11), "w_v": (3, 11)}
    weights = {f"{name}.weight": normal(place, *shape) for place, (name, shape) in enumerate(shapes.items())}
    if bias:
        weights |= {f"{name}.bias": normal(10 + place, shape[0]) for place, (name, shape) in enumerate(shapes.items())}
    tokens, allowed = normal(5, 2, 7, 11), masks.grid(masks.causal, 7)
    allowed[2] = False
    trace = reference.attend_one(tokens, weights, allowed if masked else None)
    allowed = allowed if masked else torch.ones_like(allowed)
    q, k, v = (tokens @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0) for name in shapes)
    scores = torch.einsum("btd,bsd->bts", q, k)
    masked_scores = (scores / 5**0.5).masked_fill(~allowed, float("-inf"))
    expected = {
        "q": q,
        "k": k,
        "v": v,
        "scores": scores,
        "scaled": scores / 5**0.5,
        "masked": masked_scores,
        "weights": torch.softmax(masked_scores, -1).nan_to_num(0.0),
    }
    expected["dropped"] = expected["weights"]
    expected["context"] = expected["weights"] @ v
    assert expected.keys() == {f.name for f in fields(HeadTrace)}
    for step, values in expected.items():
        assert_close(getattr(trace, step), values[:, None], rtol=1e-9, atol=1e-12)
    assert_close(trace.output, expected["context"], rtol=1e-9, atol=1e-12)
