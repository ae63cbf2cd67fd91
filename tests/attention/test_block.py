"""The block and the stack: against `nn.TransformerEncoderLayer` and `nn.TransformerEncoder`, forward and backward."""

import math
import re
import warnings
from dataclasses import FrozenInstanceError, fields
from itertools import pairwise, product
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from attention import masks
from attention.block import POST_NORM, PRE_NORM, BlockTrace, TransformerBlock, TransformerStack, run_block
from attention.copying import read, write
from attention.multi_head import attend
from attention.sample import BlockParameters
from tests.attention.scenes import DTYPES, coin, filled, generator, normal, random_block, torch_layer

EMBED_DIM, HEADS, HIDDEN = 15, 3, 11
KINDS = list(product((False, True), ("gelu", "relu")))  # norm_first, activation
Switches = dict[str, Any]


def scene(num_tokens: int = 7) -> tuple[Tensor, BlockParameters, int, Tensor]:
    """Tokens that the norms have work with, and a causal mask."""
    x = 2 * normal(1, 2, num_tokens, EMBED_DIM) + 1
    return x, random_block(2, EMBED_DIM, HIDDEN), HEADS, masks.grid(masks.causal, num_tokens)


def block_and_layer(
    seed: int, embed_dim: int, heads: int, hidden: int, norm_first: bool, activation: str
) -> tuple[TransformerBlock, nn.TransformerEncoderLayer]:
    """The module and PyTorch's layer, on the same numbers."""
    parameters = random_block(seed, embed_dim, hidden)
    block = TransformerBlock(
        embed_dim, heads, norm_first=norm_first, activation=activation, feed_forward_dim=hidden
    ).double()
    write(block, parameters)
    return block, torch_layer(parameters, heads, norm_first=norm_first, activation=activation)


def gradients(module: nn.Module) -> dict[str, Tensor]:
    """The gradient of every parameter under PyTorch's names and packing."""
    held = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    assert held.keys() == dict(module.named_parameters()).keys()
    if not isinstance(module, TransformerBlock):
        return held
    kinds = ("weight", "bias")
    ours = {"linear1": "w_1", "linear2": "w_2", "norm1": "norm_1", "norm2": "norm_2", "self_attn.out_proj": "w_o"}
    found = {f"{theirs}.{kind}": held[f"{mine}.{kind}"] for theirs, mine in ours.items() for kind in kinds}
    for kind in kinds:
        found[f"self_attn.in_proj_{kind}"] = torch.cat([held[f"w_{name}.{kind}"] for name in "qkv"])
    return found


def assert_same_gradients(ours: nn.Module, theirs: nn.Module) -> None:
    one, other = gradients(ours), gradients(theirs)
    assert one.keys() == other.keys()
    for name, gradient in one.items():
        assert_close(gradient, other[name], rtol=1e-7, atol=1e-9)
        assert gradient.abs().max() > 1e-4, name


@pytest.mark.parametrize(("embed_dim", "heads"), [(1, 1), (6, 2), (15, 3), (8, 4), (8, 8)])
@pytest.mark.parametrize(("batch", "num_tokens"), [(1, 1), (2, 5)])
@pytest.mark.parametrize(("norm_first", "activation"), KINDS)
@pytest.mark.parametrize("causal", [True, False])
def test_against_pytorch(
    embed_dim: int, heads: int, batch: int, num_tokens: int, norm_first: bool, activation: str, causal: bool
) -> None:
    # S20, S15: head counts odd and even, in training mode and in eval mode without gradients
    block, layer = block_and_layer(1, embed_dim, heads, HIDDEN, norm_first, activation)
    x = normal(2, batch, num_tokens, embed_dim)
    allowed = masks.grid(masks.causal, num_tokens) if causal else None
    blocked = None if allowed is None else ~allowed
    found = block(x, allowed)
    assert_close(found, layer(x, src_mask=blocked), rtol=1e-7, atol=1e-9)
    block.eval()
    layer.eval()
    with torch.no_grad():
        assert torch.equal(block(x, allowed), found)
        assert_close(found.detach(), layer(x, src_mask=blocked), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("norm_first", "activation"), KINDS)
@pytest.mark.parametrize(("embed_dim", "heads"), [(15, 3), (8, 4), (7, 1)])
def test_gradients_are_those_of_pytorch(embed_dim: int, heads: int, norm_first: bool, activation: str) -> None:
    block, layer = block_and_layer(3, embed_dim, heads, HIDDEN, norm_first, activation)
    allowed, cotangent = masks.grid(masks.causal, 7), normal(5, 2, 7, embed_dim)
    ours, theirs = (normal(4, 2, 7, embed_dim).requires_grad_() for _ in range(2))
    block(ours, allowed).backward(cotangent)
    layer(theirs, src_mask=~allowed).backward(cotangent)
    assert_close(ours.grad, theirs.grad, rtol=1e-7, atol=1e-9)
    assert_same_gradients(block, layer)


def test_s20_itself() -> None:
    # S20: E=16, H=4, 32 inside, 6 tokens; each placement is PyTorch's, and nothing like the other one
    outputs = []
    for norm_first in (False, True):
        block, layer = block_and_layer(6, 16, 4, 32, norm_first, "gelu")
        x = normal(7, 2, 6, 16)
        outputs.append(block(x))
        assert_close(outputs[-1], layer(x), rtol=1e-7, atol=1e-9)
        fast = layer.float().eval()
        with torch.no_grad():
            assert_close(block.float()(x.float()), fast(x.float()))  # the other path, at the defaults of assert_close
    assert (outputs[0] - outputs[1]).abs().max() > 1


@given(st.data(), st.integers(0, 10**6))
def test_against_pytorch_under_any_mask(data: st.DataObject, seed: int) -> None:
    # M01, M02: rows that may attend to nothing are what is left of the block without their attention
    heads, head_dim, num_tokens, batch = (data.draw(st.integers(1, most)) for most in (4, 3, 6, 3))
    norm_first, activation = data.draw(st.sampled_from(KINDS))
    block, layer = block_and_layer(seed, heads * head_dim, heads, HIDDEN, norm_first, activation)
    x, allowed = normal(seed, batch, num_tokens, heads * head_dim), coin(seed, num_tokens, num_tokens)
    assert_close(block(x, allowed), layer(x, src_mask=~allowed), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(("norm_first", "activation"), KINDS)
def test_every_step(norm_first: bool, activation: str) -> None:
    x, p, heads, allowed = scene()
    trace = run_block(x, p, heads, allowed, norm_first=norm_first, activation=activation)

    def norm(number: int, of: Tensor) -> Tensor:
        weight, bias = getattr(p, f"norm_{number}_weight"), getattr(p, f"norm_{number}_bias")
        return nn.functional.layer_norm(of, (EMBED_DIM,), weight, bias, 1e-5)

    attended = norm(1, x) if norm_first else x
    attention = attend(attended, p.attention, heads, allowed)
    sum_1 = x + attention.output
    fed_with = norm(2, sum_1) if norm_first else norm(1, sum_1)
    hidden = fed_with @ p.w_1.T + p.b_1
    activated = getattr(nn.functional, activation)(hidden)
    fed = activated @ p.w_2.T + p.b_2
    sum_2 = (sum_1 if norm_first else fed_with) + fed
    expected = {
        "x": x,
        "sum_1": sum_1,
        "norm_1": attended if norm_first else fed_with,
        "hidden": hidden,
        "activated": activated,
        "fed": fed,
        "sum_2": sum_2,
        "norm_2": fed_with if norm_first else norm(2, sum_2),
    }
    assert trace.norm_first is norm_first
    for name, value in expected.items():
        assert_close(getattr(trace, name), value, rtol=1e-9, atol=1e-12)
    for step in attention.steps:
        assert_close(getattr(trace.attention, step), getattr(attention, step), rtol=1e-9, atol=1e-12)
    assert {f.name for f in fields(BlockTrace)} == {*expected, "norm_first", "attention"}


def test_the_order_of_the_steps() -> None:
    post, pre = (run_block(*scene(), norm_first=norm_first) for norm_first in (False, True))
    assert post.output is post.norm_2
    assert pre.output is pre.sum_2
    assert post.steps == POST_NORM
    assert pre.steps == PRE_NORM
    assert POST_NORM[:2] == ("attention.q", "attention.k")
    assert POST_NORM[9:] == ("attention.output", "sum_1", "norm_1", "hidden", "activated", "fed", "sum_2", "norm_2")
    assert PRE_NORM[:2] == ("norm_1", "attention.q")
    assert PRE_NORM[10:] == ("attention.output", "sum_1", "norm_2", "hidden", "activated", "fed", "sum_2")
    assert set(PRE_NORM) == set(POST_NORM)
    with pytest.raises(FrozenInstanceError):
        post.sum_1 = post.sum_2  # type: ignore[misc]


@pytest.mark.parametrize("norm_first", [False, True])
def test_forward_is_the_last_step_of_the_trace(norm_first: bool) -> None:
    block, _ = block_and_layer(1, EMBED_DIM, HEADS, HIDDEN, norm_first, "gelu")
    x, _, _, allowed = scene()
    trace = block.trace(x, allowed)
    assert torch.equal(block(x, allowed), trace.output)
    assert trace.norm_first is norm_first
    held = block.held()  # the module's own parameters, not copies
    assert held.w_1 is block.w_1.weight
    assert held.attention.b_o is block.w_o.bias


def test_defaults() -> None:
    # S22: post-norm, GELU, four times as wide inside, no dropout
    block = TransformerBlock(6, 2)
    assert (block.norm_first, block.activation, block.dropout, block.num_heads) == (False, "gelu", 0.0, 2)
    assert block.w_1.weight.shape == (24, 6)
    assert block.w_2.weight.shape == (6, 24)
    assert TransformerBlock(6, 2, feed_forward_dim=5).w_1.weight.shape == (5, 6)
    assert TransformerBlock(6, 2, 0.25, True).norm_first


def test_the_source_is_a_block_whose_mask_and_second_norm_are_used() -> None:
    # the source builds both and uses neither: here each changes what comes out
    block, _ = block_and_layer(1, EMBED_DIM, HEADS, HIDDEN, False, "gelu")
    x, _, _, allowed = scene()
    assert not torch.allclose(block(x, allowed)[:, 0], block(x)[:, 0])
    before = block(x, allowed)
    with torch.no_grad():
        block.norm_2.weight.mul_(2)
        block.norm_2.bias.mul_(2)
    assert_close(block(x, allowed), 2 * before)


@pytest.mark.parametrize(("norm_first", "activation"), KINDS)
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("gradients", [True, False])
def test_a_later_token_does_not_leak(norm_first: bool, activation: str, depth: int, gradients: bool) -> None:
    # M11, M17: to the last bit, in a stack too; in PyTorch's layer as well, as it is called here
    stack = filled(TransformerStack(depth, EMBED_DIM, HEADS, norm_first=norm_first, activation=activation).double(), 1)
    layer = torch_layer(random_block(1, 16, HIDDEN), 4, norm_first=norm_first, activation=activation).eval()
    allowed = masks.grid(masks.causal, 5)
    with torch.set_grad_enabled(gradients):
        for run, width in ((lambda x: stack(x, allowed), EMBED_DIM), (lambda x: layer(x, src_mask=~allowed), 16)):
            x = normal(3, 2, 5, width)
            before = run(x).clone()
            x[:, -1] += 10
            after = run(x)
            assert_close(after[:, :-1], before[:, :-1], rtol=0, atol=0)
            assert after[:, -1].ne(before[:, -1]).any()


def test_pytorchs_flag_alone_masks_nothing() -> None:
    # M11: why the reference always hands over a mask
    layer = torch_layer(random_block(1, 16, HIDDEN), 4, norm_first=False, activation="gelu").eval()
    x = normal(2, 2, 5, 16)
    with pytest.raises(RuntimeError):
        layer(x, is_causal=True)
    with torch.no_grad():
        assert torch.equal(layer(x, is_causal=True), layer(x))
        assert not torch.allclose(layer(x, is_causal=True), layer(x, src_mask=torch.ones(5, 5).triu(1).bool()))


def test_a_prefix_gives_the_same_output() -> None:
    # M17
    x, parameters, heads, _ = scene(40)
    whole = run_block(x, parameters, heads, masks.grid(masks.causal, 40)).output
    part = run_block(x[:, :13], parameters, heads, masks.grid(masks.causal, 13)).output
    assert_close(whole[:, :13], part)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("gradients", [True, False])
def test_padded_positions_are_not_compared(norm_first: bool, gradients: bool) -> None:
    # M28: two sequences of five with 3 and 2 real tokens; without gradients PyTorch packs them
    parameters, x = random_block(1, 8, 16), normal(2, 2, 5, 8)
    layer = torch_layer(parameters, 2, norm_first=norm_first, activation="relu").eval()
    real = torch.tensor([[True] * 3 + [False] * 2, [True] * 2 + [False] * 3])
    ours = run_block(
        x, parameters, 2, real[:, None, None].expand(2, 1, 5, 5), norm_first=norm_first, activation="relu"
    ).output
    with torch.set_grad_enabled(gradients), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*nested tensors.*")  # PyTorch calls them a prototype
        encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=not norm_first).eval()
        theirs = encoder(x, src_key_padding_mask=~real)
    assert theirs.shape == ours.shape
    assert_close(ours[real], theirs[real].detach(), rtol=1e-7, atol=1e-9)
    assert ours[~real].ne(0).all()  # and here they stay numbers
    if not gradients and not norm_first:
        assert theirs[~real].eq(0).all()


@pytest.mark.parametrize(("norm_first", "activation"), KINDS)
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_a_stack_is_pytorchs_encoder(norm_first: bool, activation: str, depth: int) -> None:
    stack = TransformerStack(
        depth, EMBED_DIM, HEADS, norm_first=norm_first, activation=activation, feed_forward_dim=HIDDEN
    ).double()
    every = [random_block(10 + i, EMBED_DIM, HIDDEN) for i in range(depth)]
    layer = torch_layer(every[0], HEADS, norm_first=norm_first, activation=activation)
    encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
    for parameters, mine, its in zip(every, stack.blocks, encoder.layers, strict=True):
        write(mine, parameters)
        its.load_state_dict(torch_layer(parameters, HEADS, norm_first=norm_first, activation=activation).state_dict())
    allowed, cotangent = masks.grid(masks.causal, 7), normal(5, 2, 7, EMBED_DIM)
    ours, theirs = (normal(4, 2, 7, EMBED_DIM).requires_grad_() for _ in range(2))
    found, expected = stack(ours, allowed), encoder(theirs, mask=~allowed)
    assert_close(found, expected, rtol=1e-7, atol=1e-9)
    found.backward(cotangent)
    expected.backward(cotangent)
    assert_close(ours.grad, theirs.grad, rtol=1e-7, atol=1e-9)
    for mine, its in zip(stack.blocks, encoder.layers, strict=True):
        assert_same_gradients(mine, its)


def test_a_stack_hands_on_what_each_block_gives_out() -> None:
    stack = filled(TransformerStack(3, EMBED_DIM, HEADS, norm_first=True).double(), 1)
    x, _, _, allowed = scene()
    traces = stack.trace(x, allowed)
    assert len(traces) == 3
    assert traces[0].x is x
    for before, after in pairwise(traces):
        assert after.x is before.output
    assert torch.equal(stack(x, allowed), traces[-1].output)
    assert not torch.equal(traces[0].attention.q, traces[1].attention.q)


@pytest.mark.parametrize(("norm_first", "activation"), KINDS)
def test_as_built_and_in_training_mode(norm_first: bool, activation: str) -> None:
    # N16: the layer as people build it has a dropout of 0.1 and is in training mode; both are judged in eval mode
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first, activation=activation)
    assert layer.training
    assert layer.dropout1.p == 0.1
    block = TransformerBlock(8, 2, 0.1, norm_first, activation=activation, feed_forward_dim=16)
    write(block, read(layer))
    x = normal(0, 2, 5, 8, dtype=torch.float32)
    with torch.random.fork_rng():
        assert not torch.equal(layer(x), layer(x))
    layer.eval()
    block.eval()
    first = block(x)
    for _ in range(10):
        assert torch.equal(block(x), first)
        assert_close(first, layer(x))


@pytest.mark.parametrize("norm_first", [False, True])
def test_what_is_dropped(norm_first: bool) -> None:
    # in the order of the computation: weights, what attention gives, what is activated, what is fed back
    x, parameters, heads, allowed = scene()
    seen: list[Tensor] = []

    def look(given: Tensor) -> Tensor:
        seen.append(given)
        return given

    trace = run_block(x, parameters, heads, allowed, norm_first=norm_first, drop=look)
    expected = (trace.attention.weights, trace.attention.output, trace.activated, trace.fed)
    assert len(seen) == 4
    assert all(one is other for one, other in zip(seen, expected, strict=True))
    # where everything is dropped, only the residual stream and the norms are left
    none = run_block(x, parameters, heads, allowed, norm_first=norm_first, drop=torch.zeros_like)
    assert torch.equal(none.sum_1, x)
    assert torch.equal(none.sum_2, x if norm_first else none.norm_1)
    assert torch.equal(none.attention.output, parameters.attention.b_o.expand_as(x))
    assert torch.equal(none.fed, parameters.b_2.expand_as(x))


@pytest.mark.parametrize("norm_first", [False, True])
def test_dropout_spreads_as_pytorchs_does(norm_first: bool) -> None:
    # N17: never the same cells, but the same mean and spread over many draws
    block, layer = block_and_layer(1, 6, 2, 5, norm_first, "relu")
    draws, x = 4000, normal(2, 1, 3, 6).expand(4000, -1, -1)
    block.dropout = 0.2
    for module in (layer.dropout, layer.dropout1, layer.dropout2):
        module.p = 0.2
    layer.self_attn.dropout = 0.2
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        one, other = block(x, None, generator(1)), layer(x)
    spread = torch.maximum(one.std(0), other.std(0))
    assert ((one.mean(0) - other.mean(0)).abs() <= 5 * spread * math.sqrt(2 / draws)).all()
    assert_close(one.std(0), other.std(0), rtol=0.12, atol=0)


@pytest.mark.parametrize("depth", [1, 2])
def test_dropout_is_seeded_and_off_in_eval_mode(depth: int) -> None:
    # N15, R07
    stack, x = filled(TransformerStack(depth, EMBED_DIM, HEADS, 0.5).double(), 1), scene()[0]
    with torch.random.fork_rng():
        torch.manual_seed(1)
        before = torch.get_rng_state()
        first = stack(x, None, generator(7))
        assert torch.equal(torch.get_rng_state(), before)
        torch.manual_seed(2)
        assert torch.equal(stack(x, None, generator(7)), first)
    assert not torch.equal(stack(x, None, generator(8)), first)
    plain = filled(TransformerStack(depth, EMBED_DIM, HEADS).double(), 1)(x)
    stack.eval()
    assert torch.equal(stack(x), plain)
    assert torch.equal(stack(x, None, generator(7)), plain)
    assert not torch.equal(plain, first)


def test_one_sequence_alone_or_in_a_batch() -> None:
    # N25: within a tolerance
    x, parameters, heads, allowed = scene()
    both = run_block(x, parameters, heads, allowed)
    assert_close(run_block(x[1:], parameters, heads, allowed).output, both.output[1:])


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(norm_first: bool, dtype: torch.dtype) -> None:
    # N09: no exception in half precision, and rounding is all that differs
    x, parameters, heads, allowed = scene()
    exact = run_block(x, parameters, heads, allowed, norm_first=norm_first)
    found = run_block(x.to(dtype), parameters.to(dtype), heads, allowed, norm_first=norm_first)
    assert found.output.dtype is found.norm_1.dtype is found.activated.dtype is dtype
    assert_close(found.output.double(), exact.output, rtol=0, atol=60 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("norm_first", [False, True])
def test_no_tokens_and_tokens_that_are_not_contiguous(norm_first: bool) -> None:
    # S16, S03
    block, _ = block_and_layer(1, EMBED_DIM, HEADS, HIDDEN, norm_first, "gelu")
    assert block(normal(0, 2, 0, EMBED_DIM)).shape == (2, 0, EMBED_DIM)
    turned = normal(0, 7, 2, EMBED_DIM).transpose(0, 1)
    assert_close(block(turned), block(turned.contiguous()), rtol=0, atol=0)


@pytest.mark.parametrize("norm_first", [False, True])
def test_tokens_that_do_not_fit_are_refused(norm_first: bool) -> None:
    # S23
    block, _ = block_and_layer(1, EMBED_DIM, HEADS, HIDDEN, norm_first, "gelu")
    with pytest.raises(ValueError, match="the tokens are float32, the weights float64; they must be of one dtype"):
        block(normal(0, 2, 7, EMBED_DIM, dtype=torch.float32))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"embed_dim": 10, "num_heads": 3}, "3 heads do not divide an embedding of 10 dimensions."),  # S07
        ({"embed_dim": 4, "num_heads": 8}, "8 heads do not divide an embedding of 4 dimensions."),
        ({"num_heads": 0}, "0 heads do not divide"),
        ({"num_heads": -2}, "-2 heads do not divide"),
        ({"activation": "swish"}, "activation is 'swish'; it must be one of gelu, relu."),  # S22
        ({"dropout": 1.5}, "dropout is 1.5; it must be a number from 0 to 1."),  # N15
        ({"dropout": -0.1}, "dropout is -0.1; it must be a number from 0 to 1."),
        ({"num_blocks": 0}, "num_blocks is 0; it must be a whole number from 1 up."),
        ({"num_blocks": True}, "num_blocks is True; it must be a whole number from 1 up."),
    ],
)
def test_what_makes_no_block_is_refused(wrong: Switches, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        TransformerStack(**{"num_blocks": 1, "embed_dim": 6, "num_heads": 2, **wrong})
    with pytest.raises(ValueError, match=re.escape("activation is 'swish'")):
        run_block(*scene(), activation="swish")


def test_a_block_refuses_what_it_cannot_be() -> None:
    with pytest.raises(ValueError, match="feed_forward_dim is 0"):
        TransformerBlock(4, 2, feed_forward_dim=0)
    with pytest.raises(ValueError, match="do not divide an embedding of 0"):
        TransformerBlock(0, 2)
