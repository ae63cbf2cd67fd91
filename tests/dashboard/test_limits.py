"""What is too large for a page is made smaller, in one direction only, and the page says so."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention import masks, multi_head
from attention.config import AttentionConfig, head_counts
from attention.verify_block import MAX_DEPTH
from dashboard import limits, memory
from dashboard.limits import LIMITS, depth_within, said, time_of_block, within
from dashboard.scene_controls import EMBED_DIMS
from tests.dashboard.helpers import ROOT, Reader, assert_shows, link

PAGES = sorted(file.stem for file in (ROOT / "dashboard" / "app_pages").glob("*.py"))
LARGEST = AttentionConfig(embed_dim=1024, num_heads=32, num_tokens=256, seed=3)


@st.composite
def scenes(draw: st.DrawFn) -> AttentionConfig:
    """Any scene of the controls."""
    embed_dim = draw(st.sampled_from(EMBED_DIMS))
    heads = draw(st.sampled_from(head_counts(embed_dim)))
    return AttentionConfig(
        embed_dim=embed_dim, num_heads=heads, num_tokens=draw(st.integers(1, 256)), seed=draw(st.integers(0, 9))
    )


def test_limits_are_of_pages() -> None:
    assert set(LIMITS) - {"further"} <= set(PAGES)
    assert set(PAGES) - set(LIMITS) == {"heads", "one_head", "scenes", "train"}, "these compute all or nothing"


@pytest.mark.parametrize("page", [*PAGES, "further"])
@given(scene=scenes())
def test_a_scene_is_only_made_smaller(page: str, scene: AttentionConfig) -> None:
    shown = within(page, scene)
    assert within(page, shown) == shown
    assert shown.embed_dim <= scene.embed_dim
    assert shown.num_tokens <= scene.num_tokens
    assert shown.embed_dim in EMBED_DIMS
    assert replace(shown, embed_dim=1, num_heads=1, num_tokens=1) == replace(
        scene, embed_dim=1, num_heads=1, num_tokens=1
    )
    if shown.embed_dim == scene.embed_dim:
        assert shown.num_heads == scene.num_heads
    if page not in LIMITS:
        assert shown == scene
        return
    limit = LIMITS[page]
    assert shown.embed_dim <= limit.embed_dim
    assert shown.num_tokens <= limit.tokens
    assert shown.num_heads * shown.num_tokens**2 <= limit.weights
    assert shown.num_tokens * shown.embed_dim <= limit.numbers
    larger = replace(shown, num_tokens=shown.num_tokens + 1)
    if shown.num_tokens < scene.num_tokens:  # no smaller than it must be
        assert within(page, larger) == shown


@given(scene=scenes(), depth=st.integers(1, MAX_DEPTH))
def test_blocks_are_as_many_as_are_done_in_time(scene: AttentionConfig, depth: int) -> None:
    scene = within("block", scene)
    shown = depth_within(scene, depth)
    assert 1 <= shown <= depth
    if shown > 1:
        assert shown * time_of_block(scene) <= limits._BLOCKS
    if shown < depth:
        assert (shown + 1) * time_of_block(scene) > limits._BLOCKS


def test_the_first_scene_is_within_every_limit() -> None:
    first = AttentionConfig()
    for page in set(LIMITS) - {"predict"}:  # nobody fills in 16 by hand
        assert within(page, first) == first
    assert depth_within(first, 2) == 2


def test_it_is_said_in_words() -> None:
    small = replace(LARGEST, embed_dim=768, num_tokens=39)
    assert said(LARGEST, LARGEST, 8, 8) == ""
    assert said(LARGEST, small, 8, 2).startswith(
        "Shown with embed dim 768, not 1024, tokens 39, not 256, depth 2, not 8: "
    )


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_it_made_smaller(page: str) -> None:
    reader = Reader(page, **link(LARGEST), depth="8")
    assert reader.faults == []
    shown = within(page, LARGEST)
    words = said(LARGEST, shown, 8, depth_within(shown, 8)) if page == "block" else said(LARGEST, shown, page=page)
    assert [notice for notice in reader.notices if "not 256" in notice or "not 8" in notice] == (
        [f":material/info: {words}"] if words else []
    )


def test_the_picture_is_of_the_smaller_scene() -> None:
    shown = within("head_counts", LARGEST)
    reader = Reader("head_counts", **link(LARGEST))
    one = replace(shown, num_heads=1)
    with torch.no_grad():
        weights = multi_head.attend_as_configured(one).weights[0]
    assert_shows(reader.picture("head_counts_0"), list(weights), masks.grid(masks.causal, shown.num_tokens))


def test_earlier_tokens_stay_what_they_are() -> None:
    shown = within("masks", LARGEST)
    tokens, of_fewer = (multi_head.draw(config)[0] for config in (replace(LARGEST, embed_dim=768), shown))
    assert torch.equal(tokens[:, : shown.num_tokens], of_fewer)


def test_the_memory_is_told_where_there_is_such_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []

    class Library:
        def mallopt(self, option: int, value: int) -> None:
            told.append((option, value))

    monkeypatch.setattr("ctypes.CDLL", lambda _: Library())
    memory.give_back_large()
    assert told == [(-3, 8 * 1024 * 1024)]
    monkeypatch.setattr("ctypes.CDLL", lambda _: Path("no mallopt here"))
    memory.give_back_large()
