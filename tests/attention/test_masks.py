"""The masks: by hand, each rule against a plain double loop, and which way round True is."""

import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.attention.bias import causal_lower_right
from torch.testing import assert_close

from attention import masks
from attention.config import AttentionConfig
from attention.masks import Corner, Rule
from attention.multi_head import allowed_by, attend_as_configured
from attention.scaled_dot_product import scaled_dot_product
from tests.attention.scenes import coin, normal

Plain = Callable[[int, int], bool]  # the same rule, for one query and one key, in plain numbers
CORNERS = st.sampled_from(list(Corner))


def document_of(position: int, lengths: list[int]) -> int:
    """In which document a position is, counted along."""
    for number, length in enumerate(lengths):
        position -= length
        if position < 0:
            return number
    return len(lengths)


# what to make and of what: made in the test, not here, as the hook that checks shapes rolls dice of its own
Recipe = tuple[str, list[int]]
RECIPES: st.SearchStrategy[Recipe] = st.one_of(
    st.tuples(st.sampled_from(["causal", "full"]), st.just([])),
    st.tuples(st.sampled_from(["sliding_window", "strided"]), st.lists(st.integers(1, 9), min_size=1, max_size=1)),
    st.tuples(st.just("prefix"), st.lists(st.integers(0, 9), min_size=1, max_size=1)),
    st.tuples(st.just("padding"), st.lists(st.integers(0, 12), min_size=2, max_size=2)),
    st.tuples(st.just("documents"), st.lists(st.integers(1, 5), max_size=4)),
)


def made(recipe: Recipe) -> tuple[Rule, Plain]:
    """One of the rules, and what it has to say about each pair."""
    name, numbers = recipe
    if name == "documents":
        return masks.documents(numbers), lambda query, key: document_of(query, numbers) == document_of(key, numbers)
    if name == "padding":
        return masks.padding(*numbers), lambda query, key: key in range(*numbers)
    if name == "causal":
        return masks.causal, lambda query, key: key <= query
    if name == "full":
        return masks.full, lambda query, key: True
    (n,) = numbers
    if name == "sliding_window":
        return masks.sliding_window(n), lambda query, key: -n < query - key < n
    if name == "prefix":
        return masks.prefix(n), lambda query, key: key < n
    return masks.strided(n), lambda query, key: key in range(query % n, 1000, n)


def cells(grid: torch.Tensor) -> set[tuple[int, int]]:
    """Where the grid is True."""
    return {(query, key) for query, key in grid.nonzero().tolist()}


def test_causal_by_hand() -> None:
    assert masks.grid(masks.causal, 4).int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]


def test_full_by_hand() -> None:
    assert masks.grid(masks.full, 3).int().tolist() == [[1, 1, 1], [1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize("num_tokens", [0, 1, 2, 4, 7, 256])
def test_sizes_dtype_and_diagonal(num_tokens: int) -> None:
    # M16: blocked is what lies strictly above the diagonal; a token may see itself
    ones = torch.ones(num_tokens, num_tokens, dtype=torch.bool)
    assert torch.equal(~masks.grid(masks.causal, num_tokens), ones.triu(diagonal=1))
    assert torch.equal(masks.grid(masks.full, num_tokens), ones)
    assert masks.grid(masks.causal, num_tokens).dtype is masks.grid(masks.full, num_tokens).dtype is torch.bool


@settings(max_examples=200)
@given(RECIPES, st.integers(0, 11), st.integers(0, 11), CORNERS)
def test_every_rule_is_a_plain_double_loop(recipe: Recipe, num_queries: int, num_keys: int, at: Corner) -> None:
    ours, plain = made(recipe)
    shift = num_keys - num_queries if at is Corner.BOTTOM_RIGHT else 0
    grid = masks.grid(ours, num_queries, num_keys, at)
    assert (grid.shape, grid.dtype) == ((num_queries, num_keys), torch.bool)
    assert grid.tolist() == [[plain(query + shift, key) for key in range(num_keys)] for query in range(num_queries)]


@given(RECIPES, st.integers(1, 9), st.integers(1, 9))
def test_a_rule_takes_positions_of_any_shape(recipe: Recipe, num_queries: int, num_keys: int) -> None:
    ours, _ = made(recipe)
    grid = masks.grid(ours, num_queries, num_keys)
    query, key = torch.meshgrid(torch.arange(num_queries), torch.arange(num_keys), indexing="ij")
    pairs = ours(query.flatten(), key.flatten())
    assert torch.equal(pairs.expand(query.numel()), grid.flatten())
    deep = ours(query.T[None], key.T[None])  # not contiguous, and with one more axis
    assert torch.equal(deep.expand(1, num_keys, num_queries)[0], grid.T)


@given(st.lists(RECIPES, max_size=4), st.integers(0, 9), st.integers(0, 9), CORNERS)
def test_rules_join_as_sets_do(recipes: list[Recipe], num_queries: int, num_keys: int, at: Corner) -> None:
    ours = [made(recipe)[0] for recipe in recipes]
    each = [cells(masks.grid(rule, num_queries, num_keys, at)) for rule in ours]
    everything = {(query, key) for query in range(num_queries) for key in range(num_keys)}
    assert cells(masks.grid(masks.all_of(*ours), num_queries, num_keys, at)) == everything.intersection(*each)
    if ours:
        assert cells(masks.grid(masks.any_of(*ours), num_queries, num_keys, at)) == set().union(*each)


def test_any_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="any_of needs at least one rule"):
        masks.any_of()


def test_joined_rules_can_be_joined_again() -> None:
    # what came before, or the first two keys; and of that, only real tokens
    rule = masks.all_of(masks.any_of(masks.causal, masks.prefix(2)), masks.padding(1, 4))
    assert masks.grid(rule, 5).int().tolist() == [
        [0, 1, 0, 0, 0],
        [0, 1, 0, 0, 0],
        [0, 1, 1, 0, 0],
        [0, 1, 1, 1, 0],
        [0, 1, 1, 1, 0],
    ]


@given(st.integers(0, 10**6), st.sampled_from([(5, 7), (7, 1), (3, 0), (0, 3), (2, 1, 5, 7), (2, 3, 4, 2)]))
def test_empty_rows_are_those_without_a_key(seed: int, shape: tuple[int, ...]) -> None:
    allowed = coin(seed, *shape) & coin(seed + 1, *shape)
    found = masks.empty_rows(allowed)
    assert found.shape == shape[:-1]
    rows = allowed.reshape(-1, shape[-1]).tolist() if allowed.numel() else [[]] * found.numel()
    assert found.flatten().tolist() == [sum(row) == 0 for row in rows]


def test_queries_and_keys_are_not_equally_many() -> None:
    # M13: two queries of five keys, in the corner that torch takes and in the other one, by name
    assert masks.grid(masks.causal, 2, 5).int().tolist() == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]]
    assert masks.grid(masks.causal, 2, 5, Corner.BOTTOM_RIGHT).int().tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    assert masks.grid(masks.causal, 5, 2).int().tolist() == [[1, 0], [1, 1], [1, 1], [1, 1], [1, 1]]
    # M15: more queries than keys; the first three see nothing
    last = masks.grid(masks.causal, 5, 2, Corner.BOTTOM_RIGHT)
    assert last.int().tolist() == [[0, 0], [0, 0], [0, 0], [1, 0], [1, 1]]
    assert masks.empty_rows(last).tolist() == [True, True, True, False, False]


@pytest.mark.parametrize(("t", "s"), [(2, 5), (4, 4), (3, 11)])
def test_corners_are_those_of_pytorch(t: int, s: int) -> None:
    # M13
    q, k, v = normal(0, 2, 3, t, 5), normal(1, 2, 3, s, 5), normal(2, 2, 3, s, 7)
    top = scaled_dot_product(q, k, v, masks.grid(masks.causal, t, s)).context
    assert_close(top, F.scaled_dot_product_attention(q, k, v, is_causal=True))
    bottom = scaled_dot_product(q, k, v, masks.grid(masks.causal, t, s, Corner.BOTTOM_RIGHT)).context
    assert_close(bottom, F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(t, s)))


@given(RECIPES, st.integers(1, 9))
def test_corners_agree_where_there_are_equally_many(recipe: Recipe, num_tokens: int) -> None:
    rule, _ = made(recipe)
    top, bottom = (masks.grid(rule, num_tokens, num_tokens, corner) for corner in Corner)
    assert torch.equal(top, bottom)
    assert torch.equal(masks.grid(rule, num_tokens), top)


@pytest.mark.parametrize("rule", [masks.causal, masks.full, masks.prefix(2), masks.padding(0, 2)])
def test_a_grid_is_memory_of_its_own(rule: Rule) -> None:
    # a rule of keys alone is one row; written to, the rows must not be one and the same
    grid = masks.grid(rule, 3)
    grid[0, 0] = False
    assert grid[1:, 0].all()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: masks.sliding_window(0), "the window is 0; it must be 1 or more."),
        (lambda: masks.sliding_window(True), "the window is True; it must be a whole number."),
        (lambda: masks.prefix(-1), "the prefix is -1; it must be 0 or more."),
        (lambda: masks.padding(-1, 2), "the first real token is -1; it must be 0 or more."),
        (lambda: masks.padding(0, -1), "the end of the real tokens is -1; it must be 0 or more."),
        (lambda: masks.documents([2, 0]), "the length of a document is 0; it must be 1 or more."),
        (lambda: masks.documents([True]), "the length of a document is True; it must be a whole number."),
        (lambda: masks.strided(0), "the stride is 0; it must be 1 or more."),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(make: Callable[[], Rule], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        make()


def test_true_means_may_attend() -> None:
    # M05: what SDPA means by True; nn.MultiheadAttention means the opposite
    q, k, v = (normal(seed, 2, 3, 4, 5) for seed in range(3))
    allowed = masks.grid(masks.causal, 4)
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert_close(F.scaled_dot_product_attention(q, k, v, attn_mask=allowed), expected)

    module = nn.MultiheadAttention(6, 2, batch_first=True, dtype=torch.float64)
    x = normal(3, 1, 4, 6)
    assert_close(module(x, x, x, attn_mask=~allowed)[1][0, 0], torch.tensor([1.0, 0, 0, 0], dtype=torch.float64))


def test_first_token_sees_only_itself() -> None:
    # M06: weights[0] = [1, 0, 0, 0] in every head
    weights = attend_as_configured(AttentionConfig(embed_dim=6, num_heads=3, num_tokens=4)).weights
    assert torch.equal(weights[0, :, 0], torch.tensor([1.0, 0, 0, 0]).expand(3, 4))


def test_config_chooses_the_mask() -> None:
    assert_close(allowed_by(AttentionConfig(num_tokens=5)), masks.grid(masks.causal, 5))
    assert allowed_by(AttentionConfig(num_tokens=5, causal=False)) is None  # which is what full means
