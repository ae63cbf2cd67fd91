"""Links to a scene: the possible ones show it, the impossible ones show a page all the same, and say so (U07)."""

from dataclasses import replace
from typing import Any, Final

import pytest

from attention.config import MAX_SEED, MAX_TOKENS, AttentionConfig, head_counts
from dashboard import cached, controls, scene_controls
from tests.dashboard.helpers import SMALL, Reader, decode, link, open_scene

LONG: Final = "x" * 20_000
MARKUP: Final = "<img src=x onerror=alert(1)>"
# none of these is a value of any control
NONSENSE: Final = (
    "abc",
    "-1",
    str(10**30),
    "NaN",
    MARKUP,
    "[a](javascript:alert(1))",
    "'; drop table--",
    "\x00",
    LONG,
)
# a value for some of the parameters
ODD: Final = (
    "16.5",
    "999",
    "99999",
    "1e400",
    "inf",
    "-inf",
    "9" * 5000,
    "1e-400",
    "1_0",
    " 5 ",
    "0",
    "٣",
    "none",
    "True",
)
# nor is one of these a cell, or a head of the small scene
NO_CELLS: Final = (
    *("1-2", "1-2-3-4", "--", "-1-2-3", "1-2-x", "1.5-2-3", "99999-0-0", "²-1-1", "0x1-1-1"),
    *("²", "-0", "3"),
)

WIDGETS: Final = ("embed_dim", "num_heads", "num_tokens", "seed", "causal", "dtype", "curve", "scale")
TOLERANCES: Final = ("rtol", "atol")
CELLS: Final = ("pin", "head")


def opened(name: str, value: str) -> Reader:
    """A link to a small scene (quick to draw) with one parameter of it replaced."""
    return Reader(**{**link(SMALL), name: value})


def default(name: str) -> Any:
    return {"curve": Reader().value("curve"), "scale": Reader().value("scale"), **vars(scene_controls.DEFAULT)}[name]


def assert_possible(reader: Reader) -> None:
    """Whatever was asked: all values are possible ones, and the picture is of them."""
    assert reader.faults == []
    value = reader.value
    assert value("embed_dim") in scene_controls.EMBED_DIMS
    heads = reader.scene.header["heads"]
    assert heads in head_counts(value("embed_dim"))
    assert 1 <= value("num_tokens") <= MAX_TOKENS
    assert 0 <= value("seed") <= MAX_SEED
    assert 0 <= value("rtol") <= 1
    assert 0 <= value("atol") <= 1
    assert value("curve") in controls.CURVES
    assert value("scale") in controls.SCALES
    config = AttentionConfig(
        embed_dim=value("embed_dim"),
        num_heads=heads,
        num_tokens=value("num_tokens"),
        seed=value("seed"),
        causal=value("causal"),
        dtype=value("dtype"),
    )
    header = reader.scene.header
    assert header["id"] == cached.identity(config)
    last = config.num_tokens - 1
    if pin := header["pin"]:
        assert 0 <= pin["head"] < config.num_heads
        assert 0 <= pin["query"] <= last
        assert 0 <= pin["key"] <= last
    assert header["enlarged"] is None or 0 <= header["enlarged"] < config.num_heads
    assert reader.verdict != ""


@pytest.mark.parametrize("value", NONSENSE, ids=lambda value: repr(value[:12]))
@pytest.mark.parametrize("name", WIDGETS)
def test_nonsense_gives_the_default_and_one_notice(name: str, value: str) -> None:
    reader = opened(name, value)
    assert_possible(reader)
    if name == "num_heads":  # its default is what fits the embed dim best
        assert reader.value(name) == 12
    elif name == "embed_dim":
        assert reader.value(name) == 768
    else:
        assert reader.value(name) == default(name)
    (notice,) = reader.notices
    assert f"{name}={reader.value(name)}" in notice
    # Z03: what came with the link is not said again
    assert MARKUP not in notice
    assert len(notice) < 300


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value[:12]))
@pytest.mark.parametrize("name", [name for name in WIDGETS if name != "seed"])
def test_odd_values_give_a_possible_scene(name: str, value: str) -> None:
    reader = opened(name, value)
    assert_possible(reader)
    taken = str(reader.value(name)).lower() == value.lower()
    assert len(reader.notices) == (0 if taken else 1)


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value[:12]))
def test_odd_seeds_give_a_possible_scene(value: str) -> None:
    reader = opened("seed", value)
    assert_possible(reader)
    taken = str(reader.value("seed")) == value
    assert len(reader.notices) == (0 if taken else 1)


@pytest.mark.parametrize("name", WIDGETS)
def test_an_empty_parameter_gives_the_default_and_one_notice(name: str) -> None:
    reader = opened(name, "")
    assert_possible(reader)
    assert len(reader.notices) == 1


@pytest.mark.parametrize("value", [*NONSENSE, "", *ODD], ids=lambda value: repr(value[:12]))
def test_any_tolerance_gives_a_page(value: str) -> None:
    reader = Reader(**{**link(SMALL), "rtol": value, "atol": value})
    assert_possible(reader)
    if value in ("0", "1e-400"):
        assert (reader.value("rtol"), reader.value("atol")) == (0, 0)
        assert reader.notices == []
    else:
        assert (reader.value("rtol"), reader.value("atol")) == (1.3e-6, 1e-5)
        assert len(reader.notices) == 1


@pytest.mark.parametrize("name", [*TOLERANCES, "pin"])
def test_a_notice_does_not_deny_what_is_shown(name: str) -> None:
    # each of them has a default, which is what the page shows
    (notice,) = opened(name, "abc").notices
    assert f"no {name}" not in notice


def test_a_refused_head_leaves_all_heads() -> None:
    reader = opened("head", "abc")
    (notice,) = reader.notices
    assert "head" in notice
    assert reader.scene.header["enlarged"] is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("embed_dim", "0024"),
        ("num_heads", "04"),
        ("num_tokens", "009"),
        ("seed", "007"),
        ("pin", "00-01-02"),
    ],
)
def test_leading_zeros_are_taken_or_said_to_be_refused(name: str, value: str) -> None:
    reader = opened(name, value)
    assert_possible(reader)
    if name == "pin":
        assert reader.scene.header["pin"] == {"head": 0, "query": 1, "key": 2}
    else:
        assert reader.value(name) == int(value) or len(reader.notices) == 1


@pytest.mark.parametrize(
    "value",
    [
        *NONSENSE,
        "",
        *ODD,
        "1-2",
        "1-2-3-4",
        "--",
        "-1-2-3",
        "1-2-x",
        "1.5-2-3",
        "99999-0-0",
        "²-1-1",
        "0x1-1-1",
        "²",
        "-0",
        "3",
    ],
    ids=lambda value: repr(value[:12]),
)
def test_a_pin_that_is_no_cell_and_a_head_that_is_not_there(value: str) -> None:
    reader = Reader(**{**link(SMALL), "pin": value, "head": value})
    assert_possible(reader)
    # "none" is the one word that means something; all else is the first cell, moved into the scene
    expected = None if value == "none" else {"head": 0, "query": 4, "key": 4}
    assert reader.scene.header["pin"] == expected
    assert reader.scene.header["enlarged"] == (0 if value == "0" else None)


@pytest.mark.parametrize("name", [*TOLERANCES, *CELLS])
def test_what_is_refused_is_said_for_these_too(name: str) -> None:
    assert len(opened(name, "abc").notices) == 1


def test_several_impossible_parameters_give_one_notice() -> None:
    reader = Reader(embed_dim="abc", num_heads="x", seed="-1", curve="rainbow")
    assert_possible(reader)
    (notice,) = reader.notices
    for part in ("embed_dim=768", "num_heads=12", "seed=42", "curve="):
        assert part in notice


def test_a_refused_embed_dim_is_said_beside_moved_heads() -> None:
    reader = Reader(embed_dim="abc", num_heads="7")
    assert_possible(reader)
    assert "embed_dim" in " ".join(reader.notices)


def test_every_parameter_impossible_at_once() -> None:
    reader = Reader(**dict.fromkeys((*WIDGETS, *TOLERANCES, *CELLS), MARKUP))
    assert_possible(reader)
    assert reader.scene.header["id"] == Reader().scene.header["id"]
    assert len(reader.notices) == 1
    assert MARKUP not in reader.scene.header["below"]


def test_a_notice_about_a_link_is_said_once() -> None:
    reader = Reader(seed="-1")
    assert len(reader.notices) == 1
    assert reader.rerun().notices == []


@pytest.mark.parametrize(
    ("embed_dim", "num_heads", "expected"),
    [("20", "12", 10), ("768", "999", 32), ("768", "7", 6), ("768", "0", 1), ("12", "5", 4), ("1", "5", 1)],
)
def test_a_head_count_that_does_not_divide_moves_with_a_notice(embed_dim: str, num_heads: str, expected: int) -> None:
    reader = Reader(embed_dim=embed_dim, num_heads=num_heads)
    assert_possible(reader)
    assert reader.scene.header["heads"] == expected
    (notice,) = reader.notices
    assert f"{num_heads} heads do not divide {embed_dim}; moved to {expected}" in notice


def test_an_embed_dim_alone_brings_a_head_count_without_a_notice() -> None:
    # the link says nothing about heads, so nothing is refused
    reader = Reader(embed_dim="20")
    assert_possible(reader)
    assert reader.scene.header["heads"] == 10
    assert reader.notices == []


@pytest.mark.parametrize(
    "config",
    [
        SMALL,
        AttentionConfig(),
        AttentionConfig(embed_dim=8, num_heads=8, num_tokens=1, seed=MAX_SEED, causal=False, dtype="float64"),
        AttentionConfig(embed_dim=96, num_heads=32, num_tokens=33, seed=0, dtype="bfloat16"),
        AttentionConfig(embed_dim=7, num_heads=7, num_tokens=2, dtype="float16"),
    ],
    ids=str,
)
def test_a_link_shows_its_scene_without_a_notice(config: AttentionConfig) -> None:
    reader = open_scene(config)
    assert_possible(reader)
    assert reader.scene.header["id"] == cached.identity(config)
    assert reader.notices == []


def test_a_link_to_one_dimension_and_one_head_is_possible() -> None:
    reader = open_scene(AttentionConfig(embed_dim=1, num_heads=1))
    assert_possible(reader)
    assert reader.notices == []


@pytest.mark.parametrize("name", ["curve", "scale"])
def test_a_look_in_a_link_as_the_control_writes_it(name: str) -> None:
    # a segmented control writes to the URL what it shows; the link must come back without a complaint
    for label in Reader().widgets[name].options:
        reader = opened(name, label)
        assert_possible(reader)
        assert reader.notices == [], f"?{name}={label} was called impossible"
        assert reader.widgets[name].formatted_values == [label]
        assert reader.scene.header[name] == reader.value(name)


def test_repeated_parameters_take_the_last() -> None:
    reader = Reader(seed=["1", "2"], pin=["0-0-0", "1-1-1"], head=["3", "4"])
    assert_possible(reader)
    assert reader.value("seed") == 2
    header = decode(reader.message).header
    assert header["pin"] == {"head": 1, "query": 1, "key": 1}
    assert header["enlarged"] == 4


def test_unknown_parameters_are_nobodys_business() -> None:
    reader = Reader(utm_source="newsletter", __proto__="x", _seed_slider="5", _notice="hello", _judged="x", _opened="1")
    assert_possible(reader)
    assert reader.notices == []
    assert reader.scene.header["id"] == cached.identity(scene_controls.DEFAULT)


def test_links_differ_by_every_parameter() -> None:
    # each parameter is really read: a link that changes one of them changes the scene
    first = open_scene(SMALL).scene.header["id"]
    for other in (
        replace(SMALL, embed_dim=24),
        replace(SMALL, num_heads=4),
        replace(SMALL, num_tokens=6),
        replace(SMALL, seed=43),
        replace(SMALL, causal=False),
        replace(SMALL, dtype="float64"),
    ):
        assert open_scene(other).scene.header["id"] not in (first, "")
