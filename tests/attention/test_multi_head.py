"""All heads at once: against `nn.MultiheadAttention`, forward and backward, and what holds for any numbers."""

import inspect
import re
from dataclasses import FrozenInstanceError, fields, replace
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from attention import masks
from attention.compare import compare
from attention.config import AttentionConfig
from attention.multi_head import STEPS, AttentionTrace, attend, attend_as_configured, draw, split_heads
from attention.sample import AttentionParameters
from attention.verify import ARITHMETIC
from tests.attention.scenes import (
    assert_same,
    coin,
    hard_scene,
    hard_trace,
    module_answer,
    normal,
    random_parameters,
    torch_module,
)


def mask(causal: bool, num_tokens: int) -> torch.Tensor:
    return masks.grid(masks.causal, num_tokens) if causal else masks.grid(masks.full, num_tokens)


@pytest.mark.parametrize(("embed_dim", "num_heads"), [(1, 1), (7, 1), (6, 3), (8, 8), (15, 3), (22, 2), (35, 5)])
@pytest.mark.parametrize(("batch", "num_tokens"), [(1, 1), (2, 5), (3, 2), (5, 11)])
@pytest.mark.parametrize("causal", [False, True])
def test_against_pytorch(embed_dim: int, num_heads: int, batch: int, num_tokens: int, causal: bool) -> None:
    tokens, parameters = normal(0, batch, num_tokens, embed_dim), random_parameters(1, embed_dim)
    allowed = mask(causal, num_tokens)
    trace = attend(tokens, parameters, num_heads, allowed)
    weights, output = module_answer(torch_module(parameters, num_heads), tokens, allowed)
    assert_close(trace.weights, weights, rtol=1e-7, atol=1e-9)
    assert_close(trace.output, output, rtol=1e-7, atol=1e-9)


@given(data=st.data(), seed=st.integers(0, 10**6))
def test_against_pytorch_under_any_mask(data: st.DataObject, seed: int) -> None:
    num_heads, head_dim, num_tokens, batch = (data.draw(st.integers(1, most)) for most in (4, 5, 7, 3))
    embed_dim = num_heads * head_dim
    tokens, parameters = normal(seed, batch, num_tokens, embed_dim), random_parameters(seed, embed_dim)
    shapes = [(1, 1), (batch, 1), (1, num_heads), (batch, num_heads)]
    # the diagonal is allowed: with an empty row the module's weights are NaN
    allowed = coin(seed, *data.draw(st.sampled_from(shapes)), num_tokens, num_tokens) | torch.eye(num_tokens).bool()
    trace = attend(tokens, parameters, num_heads, allowed)
    weights, output = module_answer(torch_module(parameters, num_heads), tokens, allowed)
    assert_close(trace.weights, weights, rtol=1e-7, atol=1e-9)
    assert_close(trace.output, output, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_those_of_pytorch(causal: bool) -> None:
    batch, num_tokens, num_heads, embed_dim = 2, 7, 3, 15
    drawn = random_parameters(3, embed_dim)
    parameters = AttentionParameters(*(getattr(drawn, f.name).clone().requires_grad_() for f in fields(drawn)))
    module = torch_module(drawn, num_heads)
    cotangent = normal(5, batch, num_tokens, embed_dim)
    ours, theirs = (normal(4, batch, num_tokens, embed_dim).requires_grad_() for _ in range(2))
    attend(ours, parameters, num_heads, mask(causal, num_tokens)).output.backward(cotangent)
    module_answer(module, theirs, mask(causal, num_tokens))[1].backward(cotangent)

    p = parameters
    weight, bias = module.in_proj_weight.grad, module.in_proj_bias.grad
    assert ours.grad is not None
    assert ours.grad.ne(0).all()
    assert_close(ours.grad, theirs.grad, rtol=1e-7, atol=1e-9)
    for mine, packed in (([p.w_q, p.w_k, p.w_v], weight), ([p.b_q, p.b_k, p.b_v], bias)):
        assert_close(torch.cat([x.grad for x in mine if x.grad is not None]), packed, rtol=1e-7, atol=1e-9)
    assert_close(p.w_o.grad, module.out_proj.weight.grad, rtol=1e-7, atol=1e-9)
    assert_close(p.b_o.grad, module.out_proj.bias.grad, rtol=1e-7, atol=1e-9)


def test_480_configurations_in_float32_are_all_equal() -> None:
    # N01, S15: at the defaults of torch.testing.assert_close
    sizes = [(4, 1), (8, 2), (8, 8), (16, 4), (32, 8), (64, 8), (128, 16), (12, 3)]
    cases = list(product(sizes, (1, 2, 5, 16, 64), (False, True), range(6)))
    assert len(cases) == 480
    for (embed_dim, num_heads), num_tokens, causal, seed in cases:
        tokens = normal(seed, 1, num_tokens, embed_dim, dtype=torch.float32)
        parameters = random_parameters(seed, embed_dim, torch.float32)
        trace = attend(tokens, parameters, num_heads, mask(causal, num_tokens))
        answer = module_answer(torch_module(parameters, num_heads), tokens, mask(causal, num_tokens))
        for step, expected in zip(("weights", "output"), answer, strict=True):
            check = compare(step, getattr(trace, step), expected, ARITHMETIC["float32"])
            assert check.equal, (embed_dim, num_heads, num_tokens, causal, seed, check.reason)


def test_every_step_has_its_shape() -> None:
    # S08: batch and tokens differ, so that a swap of the two shows
    trace, (b, h, t, d) = hard_trace(), (2, 3, 7, 5)
    shapes: dict[str, tuple[int, ...]]
    per_head, square, tokens = (b, h, t, d), (b, h, t, t), (b, t, h * d)
    shapes = dict.fromkeys(("scores", "scaled", "masked", "weights", "dropped"), square)
    shapes |= dict.fromkeys(("q", "k", "v", "context"), per_head)
    shapes |= {"merged": tokens, "output": tokens}
    names = tuple(field.name for field in fields(AttentionTrace))
    assert {step: tuple(getattr(trace, step).shape) for step in names} == shapes
    assert tuple(name for name in names if name != "dropped") == STEPS
    assert trace.dropped is trace.weights
    with pytest.raises(FrozenInstanceError):
        trace.output = trace.merged  # type: ignore[misc]


def test_heads_are_blocks_of_each_token() -> None:
    # S01: two tokens of four numbers; head 0 has the first two of each, head 1 the last two
    x = torch.tensor([[[0.0, 1, 2, 3], [4, 5, 6, 7]]])
    assert split_heads(x, 2).tolist() == [[[[0, 1], [4, 5]], [[2, 3], [6, 7]]]]


def test_one_sequence_alone_or_in_a_batch() -> None:
    # N25: within a tolerance, as other kernels may be chosen
    tokens, parameters, num_heads, allowed = hard_scene()
    both = attend(tokens, parameters, num_heads, allowed)
    for i in range(2):
        one = attend(tokens[i : i + 1], parameters, num_heads, allowed[i : i + 1])
        assert_same(one, AttentionTrace(*(getattr(both, f.name)[i : i + 1] for f in fields(both))))


def test_a_mask_for_each_sequence() -> None:
    # M22: the first sequence has its last key padded, in all heads; the second loses nothing
    batch, num_heads, num_tokens, embed_dim = 2, 3, 5, 12
    tokens, parameters = normal(6, batch, num_tokens, embed_dim), random_parameters(7, embed_dim)
    padded = torch.zeros(batch, num_tokens, dtype=torch.bool)
    padded[0, -1] = True
    allowed = (~padded)[:, None, None].expand(batch, 1, num_tokens, num_tokens)
    trace = attend(tokens, parameters, num_heads, allowed)
    assert trace.weights[0, :, :, -1].eq(0).all()
    assert trace.weights[1].ne(0).all()
    module = torch_module(parameters, num_heads)
    output, weights = module(tokens, tokens, tokens, key_padding_mask=padded, average_attn_weights=False)
    assert_close(trace.weights, weights)
    assert_close(trace.output, output)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_a_later_token_does_not_leak(dtype: str) -> None:
    # M17: to the last bit
    config = AttentionConfig(embed_dim=12, num_heads=3, num_tokens=5, dtype=dtype)
    tokens, parameters = normal(8, 1, 5, 12, dtype=config.torch_dtype), random_parameters(9, 12, config.torch_dtype)
    before = attend(tokens, parameters, 3, masks.grid(masks.causal, 5)).output
    tokens[:, -1] += 10
    after = attend(tokens, parameters, 3, masks.grid(masks.causal, 5)).output
    assert torch.equal(after[:, :-1], before[:, :-1])
    assert after[:, -1].ne(before[:, -1]).any()


def test_a_prefix_gives_the_same_output() -> None:
    # M17: the first 100 tokens of a run over 257
    tokens, parameters = normal(10, 1, 257, 12, dtype=torch.float32), random_parameters(11, 12, torch.float32)
    whole = attend(tokens, parameters, 3, masks.grid(masks.causal, 257)).output
    prefix = attend(tokens[:, :100], parameters, 3, masks.grid(masks.causal, 100)).output
    assert_close(whole[:, :100], prefix)


@given(st.permutations(range(7)), st.integers(0, 10**6))
def test_without_a_mask_the_order_of_tokens_does_not_matter(order: list[int], seed: int) -> None:
    tokens, parameters = normal(seed, 2, 7, 15), random_parameters(seed, 15)
    straight = attend(tokens, parameters, 3, masks.grid(masks.full, 7))
    shuffled = attend(tokens[:, order], parameters, 3, masks.grid(masks.full, 7))
    assert_close(shuffled.output, straight.output[:, order], rtol=1e-7, atol=1e-9)
    assert_close(shuffled.weights, straight.weights[:, :, order][..., order], rtol=1e-7, atol=1e-9)


def test_tensors_need_not_be_contiguous() -> None:
    # S03
    tokens, parameters, num_heads, allowed = hard_scene()

    def turned(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x, x], dim=-1)[..., 0]  # every other number of a larger storage

    strided = AttentionParameters(*(turned(getattr(parameters, f.name)) for f in fields(parameters)))
    first = tokens.transpose(0, 1).contiguous().transpose(0, 1)
    assert not any(x.is_contiguous() for x in (first, strided.w_q, strided.b_o, turned(allowed)))
    assert_same(attend(first, strided, num_heads, turned(allowed)), hard_trace())


@pytest.mark.parametrize(("embed_dim", "num_heads"), [(10, 3), (4, 8), (6, 0), (6, -2)])
def test_heads_that_do_not_divide_are_refused_with_both_numbers(embed_dim: int, num_heads: int) -> None:
    # S07
    both = re.escape(f"{num_heads} heads") + rf".*\b{embed_dim} dimensions"
    with pytest.raises(ValueError, match=both):
        attend(normal(0, 1, 3, embed_dim), random_parameters(1, embed_dim), num_heads, masks.grid(masks.full, 3))


def test_one_sequence_without_its_batch_axis_is_refused() -> None:
    # S11: never another picture; this is what the library says where shapes are not checked
    unchecked = inspect.unwrap(attend)
    with pytest.raises(ValueError, match=re.escape("the tokens are (3, 6); they must be (sequences, tokens, 6).")):
        unchecked(normal(0, 3, 6), random_parameters(1, 6), 2, masks.grid(masks.full, 3))


def test_an_empty_row_leaves_the_output_bias() -> None:
    # M02: nothing attended to, so only b_o is left
    tokens, parameters, num_heads, allowed = hard_scene()
    allowed = allowed.clone()
    allowed[:, :, 2] = False
    trace = attend(tokens, parameters, num_heads, allowed)
    assert trace.weights[:, :, 2].eq(0).all()
    assert torch.equal(trace.output[:, 2], parameters.b_o.expand(2, -1))


def test_no_mask_is_the_full_mask() -> None:
    tokens, parameters, num_heads, _ = hard_scene()
    full = attend(tokens, parameters, num_heads, masks.grid(masks.full, 7))
    assert_same(attend(tokens, parameters, num_heads), full, rtol=0, atol=0)
    assert_same(attend(tokens, parameters, num_heads, None), full, rtol=0, atol=0)


@pytest.mark.parametrize(("batch", "num_tokens"), [(1, 0), (0, 3)])
def test_no_tokens_and_no_sequences(batch: int, num_tokens: int) -> None:
    # S16
    trace = attend(normal(0, batch, num_tokens, 6), random_parameters(1, 6), 2, masks.grid(masks.causal, num_tokens))
    assert trace.weights.shape == (batch, 2, num_tokens, num_tokens)
    assert trace.output.shape == (batch, num_tokens, 6)


def test_a_config_has_the_trace_of_its_own_draws() -> None:
    config = AttentionConfig(embed_dim=10, num_heads=2, num_tokens=3, seed=5)
    trace = attend_as_configured(config)
    assert trace.weights.shape == (1, 2, 3, 3)
    assert trace.weights.triu(1).eq(0).all()
    assert_same(attend_as_configured(config, draw(config)), trace, rtol=0, atol=0)
    others = AttentionConfig(embed_dim=10, num_heads=2, num_tokens=3, seed=6)
    assert_same(attend_as_configured(config, draw(others)), attend_as_configured(others), rtol=0, atol=0)
    assert attend_as_configured(AttentionConfig(embed_dim=10, num_heads=2, causal=False)).weights.ne(0).all()


@given(st.sampled_from(["float64", "float32", "bfloat16", "float16"]), st.integers(0, 10**6), st.booleans())
def test_every_step_keeps_the_dtype_and_is_finite(dtype: str, seed: int, causal: bool) -> None:
    config = AttentionConfig(embed_dim=12, num_heads=3, num_tokens=5, seed=seed, causal=causal, dtype=dtype)
    trace = attend_as_configured(config)
    for step in STEPS:
        values = getattr(trace, step)
        assert values.dtype is config.torch_dtype
        finite = mask(causal, 5).expand_as(values) if step == "masked" else torch.ones_like(values, dtype=torch.bool)
        assert torch.equal(values.isfinite(), finite), step


@pytest.mark.parametrize(("t", "s"), [(4, 7), (7, 4), (1, 5)])
def test_other_tokens_that_are_attended_to(t: int, s: int) -> None:
    # M13: forward and backward, T queries and S keys; the first key is for all, so that no row is empty
    num_heads, embed_dim = 3, 15
    drawn, cotangent = random_parameters(3, embed_dim), normal(5, 2, t, embed_dim)
    allowed = masks.grid(masks.causal, t, s)
    module = torch_module(drawn, num_heads)
    x, m = normal(1, 2, t, embed_dim).requires_grad_(), normal(2, 2, s, embed_dim).requires_grad_()
    trace = attend(x, drawn, num_heads, allowed, memory=m)
    output, weights = module(x, m, m, attn_mask=~allowed, average_attn_weights=False)
    assert trace.weights.shape == (2, num_heads, t, s)
    assert_close(trace.weights, weights, rtol=1e-7, atol=1e-9)
    assert_close(trace.output, output, rtol=1e-7, atol=1e-9)
    ours, theirs = (torch.autograd.grad(y, (x, m), cotangent) for y in (trace.output, output))
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, rtol=1e-7, atol=1e-9)


def test_tokens_attended_to_may_be_themselves() -> None:
    tokens, parameters, num_heads, allowed = hard_scene()
    assert_same(attend(tokens, parameters, num_heads, allowed, memory=tokens.clone()), hard_trace())


def test_tokens_of_another_width_than_what_comes_out() -> None:
    drawn = random_parameters(1, 15)
    wide = replace(drawn, **{name: normal(place, 15, 7) for place, name in enumerate(("w_q", "w_k", "w_v"))})
    tokens = normal(2, 2, 5, 7)
    trace = attend(tokens, wide, 3, masks.grid(masks.causal, 5))
    q, k, v = (
        (tokens @ w.T + b).unflatten(-1, (3, 5)).transpose(1, 2)
        for w, b in ((wide.w_q, wide.b_q), (wide.w_k, wide.b_k), (wide.w_v, wide.b_v))
    )
    context = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
    assert_close(trace.output, context @ wide.w_o.T + wide.b_o, rtol=1e-7, atol=1e-9)


def test_dropout_stands_between_weights_and_values() -> None:
    # N14: the weights that are shown stay what they are
    tokens, parameters, num_heads, allowed = hard_scene()
    trace = attend(tokens, parameters, num_heads, allowed, lambda weights: 2 * weights)
    plain = hard_trace()
    assert torch.equal(trace.weights, plain.weights)
    assert torch.equal(trace.dropped, 2 * plain.weights)
    assert_close(trace.context, 2 * plain.context)


@pytest.mark.parametrize("which", ["tokens", "memory"])
def test_two_dtypes_are_refused_by_name(which: str) -> None:
    # S23
    tokens, parameters, num_heads, allowed = hard_scene()
    given = {"tokens": tokens, "memory": tokens.clone()}
    given[which] = given[which].float()
    with pytest.raises(ValueError, match="the tokens are float32, the weights float64; they must be of one dtype"):
        attend(given["tokens"], parameters, num_heads, allowed, memory=given["memory"])
