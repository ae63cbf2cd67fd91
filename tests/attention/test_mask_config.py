"""The mask as one value: its rules together against a plain double loop, and the reasons it gives in words."""

import re
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from attention import masks
from attention.config import MAX_TOKENS, AttentionConfig
from attention.mask_config import MaskConfig
from attention.masks import Corner
from attention.multi_head import attend_masked, draw, masked_scene
from attention.verify import verify

SCENE = AttentionConfig(embed_dim=15, num_heads=3, num_tokens=7)


def at_most(smallest: int, largest: int) -> st.SearchStrategy[int | None]:
    """No such rule, or one of that size."""
    return st.none() | st.integers(smallest, largest)


CONFIGS = st.builds(
    MaskConfig,
    num_queries=st.integers(1, 7),
    num_keys=st.integers(1, 7),
    causal=st.booleans(),
    window=at_most(1, 7),
    prefix=at_most(0, 7),
    padding_left=st.integers(0, 3),
    padding_right=st.integers(0, 8),
    document=at_most(1, 7),
    stride=at_most(1, 4),
    corner=st.sampled_from(list(Corner)),
)


def reasons(mask: MaskConfig, query: int, key: int) -> list[str]:
    """The names of the rules that keep the query from the key, worked out one by one."""
    m, found = mask, []
    if m.corner is Corner.BOTTOM_RIGHT:
        query += m.num_keys - m.num_queries
    if m.causal and key > query and (m.prefix is None or key >= m.prefix):
        found.append("causal")
    if m.window is not None and not -m.window < query - key < m.window:
        found.append("window")
    # a query before the first token is counted with the first document
    if m.document is not None and max(query, 0) // m.document != key // m.document:
        found.append("documents")
    if m.stride is not None and (query - key) % m.stride:
        found.append("strided")
    if key not in range(m.padding_left, m.num_keys - m.padding_right):
        found.append("padding")
    return found


def grid(**changes: Any) -> list[list[int]]:
    """A mask of five by five unless said otherwise, as zeros and ones."""
    return MaskConfig(**{"num_queries": 5, "num_keys": 5, **changes}).allowed.int().tolist()


@given(CONFIGS)
def test_a_cell_is_allowed_where_no_reason_is_given(mask: MaskConfig) -> None:
    allowed = mask.allowed
    assert (allowed.shape, allowed.dtype) == ((mask.num_queries, mask.num_keys), torch.bool)
    for query in range(mask.num_queries):
        for key in range(mask.num_keys):
            told = mask.why_forbidden(query, key)
            assert [reason.partition(":")[0] for reason in told] == reasons(mask, query, key)
            assert allowed[query, key].item() == (told == ())


def test_without_more_it_is_the_causal_mask() -> None:
    mask = MaskConfig(num_queries=4, num_keys=4)
    assert torch.equal(mask.allowed, masks.grid(masks.causal, 4))
    assert torch.equal(replace(mask, causal=False).allowed, masks.grid(masks.full, 4))


def test_each_rule_by_hand() -> None:
    assert grid(window=2) == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]
    assert grid(prefix=2) == [[1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    assert grid(stride=2) == [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 0, 1, 0, 0], [0, 1, 0, 1, 0], [1, 0, 1, 0, 1]]
    assert grid(document=2) == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]]
    assert grid(causal=False, padding_left=1, padding_right=2) == [[0, 1, 1, 0, 0]] * 5
    assert grid(causal=False, padding_right=9) == [[0] * 5] * 5
    assert grid(causal=False, prefix=1) == [[1] * 5] * 5  # the prefix widens, and all was allowed


def test_documents_fill_the_longest_text() -> None:
    for length in (1, 100, 255, 256):
        mask = MaskConfig(num_queries=MAX_TOKENS, num_keys=MAX_TOKENS, causal=False, document=length)
        number = torch.arange(MAX_TOKENS) // length
        assert torch.equal(mask.allowed, number[:, None] == number)


def test_reasons_carry_the_numbers() -> None:
    every = MaskConfig(num_queries=6, num_keys=6, window=2, document=2, stride=2, padding_right=1)
    assert every.why_forbidden(2, 5) == (
        "causal: the key comes after the query",
        "window: the key is 3 positions away",
        "documents: the key is in another document",
        "strided: 3 positions are no multiple of 2",
        "padding: the key is no real token",
    )
    assert every.why_forbidden(2, 2) == ()
    # the last query stands beside the last key: it is 0 away from key 5, not 3
    last = MaskConfig(num_queries=3, num_keys=6, window=2, corner=Corner.BOTTOM_RIGHT)
    assert last.why_forbidden(2, 5) == ()
    assert last.why_forbidden(2, 2) == ("window: the key is 3 positions away",)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_queries": 0}, "num_queries is 0; it must be from 1 to 256."),
        ({"num_keys": 257}, "num_keys is 257; it must be from 1 to 256."),
        ({"window": 0}, "window is 0; it must be from 1 to 256."),
        ({"window": True}, "window is True; it must be a whole number."),
        ({"prefix": -1}, "prefix is -1; it must be from 0 to 256."),
        ({"document": 0}, "document is 0; it must be from 1 to 256."),
        ({"stride": 0}, "stride is 0; it must be from 1 to 256."),
        ({"padding_left": -1}, "padding_left is -1; it must be from 0 to 256."),
    ],
)
def test_what_makes_no_mask_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        MaskConfig(**{"num_queries": 3, "num_keys": 3, **changes})


def test_it_keys_a_cache() -> None:
    one, other = (MaskConfig(num_queries=3, num_keys=5, window=2) for _ in range(2))
    assert (one, hash(one)) == (other, hash(other))
    assert replace(one, window=3) != one
    with pytest.raises(FrozenInstanceError):
        one.window = 3  # type: ignore[misc]


def test_the_last_tokens_ask_and_the_first_are_asked() -> None:
    tokens, _ = draw(SCENE)
    queries, allowed, memory = masked_scene(tokens, MaskConfig(num_queries=2, num_keys=5))
    assert torch.equal(queries, tokens[:, 5:])
    assert torch.equal(memory, tokens[:, :5])
    assert allowed.int().tolist() == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]]  # M13


@settings(max_examples=40)
@given(CONFIGS)
def test_every_mask_is_equal_to_pytorch(mask: MaskConfig) -> None:
    # M01, M13: other numbers of queries than keys, and rows that may attend to nothing
    verdict = verify(SCENE, mask=mask)
    assert verdict.equal, (verdict.maths.first_difference, verdict.arithmetic.first_difference)
    trace = attend_masked(SCENE, mask)
    assert trace.weights.shape == (1, 3, mask.num_queries, mask.num_keys)
    assert_close(trace.weights.sum(-1), (~masks.empty_rows(mask.allowed)).float().expand(1, 3, -1))
    assert trace.weights[..., ~mask.allowed].eq(0).all()


def test_more_queries_than_keys_in_the_bottom_right_corner() -> None:
    # M15: the first three queries see nothing, the fourth one key; no NaN
    mask = MaskConfig(num_queries=5, num_keys=2, corner=Corner.BOTTOM_RIGHT)
    trace = attend_masked(SCENE, mask)
    assert torch.equal(trace.weights[:, :, :4], torch.tensor([[0.0, 0]] * 3 + [[1.0, 0]]).expand(1, 3, 4, 2))
    assert trace.context[:, :, :3].eq(0).all()
    expected = F.scaled_dot_product_attention(trace.q, trace.k, trace.v, attn_mask=mask.allowed)
    assert_close(trace.context, expected)
    assert verify(SCENE, mask=mask).equal


def test_a_cell_that_is_not_there_has_no_reasons() -> None:
    with pytest.raises(IndexError, match="query 0, key 7: there are 2 queries and 2 keys"):
        MaskConfig(num_queries=2, num_keys=2).why_forbidden(0, 7)
