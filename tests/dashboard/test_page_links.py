"""Links to the pages: their own parameters are honoured there and kept elsewhere; nonsense gives a page too."""

from dataclasses import replace
from typing import Any, Final

import pytest

from attention.config import AttentionConfig
from attention.differing_calls import PAIRS
from attention.single_head import STEPS
from dashboard import link as links
from dashboard import page_controls, page_fields
from tests.dashboard.helpers import SMALL, Reader, link
from tests.dashboard.test_links import MARKUP, NONSENSE, ODD
from tests.dashboard.test_pages import WITH_A_SCENE

NAMES: Final = [page.removesuffix(".py") for page in WITH_A_SCENE]
# where each parameter lives, what a page must have for it to be asked, possible values, and what they mean
EVERY_RULE: Final = {"rules": list(page_controls.RULES)}
Given = dict[str, Any]
PARAMETERS: Final[tuple[tuple[str, str, Given, dict[str, Any]], ...]] = (
    ("one_head", "head_dim", {}, {"1": 1, "1024": 1024, "3": 3}),
    ("one_head", "value_dim", {}, {"1": 1, "1024": 1024, "3": 3}),
    ("one_head", "step", {}, {step: step for step in STEPS}),
    ("masks", "window", EVERY_RULE, {"1": 1, "64": 64, "5": 5}),
    ("masks", "prefix", EVERY_RULE, {"0": 0, "64": 64}),
    ("masks", "pad_left", EVERY_RULE, {"0": 0, "64": 64, "1": 1}),
    ("masks", "pad_right", EVERY_RULE, {"0": 0, "64": 64, "1": 1}),
    ("masks", "document", EVERY_RULE, {"1": 1, "64": 64}),
    ("masks", "stride", EVERY_RULE, {"1": 1, "32": 32}),
    ("masks", "queries", EVERY_RULE, {"1": 1, "256": 256}),
    ("masks", "keys", EVERY_RULE, {"1": 1, "256": 256}),
    ("masks", "corner", EVERY_RULE, {"top-left": "top-left", "bottom-right": "bottom-right"}),
    ("masks", "number", {}, {name: name for name in ("-1e9", "-1e4", "-100", "finfo.min")}),
    ("masks", "loudness", {}, {"1": 1, "1000": 1000}),
    ("masks", "of_head", {}, {"0": 0, "2": 2}),
    ("four_ways", "training", {}, {"true": True, "false": False, "True": True}),
    ("four_ways", "dropout", {"training": "true"}, {"0.0": 0.0, "0.9": 0.9, "0.5": 0.5, "0": 0.0}),
    ("four_ways", "of_head", {}, {"1": 1}),
    ("block", "depth", {}, {"1": 1, "3": 3}),
    ("block", "norm", {}, {"pre": "pre", "post": "post"}),
    ("block", "activation", {}, {"relu": "relu", "gelu": "gelu"}),
    ("block", "block_step", {}, {"norm_1": "norm_1", "attention.masked": "attention.masked", "sum_2": "sum_2"}),
    ("block", "of_block", {"depth": "3"}, {"0": 0, "2": 2}),
    ("block", "of_head", {}, {"2": 2}),
    ("break_it", "quiz", {}, {"off": "off", "attention": "attention", "block": "block"}),
    ("break_it", "mistake", {}, {name: name for name in ("Scaled twice", "−1e4 for −∞", "Heads split by view")}),
    ("break_it", "second", {}, {name: name for name in ("none", "No scale", "ReLU for GELU")}),
    ("precision", "close_rtol", {}, {"0": "0", "1e-12": "1e-12", "1e-1": "1e-1"}),
    ("precision", "close_atol", {}, {"0": "0", "1e-12": "1e-12", "1e-1": "1e-1"}),
    ("precision", "pass_step", {}, {"q": "q", "weights": "weights"}),
    ("precision", "pass_seeds", {}, {"10": 10, "500": 500, "20": 20}),
    ("compare", "compare_step", {}, {"weights": "weights", "q": "q", "output": "output"}),
    ("predict", "ask", {}, {"row": "row", "mask": "mask"}),
    ("predict", "of_head", {}, {"2": 2}),
    ("predict", "of_query", {}, {"0": 0, "2": 2}),
    ("predict", "within", {}, {"0.001": "0.001", "0.2": "0.2"}),
    ("pytorch_differs", "difference", {}, {topic: topic for topic in PAIRS}),
    *(
        ("pytorch_differs", "pair", {"difference": topic}, {pair.name: pair.name for pair in pairs})
        for topic, pairs in PAIRS.items()
        if len(pairs) > 1
    ),
)
HUGE: Final = ("9" * 30, "-5", "2.5", "1e3", "0x10", "１", "5 5", "5,5", "null", "undefined", "[]", "{}", "%00")


def opened(page: str, given: Given, **more: Any) -> Reader:
    return Reader(page, **{**link(SMALL), **given, **more})


def test_every_parameter_is_here() -> None:
    assert {name for _, name, _, _ in PARAMETERS} | {"rules"} == set(page_controls.PARAMETERS)


@pytest.mark.parametrize(("page", "name", "given", "values"), PARAMETERS, ids=lambda value: str(value)[:12])
def test_a_possible_value_is_honoured(page: str, name: str, given: Given, values: dict[str, Any]) -> None:
    for text, value in values.items():
        reader = opened(page, given, **{name: text})
        assert reader.faults == reader.warnings == reader.notices == []
        assert reader.value(name) == value
        assert reader.widgets[name].value == value


@pytest.mark.parametrize(("page", "name", "given", "values"), PARAMETERS, ids=lambda value: str(value)[:12])
def test_a_link_to_another_page_keeps_it(page: str, name: str, given: Given, values: dict[str, Any]) -> None:  # U01
    text, value = list(values.items())[-1]
    reader = opened("head_counts", given, **{name: text})
    assert reader.faults == reader.notices == []
    reader.set("seed", 3).open(page)
    assert reader.faults == reader.warnings == []
    assert reader.widgets[name].value == value


@pytest.mark.parametrize(("page", "name", "given", "values"), PARAMETERS, ids=lambda value: str(value)[:12])
def test_nonsense_gives_the_page_and_one_notice(page: str, name: str, given: Given, values: dict[str, Any]) -> None:
    usual = opened(page, given)
    for text in (MARKUP, ""):
        reader = opened(page, given, **{name: text})
        assert reader.faults == reader.warnings == []
        assert reader.pictures == usual.pictures, f"{name}={text!r} changed the picture"
        assert reader.verdict == usual.verdict
        (notice,) = reader.notices
        assert name in notice
        assert MARKUP not in notice
        assert len(notice) < 300
    assert values


@pytest.mark.parametrize("text", [*NONSENSE, "", *ODD, *HUGE], ids=lambda value: repr(value[:12]))
def test_what_is_taken_is_possible(text: str) -> None:
    for _, name, _, values in PARAMETERS:
        parameter = page_controls.PARAMETERS[name]
        if parameter.is_possible(text):
            value = parameter.value(text)  # does not raise
            numbers = [known for known in values.values() if not isinstance(known, str)]
            if name in ("of_head", "of_block", "of_query"):  # moved into the scene by the page
                assert 0 <= value <= 9999
            elif isinstance(value, str):
                assert value in values
            else:
                assert text in values or min(numbers) <= value <= max(numbers)
        else:
            assert text not in values
    if text in NONSENSE:
        assert not any(parameter.is_possible(text) for parameter in page_controls.PARAMETERS.values())


@pytest.mark.parametrize(
    "text", ["16.5", "99999", "-1", "9" * 5000, "\x00", "٣", "none", "NaN"], ids=lambda t: repr(t[:12])
)
def test_all_parameters_of_a_page_at_once(text: str) -> None:
    for page in NAMES:
        given: Given = {name: text for where, name, _, _ in PARAMETERS if where == page}
        reader = Reader(page, **{**link(SMALL), **given, **({"rules": text} if page == "masks" else {})})
        assert reader.faults == reader.warnings == []
        assert len(reader.notices) == (1 if given else 0)
        assert reader.verdict.startswith(":red-badge[" if page == "break_it" else ":green-badge[")


@pytest.mark.parametrize("text", [*map(str, range(34)), "65", "257", "999", "1000", "1024", "0.25", "0.95", "1.0"])
def test_what_lies_between_the_options_is_no_value(text: str) -> None:
    options = {"head_dim": page_controls.WIDTHS, "value_dim": page_controls.WIDTHS, "loudness": page_fields.LOUDNESS}
    for name, values in options.items():
        assert page_controls.PARAMETERS[name].is_possible(text) == (text in map(str, values))
    assert page_controls.PARAMETERS["dropout"].is_possible(text) == (text == "0")
    limits = {"window": (1, 64), "prefix": (0, 64), "stride": (1, 32), "queries": (1, 256), "depth": (1, 8)}
    for name, (low, high) in limits.items():
        within = "." not in text and low <= int(text) <= high
        assert page_controls.PARAMETERS[name].is_possible(text) == within


@pytest.mark.parametrize(("page", "name", "given", "values"), PARAMETERS, ids=lambda value: str(value)[:12])
def test_a_repeated_parameter_takes_one_of_them(page: str, name: str, given: Given, values: dict[str, Any]) -> None:
    first, last = next(iter(values)), list(values)[-1]
    reader = opened(page, given, **{name: [first, last]})
    assert reader.faults == reader.warnings == reader.notices == []
    assert reader.widgets[name].value == reader.value(name)
    assert reader.value(name) in (values[first], values[last])
    # one of them impossible: neither is taken
    reader = opened(page, given, **{name: [last, MARKUP]})
    assert reader.faults == reader.warnings == []
    assert len(reader.notices) == 1


@pytest.mark.parametrize(
    ("rules", "taken"),
    [
        (["window"], ["window"]),
        (["T ≠ S", "window"], ["T ≠ S", "window"]),
        (list(page_controls.RULES), list(page_controls.RULES)),
        (["window", "window"], ["window"]),
        (["window"] * 200, ["window"]),
        (["window", "abc"], []),
        ([""], []),
        ([MARKUP], []),
        (["window,prefix"], []),
        (["none"], []),
    ],
    ids=lambda value: str(value)[:24],
)
def test_rules(rules: list[str], taken: list[str]) -> None:
    reader = Reader("masks", **link(SMALL), rules=rules)
    assert reader.faults == reader.warnings == []
    assert set(reader.value("rules")) == set(taken)
    assert len(reader.notices) == (0 if taken else 1)
    other = Reader("heads", **link(SMALL), rules=rules).open("masks")
    assert other.faults == other.warnings == []
    assert other.pictures == reader.pictures


def test_every_parameter_impossible_at_once() -> None:
    for page in NAMES:
        reader = Reader(page, **dict.fromkeys(page_controls.PARAMETERS, MARKUP), **link(SMALL))
        assert reader.faults == reader.warnings == []
        (notice,) = reader.notices
        assert MARKUP not in notice
        assert all(name in notice for name in page_controls.PARAMETERS)


def test_a_huge_link_gives_a_page() -> None:
    for page in NAMES:
        reader = Reader(page, **{**link(SMALL), **dict.fromkeys(page_controls.PARAMETERS, "x" * 2000)})
        assert reader.faults == reader.warnings == []


def test_every_parameter_at_its_largest_together() -> None:
    largest: Given = {name: list(values)[-1] for _, name, _, values in PARAMETERS}
    for page in NAMES:
        reader = Reader(page, **{**link(SMALL), **largest, **EVERY_RULE})
        assert reader.faults == reader.warnings == reader.notices == []


# From page to page (U01) ---------------------------------------------------------------------------------------------

SETTINGS: Final[tuple[tuple[str, str, Any], ...]] = (
    ("one_head", "head_dim", 12),
    ("one_head", "step", "q"),
    ("masks", "rules", ["window", "T ≠ S"]),
    ("masks", "window", 2),
    ("masks", "corner", "top-left"),
    ("masks", "number", "-100"),
    ("masks", "loudness", 30),
    ("four_ways", "training", True),
    ("four_ways", "dropout", 0.7),
    ("four_ways", "of_head", 2),
    ("block", "depth", 4),
    ("block", "norm", "pre"),
    ("block", "activation", "relu"),
    ("block", "of_block", 3),
    ("block", "block_step", "fed"),
    ("precision", "close_atol", "1e-3"),
    ("precision", "pass_step", "weights"),
    ("precision", "pass_seeds", 20),
    ("pytorch_differs", "difference", "is_causal"),
    ("pytorch_differs", "pair", "encoder layer"),
)


def test_what_was_set_on_a_page_is_there_after_a_walk() -> None:  # U01
    reader = Reader(**link(SMALL))
    for page, key, value in SETTINGS:
        reader.open(page).set(key, value)
        assert reader.faults == reader.warnings == []
    for _ in range(2):
        for page in NAMES:
            reader.open(page)
            assert reader.faults == reader.warnings == reader.notices == []
            for where, key, value in SETTINGS:
                if where == page:
                    assert reader.widgets[key].value == value, f"{page}: {key}"
    assert reader.value("of_head") == 2


def test_shared_settings_are_the_same_on_every_page() -> None:  # U01
    reader = Reader(**link(SMALL))
    changes = {"num_heads": 4, "num_tokens": 6, "seed": 9, "causal": False, "dtype": "float64", "curve": "log"}
    for key, value in changes.items():
        reader.set(key, value)
    for page in (*NAMES, *NAMES):
        reader.open(page)
        assert reader.faults == reader.warnings == reader.notices == []
        for key, value in changes.items():
            absent = (page, key) in (("one_head", "num_heads"), ("four_ways", "causal"), ("precision", "dtype"))
            assert (key not in reader.widgets) == absent
            if not absent:
                assert reader.widgets[key].value == value


@pytest.mark.parametrize("page", ["heads", "masks"])
def test_heads_set_on_one_page_are_there_on_the_others(page: str) -> None:  # U01
    reader = Reader(page, **link(replace(SMALL, embed_dim=24))).set("num_heads", 8)
    for other in ("one_head", "heads", "head_counts", "one_head", "masks"):
        assert reader.open(other).faults == []
        if other != "one_head":
            assert reader.widgets["num_heads"].value == 8
            assert reader.notices == []


@pytest.mark.parametrize("page", NAMES)
def test_a_link_that_opens_a_page_shows_its_scene(page: str) -> None:
    config = AttentionConfig(embed_dim=10, num_heads=5, num_tokens=3, seed=7, causal=False, dtype="bfloat16")
    reader = Reader(page, **link(config))
    assert reader.faults == reader.warnings == reader.notices == []
    assert all("seed7" in reader.picture(key).header["id"] for key in reader.pictures)
    assert all("bfloat16" in reader.picture(key).header["id"] for key in reader.pictures)


@pytest.mark.parametrize("page", [name for name in NAMES if name != "one_head"])
@pytest.mark.parametrize(("embed_dim", "num_heads", "expected"), [("20", "12", "10"), ("7", "5", "7"), ("1", "5", "1")])
def test_heads_that_do_not_divide_move_on_every_page(
    page: str, embed_dim: str, num_heads: str, expected: str
) -> None:  # U03
    reader = Reader(page, embed_dim=embed_dim, num_heads=num_heads, num_tokens="3")
    assert reader.faults == []
    (notice,) = reader.notices
    assert f"{num_heads} heads do not divide {embed_dim}; moved to {expected}" in notice


def test_many_is_only_for_what_may_stand_more_than_once() -> None:
    assert [name for name, parameter in page_controls.PARAMETERS.items() if parameter.many] == ["rules"]
    assert all(parameter.kept for parameter in page_controls.PARAMETERS.values())
    is_true, value = links.BOOL
    assert [value(text) for text in ("true", "True", "false")] == [True, True, False]
    assert not any(is_true(text) for text in ("", "1", "yes", "truе"))
