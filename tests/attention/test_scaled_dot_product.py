"""The equation: by hand, against `F.scaled_dot_product_attention`, and what holds for any numbers."""

import math
import re

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from attention import masks
from attention.compare import compare
from attention.scaled_dot_product import check_mask, scaled_dot_product, softmax
from attention.verify import ARITHMETIC
from tests.attention.scenes import DTYPES, coin, normal

# against the float64 answer, for scores up to about 10: half precision keeps 8 or 11 bits of each step
LOOSE = {torch.float64: 1e-12, torch.float32: 2e-5, torch.bfloat16: 0.15, torch.float16: 0.02}


def draw(seed: int, b: int, h: int, t: int, s: int, d: int, v: int) -> tuple[Tensor, Tensor, Tensor]:
    return normal(seed, b, h, t, d), normal(seed + 1, b, h, s, d), normal(seed + 2, b, h, s, v)


def test_two_tokens_of_width_1_by_hand() -> None:
    # width 1: no scaling. Scores [[0, ln 2], [0, 2 ln 2]]; exp of them [[1, 2], [1, 4]]; over the row's sum
    q, k, v = (torch.tensor(x, dtype=torch.float64).view(1, 1, 2, 1) for x in ([1, 2], [0, math.log(2)], [1, 4]))
    steps = scaled_dot_product(q, k, v, masks.grid(masks.full, 2))
    assert_close(steps.weights[0, 0], torch.tensor([[1 / 3, 2 / 3], [1 / 5, 4 / 5]], dtype=torch.float64))
    assert_close(steps.context[0, 0], torch.tensor([[3.0], [3.4]], dtype=torch.float64))  # 1/3 + 8/3, 1/5 + 16/5


def test_two_tokens_of_width_4_by_hand() -> None:
    # ones · k = 2 ln 3 for the second key; over √4 that is ln 3, so the weights are 1 to 3
    q = torch.ones(1, 1, 2, 4, dtype=torch.float64)
    k = torch.tensor([[0.0] * 4, [math.log(3) / 2] * 4], dtype=torch.float64)[None, None]
    v = torch.tensor([[8.0, 0.0], [4.0, 1.0]], dtype=torch.float64)[None, None]
    steps = scaled_dot_product(q, k, v, masks.grid(masks.causal, 2))
    two, one = 2 * math.log(3), math.log(3)
    by_hand = {
        "scores": [[0, two], [0, two]],
        "scaled": [[0, one], [0, one]],
        "masked": [[0, -math.inf], [0, one]],
        "weights": [[1, 0], [0.25, 0.75]],
        "context": [[8, 0], [5, 0.75]],
    }
    for step, values in by_hand.items():
        assert_close(getattr(steps, step)[0, 0], torch.tensor(values, dtype=torch.float64))


@pytest.mark.parametrize(
    ("b", "h", "t", "s", "d", "v"), [(2, 3, 5, 7, 11, 13), (3, 2, 13, 5, 7, 11), (5, 7, 2, 3, 13, 1)]
)
@pytest.mark.parametrize("shape", ["T S", "1 1 T S", "B 1 T S", "1 H T S", "B H T S"])
def test_against_pytorch_over_primes(b: int, h: int, t: int, s: int, d: int, v: int, shape: str) -> None:
    q, k, values = draw(10, b, h, t, s, d, v)
    sizes = {"1": 1, "B": b, "H": h, "T": t, "S": s}
    allowed = coin(4, *(sizes[name] for name in shape.split()))
    steps = scaled_dot_product(q, k, values, allowed)
    expected = F.scaled_dot_product_attention(q, k, values, attn_mask=allowed)
    assert steps.weights.shape == (b, h, t, s)
    assert_close(steps.context, expected, rtol=1e-9, atol=1e-12)


def test_no_mask_is_the_full_mask() -> None:
    q, k, v = draw(11, 2, 3, 5, 7, 11, 13)
    none, full = scaled_dot_product(q, k, v), scaled_dot_product(q, k, v, torch.ones(5, 7, dtype=torch.bool))
    for one, other in zip(none, full, strict=True):
        assert torch.equal(one, other)
    assert_close(none.context, F.scaled_dot_product_attention(q, k, v), rtol=1e-9, atol=1e-12)


@given(data=st.data(), dtype=st.sampled_from(DTYPES), seed=st.integers(0, 10**6))
def test_against_pytorch_over_anything(data: st.DataObject, dtype: torch.dtype, seed: int) -> None:
    b, h, t, s, d, v = (data.draw(st.integers(1, most)) for most in (3, 3, 9, 9, 9, 9))
    q, k, values = (x.to(dtype) for x in draw(seed, b, h, t, s, d, v))
    allowed = coin(seed, *data.draw(st.sampled_from([(t, s), (b, 1, t, s), (1, h, t, s), (b, h, t, s)])))
    steps = scaled_dot_product(q, k, values, allowed)
    exact = F.scaled_dot_product_attention(q.double(), k.double(), values.double(), attn_mask=allowed)
    assert all(step.dtype is dtype for step in steps)
    assert_close(steps.context.double(), exact, rtol=0, atol=LOOSE[dtype])
    # N14: rows sum to 1, or to 0 where nothing may be attended; every cell is from 0 to 1, and 0 where blocked
    has_key = allowed.any(-1).expand(b, h, t)
    assert_close(steps.weights.double().sum(-1), has_key.double(), rtol=0, atol=s * torch.finfo(dtype).eps)
    assert 0 <= steps.weights.min() <= steps.weights.max() <= 1
    assert steps.weights[~allowed.expand(b, h, t, s)].eq(0).all()


def test_200_seeds_in_float32_are_all_equal() -> None:
    # N01: where the defaults of torch.allclose call 200 of 200 wrong
    for seed in range(200):
        q, k, v = (x.float() for x in draw(3 * seed, 1, 4, 16, 16, 32, 32))
        ours = scaled_dot_product(q, k, v, masks.grid(masks.full, 16)).context
        check = compare("context", ours, F.scaled_dot_product_attention(q, k, v), ARITHMETIC["float32"])
        assert check.equal, (seed, check.reason)


@pytest.mark.parametrize(
    ("row", "dtype", "expected"),
    [
        ([1000, 1001], torch.float32, [0.268941, 0.731059]),
        ([88, 89], torch.float32, [0.268941, 0.731059]),
        ([-1001, -1000], torch.float32, [0.268941, 0.731059]),
        ([11, 12], torch.float16, [0.2690, 0.7310]),
        ([1000, 1001], torch.bfloat16, [0.5, 0.5]),  # bfloat16 has no 1001: both are 1000
        ([3e38, -3e38], torch.float32, [1, 0]),
        ([0, -math.inf], torch.float32, [1, 0]),
        ([7], torch.float32, [1]),
    ],
)
def test_softmax_of_large_scores(row: list[float], dtype: torch.dtype, expected: list[float]) -> None:
    # N07
    found = softmax(torch.tensor(row, dtype=dtype))
    assert_close(found, torch.tensor(expected, dtype=dtype), rtol=1e-3 if dtype is torch.float16 else 1e-5, atol=0)


@given(st.integers(1, 9), st.floats(0, 1e4), st.floats(-1e3, 1e3), st.integers(0, 10**6))
def test_softmax_is_finite_and_shift_invariant(size: int, scale: float, shift: float, seed: int) -> None:
    # N07: whatever the scale of the scores
    x = scale * normal(seed, 3, size)
    found = softmax(x)
    assert_close(found.sum(-1), torch.ones(3, dtype=torch.float64))
    assert_close(softmax(x + shift), found, rtol=1e-6, atol=1e-9)
    assert_close(found, torch.softmax(x, -1))


def test_softmax_is_over_keys() -> None:
    # N21: over queries, a single query would give every key the weight 1
    q, k, v = draw(0, 2, 3, 1, 5, 7, 7)
    assert scaled_dot_product(q, k, v, torch.ones(1, 5, dtype=torch.bool)).weights.max() < 1
    q, k, v = draw(0, 2, 3, 5, 1, 7, 7)
    assert scaled_dot_product(q, k, v, torch.ones(5, 1, dtype=torch.bool)).weights.eq(1).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_empty_row_is_zeros(dtype: torch.dtype) -> None:
    # M01: not NaN, and not the mean of V as with a large negative number
    q, k, v = (x.to(dtype) for x in draw(5, 2, 3, 4, 4, 5, 7))
    allowed = masks.grid(masks.causal, 4)
    allowed[2] = False
    steps = scaled_dot_product(q, k, v, allowed)
    assert steps.weights[:, :, 2].eq(0).all()
    assert steps.context[:, :, 2].eq(0).all()
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
    assert torch.equal(steps.context[:, :, 2], expected[:, :, 2])
    exact = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), attn_mask=allowed)
    assert_close(steps.context.double(), exact, rtol=0, atol=LOOSE[dtype])


def test_more_queries_than_keys() -> None:
    # M15: bottom-right corner; the first three queries see nothing, the fourth one key
    q, k, v = draw(6, 1, 2, 5, 2, 3, 7)
    allowed = torch.ones(5, 2, dtype=torch.bool).tril(-3)
    weights = scaled_dot_product(q, k, v, allowed).weights
    assert torch.equal(weights[:, :, :4], torch.tensor([[0.0, 0]] * 3 + [[1.0, 0]]).double().expand(1, 2, 4, 2))
    assert_close(weights[:, :, 4], torch.softmax(q[:, :, 4:] @ k.mT / math.sqrt(3), -1)[:, :, 0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_causal_is_exactly_zero_above_the_diagonal(dtype: torch.dtype) -> None:
    # M09, N09: one code path, no exception in half precision
    q, k, v = (x.to(dtype) for x in draw(7, 2, 3, 4, 4, 5, 5))
    weights = scaled_dot_product(q, k, v, masks.grid(masks.causal, 4)).weights
    assert weights.triu(1).eq(0).all()
    assert weights.diagonal(dim1=-2, dim2=-1).gt(0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_later_token_does_not_leak(dtype: torch.dtype) -> None:
    # M17: to the last bit
    q, k, v = (x.to(dtype) for x in draw(8, 2, 3, 5, 5, 7, 11))
    before = scaled_dot_product(q, k, v, masks.grid(masks.causal, 5)).context
    for x in (q, k, v):
        x[:, :, -1] += 10
    after = scaled_dot_product(q, k, v, masks.grid(masks.causal, 5)).context
    assert torch.equal(after[:, :, :-1], before[:, :, :-1])
    assert not torch.equal(after[:, :, -1], before[:, :, -1])


def test_zeros_for_masked_scores_and_a_late_mask_are_something_else() -> None:
    q, k, v = draw(9, 2, 3, 4, 4, 5, 7)
    allowed = masks.grid(masks.causal, 4)
    steps = scaled_dot_product(q, k, v, allowed)
    # M18: 0 is an ordinary score
    assert (torch.softmax(steps.scaled * allowed, -1) - steps.weights).abs().max() > 0.1
    # M19: masked after softmax, the rows want dividing by their sums
    late = torch.softmax(steps.scaled, -1) * allowed
    assert (late.sum(-1)[:, :, :-1] < 0.99).all()
    assert_close(late / late.sum(-1, keepdim=True), steps.weights)


def test_mask_before_or_after_scaling_is_the_same_to_the_last_bit() -> None:
    # M20: minus infinity stays what it is when divided
    for dtype in DTYPES:
        q, k, v = (x.to(dtype) for x in draw(10, 2, 3, 4, 4, 5, 7))
        steps = scaled_dot_product(q, k, v, masks.grid(masks.causal, 4))
        before = torch.where(masks.grid(masks.causal, 4), steps.scores, -math.inf) / math.sqrt(5)
        assert torch.equal(softmax(before), steps.weights)


def test_garbage_in_a_masked_key_changes_nothing() -> None:
    # M24
    q, k, v = draw(11, 2, 3, 4, 4, 5, 7)
    allowed = masks.grid(masks.full, 4)
    allowed[:, 1] = False
    expected = scaled_dot_product(q, k, v, allowed)
    for garbage in (math.nan, math.inf, 1e10):
        k[:, :, 1] = garbage
        steps = scaled_dot_product(q, k, v, allowed)
        assert torch.equal(steps.weights, expected.weights)
        assert torch.equal(steps.context, expected.context)
    v[:, :, 1] = 1e10
    assert torch.equal(scaled_dot_product(q, k, v, allowed).context, expected.context)
    # masking the scores cannot clean V: 0 · NaN is NaN, as in SDPA
    v[:, :, 1] = math.nan
    assert scaled_dot_product(q, k, v, allowed).context.isnan().all()
    assert F.scaled_dot_product_attention(q, k, v, attn_mask=allowed).isnan().all()


def test_masked_holds_minus_infinity_and_no_nan() -> None:
    # M26: (1 - mask) · -inf would be NaN where the mask allows
    zeros = torch.zeros(1, 1, 3, 2)
    masked = scaled_dot_product(zeros, zeros, zeros, masks.grid(masks.causal, 3)).masked
    inf = math.inf
    assert torch.equal(masked[0, 0], torch.tensor([[0, -inf, -inf], [0, 0, -inf], [0, 0, 0]]))


def test_a_mask_for_one_head_only() -> None:
    # M31
    q, k, v = draw(12, 2, 3, 4, 4, 8, 8)
    allowed = masks.grid(masks.full, 4).repeat(2, 3, 1, 1)
    allowed[:, 2] = masks.grid(masks.causal, 4)
    context = scaled_dot_product(q, k, v, allowed).context
    assert_close(context[:, :2], F.scaled_dot_product_attention(q, k, v)[:, :2])
    assert_close(context[:, 2], F.scaled_dot_product_attention(q, k, v, is_causal=True)[:, 2])


@pytest.mark.parametrize(("t", "s"), [(0, 3), (3, 0), (0, 0)])
def test_no_tokens_and_no_keys(t: int, s: int) -> None:
    # S16: as SDPA has it
    q, k, v = draw(13, 1, 2, t, s, 4, 5)
    steps = scaled_dot_product(q, k, v, torch.ones(t, s, dtype=torch.bool))
    assert steps.weights.shape == (1, 2, t, s)
    assert torch.equal(steps.context, F.scaled_dot_product_attention(q, k, v))
    assert torch.equal(steps.context, torch.zeros(1, 2, t, 5, dtype=torch.float64))


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (torch.ones(6, 6), "the mask holds torch.float32; it must be bool"),  # M07
        (torch.ones(6, 6).long(), "the mask holds torch.int64; it must be bool"),  # M30
        (masks.grid(masks.causal, 1), "the mask is (1, 1); it must end in (6, 6)"),  # S14
        (masks.grid(masks.causal, 4), "the mask is (4, 4); it must end in (6, 6)"),
        (torch.ones(2, 3, 6, 1).bool(), "the mask is (2, 3, 6, 1); it must end in (6, 6)"),
        # M22: with three axes it could mean sequences or heads
        (torch.ones(3, 6, 6).bool(), "the mask is (3, 6, 6); for scores of (2, 3, 6, 6) it must be (6, 6), or have 4"),
        (torch.ones(3, 1, 6, 6).bool(), "of which the first 2 are 1 or 2 × 3."),
        (torch.tensor(True), "the mask is (); it must end in (6, 6)"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(mask: Tensor, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        check_mask(mask, (2, 3, 6, 6))
    for fits in (None, masks.grid(masks.causal, 6), masks.grid(masks.full, 6).expand(2, 3, 6, 6)):
        check_mask(fits, (2, 3, 6, 6))
    check_mask(torch.ones(5, 2).bool(), (1, 1, 5, 2))


@pytest.mark.parametrize("empty_row", [False, True])
def test_gradients_are_those_of_pytorch(empty_row: bool) -> None:
    q, k, v = leaves = [x.requires_grad_() for x in draw(14, 2, 3, 5, 7, 11, 13)]
    allowed = coin(15, 2, 1, 5, 7)
    allowed[..., 0] = True
    allowed[:, :, 2] &= not empty_row
    cotangent = normal(16, 2, 3, 5, 13)
    ours = torch.autograd.grad(scaled_dot_product(q, k, v, allowed).context, leaves, cotangent)
    theirs = torch.autograd.grad(F.scaled_dot_product_attention(q, k, v, attn_mask=allowed), leaves, cotangent)
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_gradients_by_finite_differences() -> None:
    leaves = [x.requires_grad_() for x in draw(17, 1, 2, 3, 5, 2, 3)]
    allowed = torch.ones(3, 5, dtype=torch.bool).tril(1)
    allowed[1] = False

    def weights_and_context(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return scaled_dot_product(q, k, v, allowed)[3:5]

    assert torch.autograd.gradcheck(weights_and_context, leaves)


def test_an_empty_row_does_not_poison_gradients() -> None:
    # M04: the loss leaves row 2 out, but 0 · NaN would still reach every weight
    q, k, v = leaves = [x.requires_grad_() for x in draw(18, 2, 3, 4, 4, 5, 7)]
    allowed = masks.grid(masks.causal, 4)
    allowed[2] = False
    steps = scaled_dot_product(q, k, v, allowed)
    for loss in (steps.context[:, :, [0, 1, 3]].square().sum(), steps.context.square().sum()):
        # nor does any step on the way hold one
        for gradient in torch.autograd.grad(loss, [*leaves, *steps[:4]], retain_graph=True):
            assert gradient.isfinite().all()
            assert gradient.ne(0).any()


@pytest.mark.parametrize("odd", ["q", "k", "v"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_two_dtypes_are_refused_with_the_name_of_each(odd: str, dtype: torch.dtype) -> None:
    # S23: PyTorch's own message names none of them
    given = dict(zip("qkv", draw(19, 1, 2, 3, 3, 5, 5), strict=True))
    given[odd] = given[odd].to(dtype)
    with pytest.raises(ValueError, match="they must all be of one dtype") as refused:
        scaled_dot_product(given["q"], given["k"], given["v"])
    for name, tensor in given.items():
        assert f"{name} is {str(tensor.dtype).removeprefix('torch.')}" in str(refused.value)


def test_what_is_done_to_the_weights_is_a_step_of_its_own() -> None:
    # N14, N15: the weights stay; what meets the values is what was made of them
    q, k, v = draw(20, 2, 3, 5, 7, 11, 13)
    plain = scaled_dot_product(q, k, v)
    assert plain.dropped is plain.weights
    seen: list[Tensor] = []

    def halve(weights: Tensor) -> Tensor:
        seen.append(weights)
        return weights / 2

    steps = scaled_dot_product(q, k, v, None, halve)
    assert [weights is steps.weights for weights in seen] == [True]
    assert torch.equal(steps.weights, plain.weights)
    assert torch.equal(steps.dropped, plain.weights / 2)
    assert_close(steps.context, plain.context / 2)
