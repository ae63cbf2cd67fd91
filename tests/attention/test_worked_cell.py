"""One cell by hand: every number follows from the trace."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention import masks
from attention.config import AttentionConfig
from attention.multi_head import attend, attend_as_configured
from attention.worked_cell import Term, work_out
from tests.attention.scenes import hard_scene, hard_trace, normal, random_parameters


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
