"""What stands beside the pictures: the row worked out, the mask in words, tables of counts and ways; all escaped."""

import math
from dataclasses import replace
from typing import Any, Final

import pytest
import torch

from attention.claims import Claim
from attention.compare import Tolerance
from attention.config import DTYPES
from attention.four_ways import WAYS, Timing
from attention.mask_config import MaskConfig
from attention.mask_lessons import NUMBERS, NumberForInfinity, Trap
from attention.masks import Corner
from attention.verify_head import HeadConfig, attend_as_configured
from attention.worked_cell import KeyOfRow, WorkedRow, work_out_row
from dashboard import counts_panel, mask_panel, row_panel, tables, ways_panel
from tests.dashboard.helpers import SMALL, Markup, Reader, number
from tests.dashboard.helpers import tables as tables_of
from tests.dashboard.test_verdict_panel import HOSTILE

TAGS: Final = {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "h2"}
ATTRIBUTES: Final = {"class", "scope", "colspan", "tabindex", "role", "aria-label"}


def close(expected: Any) -> Any:
    """As near as four decimals, or four digits, say."""
    return pytest.approx(expected, rel=1e-3, abs=6e-5)


def row_of(query: int, tokens: int = 5, causal: bool = True, value_dim: int = 8) -> WorkedRow:
    config = HeadConfig(replace(SMALL, num_tokens=tokens, causal=causal), 3, value_dim)
    return work_out_row(attend_as_configured(config), 0, query)


# The row -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("query", "causal"), [(0, True), (3, True), (4, True), (0, False), (2, False)])
def test_a_short_row_is_told_key_by_key(query: int, causal: bool) -> None:
    row = row_of(query, causal=causal)
    softmax, context = tables_of(row_panel.html(row)).values()
    seen = query + 1 if causal else 5
    hidden = [f"{5 - seen} masked"] if seen < 5 else []
    assert [cells[0] for cells in softmax] == [*map(str, range(seen)), *hidden, "sum"]
    for key, cells in zip(row.keys, softmax[:seen], strict=False):
        numbers = [number(text) for text in cells[1:]]
        assert numbers == close([key.score, key.scaled, key.exponential, key.weight])
        assert key.exponential == pytest.approx(math.exp(key.scaled - row.row_max), rel=1e-6)
        assert key.weight == pytest.approx(key.exponential / row.row_sum, rel=1e-5)
    assert number(softmax[-1][-1]) == pytest.approx(1, abs=1e-4)
    assert number(softmax[-1][-2]) == close(row.row_sum)
    for d, cells in enumerate(context):
        assert cells[0] == str(d)
        total = number(cells[-1])
        assert total == pytest.approx(sum(map(number, cells[1:-1])), abs=5e-4), "the shares add up to the context"
        assert total == close(row.context[d])


def test_a_long_row_folds_the_smaller_keys_and_still_adds_up() -> None:
    row = row_of(28, tokens=30, value_dim=12)
    softmax, context = tables_of(row_panel.html(row)).values()
    assert [cells[0] for cells in softmax[-3:]] == ["21 smaller", "1 masked", "sum"]
    named = softmax[:-3]
    assert len(named) == row_panel.SHOWN
    largest = sorted(range(29), key=lambda key: -row.keys[key].weight)[:8]
    assert [int(cells[0]) for cells in named] == sorted(largest)
    for column in (3, 4):
        parts = [number(cells[column]) for cells in softmax[:-1]]
        assert sum(parts) == pytest.approx(number(softmax[-1][column]), abs=2e-3)
    assert [cells[0] for cells in context] == [*map(str, range(8)), "4 more"]
    head = row_panel.html(row).split("<thead>")[2].split("</thead>")[0]
    for key in largest[:3]:
        assert f"key {key}: {row.keys[key].weight:.4f} · v" in head
    for d, cells in enumerate(context[:8]):
        shares = [row.keys[key].weight * row.keys[key].value[d] for key in largest[:3]]
        assert [number(text) for text in cells[1:4]] == pytest.approx(shares, rel=1e-3, abs=6e-5)
        assert sum(map(number, cells[1:5])) == pytest.approx(number(cells[5]), abs=5e-4)


def test_a_row_that_sees_nothing() -> None:  # M01
    nothing = tuple(KeyOfRow(key, 1.0, 0.5, -math.inf, 0.0, 0.0, 0.0, (1.0, 2.0)) for key in range(4))
    html = row_panel.html(WorkedRow(0, 2, 4, -math.inf, nothing, (0.0, 0.0)))
    softmax, context = tables_of(html).values()
    assert [cells[0] for cells in softmax] == ["4 masked", "sum"]
    assert softmax[-1][-1] == "0"
    assert [cells[-1] for cells in context] == ["0", "0"]
    assert "nan" not in html.lower()


def test_the_scale_is_named() -> None:
    assert "over √3" in row_panel.html(row_of(1))
    assert Markup(row_panel.html(row_of(1))).tags <= TAGS


# The mask ------------------------------------------------------------------------------------------------------------

MASK: Final = MaskConfig(num_queries=4, num_keys=6, window=2, padding_left=1, document=2, stride=2, prefix=1)


@pytest.mark.parametrize("corner", list(Corner))
def test_the_mask_in_numbers(corner: Corner) -> None:
    mask = replace(MASK, corner=corner)
    for query in range(4):
        for key in range(6):
            cell, facts = tables_of(mask_panel.html(mask, query, key)).items()
            allowed = bool(mask.allowed[query, key])
            assert cell[0].endswith("may attend" if allowed else "may not attend")
            assert (cell[1] == [["all rules", "allowed"]]) == allowed
            known = dict(row[:2] for row in facts[1])
            assert known["queries × keys"] == "4 × 6"
            count = int(mask.allowed.sum())
            assert known["cells that may attend"] == f"{count} of 24, {count / 24:.0%}"
            empty = [str(i) for i in range(4) if not mask.allowed[i].any()]
            assert known["queries that see nothing"] == (", ".join(empty) or "none")
            assert ("their rows" in known) == bool(empty)
    assert Markup(mask_panel.html(mask, 0, 0)).tags <= TAGS


def test_what_is_said_of_a_number() -> None:
    tile = torch.zeros(2, 2)
    same = mask_panel.said_of(NumberForInfinity(10, tile, tile, 3.14159, 0.0, 0.0), "-1e4", 10)
    assert same == "Largest score 3.14. -1e4 gives the same weights as −∞, to the last bit."
    other = mask_panel.said_of(NumberForInfinity(10, tile, tile, 3.14159, 0.25, 1e-3), "-100", 10)
    assert other == "Largest score 3.14. With -100 a row puts up to 0.25 where it may not; largest difference 1.00e-03."
    stopped = mask_panel.said_of(NumberForInfinity(37, tile, tile, 3.0, 0.0, 0.0), "-100", 1000)
    assert stopped.startswith("The scale stops at × 37, as the dtype holds no larger scores. Largest score 3.")


def test_traps_stand_in_their_own_cells() -> None:
    every = [
        Trap(name, dtype, "", 10.0 ** -(i + 5 * j), f"{name} in {dtype}")
        for j, name in enumerate(NUMBERS)
        for i, dtype in enumerate(DTYPES)
    ]
    every[0] = replace(every[0], leak=0.0, empty_row="zeros")
    every[7] = replace(every[7], refused="no", leak=None, empty_row=None)
    ((_, rows),) = tables_of(mask_panel.traps_html(list(reversed(every)))).items()
    for j, name in enumerate(NUMBERS):
        for i, dtype in enumerate(DTYPES):
            cells = rows[j][1 + 2 * i : 3 + 2 * i]
            if (i, j) == (0, 0):
                assert cells == ["✓ 0", "zeros"]
            elif (i, j) == (3, 1):
                assert cells == ["does not fit", ""]
            else:
                assert cells == [f"✗ {10.0 ** -(i + 5 * j):.2e}", f"{name} in {dtype}"]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_trap_becomes_markup(text: str) -> None:
    every = [Trap(name, dtype, "", 0.5, text) for name in NUMBERS for dtype in DTYPES]
    read = Markup(mask_panel.traps_html(every))
    assert read.tags <= TAGS
    assert read.attributes <= ATTRIBUTES
    assert read.text.count(text) == 20


# Ways and counts -----------------------------------------------------------------------------------------------------


def test_a_pair_is_green_up_to_the_tolerance_and_red_beyond() -> None:
    found = [[0.0, 1e-5, 1.2e-5, 0.0], [1e-5, 0.0, 0.5, 0.0], [1.2e-5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    html = tables.html(ways_panel.differences(found, Tolerance(rtol=0, atol=1e-5), 0.0), kind="ways")
    ((caption, rows),) = tables_of(html).items()
    assert "dropout off" in caption
    assert [row[0] for row in rows] == list(WAYS)
    assert [row[1:] for row in rows] == [
        ["–", "✓ 1.00e-05", "✗ 1.20e-05", "✓ 0"],
        ["✓ 1.00e-05", "–", "✗ 5.00e-01", "✓ 0"],
        ["✗ 1.20e-05", "✗ 5.00e-01", "–", "✓ 0"],
        ["✓ 0", "✓ 0", "✓ 0", "–"],
    ]
    assert html.count('class="bad"') == 4
    assert html.count('class="good"') == 8


def test_with_dropout_only_pairs_that_share_it_are_judged() -> None:  # N17
    found = [[0.0 if i == j else 0.5 for j in range(4)] for i in range(4)]
    html = tables.html(ways_panel.differences(found, Tolerance(rtol=1e-6, atol=1e-5), 0.3), kind="ways")
    ((caption, rows),) = tables_of(html).items()
    assert "dropout 0.3 on in list and packed" in caption
    for i, row in enumerate(rows):
        for j, text in enumerate(row[1:]):
            by_chance = (i < 2) != (j < 2)
            assert text == ("–" if i == j else "0.5, chance" if by_chance else "✗ 5.00e-01")
    assert html.count('class="bad"') == 4, "list against packed, einsum against PyTorch: there chance is no excuse"


def test_times_beside_pytorch() -> None:
    found = [Timing(way, median, 2 * median) for way, median in zip(WAYS, (4.0, 1.0, 3.0, 2.0), strict=True)]
    rows = [list(row) for row in ways_panel.timings(found).rows]
    assert rows == [
        ["list of heads", "4.00", "8.00", "2.00 ×"],
        ["packed", "1.00", "2.00", "0.50 ×"],
        ["einsum", "3.00", "6.00", "1.50 ×"],
        ["PyTorch", "2.00", "4.00", "1.00 ×"],
    ]


def test_one_head_is_one_head() -> None:
    assert counts_panel.heading(replace(SMALL, num_heads=1)) == "**1 head of width 12**, scores over √12"
    assert counts_panel.heading(SMALL) == "**3 heads of width 4**, scores over √4"


@pytest.mark.parametrize("text", HOSTILE)
def test_no_claim_becomes_markup(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from attention import claims

    monkeypatch.setattr(claims, "of_heads", lambda *_: (Claim(text, True, text), Claim(text, False, text)))
    reader = Reader("heads", embed_dim="12", num_heads="3", num_tokens="5", seed=str(HOSTILE.index(text) + 1000))
    assert reader.faults == []
    read = Markup("".join(reader.html["claims"]))
    assert read.tags <= TAGS
    assert read.attributes <= ATTRIBUTES
    assert read.text.count(text) == 4
    assert [row[1] for row in reader.table_of("claims")] == ["✓ holds", "✗ does not hold"]
