"""The pinned cell, worked out: its numbers are the trace's, and what is folded away still adds up."""

import math
from dataclasses import replace
from typing import Final

import pytest

from attention.config import AttentionConfig
from attention.multi_head import attend_as_configured
from attention.worked_cell import RowEntry, Term, WorkedCell, work_out
from dashboard import cell_panel
from tests.dashboard.helpers import SMALL, Markup, tables

FULL: Final = replace(SMALL, causal=False)


def shown(value: float) -> str:
    """A number as the panel writes it (N23: a small one is scientific), worked out here once more."""
    if value == 0:
        return "0"
    size = abs(value)
    text = f"{value:.4f}" if 1e-3 <= size < 1e4 else f"{value:.3e}"
    return text.replace("-", "−")


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("∞", "inf"))


def panel(cell: WorkedCell) -> tuple[list[list[str]], list[list[str]], list[list[str]]]:
    chain, terms, row = tables(cell_panel.html(cell)).values()
    return chain, terms, row


def cell_of(config: AttentionConfig, head: int, query: int, key: int) -> WorkedCell:
    return work_out(attend_as_configured(config), head, query, key)


@pytest.mark.parametrize(
    ("config", "place"),
    [
        (SMALL, (2, 3, 1)),
        (SMALL, (0, 0, 0)),
        (FULL, (1, 0, 4)),
        (AttentionConfig(), (0, 9, 4)),
        (AttentionConfig(embed_dim=8, num_heads=8), (7, 15, 15)),
        (replace(SMALL, dtype="bfloat16"), (2, 4, 2)),
        (replace(SMALL, dtype="float16"), (2, 4, 2)),
        (replace(SMALL, dtype="float64"), (2, 4, 2)),
    ],
)
def test_numbers_are_the_worked_cells(config: AttentionConfig, place: tuple[int, int, int]) -> None:
    cell = cell_of(config, *place)
    head, query, key = place
    assert f"<h2>Head {head}: query {query} → key {key}</h2>" in cell_panel.html(cell)
    chain, terms, row = panel(cell)
    values = {step: value for step, _, value in chain}
    how = {step: words for step, words, _ in chain}
    assert list(values) == ["q · k", "scaled", "max", "exp", "Σ", "weight"]
    assert values == {
        "q · k": shown(cell.score),
        "scaled": shown(cell.scaled),
        "max": shown(cell.row_max),
        "exp": shown(cell.entry.exponential),
        "Σ": shown(cell.row_sum),
        "weight": shown(cell.entry.weight),
    }
    assert how["q · k"] == f"sum of {cell.head_dim} products"
    assert how["scaled"] == f"over √{cell.head_dim}"
    assert how["weight"] == f"{shown(cell.entry.exponential)} / {shown(cell.row_sum)}"
    # and they follow from each other, as far as they are written out; the trace's own rounding is below that,
    # except in half precision
    near = {"float16": 2e-3, "bfloat16": 1.6e-2}.get(config.dtype, 1e-4)
    assert number(values["scaled"]) == pytest.approx(
        number(values["q · k"]) / math.sqrt(cell.head_dim), rel=near, abs=1e-4
    )
    assert number(values["weight"]) == pytest.approx(number(values["exp"]) / number(values["Σ"]), rel=near, abs=1e-4)
    assert terms[-1] == ["sum", "", "", values["q · k"]]
    by_key = {line[0]: line for line in row}
    assert by_key[str(key)] == [str(key), shown(cell.scaled), values["exp"], values["weight"]]


def test_numbers_are_the_traces_own() -> None:
    # not by way of `work_out`: one number of each kind, straight from the trace
    trace = attend_as_configured(SMALL)
    chain, terms, row = panel(cell_of(SMALL, 2, 3, 1))
    values = {step: value for step, _, value in chain}
    assert values["q · k"] == shown(trace.scores[0, 2, 3, 1].item())
    assert values["scaled"] == shown(trace.scaled[0, 2, 3, 1].item())
    assert values["weight"] == shown(trace.weights[0, 2, 3, 1].item())
    q, k = trace.q[0, 2, 3], trace.k[0, 2, 1]
    for d, mine, theirs, product in terms[:-1]:
        assert mine == shown(q[int(d)].item())
        assert theirs == shown(k[int(d)].item())
        assert product == shown(q[int(d)].item() * k[int(d)].item())
    for key, scaled, _, weight in row[:4]:
        assert scaled == shown(trace.masked[0, 2, 3, int(key)].item())
        assert weight == shown(trace.weights[0, 2, 3, int(key)].item())


def test_masked_cell() -> None:
    cell = cell_of(SMALL, 1, 2, 4)
    chain, _, row = panel(cell)
    assert chain[2:] == [["masked", "key 4 comes after query 2", "−∞"], ["weight", "exp(−∞) = 0, over any sum", "0"]]
    # its score is worked out all the same: the mask comes after it
    assert chain[0][2] == shown(cell.score) != "0"
    assert [line[0] for line in row] == ["0", "1", "2", "2 masked", "sum"]
    assert row[3][1:] == ["−∞", "0", "0"]


def test_allowed_cell_says_nothing_of_masks() -> None:
    html = cell_panel.html(cell_of(FULL, 1, 0, 4))
    assert "masked" not in html
    assert "−∞" not in html


def test_folded_terms_add_up() -> None:
    cell = cell_of(AttentionConfig(), 0, 9, 4)  # heads of width 64
    _, terms, _ = panel(cell)
    *largest, rest, total = terms
    assert len(largest) == cell_panel.SHOWN == 6
    assert rest[:3] == ["58 smaller", "", ""]
    order = sorted(range(64), key=lambda d: -abs(cell.terms[d].product))
    assert [line[0] for line in largest] == [str(d) for d in order[:6]]
    assert rest[3] == shown(math.fsum(cell.terms[d].product for d in order[6:]))
    assert sum(number(line[3]) for line in (*largest, rest)) == pytest.approx(number(total[3]), abs=5e-4)


def test_folded_keys_add_up() -> None:
    cell = cell_of(AttentionConfig(num_tokens=20), 3, 15, 2)
    _, _, row = panel(cell)
    *kept, rest, masked, total = row
    seen = [entry for entry in cell.row if entry.key <= 15]
    largest = sorted(seen, key=lambda entry: -entry.weight)[:6]
    keys = sorted({2, *(entry.key for entry in largest)})
    assert [line[0] for line in kept] == [str(key) for key in keys], "in the order of the row, and its own among them"
    hidden = [entry for entry in seen if entry.key not in keys]
    assert rest == [
        f"{len(hidden)} smaller",
        "",
        shown(math.fsum(entry.exponential for entry in hidden)),
        shown(math.fsum(entry.weight for entry in hidden)),
    ]
    assert masked == ["4 masked", "−∞", "0", "0"]
    assert total == ["sum", "", shown(cell.row_sum), "1.0000"]
    assert sum(number(line[3]) for line in (*kept, rest)) == pytest.approx(1, abs=5e-4)
    assert sum(number(line[2]) for line in (*kept, rest)) == pytest.approx(number(total[2]), abs=5e-4)


def test_a_small_cell_is_shown_beside_the_six_largest() -> None:
    config = AttentionConfig(num_tokens=20)
    row = cell_of(config, 3, 15, 0).row
    smallest = min(row[:16], key=lambda entry: entry.weight).key
    _, _, lines = panel(cell_of(config, 3, 15, smallest))
    assert str(smallest) in [line[0] for line in lines]
    assert sum(line[0].isdecimal() for line in lines) == 7
    assert lines[7][0] == "9 smaller"


@pytest.mark.parametrize("width", [1, 5, 6, 7])
def test_fold_only_what_is_too_many(width: int) -> None:
    _, terms, _ = panel(cell_of(AttentionConfig(embed_dim=3 * width, num_heads=3, num_tokens=5), 1, 3, 2))
    names = [line[0] for line in terms]
    assert sum(name.isdecimal() for name in names) == min(width, 6)
    assert ("1 smaller" in names) == (width == 7)
    assert names[-1] == "sum"


def test_width_one() -> None:
    cell = cell_of(AttentionConfig(embed_dim=3, num_heads=3, num_tokens=5), 1, 3, 2)
    chain, terms, _ = panel(cell)
    assert chain[0][1] == "sum of 1 products"
    assert chain[1][2] == chain[0][2], "over √1"
    assert terms == [
        ["0", shown(cell.terms[0].q), shown(cell.terms[0].k), shown(cell.terms[0].product)],
        ["sum", "", "", shown(cell.score)],
    ]


@pytest.mark.parametrize("causal", [True, False])
def test_one_token(causal: bool) -> None:
    config = replace(SMALL, num_tokens=1, causal=causal)
    chain, _, row = panel(cell_of(config, 2, 0, 0))
    values = {step: value for step, _, value in chain}
    assert values["max"] == values["scaled"]
    assert (values["exp"], values["Σ"], values["weight"]) == ("1.0000", "1.0000", "1.0000")
    assert row == [["0", values["scaled"], "1.0000", "1.0000"], ["sum", "", "1.0000", "1.0000"]]


def test_every_cell_of_a_scene_can_be_shown() -> None:
    trace = attend_as_configured(SMALL)
    for head in range(3):
        for query in range(5):
            for key in range(5):
                chain, _, row = panel(work_out(trace, head, query, key))
                assert ("masked" in [line[0] for line in chain]) == (key > query)
                assert row[-1][3] == "1.0000"


def hand_made(terms: tuple[Term, ...], row: tuple[RowEntry, ...]) -> WorkedCell:
    return WorkedCell(0, 0, 0, terms, 1.0, len(terms), 1.0, 1.0, row)


def test_numbers_of_any_size() -> None:  # N23
    terms = (Term(0, 1e-9, 1.0), Term(1, -123456.0, 1.0), Term(2, 0.0, 1.0), Term(3, -0.5, 1.0))
    _, lines, _ = panel(hand_made(terms, (RowEntry(0, -1.0, 1.0, 1.0),)))
    assert [line[3] for line in lines[:-1]] == ["−1.235e+05", "−0.5000", "1.000e−09", "0"]


def test_a_negative_maximum_stands_in_brackets() -> None:
    cell = replace(hand_made((Term(0, 1.0, 1.0),), (RowEntry(0, -2.0, 1.0, 1.0),)), scaled=-2.0, row_max=-2.0)
    chain, _, _ = panel(cell)
    assert chain[3][1] == "exp(−2.0000 − (−2.0000))"


def test_only_the_tags_of_a_table() -> None:  # Z03: this HTML goes to the page as it is
    for key in range(5):
        read = Markup(cell_panel.html(cell_of(SMALL, 0, 2, key)))
        assert read.tags <= {"h2", "div", "table", "caption", "thead", "tbody", "tr", "th", "td"}
        assert read.attributes <= {"class", "scope", "tabindex", "role", "aria-label"}
