"""What was broken once on the pages, and is not to break again."""

from dataclasses import replace
from typing import Any

import pytest

from attention.config import AttentionConfig
from dashboard import verdict_panel
from tests.dashboard.helpers import SMALL, Reader, empty_caches, link


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(verdict_panel, "pause", lambda: None)
    empty_caches()
    yield
    empty_caches()


def test_the_preset_of_one_head_after_a_visit_to_another_page() -> None:
    reader = Reader().open("one_head").press("Script: one head")
    assert reader.faults == []


def test_the_preset_of_one_head_with_twelve_heads_set() -> None:
    reader = Reader(**link(SMALL)).set("num_heads", 12).open("one_head").press("Script: one head")
    assert reader.faults == []


def test_another_embed_dim_on_the_page_of_one_head() -> None:  # U03
    reader = Reader("one_head", **link(SMALL)).set("embed_dim", 24)
    assert reader.faults == []


def test_an_embed_dim_set_there_moves_the_heads_with_a_notice() -> None:  # U01, U03
    reader = Reader(**link(replace(SMALL, embed_dim=24))).set("num_heads", 8).open("one_head").set("embed_dim", 20)
    assert reader.faults == []
    reader.open("heads")
    assert reader.widgets["num_heads"].value == 10
    (notice,) = reader.notices
    assert "8 heads do not divide 20; moved to 10" in notice


@pytest.mark.parametrize("embed_dim", ["20", "7"])
def test_a_link_to_one_head_whose_heads_do_not_divide(embed_dim: str) -> None:  # U07
    assert Reader("one_head", embed_dim=embed_dim, num_heads="12", num_tokens="5").faults == []


def test_four_ways_verdict_covers_einsum(monkeypatch: pytest.MonkeyPatch) -> None:
    from attention import four_ways

    right = four_ways.attend_by_einsum  # type: ignore[attr-defined]  # replaced where it is used

    def wrong(*given: Any) -> Any:
        found = right(*given)
        return found._replace(weights=found.weights.flip(-1), output=found.output + 1)

    monkeypatch.setattr(four_ways, "attend_by_einsum", wrong)
    assert not Reader("four_ways", **link(SMALL)).verdict.startswith(":green-badge[")


def test_four_ways_verdict_covers_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    from attention import ladder

    right = ladder.MultiHeadAttentionWrapper.trace
    monkeypatch.setattr(
        ladder.MultiHeadAttentionWrapper, "trace", lambda self, *a: replace(t := right(self, *a), output=t.output + 1)
    )
    assert not Reader("four_ways", **link(SMALL)).verdict.startswith(":green-badge[")


def test_fused_is_cached_under_the_tolerance_of_another_visitor() -> None:  # C03, C07
    def caption(**more: str) -> str:
        reader = Reader("block", **{**link(replace(SMALL, num_heads=4)), **more})
        return next(c.value for c in reader.app.caption if "fwd" in c.value)

    alone = caption()
    empty_caches()
    caption(rtol="0", atol="0")
    assert caption() == alone


def test_the_matrix_follows_the_tolerance() -> None:
    reader = Reader("four_ways", **link(SMALL))
    reader.set("rtol", 0.0).set("atol", 0.0)
    expected = Reader("four_ways", **link(SMALL), rtol="0", atol="0").html["ways"][0]
    assert expected in reader.html["ways"]


@pytest.mark.parametrize("dtype", ["float16"])
def test_the_largest_score_scale_keeps_every_row_finite(dtype: str) -> None:  # N07
    config = AttentionConfig(embed_dim=768, num_heads=1, num_tokens=64, dtype=dtype)
    header = Reader("masks", **link(config), loudness="1000").picture("masks_number").header
    assert header["nans"] == 0
    assert "nan" not in header["hint"]


@pytest.mark.parametrize(("embed_dim", "seed"), [(1, 0), (2, 2)])
def test_no_point_lies_outside_the_chart_of_the_cosine(embed_dim: int, seed: int) -> None:
    config = AttentionConfig(embed_dim=embed_dim, num_heads=1, num_tokens=5, seed=seed)
    chart = Reader("block", **link(config), depth="4").charts["block_kept"]
    low, high = chart["layout"]["yaxis"]["range"]
    assert all(low <= y <= high for line in chart["data"] for y in line["y"])


def test_the_line_of_another_page_is_not_taken_for_pictures_it_did_not_check(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[bool] = []
    begin = verdict_panel.Line.begin

    def watched(line: Any, config: object) -> bool:
        said.append(begin(line, config))
        return said[-1]

    monkeypatch.setattr(verdict_panel.Line, "begin", watched)
    reader = Reader(**link(SMALL))
    said.clear()
    reader.open("head_counts")
    assert said == [False], "the verdict on 3 heads stands over the pictures of 1, 2 and 4"


def test_a_picture_of_another_head_step_or_loudness_has_another_name() -> None:
    reader = Reader("masks", **link(SMALL))

    def name(key: str) -> str:
        return str(reader.picture(key).header["file"])

    change, two = name("masks_change"), name("masks_number")
    reader.set("loudness", 100)
    assert name("masks_number") != two
    assert reader.set("of_head", 1).faults == []
    assert name("masks_change") != change


def test_a_picture_of_another_block_has_another_name() -> None:
    reader = Reader("block", **link(SMALL))
    first = reader.picture("block").header["file"]
    assert reader.set("of_block", 1).picture("block").header["file"] != first


def test_a_picture_with_dropout_has_another_name() -> None:
    reader = Reader("four_ways", **link(SMALL))
    first = reader.picture("four_ways").header["file"]
    assert reader.set("training", True).picture("four_ways").header["file"] != first


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_the_table_is_of_the_placement_that_differs_though_the_probe_sees_it_too(
    placement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from attention import verify_block

    right = verify_block.run_block  # type: ignore[attr-defined]  # replaced where it is used
    verify_block.probe.cache_clear()

    def wrong(*given: Any, norm_first: bool, **more: Any) -> Any:
        trace = right(*given, norm_first=norm_first, **more)
        return replace(trace, fed=trace.fed * 2) if norm_first == (placement == "pre") else trace

    monkeypatch.setattr(verify_block, "run_block", wrong)
    reader = Reader("block", **link(SMALL), norm="post" if placement == "pre" else "pre")
    verify_block.probe.cache_clear()
    assert "✗ differs" in reader.table


@pytest.mark.parametrize("name", ["norm", "activation", "number", "corner"])
def test_a_repeated_parameter_takes_the_last(name: str) -> None:
    values = {
        "norm": ("pre", "post"),
        "activation": ("relu", "gelu"),
        "number": ("-1e9", "-100"),
        "corner": ("top-left", "bottom-right"),
    }
    page = "block" if name in ("norm", "activation") else "masks"
    more = {"rules": ["T ≠ S"]} if name == "corner" else {}
    reader = Reader(page, **link(SMALL), **more, **{name: list(values[name])})
    assert reader.value(name) == values[name][1]


def test_one_head_names_one_head() -> None:
    one = Reader("one_head", **link(replace(SMALL, num_heads=1))).picture("one_head").header["id"]
    assert Reader("one_head", **link(replace(SMALL, num_heads=12))).picture("one_head").header["id"] == one


def test_the_preset_of_the_block_sets_its_placement() -> None:
    # the script's block: LN after the sum
    reader = Reader("block", **link(SMALL), norm="pre").press("Script: the block")
    assert reader.value("norm") == "post"


def test_every_picture_of_the_page_follows_the_curve() -> None:
    reader = Reader("masks", **link(SMALL)).set("curve", "log")
    assert [reader.picture(key).header["curve"] for key in ("masks", "masks_number")] == ["log", "log"]
