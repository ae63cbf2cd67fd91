"""One comparison: shape, type, dtype, NaN and infinity before the numbers, and the numbers as PyTorch judges them."""

import math
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from attention.compare import Check, Outcome, Tolerance, apart, compare, largest_distance
from tests.attention.scenes import DTYPES, normal

DEFAULT = Tolerance(rtol=1.3e-6, atol=1e-5)
CHUNK = 2**15
NAN, INF = math.nan, math.inf


def judge(ours: list[float], pytorch: list[float], tolerance: Tolerance = DEFAULT) -> Check:
    return compare("scores", torch.tensor(ours), torch.tensor(pytorch), tolerance)


@pytest.mark.parametrize(
    ("ours", "pytorch"), [((1, 1, 1, 8), (1, 1, 4, 8)), ((3, 2), (4, 3, 2)), ((4, 1), (1,)), ((), (1,)), ((0,), (1, 0))]
)
def test_shape_comes_first(ours: tuple[int, ...], pytorch: tuple[int, ...]) -> None:
    # N05: torch.allclose broadcasts and says True; the dtype must not come before the shape either
    for dtype in (torch.float32, torch.float64):
        check = compare("output", torch.zeros(ours, dtype=dtype), torch.zeros(pytorch), DEFAULT)
        assert (check.outcome, check.reason) == (Outcome.DIFFERS, f"shape {ours}, expected {pytorch}")
        assert check.shape == ours
        assert check.worst is None


def test_another_dtype_is_named_and_the_values_still_compared() -> None:
    # N06
    right, wrong = torch.tensor([1.0, 2.0], dtype=torch.float64), torch.tensor([1.0, 3.0], dtype=torch.float64)
    pytorch = torch.tensor([1.0, 2.0])
    check = compare("q", right, pytorch, DEFAULT)
    assert check.outcome is Outcome.DIFFERS
    assert check.reason == "dtype float64, expected float32; after a cast the values match"
    check = compare("q", wrong, pytorch, DEFAULT)
    assert check.reason.startswith("dtype float64, expected float32; after a cast 1 cell differs, at [1]: ours 3")
    assert (check.mismatches, check.worst, check.ours, check.pytorch) == (1, (1,), 3, 2)


@pytest.mark.parametrize("tolerance", [DEFAULT, Tolerance(rtol=0.0, atol=0.0)])
def test_nan_never_matches_and_is_counted(tolerance: Tolerance) -> None:
    # N03: on both sides there is a third verdict, with the difference of the rest
    both = judge([NAN, 1.0, NAN, 2.0], [NAN, 1.0, NAN, 2.0], tolerance)
    assert both.outcome is Outcome.NOT_COMPARABLE
    assert both.reason == "2 NaN in ours and 2 in PyTorch's; the other cells are equal"
    assert (both.max_abs, both.max_rel, both.mismatches) == (0, 0, 0)
    assert not both.equal
    ours = judge([NAN, 1.0], [5.0, 1.0], tolerance)
    assert (ours.outcome, ours.reason) == (Outcome.DIFFERS, "1 NaN in ours, none in PyTorch's")
    theirs = judge([0.0, 1.0, 2.0], [NAN, 1.0, NAN], tolerance)
    assert (theirs.outcome, theirs.reason) == (Outcome.DIFFERS, "2 NaN in PyTorch's, none in ours")


def test_beside_nan_the_rest_is_compared() -> None:
    # N03: NaN on both sides must not hide a number that differs
    check = judge([NAN, 1.0, 5.0], [NAN, 1.0, 2.0])
    assert check.outcome is Outcome.DIFFERS
    assert check.reason == "1 NaN in ours and 1 in PyTorch's; 1 of the other cells differ"
    assert (check.mismatches, check.worst, check.max_abs, check.max_rel) == (1, (2,), 3, 1.5)


@pytest.mark.parametrize(
    ("ours", "pytorch", "equal"),
    [(INF, INF, True), (-INF, -INF, True), (INF, -INF, False), (INF, 1.0, False), (1.0, -INF, False)],
)
@pytest.mark.parametrize("rest", [[], [1.0, 2.0]])
@pytest.mark.parametrize("tolerance", [DEFAULT, Tolerance(rtol=0.0, atol=0.0)])
def test_infinities(ours: float, pytorch: float, equal: bool, rest: list[float], tolerance: Tolerance) -> None:
    check = judge([*rest, ours], [*rest, pytorch], tolerance)
    assert check.equal is equal
    assert check.max_abs == 0  # over the finite cells
    if not equal:
        assert (check.mismatches, check.worst) == (1, (len(rest),))
        assert check.reason == f"1 cell differs, at [{len(rest)}]: ours {ours:g}, PyTorch's {pytorch:g}"


def test_a_difference_is_told_in_full() -> None:
    # N23: count, worst place, both values, and the tolerance it was held against
    ours = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.5, 6.25]])
    pytorch = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    check = compare("merged", ours, pytorch, DEFAULT)
    assert check.step == "merged"
    assert check.reason == "2 cells differ, worst at [1, 1]: ours 5.5, PyTorch's 5"
    assert (check.mismatches, check.worst, check.ours, check.pytorch) == (2, (1, 1), 5.5, 5)
    assert (check.max_abs, check.max_rel, check.shape, check.tolerance) == (0.5, 0.1, (2, 3), DEFAULT)
    assert check.margin == pytest.approx(0.5 / (1e-5 + 1.3e-6 * 5))


def test_the_worst_cell_is_the_one_nearest_to_its_own_limit() -> None:
    # 0.4 of 1000 is further in the absolute, and less of what is allowed there
    check = judge([1000.4, 0.02], [1000.0, 0.01], Tolerance(rtol=1e-3, atol=1e-4))
    assert (check.worst, check.mismatches) == ((1,), 1)
    assert check.max_abs == pytest.approx(0.4, rel=1e-4)
    assert check.max_rel == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("value", [0.0, 1.0, -3e3])
def test_the_limit_is_where_it_is_said_to_be(value: float) -> None:
    reference = torch.tensor([value, 1e6], dtype=torch.float64)
    limit = torch.tensor([DEFAULT.atol + DEFAULT.rtol * abs(value), 0.0], dtype=torch.float64)
    assert compare("v", reference + 0.9999 * limit, reference, DEFAULT).equal
    assert compare("v", reference - 0.9999 * limit, reference, DEFAULT).margin == pytest.approx(0.9999)
    assert compare("v", reference + 1.0001 * limit, reference, DEFAULT).mismatches == 1
    assert compare("v", reference - 1.0001 * limit, reference, DEFAULT).mismatches == 1


def test_small_numbers_are_told_as_small_numbers() -> None:
    # N23: never rounded away to nothing
    one_up = torch.nextafter(torch.tensor(1.0), torch.tensor(2.0))
    check = compare("output", one_up, torch.tensor(1.0), DEFAULT)
    assert check.max_abs == pytest.approx(1.19e-7, rel=1e-2)
    assert check.reason == "equal; the worst cell uses 1.1 % of its tolerance"
    check = judge([1.0000001], [1.0], Tolerance(rtol=0.0, atol=1e-9))
    assert check.reason == "1 cell differs, at [0]: ours 1.00000012, PyTorch's 1"
    assert judge([1e-7], [3e-7], Tolerance(rtol=1e-3, atol=0.0)).reason.endswith(
        "ours 1.00000001e-07, PyTorch's 3.00000011e-07"
    )
    assert judge([0.1, 2.0], [0.1, 2.0]).reason == "equal to the last bit"


def test_zeros_do_not_pass_for_a_tiny_reference() -> None:
    # N27
    tiny = 1e-6 * normal(0, 3, 5, dtype=torch.float32)
    check = compare("output", torch.zeros(3, 5), tiny, DEFAULT)
    assert check.outcome is Outcome.CANNOT_TELL
    assert not check.equal
    assert "within atol 1e-05: zeros would pass too" in check.reason
    assert compare("output", tiny.clone(), tiny, DEFAULT).equal  # the same bits can be told
    assert compare("output", torch.zeros(3, 5), torch.zeros(3, 5), DEFAULT).equal
    assert compare("output", torch.zeros(3, 5), 1e3 * tiny, DEFAULT).outcome is Outcome.DIFFERS
    assert compare("output", torch.zeros(3, 5), tiny, Tolerance(rtol=1e-3, atol=0.0)).outcome is Outcome.DIFFERS


class Agreeable(Tensor):
    """Says yes to every comparison."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Whatever is asked, there is no difference."""
        if func in (Tensor.sub, Tensor.__sub__, torch.sub, Tensor.__rsub__):
            return torch.zeros(3)
        return super().__torch_function__(func, types, args, kwargs or {})


class LookAlike:
    """A foreign object that is near to everything."""

    shape, dtype = torch.Size([3]), torch.float32

    def __sub__(self, other: object) -> float:
        return 0.0

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "answer", [torch.ones(3).as_subclass(Agreeable), LookAlike(), None, [1.0, 2.0, 3.0], nn.Parameter(torch.ones(3))]
)
def test_only_a_plain_tensor_is_compared(answer: Any) -> None:
    # Z05
    check = compare("output", answer, torch.zeros(3), DEFAULT)
    assert check.outcome is Outcome.DIFFERS
    assert check.reason == f"a plain tensor was expected, not {type(answer).__name__}"


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3)])
def test_empty_tensors_are_equal(shape: tuple[int, ...]) -> None:
    check = compare("context", torch.zeros(shape), torch.zeros(shape), DEFAULT)
    assert (check.equal, check.reason, check.worst) == (True, "equal: nothing to compare", None)


def test_a_single_number_has_an_empty_index() -> None:
    check = compare("loss", torch.tensor(1.0), torch.tensor(2.0), DEFAULT)
    assert (check.outcome, check.shape, check.worst) == (Outcome.DIFFERS, (), ())
    assert compare("loss", torch.tensor(2.0), torch.tensor(2.0), DEFAULT).equal


def test_gradients_and_strides_do_not_matter() -> None:
    x = normal(1, 3, 5)
    assert compare("q", x.clone().requires_grad_(), x, DEFAULT).equal
    assert compare("q", x.mT, x.mT.contiguous(), DEFAULT).equal
    assert compare("q", x.mT + 1, x.mT, DEFAULT).mismatches == 15


near = st.floats(-2.0, 2.0)  # how many tolerances apart
width32 = st.floats(-(2.0**100), 2.0**100, width=32)
numbers = st.one_of(width32, st.floats(-2, 2, width=32), st.sampled_from([0.0, -0.0, INF, -INF]))


@given(
    st.lists(st.tuples(numbers, st.one_of(near, st.just(0.0), numbers), st.booleans()), min_size=1, max_size=9),
    st.sampled_from(
        [DEFAULT, Tolerance(rtol=1e-7, atol=1e-9), Tolerance(rtol=0.0, atol=1e-3), Tolerance(rtol=0.1, atol=0.0)]
    ),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_agrees_with_assert_close(
    cells: list[tuple[float, float, bool]], tolerance: Tolerance, dtype: torch.dtype
) -> None:
    pytorch = torch.tensor([cell for cell, _, _ in cells], dtype=dtype)
    apart = [
        cell + other * (tolerance.atol + tolerance.rtol * abs(cell)) if is_near and math.isfinite(cell) else other
        for cell, other, is_near in cells
    ]
    ours = torch.tensor(apart, dtype=dtype)
    check = compare("any", ours, pytorch, tolerance)
    # exactly at the limit the two may round apart: ours are counted in float64
    assume(abs(check.margin - 1) > 1e-4)
    try:
        assert_close(ours.double(), pytorch.double(), rtol=tolerance.rtol, atol=tolerance.atol)
    except AssertionError:
        assert check.outcome is Outcome.DIFFERS
        assert check.mismatches > 0
    else:
        assert check.outcome in (Outcome.EQUAL, Outcome.CANNOT_TELL)
        assert check.mismatches == 0


@pytest.mark.parametrize("size", [CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 1, 3 * CHUNK - 1])
def test_the_worst_cell_is_found_in_any_chunk(size: int) -> None:
    pytorch = normal(2, size, dtype=torch.float32)
    for at in sorted({0, 1, CHUNK - 2, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK - 1, 2 * CHUNK, size - 1}):
        if at >= size:
            continue
        ours = pytorch.clone()
        ours[at] += 7
        check = compare("weights", ours, pytorch, DEFAULT)
        assert (check.mismatches, check.worst) == (1, (at,))
        assert (check.ours, check.pytorch) == (ours[at].item(), pytorch[at].item())
        assert check.max_abs == pytest.approx(7, rel=1e-6)
        assert largest_distance(ours, pytorch.double()) == check.max_abs


def test_chunks_are_added_up() -> None:
    pytorch = torch.ones(3, CHUNK)
    ours = pytorch.clone()
    ours[0, 5], ours[1, 0], ours[2, -1], ours[2, 3] = 2.0, 1.5, 1.25, 9.0
    check = compare("weights", ours, pytorch, DEFAULT)
    assert (check.mismatches, check.worst, check.max_abs, check.max_rel) == (4, (2, 3), 8, 8)
    ours[0, 1], ours[2, 1], pytorch[1, 1] = NAN, NAN, NAN
    check = compare("weights", ours, pytorch, DEFAULT)
    assert check.reason.startswith("2 NaN in ours and 1 in PyTorch's")
    assert (check.mismatches, check.worst) == (4, (2, 3))
    # a tiny number alone is no reason for 'cannot tell' when another chunk has a large one
    tiny = torch.full((2 * CHUNK,), 1e-6)
    tiny[-1] = 1.0
    assert compare("weights", tiny * (1 + 1e-6), tiny, DEFAULT).equal


@pytest.mark.parametrize("dtype", DTYPES)
def test_half_precision_is_compared_in_full(dtype: torch.dtype) -> None:
    # the difference of these two overflows float16
    check = compare("scores", torch.tensor([6e4], dtype=dtype), torch.tensor([-6e4], dtype=dtype), DEFAULT)
    assert check.max_abs == pytest.approx(1.2e5, rel=1e-2)
    x = normal(3, 5, 7, dtype=dtype)
    assert compare("scores", x.clone(), x, DEFAULT).reason == "equal to the last bit"
    one_up = torch.nextafter(x, torch.full_like(x, INF))
    eps = torch.finfo(dtype).eps
    assert compare("scores", one_up, x, Tolerance(rtol=2 * eps, atol=0.0)).equal
    assert compare("scores", one_up, x, Tolerance(rtol=eps / 8, atol=0.0)).mismatches == 35


@pytest.mark.parametrize("value", [-1e-9, NAN, INF, -INF])
@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_a_tolerance_is_a_finite_number_from_0_up(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"{name} is {value}; it must be a finite number from 0 up"):
        Tolerance(**({"rtol": 0.0, "atol": 0.0} | {name: value}))


def test_no_tolerance_asks_for_the_last_bit() -> None:
    exact = Tolerance(rtol=0.0, atol=0.0)
    assert judge([0.0, 1.0], [-0.0, 1.0], exact).equal
    assert judge([0.0, 1.0000001], [0.0, 1.0], exact).mismatches == 1


def test_largest_distance_by_hand() -> None:
    answer = torch.tensor([[1.0, -INF], [NAN, 0.5]], dtype=torch.float64)
    assert largest_distance(torch.tensor([[1.5, -INF], [2.0, 0.25]]), answer) == 0.5
    assert largest_distance(torch.zeros(0), torch.zeros(0, dtype=torch.float64)) == 0
    assert (
        largest_distance(torch.tensor([6e4], dtype=torch.float16), torch.tensor([-6e4], dtype=torch.float64)) == 1.2e5
    )


def test_apart_is_0_for_the_same_infinity_and_nan_only_for_nan() -> None:
    inf, nan = math.inf, math.nan
    ours = torch.tensor([1.0, inf, -inf, inf, -inf, nan, 2.0])
    pytorch = torch.tensor([1.5, inf, -inf, -inf, 0.0, 1.0, nan])
    found = apart(ours, pytorch)
    assert found.dtype is torch.float64
    assert found.tolist()[:5] == [0.5, 0.0, 0.0, inf, inf]
    assert found[5:].isnan().all()
    # reckoned in float64: in half precision this difference would be infinite
    assert apart(torch.tensor([6e4], dtype=torch.float16), torch.tensor([-6e4], dtype=torch.float16)) == 120_000
