"""A large negative number for a mask: where it is as good as minus infinity, and where it is not."""

import inspect
import math
import re

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from attention import masks
from attention.finite_mask import NUMBER, STEPS, FiniteMasked, attend_with_number, check_fits, leak
from attention.scaled_dot_product import scaled_dot_product
from tests.attention.scenes import DTYPES, coin, normal

CAUSAL = masks.grid(masks.causal, 4)


def draw(seed: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(normal(seed + i, 2, 3, 4, width, dtype=dtype) for i, width in enumerate((5, 5, 7)))  # type: ignore[return-value]


def row(*numbers: float) -> Tensor:
    """One query or key each, of width 1."""
    return torch.tensor(numbers, dtype=torch.float64).view(1, 1, -1, 1)


def test_every_step_by_hand() -> None:
    # width 4: the number is halved too, as it comes before the scaling
    q = torch.ones(1, 1, 2, 4, dtype=torch.float64)
    k = torch.tensor([[0.0] * 4, [math.log(3) / 2] * 4], dtype=torch.float64)[None, None]
    v = torch.tensor([[8.0], [4.0]], dtype=torch.float64)[None, None]
    steps = attend_with_number(q, k, v, masks.grid(masks.causal, 2))
    two = 2 * math.log(3)
    by_hand = {
        "scores": [[0, two], [0, two]],
        "masked": [[0, two - 1e4], [0, two]],
        "scaled": [[0, two / 2 - 5e3], [0, two / 2]],
        "weights": [[1, 0], [0.25, 0.75]],
        "context": [[8], [5]],
    }
    assert FiniteMasked._fields == STEPS == tuple(by_hand)
    for step, values in by_hand.items():
        assert_close(getattr(steps, step)[0, 0], torch.tensor(values, dtype=torch.float64))


@given(st.integers(0, 10**6), st.floats(-1e4, 1e3), st.sampled_from([(4, 4), (2, 1, 4, 4), (1, 3, 4, 4), (2, 3, 4, 4)]))
def test_against_pytorch_with_any_number(seed: int, number: float, shape: tuple[int, ...]) -> None:
    # what PyTorch adds, it adds after the scaling
    q, k, v = draw(seed)
    allowed = coin(seed, *shape)
    additive = torch.where(allowed, 0.0, torch.tensor(number / math.sqrt(5), dtype=torch.float64))
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=additive)
    assert_close(attend_with_number(q, k, v, allowed, number).context, expected, rtol=1e-9, atol=1e-9)


@given(st.integers(0, 10**6), st.sampled_from(DTYPES))
def test_for_ordinary_scores_it_is_minus_infinity_to_the_last_bit(seed: int, dtype: torch.dtype) -> None:
    # M20
    q, k, v = draw(seed, dtype)
    allowed = coin(seed, 4, 4) | torch.eye(4).bool()
    number, infinite = attend_with_number(q, k, v, allowed), scaled_dot_product(q, k, v, allowed)
    assert NUMBER == -1e4
    assert torch.equal(number.scores, infinite.scores)
    assert torch.equal(number.weights, infinite.weights)
    assert torch.equal(number.context, infinite.context)
    assert number.masked.dtype is dtype
    assert leak(number.weights, allowed) == (0, 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_minus_infinity_is_a_number_too(dtype: torch.dtype) -> None:
    # M26: 0 · -inf is NaN, but nothing is multiplied here; M20: divided it stays what it is
    q, k, v = draw(0, dtype)
    steps, expected = attend_with_number(q, k, v, CAUSAL, -math.inf), scaled_dot_product(q, k, v, CAUSAL)
    assert torch.equal(steps.weights, expected.weights)
    assert torch.equal(steps.scaled, expected.masked)
    zeros = torch.zeros(1, 1, 3, 2, dtype=dtype)
    first = attend_with_number(zeros, zeros, zeros, masks.grid(masks.causal, 3), -math.inf).masked[0, 0, 0]
    assert first.tolist() == [0, -math.inf, -math.inf]


def test_large_scores_come_through_it() -> None:
    # M18, M20: a score of 10,000 makes up for the number, and beyond that the forbidden key takes all
    allowed = masks.grid(masks.causal, 2)
    for score, weights in ((1e4, [0.5, 0.5]), (1e4 - math.log(3), [0.75, 0.25]), (2e4, [0.0, 1.0])):
        steps = attend_with_number(row(1, 1), row(0, score), row(0, 1), allowed)
        assert_close(steps.weights[0, 0, 0], torch.tensor(weights, dtype=torch.float64))
        infinite = attend_with_number(row(1, 1), row(0, score), row(0, 1), allowed, -math.inf)
        assert infinite.weights[0, 0, 0].tolist() == [1, 0]
        assert leak(steps.weights, allowed).weight == pytest.approx(weights[1])


def test_an_empty_row_shares_weight_out_among_forbidden_keys() -> None:
    # M01: all keys are shifted alike, so it is as if nothing were masked
    q, k, v = draw(3)
    allowed = CAUSAL.clone()
    allowed[2] = False
    steps = attend_with_number(q, k, v, allowed)
    assert_close(steps.weights[:, :, 2], scaled_dot_product(q, k, v).weights[:, :, 2], rtol=1e-9, atol=1e-9)
    assert leak(steps.weights, allowed).row == pytest.approx(1)
    # the smallest number of all swallows the scores: what is left is the plain mean of the values
    lowest = attend_with_number(q, k, v, allowed, torch.finfo(torch.float64).min)
    assert_close(lowest.context[:, :, 2], v.mean(2))
    # and of minus infinity alone softmax makes NaN, which is not hidden
    infinite = attend_with_number(q, k, v, allowed, -math.inf)
    assert infinite.weights[:, :, 2].isnan().all()
    assert math.isnan(leak(infinite.weights, allowed).weight)
    assert math.isnan(leak(infinite.weights, allowed).row)


def test_nan_in_a_masked_key_is_not_masked() -> None:
    # M24: NaN - 10,000 is NaN; minus infinity in its place is not
    q, k, v = draw(4)
    allowed = masks.grid(masks.full, 4)
    allowed[:, 1] = False
    k[:, :, 1] = math.nan
    assert attend_with_number(q, k, v, allowed).weights.isnan().all()
    assert scaled_dot_product(q, k, v, allowed).weights.isfinite().all()


@pytest.mark.parametrize(("dtype", "step"), [(torch.float16, 8), (torch.bfloat16, 64)])
def test_half_precision_rounds_the_shifted_scores(dtype: torch.dtype, step: int) -> None:
    q, k, v = draw(5, dtype)
    masked = attend_with_number(q, k, v, CAUSAL).masked[:, :, ~CAUSAL].double()
    assert (masked % step).eq(0).all()
    assert (masked % (2 * step)).ne(0).any() or dtype is torch.bfloat16
    assert -1.01e4 < masked.min() <= masked.max() < -0.99e4


@pytest.mark.parametrize(
    ("number", "dtype", "said"),
    [
        (-1e5, torch.float16, "-100000 does not fit float16, whose smallest number is -65504; -inf fits every dtype."),
        (-1e9, torch.float16, "-1e+09 does not fit float16, whose smallest number is -65504; -inf fits every dtype."),
        (-1e39, torch.float32, "-1e+39 does not fit float32, whose smallest number is -3.40282e+38;"),
        (-1e39, torch.bfloat16, "-1e+39 does not fit bfloat16, whose smallest number is -3.38953e+38;"),
    ],
)
def test_a_number_that_does_not_fit_is_refused(number: float, dtype: torch.dtype, said: str) -> None:
    # N09
    q, k, v = draw(0, dtype)
    with pytest.raises(ValueError, match=re.escape(said)):
        attend_with_number(q, k, v, CAUSAL, number)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_that_fit(dtype: torch.dtype) -> None:
    # N09
    q, k, v = draw(0, dtype)
    for number in (-1e4, torch.finfo(dtype).min, -math.inf):
        check_fits(number, dtype)
        weights = attend_with_number(q, k, v, CAUSAL, number).weights
        assert weights.triu(1).eq(0).all()
        assert weights.isfinite().all()


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (CAUSAL.double(), "the mask holds torch.float64; it must be bool"),  # M07
        (CAUSAL.long(), "the mask holds torch.int64; it must be bool"),  # M30
        (CAUSAL[:1, :1], "the mask is (1, 1); it must end in (4, 4)"),  # S14
        (CAUSAL.expand(2, 4, 4), "the mask is (2, 4, 4); for scores of (2, 3, 4, 4) it must be (4, 4)"),  # M22
    ],
)
def test_a_mask_that_does_not_fit_is_refused(mask: Tensor, said: str) -> None:
    # what it says where shapes are not checked
    with pytest.raises(ValueError, match=re.escape(said)):
        inspect.unwrap(attend_with_number)(*draw(0), mask)


def test_two_dtypes_are_refused() -> None:
    # S23
    q, k, v = draw(0)
    with pytest.raises(ValueError, match="q is float64, k is float32, v is float64; they must all be of one dtype"):
        attend_with_number(q, k.float(), v, CAUSAL)


@given(st.integers(0, 10**6), st.sampled_from([(4, 4), (2, 1, 4, 4), (1, 3, 4, 4), (2, 3, 4, 4)]))
def test_what_leaks_is_counted_in_forbidden_cells_only(seed: int, shape: tuple[int, ...]) -> None:
    allowed = coin(seed, *shape)
    weights = torch.softmax(normal(seed, 2, 3, 4, 4), -1)
    found = leak(weights, allowed)
    per_row = [
        [w for w, may in zip(*pair, strict=True) if not may]
        for pair in zip(weights.view(-1, 4).tolist(), allowed.expand(2, 3, 4, 4).reshape(-1, 4).tolist(), strict=True)
    ]
    assert found.weight == max((max(cells, default=0.0) for cells in per_row), default=0.0)
    assert found.row == pytest.approx(max(sum(cells) for cells in per_row))


def test_nothing_leaks_where_there_is_nothing() -> None:
    # S16
    assert leak(torch.zeros(1, 2, 0, 3), torch.ones(0, 3).bool()) == (0, 0)
    assert leak(torch.zeros(1, 2, 3, 0), torch.ones(3, 0).bool()) == (0, 0)
    assert attend_with_number(row(), row(1, 2), row(1, 2), torch.ones(0, 2).bool()).context.shape == (1, 1, 0, 1)


def test_the_mask_of_the_source() -> None:
    # -1e4 above the diagonal, handed to nn.MultiheadAttention, which adds it after the scaling
    module = nn.MultiheadAttention(15, 3, batch_first=True, dtype=torch.float64)
    x, size = normal(0, 2, 4, 15), (2, 4, 3, 5)
    weights = module(x, x, x, attn_mask=-1e4 * torch.ones(4, 4).triu(1).double(), average_attn_weights=False)[1]
    projected = F.linear(x, module.in_proj_weight, module.in_proj_bias).chunk(3, -1)
    q, k, v = (part.reshape(size).transpose(1, 2) for part in projected)
    assert_close(attend_with_number(q, k, v, CAUSAL).weights, weights)


def test_no_key_at_all_gives_zeros() -> None:  # S16
    q, k, v = torch.ones(1, 1, 2, 4), torch.ones(1, 1, 0, 4), torch.ones(1, 1, 0, 3)
    assert torch.equal(attend_with_number(q, k, v, torch.ones(2, 0, dtype=torch.bool)).context, torch.zeros(1, 1, 2, 3))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e9])
def test_what_cannot_stand_for_minus_infinity_is_refused(number: float) -> None:
    q = torch.ones(1, 1, 2, 4, dtype=torch.float16)
    with pytest.raises(ValueError, match="is no number that could stand for -inf"):
        attend_with_number(q, q, q, torch.ones(2, 2, dtype=torch.bool), number)
