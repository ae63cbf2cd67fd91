"""One head, step by step: every step's picture is the trace's, and so are those of what it was made of."""

from dataclasses import replace
from typing import Final

import pytest
import torch
from torch import Tensor

from attention import sample
from attention.config import AttentionConfig
from attention.single_head import STEPS
from attention.verify_head import HeadConfig, attend_as_configured
from tests.dashboard.helpers import SCENES, SMALL, Reader, assert_shows, link, number

PAGE: Final = "one_head"
WIDTHS: Final = {"head_dim": "3", "value_dim": "8"}
# what each step is computed from, by the equation
SOURCES: Final = {
    "q": ("tokens",),
    "k": ("tokens",),
    "v": ("tokens",),
    "scores": ("q", "k"),
    "scaled": ("scores",),
    "masked": ("scaled",),
    "weights": ("masked",),
    "context": ("weights", "v"),
}
SQUARE: Final = ("scores", "scaled", "masked", "weights")


def opened(config: AttentionConfig = SMALL, **more: str) -> Reader:
    return Reader(PAGE, **{**link(config), **WIDTHS, **more})


def steps_of(config: AttentionConfig, head_dim: int = 3, value_dim: int = 8) -> dict[str, Tensor]:
    """Every step as the library has it, which must be what the equation says."""
    head = HeadConfig(config, head_dim, value_dim)
    trace = attend_as_configured(head)
    named = {step: getattr(trace, step)[0, 0] for step in STEPS} | {"tokens": sample.draw_tokens(config)[0]}
    exact = equation(head)
    half = config.dtype == "float16"
    for step, found in named.items():
        torch.testing.assert_close(
            found.double(), exact[step], rtol=5e-3 if half else 1e-5, atol=2e-2 if half else 1e-5 * head_dim**0.5
        )
    return named


def equation(head: HeadConfig) -> dict[str, Tensor]:
    """The same by the equation alone, in float64."""
    x = sample.draw_tokens(head.scene)[0].double()
    w = sample.draw_head(head.scene, head.head_dim, head.value_dim)
    q, k, v = (x @ w[f"w_{name}.weight"].double().T for name in "qkv")
    scores = q @ k.T
    scaled = scores / head.head_dim**0.5
    future = torch.ones_like(scaled).triu(1).bool() & head.scene.causal
    masked = torch.where(future, -torch.inf, scaled)
    weights = masked.softmax(-1)
    steps = {"scores": scores, "scaled": scaled, "masked": masked, "weights": weights, "context": weights @ v}
    return {"tokens": x, "q": q, "k": k, "v": v, **steps}


@pytest.mark.parametrize("config", SCENES, ids=str)
def test_every_step_is_the_traces(config: AttentionConfig) -> None:
    reader, steps = opened(config), steps_of(config)
    grid = torch.ones(config.num_tokens, config.num_tokens).tril().bool() if config.causal else None
    for step in STEPS:
        reader.set("step", step)
        assert reader.faults == reader.warnings == []
        drawn = {PAGE: step} | {f"{PAGE}_from_{place}": name for place, name in enumerate(SOURCES[step])}
        assert set(reader.pictures) >= set(drawn)
        for key, name in drawn.items():
            scene, found = reader.picture(key), steps[name]
            assert_shows(scene, [found], grid if name in ("masked", "weights") else None)
            header = scene.header
            assert header["titles"] == [f"{name}: {found.shape[0]} × {found.shape[1]}"]
            assert header["kind"] == ("weights" if name == "weights" else "signed")
            names = ("query (attends)", "key (attended to)") if name in SQUARE else ("token", "dimension")
            assert (header["rowsName"], header["columnsName"]) == names
            assert header["pair"][0] == names[0].split()[0]


def test_only_the_sources_of_the_step_are_on_the_page() -> None:
    reader = opened()
    for step in (*STEPS, *reversed(STEPS)):
        reader.set("step", step)
        shown = {picture.proto.id.split("-", 2)[2] for picture in reader.app.get("bidi_component")}
        assert shown == {PAGE, *(f"{PAGE}_from_{place}" for place in range(len(SOURCES[step])))}


def test_the_scrubber_changes_no_verdict_and_no_mounted_picture() -> None:  # U13
    reader = opened()
    before = reader.verdict, reader.table, reader.identities[PAGE]
    assert before[0].startswith(":green-badge[")
    for step in STEPS:
        reader.set("step", step)
        assert (reader.verdict, reader.table, reader.identities[PAGE]) == before


@pytest.mark.parametrize(("head_dim", "value_dim"), [(1, 1), (1, 16), (1024, 2)])
def test_widths_change_their_own_steps_only(head_dim: int, value_dim: int) -> None:
    reader = opened(head_dim=str(head_dim), value_dim=str(value_dim))
    assert reader.faults == []
    assert reader.verdict.startswith(":green-badge[")
    assert "All 8 steps" in reader.verdict
    widths = dict.fromkeys(STEPS, 5) | {"q": head_dim, "k": head_dim, "v": value_dim, "context": value_dim}
    for step, width in widths.items():
        header = reader.set("step", step).picture(PAGE).header
        assert (header["queries"], header["keys"]) == (5, width)
    steps = steps_of(SMALL, head_dim, value_dim)
    assert_shows(reader.set("step", "scaled").picture(PAGE), [steps["scaled"]])


def test_a_new_width_draws_the_new_head() -> None:
    reader = opened().set("step", "scores").set("head_dim", 6)
    assert reader.faults == []
    assert_shows(reader.picture(PAGE), [steps_of(SMALL, 6)["scores"]])
    reader.set("value_dim", 2).set("step", "context")
    assert_shows(reader.picture(PAGE), [steps_of(SMALL, 6, 2)["context"]])


def test_the_head_count_of_the_other_pages_is_not_asked() -> None:
    pictures = [opened(replace(SMALL, num_heads=n)).picture(PAGE).numbers for n in (1, 3, 12)]
    assert len(set(pictures)) == 1
    assert "num_heads" not in opened().widgets


def test_a_click_works_its_query_out() -> None:
    reader = opened().click(PAGE, pin="0-2-1")
    assert reader.faults == []
    assert reader.app.query_params["pin"] == "0-2-1"
    assert reader.picture(PAGE).header["pin"] == {"head": 0, "query": 2, "key": 1}
    assert "<h2>Query 2, worked out</h2>" in reader.html["row"][0]
    rows = reader.table_of("row")
    steps = steps_of(SMALL)
    for key, row in enumerate(rows[:3]):
        assert row[0] == str(key)
        expected = [steps[name][2, key].item() for name in ("scores", "scaled")]
        assert [number(row[1]), number(row[2])] == pytest.approx(expected, rel=1e-3, abs=6e-5)
        assert number(row[4]) == pytest.approx(steps["weights"][2, key].item(), rel=1e-3, abs=6e-5)
    assert [row[0] for row in rows[3:]] == ["2 masked", "sum"]
    for d, row in enumerate(reader.table_of("row", 1)[:8]):
        assert number(row[-1]) == pytest.approx(steps["context"][2, d].item(), rel=1e-3, abs=6e-5)


def test_steps_that_are_not_square_answer_no_click() -> None:
    reader = opened()
    for step in STEPS:
        header = reader.set("step", step).picture(PAGE).header
        square = step in SQUARE
        assert (header["pin"] is not None) == square
        assert bool(header["pinned"]) == square
        assert all(reader.picture(key).header["pinned"] == "" for key in reader.pictures if key != PAGE)


def test_no_pin_shows_the_last_query() -> None:
    reader = opened(pin="none")
    assert reader.faults == []
    assert "<h2>Query 4, worked out</h2>" in reader.html["row"][0]


@pytest.mark.parametrize("value", [None, -1, "x" * 10_000, "<b>", ["1-1-1"]], ids=lambda value: repr(value)[:12])
def test_a_client_that_sends_anything_gets_a_possible_row(value: object) -> None:
    reader = opened().click(PAGE, pin=value)
    assert reader.faults == []
    pin = reader.picture(PAGE).header["pin"]
    assert 0 <= pin["query"] < 5
    assert 0 <= pin["key"] < 5


def test_one_token() -> None:
    reader = opened(AttentionConfig(embed_dim=12, num_heads=3, num_tokens=1))
    assert reader.faults == []
    assert reader.picture(PAGE).weights.tolist() == [[[1.0]]]
    assert reader.table_of("row")[-1][-1] == "1.0000"
