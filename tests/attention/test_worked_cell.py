"""One cell and one row by hand: every number follows from the trace."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention import ladder, masks
from attention.config import AttentionConfig
from attention.multi_head import attend, attend_as_configured
from attention.scaled_dot_product import scaled_dot_product
from attention.single_head import HeadTrace, SelfAttention
from attention.worked_cell import Term, work_out, work_out_row
from tests.attention.scenes import filled, hard_scene, hard_trace, normal, random_parameters


@given(st.sampled_from(["float64", "float32"]), st.booleans(), st.integers(0, 10**6), st.data())
def test_numbers_follow_from_the_trace(dtype: str, causal: bool, seed: int, data: st.DataObject) -> None:
    config = AttentionConfig(embed_dim=15, num_heads=3, num_tokens=7, seed=seed, causal=causal, dtype=dtype)
    trace = attend_as_configured(config)
    head, query, key = (data.draw(st.integers(0, most - 1)) for most in (3, 7, 7))
    cell = work_out(trace, head, query, key)
    near = 1e-5 if dtype == "float32" else 1e-12

    assert (cell.head, cell.query, cell.key, cell.head_dim, len(cell.row)) == (head, query, key, 5, 7)
    assert [term.d for term in cell.terms] == list(range(5))
    assert [term.q for term in cell.terms] == trace.q[0, head, query].tolist()
    assert [term.k for term in cell.terms] == trace.k[0, head, key].tolist()
    assert sum(term.product for term in cell.terms) == pytest.approx(cell.score, rel=near, abs=near)
    assert cell.scaled == pytest.approx(cell.score / math.sqrt(5), rel=near, abs=near)
    assert cell.score == trace.scores[0, head, query, key].item()
    assert cell.scaled == trace.scaled[0, head, query, key].item()

    assert [entry.key for entry in cell.row] == list(range(7))
    assert [entry.masked for entry in cell.row] == trace.masked[0, head, query].tolist()
    assert cell.row_max == max(entry.masked for entry in cell.row)
    assert max(entry.exponential for entry in cell.row) == 1
    assert 1 <= cell.row_sum <= 7
    for entry in cell.row:
        assert entry.weight == trace.weights[0, head, query, entry.key].item()
        assert entry.exponential / cell.row_sum == pytest.approx(entry.weight, rel=near, abs=near)
    assert cell.entry is cell.row[key]
    assert cell.allowed == (key <= query or not causal)
    if cell.allowed:
        assert cell.entry.masked == cell.scaled


def test_a_masked_cell_keeps_its_score_and_has_no_weight() -> None:
    cell = work_out(hard_trace(), head=1, query=2, key=5)
    assert not cell.allowed
    assert (cell.entry.masked, cell.entry.exponential, cell.entry.weight) == (-math.inf, 0, 0)
    assert math.isfinite(cell.scaled)
    assert cell.score != 0
    seen = work_out(hard_trace(), head=1, query=2, key=2)
    assert seen.allowed
    assert seen.row == cell.row


def test_a_row_without_any_key_is_zeros() -> None:
    # M01
    allowed = masks.grid(masks.causal, 4)
    allowed[2] = False
    cell = work_out(attend(normal(0, 1, 4, 6), random_parameters(1, 6), 2, allowed), 1, 2, 0)
    assert cell.row_max == -math.inf
    assert cell.row_sum == 0
    assert [entry.exponential for entry in cell.row] == [entry.weight for entry in cell.row] == [0] * 4
    assert not cell.allowed


def test_products_are_by_hand() -> None:
    assert Term(0, 1.5, -2.0).product == -3


def test_another_sequence_of_the_batch() -> None:
    trace = hard_trace()
    assert work_out(trace, 0, 3, 1).score == trace.scores[0, 0, 3, 1].item()
    second = work_out(trace, 0, 3, 1, sequence=1)
    assert second.score == trace.scores[1, 0, 3, 1].item()
    assert [term.q for term in second.terms] == trace.q[1, 0, 3].tolist()


def test_a_trace_that_records_gradients_can_be_read() -> None:
    tokens, parameters, num_heads, allowed = hard_scene()
    cell = work_out(attend(tokens.requires_grad_(), parameters, num_heads, allowed), 0, 0, 0)
    assert cell.entry.weight == 1


@pytest.mark.parametrize("place", [(3, 0, 0), (0, 7, 0), (0, 0, 7), (-1, 0, 0), (0, -1, 0), (0, 0, -1)])
def test_out_of_range_is_refused_with_the_sizes(place: tuple[int, int, int]) -> None:
    head, query, key = place
    with pytest.raises(IndexError) as refused:
        work_out(hard_trace(), head, query, key)
    assert str(refused.value) == f"head {head}, query {query}, key {key}: there are 3 heads of 7 by 7 cells."


def test_large_scores_do_not_overflow() -> None:
    # N07
    tokens, parameters, num_heads, allowed = hard_scene()
    cell = work_out(attend(1e3 * tokens, parameters, num_heads, allowed), 0, 6, 0)
    assert cell.row_max > 1e3
    assert all(0 <= entry.exponential <= 1 for entry in cell.row)
    assert sum(entry.exponential / cell.row_sum for entry in cell.row) == pytest.approx(1)
    assert torch.tensor([entry.weight for entry in cell.row]).sum().item() == pytest.approx(1, abs=1e-6)


@given(st.sampled_from(["float64", "float32"]), st.booleans(), st.integers(0, 10**6), st.data())
def test_a_row_follows_from_the_trace(dtype: str, causal: bool, seed: int, data: st.DataObject) -> None:
    config = AttentionConfig(embed_dim=15, num_heads=3, num_tokens=7, seed=seed, causal=causal, dtype=dtype)
    trace = attend_as_configured(config)
    head, query = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 6))
    row = work_out_row(trace, head, query)
    near = 1e-5 if dtype == "float32" else 1e-12

    assert (row.head, row.query, row.head_dim) == (head, query, 5)
    assert [key.key for key in row.keys] == list(range(7))
    for step in ("scores", "scaled", "masked", "weights"):
        found = [getattr(key, step.removesuffix("s")) for key in row.keys]
        assert found == getattr(trace, step)[0, head, query].tolist(), step
    assert [list(key.value) for key in row.keys] == trace.v[0, head].tolist()
    assert list(row.context) == trace.context[0, head, query].tolist()
    assert row.row_max == max(key.masked for key in row.keys)
    for key in row.keys:
        assert key.scaled == pytest.approx(key.score / math.sqrt(5), rel=near, abs=near)
        assert key.masked == (-math.inf if causal and key.key > query else key.scaled)
        assert key.exponential == pytest.approx(math.exp(key.masked - row.row_max))
        assert key.exponential / row.row_sum == pytest.approx(key.weight, rel=near, abs=near)
    summed = [math.fsum(key.weight * key.value[d] for key in row.keys) for d in range(5)]
    assert list(row.context) == pytest.approx(summed, rel=near, abs=near)
    # the row is that of each of its cells
    cell = work_out(trace, head, query, 3)
    assert (cell.row_max, cell.row_sum, cell.score) == (row.row_max, row.row_sum, row.keys[3].score)


def test_a_row_by_hand() -> None:
    # the second query sees two keys, with weights 1 to 3; the context is a quarter of 8 and three quarters of 4
    q = torch.ones(1, 1, 2, 4, dtype=torch.float64)
    k = torch.tensor([[0.0] * 4, [math.log(3) / 2] * 4], dtype=torch.float64)[None, None]
    v = torch.tensor([[8.0, 0.0], [4.0, 1.0]], dtype=torch.float64)[None, None]
    trace = HeadTrace(q, k, v, *scaled_dot_product(q, k, v, masks.grid(masks.causal, 2)))
    row = work_out_row(trace, 0, 1)
    assert row.row_max == pytest.approx(math.log(3))
    assert row.row_sum == pytest.approx(4 / 3)
    assert [key.exponential for key in row.keys] == pytest.approx([1 / 3, 1])
    assert [key.weight for key in row.keys] == pytest.approx([0.25, 0.75])
    assert [key.value for key in row.keys] == [(8, 0), (4, 1)]
    assert row.context == pytest.approx((5, 0.75))
    first = work_out_row(trace, 0, 0)
    assert [key.masked for key in first.keys] == [0, -math.inf]
    assert first.keys[1].score == pytest.approx(2 * math.log(3))  # a masked key keeps its score
    assert first.context == (8, 0)


def test_a_row_of_one_head_has_values_of_their_own_width() -> None:
    module = filled(SelfAttention(11, 5, 3).double(), 1)
    row = work_out_row(module.trace(normal(0, 2, 7, 11)), 0, 6, sequence=1)
    assert row.head_dim == 5
    assert {len(key.value) for key in row.keys} == {len(row.context)} == {3}
    assert work_out(module.trace(normal(0, 2, 7, 11)), 0, 6, 2).head_dim == 5


def test_a_whole_row_without_any_key_is_zeros() -> None:
    # M01
    allowed = masks.grid(masks.causal, 4)
    allowed[2] = False
    row = work_out_row(attend(normal(0, 1, 4, 6), random_parameters(1, 6), 2, allowed), 1, 2)
    assert row.row_max == -math.inf
    assert row.row_sum == 0
    assert [key.exponential for key in row.keys] == [key.weight for key in row.keys] == [0] * 4
    assert row.context == (0, 0, 0)


def test_a_row_of_another_sequence_and_of_other_keys_than_queries() -> None:
    trace = hard_trace()
    second = work_out_row(trace, 0, 3, sequence=1)
    assert second.context == tuple(trace.context[1, 0, 3].tolist())
    assert [list(key.value) for key in second.keys] == trace.v[1, 0].tolist()
    assert [key.score for key in second.keys] == trace.scores[1, 0, 3].tolist()
    wide = attend(normal(0, 1, 2, 6), random_parameters(1, 6), 2, memory=normal(1, 1, 5, 6))
    assert len(work_out_row(wide, 1, 1).keys) == 5


@pytest.mark.parametrize("place", [(3, 0), (0, 7), (-1, 0), (0, -1)])
def test_a_row_out_of_range_is_refused_with_the_sizes(place: tuple[int, int]) -> None:
    with pytest.raises(IndexError, match="there are 3 heads of 7 by 7 cells"):
        work_out_row(hard_trace(), *place)
    with pytest.raises(IndexError, match="sequence 2: there are 2"):
        work_out_row(hard_trace(), 0, 0, sequence=2)


def test_with_dropout_the_context_comes_of_what_is_left() -> None:
    module = ladder.CausalAttention(6, 4, 5, 0.5).double()
    trace = module.trace(normal(3, 1, 5, 6), torch.Generator().manual_seed(1))
    assert not torch.equal(trace.dropped, trace.weights)
    row = work_out_row(trace, 0, 4)
    for d, total in enumerate(row.context):
        assert math.isclose(sum(key.dropped * key.value[d] for key in row.keys), total, rel_tol=1e-9, abs_tol=1e-12)
