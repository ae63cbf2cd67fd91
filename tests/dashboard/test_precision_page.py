"""Precision: tiles, chart, tables and curve say what the library finds; the curve stops and is kept whole or not."""

from dataclasses import replace
from typing import Any, Final

import pytest
import torch
from streamlit.runtime.scriptrunner import StopException

from attention import masks, multi_head, precision, reference, sample
from attention.compare import Tolerance
from attention.config import DTYPES, AttentionConfig
from attention.multi_head import STEPS
from attention.precision import Needed
from dashboard import cached, precision_panel, progress, tables
from tests.dashboard.helpers import SCENES, SMALL, Reader, assert_shows, empty_caches, link, number

PAGE: Final = "precision"


def opened(config: AttentionConfig = SMALL, **more: str) -> Reader:
    return Reader(PAGE, **{**link(config), "pass_seeds": "10", **more})


def both(config: AttentionConfig, dtype: str) -> tuple[multi_head.AttentionTrace, reference.ReferenceTrace]:
    """Ours and PyTorch's, drawn in that dtype."""
    drawn = replace(config, dtype=dtype)
    tokens, parameters = sample.draw_tokens(drawn), sample.draw_parameters(drawn)
    allowed = masks.grid(masks.causal, config.num_tokens) if config.causal else None
    with torch.no_grad():
        scene = tokens, parameters, config.num_heads, allowed
        return multi_head.attend(*scene), reference.attend(*scene)


@pytest.mark.parametrize("config", SCENES, ids=str)
def test_the_tiles_are_one_head_in_every_dtype(config: AttentionConfig) -> None:
    reader = opened(config, of_head="1")
    assert reader.faults == reader.warnings == reader.notices == []
    allowed = masks.grid(masks.causal, config.num_tokens) if config.causal else None
    scene = reader.picture(PAGE)
    ours = [both(config, dtype)[0].weights[0, 1] for dtype in DTYPES]
    assert_shows(scene, ours, allowed)
    assert scene.header["titles"] == list(DTYPES)
    off = reader.picture(f"{PAGE}_off")
    tiles = precision.measure(config, 1)[1]
    assert_shows(off, list(tiles.off), allowed)
    for title, dtype, most in zip(off.header["titles"], DTYPES, tiles.furthest, strict=True):
        assert title == f"{dtype}: {'0' if most == 0 else f'{most:.1e}'}"  # N23
    assert reader.verdict.startswith((":green-badge[", ":orange-badge["))


def test_precision_does_not_matter_and_is_kept() -> None:
    plain, half = opened(), opened(replace(SMALL, dtype="float16"))
    assert "dtype" not in half.widgets
    assert any("Precision: all four" in caption.value for caption in half.app.caption)
    assert half.pictures == plain.pictures
    assert half.charts == plain.charts
    assert (half.html["budget"], half.html["close"]) == (plain.html["budget"], plain.html["close"])
    assert "the arithmetic: float16" in half.table
    half.set("seed", 3).open("heads")
    assert half.widgets["dtype"].value == "float16"
    assert half.open(PAGE).open("heads").widgets["dtype"].value == "float16"


def test_chart_and_table_are_the_distances() -> None:
    reader = opened()
    budgets = precision.errors(SMALL)
    rows = {row[0]: row[1:] for row in reader.table_of("budget")}
    assert list(rows) == list(STEPS)
    lines = {line["name"]: line["y"] for line in reader.charts[f"{PAGE}_errors"]["data"]}
    for one in budgets:
        start = 3 * list(DTYPES).index(one.dtype)
        ours, pytorch, limit = rows[one.step][start : start + 3]
        assert ours.startswith("✓ ")
        assert [number(ours[2:]), number(pytorch), number(limit)] == pytest.approx(
            [one.ours, one.pytorch, one.limit], rel=0.06
        )
        place = STEPS.index(one.step)
        assert lines[f"{one.dtype}, ours"][place] == (one.ours or None)
        assert lines[f"{one.dtype}, PyTorch's"][place] == (one.pytorch or None)
    assert reader.charts[f"{PAGE}_errors"]["layout"]["yaxis"]["type"] == "log"
    assert any(text.startswith(":green-badge[") and "keeps its budget" in text for text in reader.said)


def test_a_budget_that_is_broken_is_said() -> None:
    budgets = precision.errors(SMALL)
    broken = [replace(one, ours=float("inf")) if one.step == "v" else one for one in budgets]
    said = precision_panel.said_of_budgets(broken)
    assert said.startswith(":red-badge[")
    assert all(f"{dtype} `v`" in said for dtype in DTYPES)
    html = tables.html(precision_panel.budget_table(broken), kind="budget")
    assert html.count("✗ ∞") == len(DTYPES)
    assert None in precision_panel.errors_chart(broken)["data"][0]["y"], "no place for infinity on the axis"


@pytest.mark.parametrize(("rtol", "atol"), [("1e-5", "1e-8"), ("0", "0"), ("1e-1", "1e-1"), ("1e-3", "1e-4")])
def test_allclose_says_what_it_says(rtol: str, atol: str) -> None:
    reader = opened().set("close_rtol", rtol).set("close_atol", atol)
    assert reader.faults == []
    assert f"rtol={float(rtol):g}, atol={float(atol):g}" in reader.caption_of("close")
    rows = {row[0]: row[1:] for row in reader.table_of("close")}
    for place, dtype in enumerate(DTYPES):
        ours, pytorch = both(SMALL, dtype)
        for step in STEPS:
            says = torch.allclose(getattr(ours, step), getattr(pytorch, step), rtol=float(rtol), atol=float(atol))
            assert rows[step][place].startswith("✓ True" if says else "✗ False, ")


def test_where_our_verdict_is_another_it_is_said() -> None:  # N27
    one = precision.closeness(SMALL, Tolerance(0, 100))
    said = precision_panel.said_of_closeness(one)
    assert "**cannot tell** at" in said
    assert "zeros would pass too" in said
    assert "says the same everywhere" in precision_panel.said_of_closeness([x for x in one if x.as_we_say])


# The curve -----------------------------------------------------------------------------------------------------------


def needs(step: str, rtol: float, seeds: int) -> dict[str, list[float]]:
    """The smallest atol of each seed, with PyTorch called directly."""
    found: dict[str, list[float]] = {dtype: [] for dtype in DTYPES}
    for seed in range(seeds):
        for dtype, atols in found.items():
            a, b = (getattr(side, step).double() for side in both(replace(SMALL, seed=seed), dtype))
            atols.append(((a - b).abs() - rtol * b.abs()).clamp_min(0).max().item())
    return found


def test_the_curve_is_the_share_of_seeds_that_pass() -> None:
    reader = opened(pass_step="weights", close_rtol="1e-3", close_atol="1e-4")
    expected = needs("weights", 1e-3, 10)
    lines = {line["name"]: line for line in reader.charts[f"{PAGE}_rates"]["data"]}
    assert lines["your atol"]["x"] == [1e-4, 1e-4]
    for row, (dtype, atols) in zip(reader.table_of("rates"), expected.items(), strict=True):
        line = lines[dtype]
        assert line["line"]["shape"] == "hv"
        for x, y in zip(line["x"], line["y"], strict=True):
            assert y == sum(atol <= x for atol in atols) / 10
        assert set(line["x"][1:-1]) == {atol for atol in atols if atol > line["x"][0]}
        passing = sum(atol <= 1e-4 for atol in atols)
        assert row[:2] == [dtype, f"{passing * 10}% ({passing} of 10)"]
        assert number(row[2]) == pytest.approx(sorted(atols)[4], rel=0.06)
        assert number(row[3]) == pytest.approx(max(atols), rel=0.06)


def test_the_seed_of_the_reader_is_not_asked_of_the_curve() -> None:
    reader = opened()
    before = reader.charts[f"{PAGE}_rates"]
    assert reader.set("seed", 9).charts[f"{PAGE}_rates"] == before
    assert reader.set("pass_seeds", 20).charts[f"{PAGE}_rates"] != before
    assert any("Seeds 0 to 19" in caption.value for caption in reader.app.caption)


def test_it_is_computed_once_for_all_visitors(monkeypatch: pytest.MonkeyPatch) -> None:
    empty_caches()
    asked: list[int] = []
    right = precision.pass_rates

    def counted(config: AttentionConfig, seeds: int, step: str, rtol: float) -> Any:
        asked.append(seeds)
        return right(config, seeds, step, rtol)

    monkeypatch.setattr(precision, "pass_rates", counted)
    first = opened()
    assert opened().charts == first.charts
    assert asked == [10]


def test_nothing_half_done_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    empty_caches()
    right = precision.pass_rates

    def stopped(config: AttentionConfig, seeds: int, step: str, rtol: float) -> Any:
        for needed in right(config, seeds, step, rtol):
            yield needed
            if needed.seed == 3:  # what Streamlit raises at the next call that draws
                raise StopException

    with monkeypatch.context() as patch:
        patch.setattr(precision, "pass_rates", stopped)
        reader = opened()
        assert f"{PAGE}_rates" not in reader.charts
        assert reader.verdict.startswith(":green-badge["), "the verdict does not wait for the curve"
    whole = opened()
    assert whole.charts[f"{PAGE}_rates"]["data"][0]["y"][-1] == 1
    assert [row[1].endswith("of 10)") for row in whole.table_of("rates")] == [True] * 4


def test_a_large_scene_says_that_it_takes_fewer_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "SECONDS", 10)
    monkeypatch.setattr(precision, "time_of_seed", lambda config: 3.0)
    reader = opened()
    why = "of this scene, of 10: a scene of this size takes about 3 s a seed"

    def said(seeds: str) -> bool:
        return any(caption.value.startswith(f"{seeds} {why}") for caption in reader.app.caption)

    # one at once; the others only for who asks for them, and from then on for everybody
    assert said("Seed 0")
    assert all(row[1].endswith("of 1)") for row in reader.table_of("rates"))
    reader.press("All 3 seeds (about 6 s)")
    for _ in range(2):
        assert said("Seeds 0 to 2")
        assert all(row[1].endswith("of 3)") for row in reader.table_of("rates"))
        assert not any("seeds" in button.label for button in reader.app.button)
        reader = opened()


def test_nothing_to_draw_and_nothing_that_passes() -> None:
    zeros = dict.fromkeys(DTYPES, (0.0, 0.0))
    chart = precision_panel.rates_chart(zeros, 0.0)
    assert all(line["y"] == [1.0, 1.0] for line in chart["data"])
    never = dict.fromkeys(DTYPES, (float("inf"),))
    assert all(set(line["y"]) <= {0.0} for line in precision_panel.rates_chart(never, 0.0)["data"])
    assert "all pass from" in tables.html(precision_panel.rates_table(never, 0.0), kind="rates")


def test_the_bar_says_how_far_and_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[float, str]] = []

    class Place:
        """A bar that remembers."""

        def progress(self, share: float, text: str) -> None:
            """Keep what is said."""
            said.append((share, text))

        def empty(self) -> None:
            """Keep that it went."""
            said.append((-1, "gone"))

    monkeypatch.setattr("dashboard.progress.st.empty", Place)
    ticks = iter([0.0, 2.0, 4.0])
    values = [Needed(0, (0.0,)), Needed(1, (1.0,))]
    assert progress.through(iter(values), 2, "seed", lambda: next(ticks)) == values
    assert said == [
        (0.0, "Seed 1 of 2"),
        (0.5, "Seed 1 of 2, about 2 s left"),
        (1.0, "Seed 2 of 2, about 0 s left"),
        (-1, "gone"),
    ]


def test_what_is_not_known_yet_is_none_and_stays_unknown() -> None:
    empty_caches()
    assert cached.known("a name", SMALL) is None
    assert cached.facts("a name", SMALL, lambda: (1, 2)) == (1, 2)
    assert cached.known("a name", SMALL) == (1, 2)
    assert cached.known("another", SMALL) is None
