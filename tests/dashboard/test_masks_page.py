"""Masks: the grid is what the rules say, the weights are those under it, and a number is no minus infinity."""

import math
from dataclasses import replace
from itertools import product
from typing import Any, Final

import pytest
import torch
from torch import Tensor

from attention import sample
from attention.config import DTYPES, AttentionConfig
from attention.finite_mask import attend_with_number
from attention.mask_config import MaskConfig
from attention.mask_lessons import NUMBERS, traps, with_and_without
from attention.masks import Corner
from attention.multi_head import attend, attend_masked, draw
from attention.scaled_dot_product import scaled_dot_product
from dashboard import page_fields
from tests.dashboard.helpers import SMALL, Reader, assert_shows, link, number

PAGE: Final = "masks"
SEVEN: Final = replace(SMALL, num_tokens=7)
LEAST: Final = {name: torch.finfo(dtype).min for name, dtype in DTYPES.items()}


def opened(config: AttentionConfig = SEVEN, **more: str | list[str]) -> Reader:
    return Reader(PAGE, **{**link(config), **more})


def grid(queries: int, keys: int, rules: dict[str, int], *, causal: bool, bottom_right: bool = False) -> Tensor:
    """What the rules allow, cell by cell, from their words alone."""
    shift = keys - queries if bottom_right else 0

    def may(row: int, key: int) -> bool:
        query = row + shift
        says = [key <= query or key < rules.get("prefix", 0)] if causal else []
        if "window" in rules:
            says.append(abs(query - key) < rules["window"])
        if "document" in rules:
            says.append(max(query, 0) // rules["document"] == key // rules["document"])
        if "stride" in rules:
            says.append((query - key) % rules["stride"] == 0)
        says.append(rules.get("pad_left", 0) <= key < keys - rules.get("pad_right", 0))
        return all(says)

    return torch.tensor([[may(row, key) for key in range(keys)] for row in range(queries)])


# the rules chosen, and their numbers
RULES: Final[tuple[tuple[tuple[str, ...], dict[str, int]], ...]] = (
    ((), {}),
    (("window",), {"window": 2}),
    (("prefix",), {"prefix": 3}),
    (("padding",), {"pad_left": 2, "pad_right": 1}),
    (("documents",), {"document": 3}),
    (("strided",), {"stride": 2}),
    (("window", "prefix", "documents"), {"window": 4, "prefix": 2, "document": 4}),
    (("prefix", "padding", "strided"), {"prefix": 4, "pad_left": 1, "pad_right": 0, "stride": 3}),
    (("window", "padding"), {"window": 1, "pad_left": 64, "pad_right": 64}),
)
SIZES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"queries": 3, "keys": 7, "corner": "top-left"},
    {"queries": 3, "keys": 7, "corner": "bottom-right"},
    {"queries": 5, "keys": 2, "corner": "top-left"},
    {"queries": 5, "keys": 2, "corner": "bottom-right"},
)


@pytest.mark.parametrize(
    ("size", "causal"),
    [*((size, True) for size in SIZES), (SIZES[0], False), (SIZES[2], False)],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else str(value),
)
def test_every_rule_is_drawn_as_its_words_say(size: dict[str, Any], causal: bool) -> None:  # M13, M15
    config = replace(SEVEN, causal=causal)
    for rules, numbers in RULES:
        chosen = [*rules, "T ≠ S"] if size else list(rules)
        given = {key: str(value) for key, value in (numbers | size).items()}
        reader = opened(config, of_head="1", rules=chosen, **given)
        assert reader.faults == reader.warnings == reader.notices == []
        queries, keys = size.get("queries", 7), size.get("keys", 7)
        bottom_right = size.get("corner") == "bottom-right"
        allowed = grid(queries, keys, numbers, causal=causal, bottom_right=bottom_right)
        assert_masked_weights(reader, config, allowed, head=1)
        assert reader.verdict.startswith(":green-badge["), f"{rules}: {reader.verdict}"


@pytest.mark.parametrize(("rules", "numbers"), RULES[1:6], ids=str)
def test_a_rule_chosen_on_the_page(rules: tuple[str, ...], numbers: dict[str, int]) -> None:
    reader = opened().set("rules", list(rules))
    for key, value in numbers.items():
        reader.set(key, value)
        assert reader.faults == reader.warnings == []
    assert_masked_weights(reader, SEVEN, grid(7, 7, numbers, causal=True), head=0)


def assert_masked_weights(reader: Reader, config: AttentionConfig, allowed: Tensor, head: int) -> None:
    """All pictures under this mask: the grid, the weights without and under it, and what it changed."""
    queries, keys = allowed.shape
    tokens, parameters = draw(config)
    trace = attend(tokens[:, -queries:], parameters, config.num_heads, allowed, memory=tokens[:, :keys])
    scaled = trace.scaled[0, head]
    exponentials = torch.exp(scaled - scaled.amax(-1, keepdim=True))
    free = exponentials / exponentials.sum(-1, keepdim=True)
    under = trace.weights[0, head]
    scene = reader.picture(PAGE)
    assert_shows(scene, [allowed.float(), free, under], allowed)
    assert scene.header["titles"] == [
        "may attend: 1", f"head {head} without the mask", f"head {head} under the mask",
    ]  # fmt: skip
    assert (scene.header["rowsName"], scene.header["columnsName"]) == ("query (attends)", "key (attended to)")
    change = reader.picture(f"{PAGE}_change")
    assert_shows(change, [under - free])
    assert change.header["kind"] == "signed"
    # and the rows are what rows must be
    sums = torch.from_numpy(scene.weights[2]).sum(-1)
    torch.testing.assert_close(sums, allowed.any(-1).float(), rtol=0, atol=1e-2 if "16" in config.dtype else 1e-6)
    finite = reader.picture(f"{PAGE}_number")
    ours = scaled_dot_product(trace.q[:, head : head + 1], trace.k[:, head : head + 1], trace.v[:, :1], allowed)
    added = attend_with_number(trace.q[:, head : head + 1], trace.k[:, head : head + 1], trace.v[:, :1], allowed, -1e4)
    assert_shows(finite, [ours.weights[0, 0], added.weights[0, 0]], allowed)
    assert finite.header["titles"] == [f"head {head} with −∞", f"head {head} with -1e4"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_pictures_in_other_precisions(dtype: str) -> None:
    config = replace(SEVEN, dtype=dtype, causal=False, seed=8)
    reader = opened(config, rules=["window"], window="2", of_head="2")
    assert reader.faults == []
    assert_masked_weights(reader, config, grid(7, 7, {"window": 2}, causal=False), head=2)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_a_mask_that_allows_all_changes_nothing(dtype: str) -> None:
    config = AttentionConfig(embed_dim=96, num_heads=4, num_tokens=33, causal=False, dtype=dtype)
    mask = MaskConfig(num_queries=33, num_keys=33, causal=False)
    shown = with_and_without(mask, 1, attend_masked(config, mask))
    assert torch.equal(shown.under, shown.without)


def test_the_pictures_are_the_lessons() -> None:
    reader = opened(rules=["prefix"], prefix="4")
    mask = MaskConfig(num_queries=7, num_keys=7, prefix=4)
    shown = with_and_without(mask, 0, attend_masked(SEVEN, mask))
    assert_shows(reader.picture(PAGE), [shown.allowed.float(), shown.without, shown.under], shown.allowed)


@pytest.mark.parametrize(
    ("queries", "keys", "corner", "expected"),
    [
        (2, 5, "top-left", [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]]),
        (2, 5, "bottom-right", [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]),
        (5, 2, "top-left", [[1, 0], [1, 1], [1, 1], [1, 1], [1, 1]]),
        (5, 2, "bottom-right", [[0, 0], [0, 0], [0, 0], [1, 0], [1, 1]]),
    ],
)
def test_corners(queries: int, keys: int, corner: str, expected: list[list[int]]) -> None:  # M13, M15
    reader = opened(SMALL, rules=["T ≠ S"], queries=str(queries), keys=str(keys), corner=corner)
    scene = reader.picture(PAGE)
    assert scene.mask.astype(int).tolist() == expected
    assert scene.weights[0].astype(int).tolist() == expected
    assert reader.widgets["corner"].value == corner, "the page says which corner it is"
    facts = dict(row[:2] for row in reader.table_of("mask", 1))
    assert facts["queries × keys"] == f"{queries} × {keys}"
    if (queries, corner) == (5, "bottom-right"):
        assert scene.weights[2, :3].tolist() == [[0, 0]] * 3
        assert scene.weights[2, 3].tolist() == [1, 0]
        assert facts["queries that see nothing"] == "0, 1, 2"
        assert "zeros" in facts["their rows"]
        assert "NaN" in facts["without that rule"]
    else:
        assert facts["queries that see nothing"] == "none"
        assert "their rows" not in facts


def test_rows_with_nothing_to_attend_to_are_named() -> None:  # M01, M08
    reader = opened(replace(SMALL, num_tokens=30), rules=["padding"], pad_left="15")
    facts = dict(row[:2] for row in reader.table_of("mask", 1))
    named = facts["queries that see nothing"]
    assert named == ", ".join(map(str, range(12))) + " and 3 more"
    assert facts["cells that may attend"] == f"{15 * 16 // 2} of 900, 13%"
    assert reader.picture(PAGE).weights[2, :15].any() == False  # noqa: E712  # NumPy's own bool
    assert reader.picture(PAGE).header["nans"] == 0
    assert reader.verdict.startswith(":green-badge[")


def test_queries_and_keys_are_never_more_than_tokens() -> None:  # U04
    reader = opened(SMALL, rules=["T ≠ S"], queries="256", keys="256")
    assert (reader.picture(PAGE).header["queries"], reader.picture(PAGE).header["keys"]) == (5, 5)
    reader.set("num_tokens", 2)
    assert (reader.picture(PAGE).header["queries"], reader.picture(PAGE).header["keys"]) == (2, 2)
    assert reader.faults == []
    assert (reader.value("queries"), reader.value("keys")) == (256, 256), "the reader's choice is kept"


def test_a_rule_that_was_taken_away_and_comes_back_keeps_its_number() -> None:
    reader = opened(rules=["window"], window="2")
    reader.set("rules", []).set("rules", ["window"])
    assert reader.value("window") == 2
    assert_masked_weights(reader, SEVEN, grid(7, 7, {"window": 2}, causal=True), head=0)
    reader.set("rules", ["strided"]).set("stride", 2).set("rules", ["strided", "window"])
    assert_masked_weights(reader, SEVEN, grid(7, 7, {"window": 2, "stride": 2}, causal=True), head=0)


def test_a_slider_without_its_rule_says_nothing() -> None:
    reader = opened(window="1", prefix="5", pad_left="3", document="1", stride="2", queries="2", keys="3")
    assert reader.faults == []
    assert not {"window", "prefix", "pad_left", "document", "stride", "queries", "keys", "corner"} & set(reader.widgets)
    assert_masked_weights(reader, SEVEN, grid(7, 7, {}, causal=True), head=0)


# The pinned cell -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("corner", list(Corner))
def test_the_panel_forbids_what_the_picture_hatches(corner: Corner) -> None:
    more = {"queries": "3", "keys": "5", "corner": corner.value, "window": "3", "document": "2", "pad_left": "1"}
    reader = opened(SMALL, rules=["window", "documents", "padding", "T ≠ S"], **more)
    mask = reader.picture(PAGE).mask
    for query, key in product(range(3), range(5)):
        reader.click(PAGE, pin=f"0-{query}-{key}")
        assert reader.faults == []
        assert reader.picture(PAGE).header["pin"] == {"head": 0, "query": query, "key": key}
        says = "may attend" if mask[query, key] else "may not attend"
        assert reader.caption_of("mask") == f"Query {query} → key {key}: {says}"
        named = {row[0] for row in reader.table_of("mask")}
        assert (named == {"all rules"}) == bool(mask[query, key])
        position = query + (2 if corner is Corner.BOTTOM_RIGHT else 0)
        expected = {"causal": key > position, "window": abs(position - key) >= 3, "padding": key < 1}
        expected["documents"] = position // 2 != key // 2
        assert named - {"all rules"} == {name for name, forbids in expected.items() if forbids}


def test_a_pin_out_of_range_moves_to_the_nearest_cell() -> None:
    reader = opened(SMALL, pin="99-99-99", rules=["T ≠ S"], queries="2", keys="3")
    assert reader.picture(PAGE).header["pin"] == {"head": 0, "query": 1, "key": 2}  # on the grid
    assert reader.caption_of("mask").startswith("Query 1 → key 2")


# A number for minus infinity -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
def test_every_number_at_every_loudness(dtype: str, causal: bool) -> None:  # N09
    config = replace(SEVEN, dtype=dtype, causal=causal)
    reader = opened(config, rules=["padding"], pad_left="1", of_head="1")
    mask = MaskConfig(num_queries=7, num_keys=7, causal=causal, padding_left=1)
    trace = attend_masked(config, mask)
    for choice, loudness in product(NUMBERS[1:], (1, 30, 1000)):
        reader.set("number", choice).set("loudness", loudness)
        assert reader.faults == []
        if (choice, dtype) == ("-1e9", "float16"):
            (warning,) = reader.warnings
            assert "-1e+09 does not fit float16" in warning
            assert "-65504" in warning
            assert f"{PAGE}_number" not in {p.proto.id.split("-", 2)[2] for p in reader.app.get("bidi_component")}
            continue
        assert reader.warnings == []
        q, k = loudness * trace.q[0, 1], trace.k[0, 1]
        fill = LEAST[dtype] if choice == "finfo.min" else float(choice)
        scores, root = q @ k.T, math.sqrt(q.shape[-1])
        infinite = scaled_dot_product(q[None, None], k[None, None], k[None, None], mask.allowed).weights[0, 0]
        shifted = (scores + torch.where(mask.allowed, 0.0, fill).to(q.dtype)) / root
        finite = torch.softmax(shifted, -1)
        scene = reader.picture(f"{PAGE}_number")
        assert scene.header["titles"] == ["head 1 with −∞", f"head 1 with {choice}"]
        drawn = torch.from_numpy(scene.weights)
        off = 2e-3 if dtype == "float16" else 1e-6
        torch.testing.assert_close(drawn, torch.stack([infinite, finite]).float(), rtol=0, atol=off)
        hint = scene.header["hint"]
        assert f"Largest score {scores.double().abs().max().item():.3g}." in hint
        if torch.equal(drawn[0], drawn[1]):
            assert f"{choice} gives the same weights as −∞, to the last bit." in hint
        else:
            gap = (drawn[0] - drawn[1]).abs().max().item()
            leak = torch.where(mask.allowed, 0.0, drawn[1]).sum(-1).max().item()
            assert number(hint.split("difference ")[1].rstrip(".")) == pytest.approx(gap, rel=1e-2)
            assert number(hint.split("up to ")[1].split()[0]) == pytest.approx(leak, rel=1e-2)


@pytest.mark.parametrize(("loudness", "heads"), [(1, 3), (1000, 1)])
def test_the_table_of_traps_is_the_librarys(loudness: int, heads: int) -> None:
    config = replace(SEVEN, num_heads=heads)
    reader = opened(config, loudness=str(loudness))
    found = {(trap.number, trap.dtype): trap for trap in traps(config, loudness)}
    rows = reader.table_of("traps")
    assert [row[0] for row in rows] == [name.replace("-inf", "−∞").replace("-", "−") for name in NUMBERS]
    for name, row in zip(NUMBERS, rows, strict=True):
        for place, dtype in enumerate(DTYPES):
            trap, (leak, empty) = found[name, dtype], row[1 + 2 * place : 3 + 2 * place]
            if trap.refused:
                assert (leak, empty) == ("does not fit", "")
                continue
            assert trap.leak is not None
            assert number(leak) == pytest.approx(trap.leak, rel=1e-2)
            assert empty == trap.empty_row
    assert rows[1][7] == "does not fit", "−1e9 in float16"
    assert all(row[1 + 2 * place] == "✓ 0" for row in rows[:1] for place in range(4)), "−∞ never leaks"


def test_the_traps_are_what_the_equation_makes_of_them() -> None:
    config = replace(SEVEN, num_heads=1)
    x = sample.draw_tokens(config).double()
    p = sample.draw_parameters(config)
    q, k = (x @ w.double().T + b.double() for w, b in ((p.w_q, p.b_q), (p.w_k, p.b_k)))
    allowed = torch.ones(7, 7).tril().bool()
    allowed[:, 0] = False
    weights = torch.softmax((100 * q @ k.mT + torch.where(allowed, 0.0, -100.0)) / math.sqrt(12), -1)[0]
    leak = torch.where(allowed, 0.0, weights)[1:].sum(-1).max().item()
    rows = opened(config, loudness="100").table_of("traps")
    assert number(rows[3][1]) == pytest.approx(leak, rel=1e-2)


def test_the_first_number_of_the_slider_and_its_last() -> None:
    assert page_fields.LOUDNESS[0] == 1
    reader = opened(loudness="1000")
    assert reader.value("loudness") == 1000
    assert reader.faults == []


@pytest.mark.parametrize("config", [replace(SMALL, num_tokens=1), replace(SMALL, embed_dim=1, num_heads=1)], ids=str)
def test_small_scenes(config: AttentionConfig) -> None:
    every = ["window", "prefix", "padding", "documents", "strided", "T ≠ S"]
    reader = opened(config, rules=every)
    assert reader.faults == []
    assert reader.picture(PAGE).header["nans"] == 0
    assert reader.verdict.startswith(":green-badge[")
