"""The controls: what a change moves, what it leaves alone, and what is said about it."""

from typing import Any, Final

import pytest
import streamlit as st

from attention.compare import Tolerance
from attention.config import MAX_SEED, MAX_TOKENS, AttentionConfig, head_counts
from attention.multi_head import attend_as_configured
from attention.verify import verify
from attention.worked_cell import work_out
from dashboard import cached, cell_panel, controls, scene_controls
from tests.dashboard.helpers import SMALL, Reader, cells, link, open_scene

# the documented defaults of torch.testing.assert_close: rtol, atol
ASSERT_CLOSE: Final = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
}


def assert_inside(reader: Reader) -> None:
    """Every control stands within its own bounds, and these are the true ones (U04, U05)."""
    assert reader.faults == []
    for key, smallest, largest in (
        ("num_tokens", 1, MAX_TOKENS),
        ("_seed_slider", 0, scene_controls.SEEDS_ON_SLIDER),
        ("seed", 0, MAX_SEED),
        ("rtol", 0, 1),
        ("atol", 0, 1),
    ):
        widget = reader.widgets[key]
        assert (widget.min, widget.max) == (smallest, largest), f"{key} was widened"
        assert smallest <= reader.value(key) <= largest
    embed_dim = reader.value("embed_dim")
    assert embed_dim in scene_controls.EMBED_DIMS
    counts = head_counts(embed_dim)
    if len(counts) > 1:
        assert tuple(map(int, reader.widgets["num_heads"].options)) == counts
        assert reader.value("num_heads") in counts
    else:
        assert "num_heads" not in reader.widgets
    # and the picture is of these very settings
    header = reader.scene.header
    assert header["heads"] == (reader.value("num_heads") if len(counts) > 1 else 1)
    assert header["queries"] == header["keys"] == reader.value("num_tokens")


# U03 -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("embed_dim", "heads", "new_embed_dim", "expected"),
    [
        (32, 32, 20, 20),  # the case of the report; its slider jumped to 4 without a word
        (12, 3, 16, 2),  # 2 and 4 are equally near: the smaller
        (768, 12, 32, 8),
        (24, 24, 7, 7),
        (1024, 32, 5, 5),
    ],
)
def test_heads_that_do_not_divide_move_with_a_notice(
    embed_dim: int, heads: int, new_embed_dim: int, expected: int
) -> None:
    reader = open_scene(AttentionConfig(embed_dim=embed_dim, num_heads=heads, num_tokens=5))
    assert reader.notices == []
    reader.set("embed_dim", new_embed_dim)
    assert_inside(reader)
    assert reader.value("num_heads") == reader.scene.header["heads"] == expected
    (notice,) = reader.notices
    for number in (heads, new_embed_dim, expected):
        assert str(number) in notice
    assert notice in reader.rerun().notices, "a rerun of the whole script keeps it"


@pytest.mark.parametrize(
    ("embed_dim", "heads", "new_embed_dim"), [(768, 12, 12), (12, 3, 24), (8, 8, 16), (8, 1, 1), (16, 1, 7)]
)
def test_heads_that_still_divide_stay_without_a_notice(embed_dim: int, heads: int, new_embed_dim: int) -> None:
    reader = open_scene(AttentionConfig(embed_dim=embed_dim, num_heads=heads, num_tokens=5))
    reader.set("embed_dim", new_embed_dim)
    assert_inside(reader)
    assert reader.notices == []
    assert reader.scene.header["heads"] == heads


def test_notice_goes_with_the_next_choice_of_heads() -> None:
    reader = open_scene(AttentionConfig(embed_dim=32, num_heads=32, num_tokens=5)).set("embed_dim", 20)
    assert len(reader.notices) == 1
    reader.set("num_heads", 5)
    assert "num_heads" in reader.drew, "the notice is drawn by the fragment of the heads, so it must run again"
    assert reader.notices == []
    assert reader.scene.header["heads"] == 5
    assert reader.rerun().notices == []


def test_notice_goes_with_the_next_embed_dim_that_fits() -> None:
    reader = open_scene(AttentionConfig(embed_dim=32, num_heads=32, num_tokens=5)).set("embed_dim", 20)
    assert reader.set("embed_dim", 40).notices == []
    assert reader.scene.header["heads"] == 20


def test_one_dimension_has_one_head_and_no_slider() -> None:  # a slider needs two ends
    reader = open_scene(SMALL).set("embed_dim", 1)
    assert_inside(reader)
    assert any(caption.value.startswith("Heads: 1,") for caption in reader.app.caption)
    assert len(reader.notices) == 1
    reader.set("embed_dim", 24)
    assert_inside(reader)
    assert reader.notices == []
    assert reader.scene.header["heads"] == 1


def test_a_long_walk_stays_inside_the_bounds() -> None:  # U04, U05
    walk: list[tuple[str, Any]] = [
        ("embed_dim", 1024), ("num_heads", 32), ("num_tokens", 256), ("embed_dim", 7), ("seed", MAX_SEED),
        ("num_tokens", 1), ("embed_dim", 1), ("causal", False), ("embed_dim", 96), ("num_heads", 32),
        ("_seed_slider", 0), ("embed_dim", 5), ("dtype", "bfloat16"), ("num_heads", 1), ("embed_dim", 1),
        ("dtype", "float64"), ("embed_dim", 768), ("num_tokens", 3), ("_seed_slider", 99), ("rtol", 1.0), ("atol", 0.0),
    ]  # fmt: skip
    reader = open_scene(SMALL)
    for key, value in walk:
        reader.set(key, value)
        assert_inside(reader)
        assert reader.value(key) == value, f"{key} did not take {value}"
    assert_inside(reader.rerun())


def test_settings_survive_a_rerun_of_the_whole_script() -> None:  # U01, as far as it shows without a browser
    reader = (
        Reader().set("embed_dim", 64).set("num_heads", 4).set("num_tokens", 9).set("seed", 1234).set("causal", False)
    )
    before = reader.scene
    assert reader.rerun().scene.header == before.header
    assert reader.scene.header["id"] == "4x9-of-64-full-seed1234-float32"


# What a change draws again -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "drawn"),
    [
        ("num_heads", 6, {"heads_picture", "table"}),
        ("num_tokens", 9, {"heads_picture", "table"}),
        ("seed", 7, {"heads_picture", "table", "seed", "_seed_slider"}),
        ("_seed_slider", 7, {"heads_picture", "table", "seed", "_seed_slider"}),
        ("causal", False, {"heads_picture", "table"}),
        ("embed_dim", 384, {"heads_picture", "table", "num_heads"}),
        ("curve", "linear", {"heads_picture"}),
        ("rtol", 0.5, {"table"}),
        ("atol", 0.5, {"table"}),
    ],
)
def test_a_change_draws_only_what_depends_on_it(key: str, value: object, drawn: set[str]) -> None:
    reader = Reader().set(key, value)
    assert reader.faults == []
    assert reader.drew == drawn


def test_one_choice_of_scene_changes_picture_and_verdict_together() -> None:
    reader = Reader()
    for key, value in (("num_heads", 6), ("num_tokens", 9), ("seed", 7), ("causal", False)):
        reader.set(key, value)
        config = AttentionConfig(
            num_heads=reader.value("num_heads"),
            num_tokens=reader.value("num_tokens"),
            seed=reader.value("seed"),
            causal=reader.value("causal"),
        )
        assert reader.scene.header["id"] == cached.identity(config)
        largest = max(check.max_abs for check in verify(config).maths.checks)
        assert f"{largest:.2e} in float64" in reader.verdict
        weights = next(row for row in cells(reader.table) if row[0] == "weights")
        assert weights[1] == f"1 × {config.num_heads} × {config.num_tokens} × {config.num_tokens}"


# The look ------------------------------------------------------------------------------------------------------------


def test_a_look_changes_no_number() -> None:  # R09
    reader = Reader()
    numbers, identity, verdict, table = reader.scene.numbers, reader.identity, reader.verdict, reader.table
    seen = set()
    for curve in (*controls.CURVES, *controls.CURVES):
        for scale in controls.SCALES:
            reader.set("curve", curve).set("scale", scale)
            assert reader.faults == []
            header = reader.scene.header
            seen.add((header["curve"], header["scale"]))
            assert reader.scene.numbers == numbers
            assert reader.identity == identity  # U13
            assert (reader.rerun().verdict, reader.table) == (verdict, table)
            assert reader.scene.numbers == numbers
    assert seen == {(curve, scale) for curve in controls.CURVES for scale in controls.SCALES}


# Seeds ---------------------------------------------------------------------------------------------------------------


def test_seed_slider_and_field_agree() -> None:
    reader = open_scene(SMALL)
    assert (reader.value("seed"), reader.value("_seed_slider")) == (42, 42)
    reader.set("_seed_slider", 7)
    assert (reader.value("seed"), reader.widgets["seed"].value, reader.scene.header["id"]) == (
        7, 7, "3x5-of-12-causal-seed7-float32",
    )  # fmt: skip
    reader.set("seed", 8)
    assert (reader.value("_seed_slider"), reader.widgets["_seed_slider"].value) == (8, 8)
    assert reader.scene.header["id"].endswith("-seed8-float32")


@pytest.mark.parametrize("seed", [100, 123456, 2**31, MAX_SEED])
def test_seeds_beyond_the_slider(seed: int) -> None:
    reader = open_scene(SMALL).set("seed", seed)
    assert reader.faults == []
    assert reader.scene.header["id"] == f"3x5-of-12-causal-seed{seed}-float32"
    assert reader.value("_seed_slider") == scene_controls.SEEDS_ON_SLIDER, "as far as it goes"
    assert reader.rerun().value("seed") == seed, "the slider does not pull it back"
    assert open_scene(SMALL, seed=str(seed)).scene.header == reader.scene.header


def test_seed_comes_back_from_beyond_the_slider() -> None:
    reader = open_scene(SMALL).set("seed", 5000).set("_seed_slider", 98)
    assert reader.value("seed") == 98
    assert reader.scene.header["id"].endswith("-seed98-float32")


def test_another_seed_gives_other_numbers_and_the_first_seed_the_first_again() -> None:
    reader = open_scene(SMALL)
    first = reader.scene.numbers
    assert reader.set("seed", 43).scene.numbers != first
    assert reader.set("seed", 42).scene.numbers == first


# Precision and tolerance ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ASSERT_CLOSE)
def test_tolerance_begins_as_assert_close_has_it(dtype: str) -> None:
    reader = open_scene(SMALL, dtype=dtype)
    assert (reader.value("rtol"), reader.value("atol")) == ASSERT_CLOSE[dtype]


@pytest.mark.parametrize("dtype", [name for name in ASSERT_CLOSE if name != "float32"])
def test_a_new_precision_resets_the_tolerance(dtype: str) -> None:
    reader = open_scene(SMALL).set("rtol", 0.25).set("atol", 0.5)
    reader.set("dtype", dtype)
    assert reader.faults == []
    assert (reader.value("rtol"), reader.value("atol")) == ASSERT_CLOSE[dtype]
    assert (reader.widgets["rtol"].value, reader.widgets["atol"].value) == ASSERT_CLOSE[dtype]
    assert reader.scene.header["id"].endswith(dtype)
    assert f"the arithmetic: {dtype}" in reader.table
    reader.set("dtype", "float32")
    assert (reader.value("rtol"), reader.value("atol")) == ASSERT_CLOSE["float32"]


def test_another_scene_keeps_the_readers_tolerance() -> None:
    reader = open_scene(SMALL).set("rtol", 0.25).set("num_tokens", 6).set("embed_dim", 24)
    assert reader.value("rtol") == 0.25
    assert "0.25·|x|" in reader.table


def test_no_tolerance_at_all_is_rounding_and_not_a_difference() -> None:
    reader = Reader().set("rtol", 0.0).set("atol", 0.0)
    assert reader.faults == []
    verdict = verify(AttentionConfig(), Tolerance(rtol=0, atol=0))
    first = verdict.arithmetic.first_difference
    assert first is not None, "the scene must have some rounding, or this test shows nothing"
    assert reader.verdict.startswith(":orange-badge[")
    assert "rounding" in reader.verdict
    assert "**The maths is equal**" in reader.verdict
    assert f"`{first.step}` is the first step over the tolerance" in reader.verdict
    assert first.reason in reader.verdict
    # the maths has a tolerance of its own, which the reader cannot set
    assert {row[2] for row in cells(reader.table)[2:]} == {"✓ equal"}
    assert reader.differences[0].startswith("**The arithmetic**, first at ")
    assert "**The maths**" not in "".join(reader.differences)
    reader.set("rtol", 1.3e-6).set("atol", 1e-5)
    assert reader.verdict == Reader().verdict


def test_tolerance_in_a_link() -> None:
    reader = Reader(rtol="0", atol="0")
    assert reader.verdict.startswith(":orange-badge[")
    assert Reader(rtol="0.5", atol="0.001").verdict.startswith(":green-badge[")


def test_a_tolerance_as_large_as_the_numbers_says_nothing() -> None:  # N27: zeros would pass too
    reader = Reader(atol="1")
    assert not reader.verdict.startswith(":green-badge[")
    assert "zeros would pass too" in reader.verdict


def test_a_step_within_the_tolerance_is_not_called_over_it() -> None:  # N27
    reader = Reader(atol="1")
    assert "over the tolerance" not in reader.verdict


# The pinned cell and the enlarged head -------------------------------------------------------------------------------


def test_the_worked_cell_is_the_pinned_one() -> None:
    reader = open_scene(SMALL, pin="2-3-1")
    header = reader.scene.header
    assert header["pin"] == {"head": 2, "query": 3, "key": 1}
    assert header["below"] == cell_panel.html(work_out(attend_as_configured(SMALL), 2, 3, 1))


def test_no_pin_no_worked_cell() -> None:
    header = open_scene(SMALL, pin="none").scene.header
    assert header["pin"] is None
    assert header["below"] == ""


def test_a_pin_out_of_range_moves_to_the_nearest_cell() -> None:
    assert open_scene(SMALL, pin="99-999-9999").scene.header["pin"] == {"head": 2, "query": 4, "key": 4}
    reader = Reader()
    assert reader.set("num_tokens", 3).scene.header["pin"] == {"head": 0, "query": 2, "key": 2}
    assert "query 2 → key 2" in reader.scene.header["below"]
    # the reader's choice is kept: with enough tokens it is the first cell again
    assert reader.set("num_tokens", 16).scene.header["pin"] == {"head": 0, "query": 9, "key": 4}


def test_a_click_pins_a_cell_in_the_link() -> None:
    reader = Reader().click(pin="3-5-2")
    assert reader.faults == []
    assert reader.app.query_params["pin"] == "3-5-2"
    assert reader.scene.header["pin"] == {"head": 3, "query": 5, "key": 2}
    assert "Head 3: query 5 → key 2" in reader.scene.header["below"]
    reader.click(pin="none")
    assert reader.app.query_params["pin"] == "none"
    assert reader.scene.header["pin"] is None


def test_a_title_enlarges_its_head_in_the_link() -> None:
    reader = Reader().click(enlarged="4")
    assert reader.faults == []
    assert reader.app.query_params["head"] == "4"
    assert reader.scene.header["enlarged"] == 4
    assert Reader(head="4").scene.header["enlarged"] == 4
    reader.click(enlarged="all")
    assert "head" not in reader.app.query_params
    assert reader.scene.header["enlarged"] is None


@pytest.mark.parametrize("name", ["pin", "enlarged"])
@pytest.mark.parametrize(
    "value", [None, 7, -1, {"head": 1}, ["1-1-1"], "1-1-1-1", "99-99-99", "x" * 10_000, "<b>"], ids=repr
)
def test_a_client_that_sends_anything_gets_a_possible_picture(name: str, value: object) -> None:
    # a message from the browser is not to be trusted more than a link
    reader = open_scene(SMALL).click(**{name: value})
    assert_inside(reader)
    header = reader.scene.header
    assert all(0 <= header["pin"][part] < size for part, size in (("head", 3), ("query", 5), ("key", 5)))
    assert header["enlarged"] in (None, 0, 1, 2)
    assert len("".join(reader.app.query_params.values())) < 100


def test_an_enlarged_head_that_is_gone_gives_all_heads() -> None:
    reader = Reader(head="11")
    assert reader.scene.header["enlarged"] == 11
    reader.set("num_heads", 6)
    assert reader.faults == []
    assert reader.scene.header["enlarged"] is None


def test_pin_stays_in_the_scene_at_every_size() -> None:
    for config in (SMALL, AttentionConfig(embed_dim=1, num_heads=1, num_tokens=1)):
        reader = Reader(**{**link(config), "pin": "31-255-255"})
        pin = reader.scene.header["pin"]
        last = config.num_tokens - 1
        assert pin == {"head": config.num_heads - 1, "query": last, "key": last}


@pytest.mark.parametrize(
    ("control", "value", "moved"),
    [("embed_dim", 64, "_heads"), ("embed_dim", 7, "_heads")],
)
def test_a_moved_control_is_drawn_before_the_verdict(
    control: str, value: int, moved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # else the page sends its old value with the next change, while the verdict is still being found
    reader = open_scene(SMALL)
    asked: list[list[str]] = []
    again = st.rerun

    def note(scope: list[str]) -> None:
        asked.append(scope)
        again(scope)

    monkeypatch.setattr(st, "rerun", note)
    reader.set(control, value)
    assert asked[0] == ["picture", moved, "verdict"]


def test_a_seed_that_nobody_typed_does_not_come_back() -> None:
    # the page was told of seed 42, the slider was moved to 7, and before the field is drawn again another control moves
    reader = open_scene(SMALL)
    reader.set("_seed_slider", 7)
    assert reader.value("seed") == 7
    assert "_seed_told" not in reader.app.session_state, "the field has been drawn"
    reader.app.session_state["_seed_told"] = 42
    reader.widgets["seed"].set_value(42)
    reader.set("num_tokens", 4)
    assert reader.value("seed") == 7
    assert reader.scene.header["id"].startswith("3x4-of-12-causal-seed7-")
    # once it is drawn, 42 is a seed like any other
    assert reader.set("seed", 42).value("seed") == 42


def test_the_field_keeps_what_it_was_told_over_several_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"seed": 42, "_seed_slider": 7}
    monkeypatch.setattr(st, "session_state", state)
    monkeypatch.setattr(scene_controls, "rerun", lambda *_fragments: lambda: None)
    scene_controls._take_slider_seed()
    state["_seed_slider"] = 9
    scene_controls._take_slider_seed()
    assert state == {"seed": 9, "_seed_slider": 9, "_seed_told": 42}
    state["seed"] = 42
    scene_controls._take_typed_seed()
    assert state["seed"] == 9
    state["seed"] = 5
    scene_controls._take_typed_seed()
    assert state["seed"] == 5
