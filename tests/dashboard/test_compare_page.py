"""The page that compares: both scenes on one scale, their difference, and what it says of them."""

from dataclasses import replace

import pytest
import torch

from attention.config import AttentionConfig
from attention.multi_head import allowed_by, attend_as_configured
from dashboard import cached, comparing, limits
from dashboard.comparing import scene_in
from tests.dashboard.helpers import SMALL, Reader, assert_shows, link, number

B = AttentionConfig(embed_dim=12, num_heads=3, num_tokens=5)
A = replace(B, causal=False, seed=4)


def opened(a: AttentionConfig, b: AttentionConfig, **more: str) -> Reader:
    reader = Reader("compare", **link(b), a=cached.identity(a), **more)
    assert reader.faults == []
    return reader


def weights(config: AttentionConfig) -> torch.Tensor:
    return attend_as_configured(config).weights[0]


def test_a_and_b_are_their_own_numbers_and_the_difference_is_b_less_a() -> None:
    reader = opened(A, B)
    assert_shows(reader.picture("compare_A"), list(weights(A)))
    assert_shows(reader.picture("compare_B"), list(weights(B)), allowed_by(B))
    assert_shows(reader.picture("compare_difference"), list(weights(B).double() - weights(A).double()))
    assert "equal" in reader.verdict


@pytest.mark.parametrize("step", ["scores", "v", "output"])
def test_signed_steps_are_on_one_scale(step: str) -> None:
    b = replace(B, seed=9)
    reader = opened(A, b, compare_step=step)
    a_shown, b_shown = (reader.picture(f"compare_{name}").header for name in "AB")
    both = torch.cat([getattr(attend_as_configured(scene), step).flatten() for scene in (A, b)])
    for header in (a_shown, b_shown):
        assert (header["low"], header["high"]) == (both.min().item(), both.max().item())


def test_weights_are_from_0_to_1_in_both_whatever_the_switch_for_other_pages_says() -> None:
    reader = opened(A, B, scale="per-head")
    assert {reader.picture(f"compare_{name}").header["scale"] for name in "AB"} == {"shared"}
    assert {reader.picture(f"compare_{name}").header["high"] for name in "AB"} == {1}


def test_until_something_is_pinned_a_is_b_under_the_other_mask() -> None:
    reader = Reader("compare", **link(B))
    assert_shows(reader.picture("compare_A"), list(weights(replace(B, causal=False))))


def test_pinning_keeps_a_while_b_moves() -> None:
    reader = Reader(**link(B)).press_key("compare_from_here")
    assert "compare_A" in reader.pictures, "the button turns to the page"
    assert reader.parameter("a") == cached.identity(B)
    assert any("B − A is 0 in every cell" in text for text in reader.said)
    reader.set("seed", 8)
    assert_shows(reader.picture("compare_A"), list(weights(B)), allowed_by(B))
    assert_shows(reader.picture("compare_B"), list(weights(replace(B, seed=8))), allowed_by(B))


def test_what_is_pinned_outlives_a_visit_to_another_page() -> None:
    reader = Reader(**link(B)).press_key("compare_from_here").open("heads")
    reader.set("seed", 8)
    reader.forget_link().open("compare")
    assert_shows(reader.picture("compare_A"), list(weights(B)), allowed_by(B))
    assert reader.parameter("a") == cached.identity(B)


def test_other_head_counts_are_compared_by_their_means() -> None:
    b = replace(A, num_heads=2)
    reader = opened(A, b)
    expected = weights(b).double().mean(0) - weights(A).double().mean(0)
    shown = reader.picture("compare_difference")
    assert shown.header["titles"] == ["mean over heads"]
    assert_shows(shown, [expected])
    assert any("these are means over heads" in text for text in reader.said)


def test_what_cannot_be_subtracted_is_said_and_not_drawn() -> None:
    reader = opened(A, replace(A, num_heads=2), compare_step="q")
    assert "compare_difference" not in reader.pictures
    assert any("No difference to draw" in text and "3 heads of width 4 against 2 of 6" in text for text in reader.said)


def test_other_numbers_of_tokens_are_compared_over_those_that_both_have() -> None:
    b = replace(A, num_tokens=3)
    reader = opened(A, b)
    assert_shows(reader.picture("compare_difference"), list(weights(b).double() - weights(A).double()[:, :3, :3]))
    assert any("over the first 3 tokens, which both have" in text for text in reader.said)


def test_the_words_say_the_largest_difference_and_where() -> None:
    reader = opened(A, B)
    difference = (weights(B).double() - weights(A).double()).abs()
    head, row, column = (int(i) for i in torch.unravel_index(difference.argmax(), difference.shape))
    (text,) = [text for text in reader.said if text.startswith("**B − A**")]
    assert f"at most {difference.max():.3g} (head {head}, query {row} → key {column})" in text
    assert f"{difference.sum(-1).mean() / 2:.1%} of a row's weight" in text


def test_the_table_is_of_both() -> None:
    rows = {row[0]: row[1:] for row in opened(A, B).table_of("ways")}
    for place, scene in enumerate((A, B)):
        largest = weights(scene).double().amax(-1).mean().item()
        assert number(rows["largest weight of a row, mean"][place]) == pytest.approx(largest, abs=5e-4)


def test_both_are_checked() -> None:
    assert "Both were checked: A equal, B equal. The table is of B." in opened(A, B).captions


def test_a_link_cannot_ask_for_more_than_the_page_computes() -> None:
    largest = AttentionConfig(embed_dim=1024, num_heads=32, num_tokens=256)
    reader = opened(largest, SMALL)
    shown = reader.picture("compare_A").header
    allowed = limits.within("compare", largest)
    assert allowed != largest
    assert (shown["heads"], shown["queries"]) == (allowed.num_heads, allowed.num_tokens)


@pytest.mark.parametrize("scene", [A, B, AttentionConfig(embed_dim=1024, num_heads=32, num_tokens=256, seed=2**32 - 1)])
def test_a_scene_is_found_again_in_its_name(scene: AttentionConfig) -> None:
    assert scene_in(cached.identity(scene)) == scene


@pytest.mark.parametrize(
    "text",
    [
        "",
        "12x16",
        "0x16-of-768-full-seed1-float32",
        "5x16-of-768-full-seed1-float32",
        "12x999-of-768-full-seed1-float32",
        "12x16-of-768-full-seed1-int8",
        "12x16-of-768-full-seed9999999999-float32",
        "12x16-of-768-full-seed1-float32\n",
        "١٢x16-of-768-full-seed1-float32",
    ],
)
def test_other_names_are_none(text: str) -> None:
    assert scene_in(text) is None
    assert not comparing.PARAMETERS["a"].is_possible(text)
