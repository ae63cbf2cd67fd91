"""The line charts as messages: readable for a browser, and told apart without their colours."""

import json
import math

import pytest

from dashboard import chart
from tests.dashboard.helpers import ROOT, SMALL, Reader, link


@pytest.mark.parametrize("page", ["head_counts", "precision", "block"])
def test_no_two_lines_differ_by_colour_alone(page: str) -> None:
    reader = Reader(page, **link(SMALL))
    assert reader.faults == []
    assert len(reader.charts) in (1, 2)
    for key, figure in reader.charts.items():
        assert reader.chart_words[key]
        looks = [
            (line["mode"], line.get("line", {}).get("dash"), line.get("marker", {}).get("symbol"))
            for line in figure["data"]
        ]
        assert len(set(looks)) == len(looks), key


def test_what_is_no_number_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    # JavaScript reads neither NaN nor infinity: the chart would not be drawn at all
    sent: list[bytes] = []
    monkeypatch.setattr(chart, "_mount", lambda **message: sent.append(message["data"]))
    figure = {"data": [{"y": [1.5, math.nan, math.inf]}], "layout": {}}
    chart.show(figure, "words", key="key", identity="3x5")

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    said = json.loads(sent[0], parse_constant=refuse)
    assert said["figure"]["data"] == [{"y": [1.5, None, None]}]
    assert (said["summary"], said["file"]) == ("words", "attention-3x5")


def test_streamlits_own_plotly_is_not_asked_for() -> None:
    # it is another 4.7 MB for every reader
    for file in (ROOT / "dashboard").rglob("*.py"):
        assert ".plotly_chart(" not in file.read_text(encoding="utf-8"), file.name
