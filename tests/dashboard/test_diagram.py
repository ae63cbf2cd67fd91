"""The drawing of a block: stations in order, sums, skips, one box marked, and no text that becomes markup."""

import re
from html import unescape

import pytest

from dashboard import diagram
from dashboard.diagram import Node
from tests.dashboard.helpers import Markup
from tests.dashboard.test_verdict_panel import HOSTILE

NODES = [Node("x", "1.0"), Node("attention", "2.0"), Node("+", "3.0"), Node("norm", "4.0")]


def boxes(html: str) -> list[tuple[str, int, str]]:
    """Class, column and text of every station."""
    found = re.findall(r'<div class="((?:box|sum)[^"]*)" style="grid-column: (\d+)">(.*?)</div>', html)
    return [(kind, int(column), unescape(text)) for kind, column, text in found]


def test_stations_stand_in_order_with_their_arrows_behind_them() -> None:
    html = diagram.html(NODES, [(0, 2)], 1, "title")
    assert boxes(html) == [("box", 1, "x"), ("box marked", 3, "attention"), ("sum", 5, "+"), ("box", 7, "norm")]
    arrows = re.findall(r'<div class="arrow" style="grid-column: (\d+)"><span>(.*?)</span></div>', html)
    assert arrows == [("2", "1.0"), ("4", "2.0"), ("6", "3.0"), ("8", "4.0")]
    # from the arrow behind x to the sum
    assert re.findall(r'class="skip" style="grid-column: (.*?)"', html) == ["2 / 6"]


@pytest.mark.parametrize("marked", [0, 1, 2, 3, None])
def test_one_station_is_marked_or_none(marked: int | None) -> None:
    kinds = [kind for kind, _, _ in boxes(diagram.html(NODES, [], marked, ""))]
    assert [place for place, kind in enumerate(kinds) if "marked" in kind] == ([] if marked is None else [marked])
    assert ("sum marked" in kinds) == (marked == 2)


def test_it_says_what_it_shows() -> None:
    html = diagram.html(NODES, [], None, "Data flow of block 0")
    assert html.startswith('<div class="diagram" tabindex="0" role="img" aria-label="Data flow of block 0">')


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_becomes_markup(text: str) -> None:
    read = Markup(diagram.html([Node(text, text), Node("+", text)], [(0, 1)], 0, text))
    assert read.tags == {"div", "span"}
    assert read.attributes == {"class", "style", "tabindex", "role", "aria-label"}
    assert read.text == [text, text, "+", text]
