"""PyTorch's side of a block: each step is what the layer gives, on a path that is known and named."""

import ast
import inspect
from dataclasses import fields
from itertools import product
from operator import attrgetter
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from attention import masks, reference_block
from attention.block import BlockTrace
from attention.block import run_block as ours
from attention.reference_block import as_layer, fused_output, run_block
from attention.sample import BlockParameters
from tests.attention.scenes import DTYPES, Recorder, coin, normal, random_block, torch_layer

FUSED = "_transformer_encoder_layer_fwd"
SWITCHES: list[dict[str, Any]] = [
    {"norm_first": norm_first, "activation": activation}
    for norm_first, activation in product((False, True), ("gelu", "relu"))
]


def scene(heads: int = 3, dtype: torch.dtype = torch.float64) -> tuple[Tensor, BlockParameters, int, Tensor]:
    """A block of a width that all the head counts here divide."""
    x = (2 * normal(1, 2, 7, 12) + 1).to(dtype)
    return x, random_block(2, 12, 11, dtype), heads, masks.grid(masks.causal, 7)


def test_no_code_is_shared_with_what_is_checked() -> None:
    taken = {
        (node.module, name.name)
        for node in ast.walk(ast.parse(inspect.getsource(reference_block)))
        if isinstance(node, ast.ImportFrom) and "attention" in (node.module or "")
        for name in node.names
    }
    assert taken == {
        ("attention", "reference"),
        ("attention.block", "BlockTrace"),
        ("attention.layer_norm", "EPS"),
        ("attention.sample", "BlockParameters"),
    }
    # and the values that are taken do not compute
    assert not [name for name, _ in inspect.getmembers(BlockTrace, inspect.isfunction) if not name.startswith("_")]


@pytest.mark.parametrize("switches", SWITCHES)
@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("masked", [True, False])
def test_every_step_is_what_the_layer_gives(switches: dict[str, Any], heads: int, masked: bool) -> None:
    x, parameters, heads, causal = scene(heads)
    allowed = causal if masked else None
    blocked = ~causal if masked else None
    layer = torch_layer(parameters, heads, **switches)
    seen: dict[str, Tensor] = {}
    for name in ("norm1", "norm2", "linear1", "linear2", "self_attn"):
        getattr(layer, name).register_forward_hook(
            lambda _module, _given, out, name=name: seen.update({name: out[0] if isinstance(out, tuple) else out})
        )
    output = layer(x, src_mask=blocked)
    trace = run_block(x, parameters, heads, allowed, **switches)
    steps = {
        "norm1": "norm_1",
        "norm2": "norm_2",
        "linear1": "hidden",
        "linear2": "fed",
        "self_attn": "attention.output",
    }
    for name, step in steps.items():
        assert_close(attrgetter(step)(trace), seen[name], rtol=1e-7, atol=1e-9)
    assert_close(trace.output, output, rtol=1e-7, atol=1e-9)
    assert_close(trace.sum_1, x + seen["self_attn"], rtol=1e-7, atol=1e-9)
    fed_with = trace.sum_1 if switches["norm_first"] else seen["norm1"]
    assert_close(trace.sum_2, fed_with + seen["linear2"], rtol=1e-7, atol=1e-9)
    assert_close(trace.activated, getattr(nn.functional, switches["activation"])(seen["linear1"]), rtol=1e-7, atol=1e-9)
    assert trace.x is x
    assert trace.norm_first == switches["norm_first"]


@pytest.mark.parametrize("switches", SWITCHES)
def test_the_last_step_is_the_layer_as_a_whole(switches: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    # and not the steps before it, put together once more
    whole = nn.TransformerEncoderLayer.forward
    monkeypatch.setattr(nn.TransformerEncoderLayer, "forward", lambda *given, **more: 2 * whole(*given, **more))
    doubled = run_block(*scene(), **switches)
    monkeypatch.undo()
    plain = run_block(*scene(), **switches)
    for step in plain.steps:
        factor = 2 if step == plain.steps[-1] else 1
        assert torch.equal(attrgetter(step)(doubled), factor * attrgetter(step)(plain)), step


@pytest.mark.parametrize("switches", SWITCHES)
@pytest.mark.parametrize("heads", [3, 4])  # an even count is what the other path asks for
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_path_does_not_depend_on_gradients(switches: dict[str, Any], heads: int, dtype: torch.dtype) -> None:
    given = scene(heads, dtype)
    plain = run_block(*given, **switches)
    with torch.no_grad(), Recorder() as off:
        unrecorded = run_block(*given, **switches)
    recorded = run_block(given[0].clone().requires_grad_(), *given[1:], **switches)
    assert not [name for name in off.names if FUSED in name]
    for step in plain.steps:
        expected = attrgetter(step)(plain)
        assert expected.dtype is dtype
        assert torch.equal(attrgetter(step)(unrecorded), expected), step
        assert torch.equal(attrgetter(step)(recorded), expected), step


@pytest.mark.parametrize("switches", SWITCHES)
@pytest.mark.parametrize(("heads", "taken"), [(1, False), (2, True), (3, False), (4, True)])
def test_the_other_path_is_taken_and_named(switches: dict[str, Any], heads: int, taken: bool) -> None:
    # with an odd number of heads there is no other path
    given = scene(heads)
    with Recorder() as seen:
        found = fused_output(*given, **switches)
    assert (f"aten::{FUSED}" in seen.names) == taken
    assert FUSED in (reference_block.__doc__ or "")
    assert not found.requires_grad
    # S20: it says the same
    assert_close(found, run_block(*given, **switches).output, rtol=1e-7, atol=1e-9)
    single = scene(heads, torch.float32)
    assert_close(fused_output(*single, **switches), run_block(*single, **switches).output)
    assert_close(fused_output(*given[:3], **switches), run_block(*given[:3], **switches).output, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("switches", SWITCHES)
def test_every_option_is_set(switches: dict[str, Any]) -> None:
    # S22: PyTorch's defaults are relu, 2048, dropout 0.1, post-norm
    _, parameters, heads, _ = scene()
    layer = as_layer(parameters, heads, **switches)
    assert not layer.training
    assert (layer.linear1.out_features, layer.linear1.in_features) == (11, 12)
    assert (layer.self_attn.num_heads, layer.self_attn.dropout, layer.self_attn.batch_first) == (3, 0.0, False)
    assert (layer.dropout.p, layer.dropout1.p, layer.dropout2.p) == (0.0, 0.0, 0.0)
    assert layer.norm1.eps == layer.norm2.eps == 1e-5
    assert layer.norm_first == switches["norm_first"]
    assert layer.activation is getattr(nn.functional, switches["activation"])
    assert as_layer(parameters, heads, **switches, batch_first=True).self_attn.batch_first
    for (name, one), (_, two) in zip(
        layer.named_parameters(), torch_layer(parameters, heads, **switches).named_parameters(), strict=True
    ):
        assert torch.equal(one, two), name


@pytest.mark.parametrize("switches", SWITCHES)
@pytest.mark.parametrize("gradients", [True, False])
def test_a_later_token_does_not_leak(switches: dict[str, Any], gradients: bool) -> None:
    # M11: is_causal=True alone would raise, or without gradients mask nothing
    for run in (lambda *given: run_block(*given, **switches).output, lambda *given: fused_output(*given, **switches)):
        x, *rest = scene(4)
        with torch.set_grad_enabled(gradients):
            before = run(x.clone(), *rest)
            x[:, -1] += 10
            after = run(x, *rest)
        assert_close(after[:, :-1], before[:, :-1], rtol=0, atol=0)
        assert after[:, -1].ne(before[:, -1]).all()


@pytest.mark.parametrize("switches", SWITCHES)
@pytest.mark.parametrize("seed", range(5))
def test_an_empty_row_is_finite_and_ours_too(switches: dict[str, Any], seed: int) -> None:
    # M01, M02: no NaN, as the layer does not ask its attention for weights
    x, parameters, heads, _ = scene()
    allowed = coin(seed, 7, 7)
    allowed[2] = False
    theirs, mine = (run(x, parameters, heads, allowed, **switches) for run in (run_block, ours))
    for step in theirs.steps:
        assert_close(attrgetter(step)(mine), attrgetter(step)(theirs), rtol=1e-7, atol=1e-9)
    assert theirs.output.isfinite().all()
    assert torch.equal(theirs.attention.output[:, 2], parameters.attention.b_o.expand(2, -1))


def test_nothing_else_is_touched() -> None:
    # R07: neither the random state of the process, nor the mode of gradients, nor the parameters
    x, parameters, heads, allowed = scene(4)
    kept = {f.name: getattr(parameters, f.name).clone() for f in fields(parameters) if f.name != "attention"}
    before = torch.get_rng_state()
    run_block(x, parameters, heads, allowed)
    fused_output(x, parameters, heads, allowed)
    as_layer(parameters, heads, norm_first=True, activation="relu")
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.is_grad_enabled()
    for name, tensor in kept.items():
        assert torch.equal(getattr(parameters, name), tensor), name


def test_gradients_reach_the_tokens() -> None:
    x, parameters, heads, allowed = scene()
    x.requires_grad_()
    run_block(x, parameters, heads, allowed).output.square().sum().backward()
    assert x.grad is not None
    assert x.grad.ne(0).all()
