"""Head counts in numbers: by hand, against PyTorch's own counters, and what holds for any weights."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from attention.config import AttentionConfig, head_counts
from attention.head_counts import describe, entropy, head_distances, largest_score_gap, matmul_flops
from attention.multi_head import AttentionTrace, attend, attend_as_configured, draw
from attention.reference import as_module
from tests.attention.scenes import hard_scene, normal

CONFIG = AttentionConfig(embed_dim=12, num_heads=3, num_tokens=5)
ROWS = st.lists(st.floats(0, 1), min_size=1, max_size=9).filter(lambda row: sum(row) > 0.1)


def with_weights(weights: Tensor) -> AttentionTrace:
    """A trace that has these weights."""
    return replace(attend_as_configured(CONFIG), weights=weights)


def test_entropy_by_hand() -> None:
    rows = {
        0.0: [1.0, 0, 0, 0],
        1.0: [0.5, 0, 0.5, 0],
        1.5: [0.5, 0.25, 0.25, 0],
        2.0: [0.25] * 4,
    }
    for bits, row in rows.items():
        assert entropy(torch.tensor(row)).item() == pytest.approx(bits)
    assert entropy(torch.zeros(3)).item() == 0  # a row that may attend to nothing
    assert_close(entropy(torch.full((2, 3, 8), 1 / 8)), torch.full((2, 3), 3.0))


@given(ROWS)
def test_entropy_is_between_0_and_that_of_even_weights(numbers: list[float]) -> None:
    row = torch.tensor(numbers, dtype=torch.float64)
    row /= row.sum()
    bits = entropy(row).item()
    assert -1e-12 <= bits <= math.log2(len(numbers)) + 1e-12
    assert bits == pytest.approx(-sum(w * math.log2(w) for w in row.tolist() if w > 0), abs=1e-12)
    assert entropy(row.flip(0)).item() == pytest.approx(bits, abs=1e-12)
    # forbidden keys add nothing; two copies of the row at half the weight add one bit
    assert entropy(torch.cat([row, torch.zeros(3)])).item() == pytest.approx(bits, abs=1e-12)
    assert entropy(torch.cat([row / 2, row / 2])).item() == pytest.approx(bits + 1, abs=1e-12)


def test_head_distances_by_hand() -> None:
    # two queries: the first two heads differ by all in one and by half in the other
    one, other = [[1.0, 0, 0], [0.5, 0.5, 0]], [[0.0, 0, 1], [0, 0.5, 0.5]]
    found = head_distances(torch.tensor([one, other, one]))
    assert_close(found, torch.tensor([[0, 0.75, 0], [0.75, 0, 0.75], [0, 0.75, 0]]))


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 6), st.integers(0, 10**6))
def test_head_distances_are_a_distance(heads: int, queries: int, keys: int, seed: int) -> None:
    weights = torch.softmax(3 * normal(seed, heads, queries, keys), -1)
    found = head_distances(weights)
    by_loop = [
        [sum((one - other).abs().sum().item() for one, other in zip(a, b, strict=True)) / 2 / queries for b in weights]
        for a in weights
    ]
    assert_close(found, torch.tensor(by_loop, dtype=torch.float64))
    assert torch.equal(found, found.T)
    assert found.diagonal().eq(0).all()
    assert 0 <= found.min() <= found.max() <= 1 + 1e-12
    for middle in range(heads):
        assert (found <= found[:, middle, None] + found[middle] + 1e-12).all()


def test_no_queries_have_no_distance() -> None:
    # S16
    assert torch.equal(head_distances(torch.zeros(3, 0, 4)), torch.zeros(3, 3))


@pytest.mark.parametrize("embed_dim", [1, 12, 35])
@pytest.mark.parametrize("num_tokens", [1, 5, 16])
def test_flops_are_those_that_pytorch_counts(embed_dim: int, num_tokens: int) -> None:
    for heads in head_counts(embed_dim):
        config = AttentionConfig(embed_dim=embed_dim, num_heads=heads, num_tokens=num_tokens)
        tokens, parameters = draw(config)
        module, x = as_module(parameters, heads), tokens.transpose(0, 1)
        with FlopCounterMode(display=False) as ours:
            attend_as_configured(config, (tokens, parameters))
        with FlopCounterMode(display=False) as theirs, torch.no_grad():
            module(x, x, x, attn_mask=torch.ones(num_tokens, num_tokens).triu(1).bool())
        assert matmul_flops(config) == ours.get_total_flops() == theirs.get_total_flops()


@pytest.mark.parametrize("heads", head_counts(12))
def test_a_head_count_in_numbers(heads: int) -> None:
    config = replace(CONFIG, num_heads=heads)
    trace = attend_as_configured(config)
    found = describe(config, trace)
    weights = trace.weights[0].double()
    assert (found.num_heads, found.head_dim) == (heads, 12 // heads)
    assert found.parameters == sum(p.numel() for p in nn.MultiheadAttention(12, heads).parameters())
    assert found.matmul_flops == matmul_flops(config) == 2 * (4 * 5 * 12 * 12 + 2 * 5 * 5 * 12)
    assert found.softmax_cells == weights.numel()
    assert found.largest_weight == pytest.approx(weights.max(-1).values.mean().item())
    assert found.entropy == pytest.approx([entropy(head).mean().item() for head in weights])
    apart = [(one - other).abs().sum().item() / 2 / 5 for i, one in enumerate(weights) for other in weights[i + 1 :]]
    assert found.apart == (pytest.approx(sum(apart) / len(apart)) if apart else None)


def test_weights_that_are_known() -> None:
    even = describe(CONFIG, with_weights(torch.full((1, 3, 5, 5), 0.2)))
    assert even.entropy == pytest.approx([math.log2(5)] * 3, rel=1e-6)
    assert even.apart == pytest.approx(0)
    assert even.largest_weight == pytest.approx(0.2)
    sharp = torch.stack([torch.eye(5), torch.eye(5).roll(1, 0), torch.eye(5).roll(2, 0)])[None]
    one = describe(CONFIG, with_weights(sharp))
    assert one.entropy == (0, 0, 0)
    assert one.apart == 1
    assert one.largest_weight == 1


def test_what_stays_equal_and_what_changes() -> None:
    every = [describe(c, attend_as_configured(c)) for c in (replace(CONFIG, num_heads=h) for h in head_counts(12))]
    for name in ("parameters", "matmul_flops"):
        assert len({getattr(each, name) for each in every}) == 1
    assert [each.softmax_cells for each in every] == [25 * heads for heads in head_counts(12)]
    assert every[0].apart is None


@given(st.sampled_from(head_counts(12)), st.integers(0, 10**6), st.sampled_from(["float64", "float32"]))
def test_the_scores_of_all_heads_add_up_to_those_of_one(heads: int, seed: int, dtype: str) -> None:
    config = replace(CONFIG, seed=seed, dtype=dtype)
    one, many = (attend_as_configured(replace(config, num_heads=h)) for h in (1, heads))
    assert largest_score_gap(one, many) < (1e-12 if dtype == "float64" else 2e-5)
    # and what is compared is the scores: a shift of one cell is found
    shifted = many.scores.clone()
    shifted[0, -1, 2, 3] -= 0.5
    assert largest_score_gap(one, replace(many, scores=shifted)) == pytest.approx(0.5, abs=1e-4)


def test_the_first_sequence_is_described() -> None:
    tokens, parameters, heads, allowed = hard_scene()
    config = AttentionConfig(embed_dim=15, num_heads=3, num_tokens=7)
    alone = describe(config, attend(tokens[:1], parameters, heads, allowed[:1]))
    found = describe(config, attend(tokens, parameters, heads, allowed))
    assert found.entropy == pytest.approx(alone.entropy)
    assert found.apart == pytest.approx(alone.apart)
    other = describe(config, attend(tokens[1:], parameters, heads, allowed[1:]))
    assert found.entropy != pytest.approx(other.entropy)
