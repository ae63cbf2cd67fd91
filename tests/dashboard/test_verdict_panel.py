"""The verdict's line and its table: what each outcome says, and that no text becomes markup."""

from dataclasses import replace
from functools import cache
from typing import Any, Final

import pytest
from streamlit.testing.v1 import AppTest

from attention.compare import Check, Outcome, Tolerance, compare
from attention.config import AttentionConfig
from attention.multi_head import STEPS
from attention.verify import Report, Verdict, verify
from dashboard import tables, verdict_panel
from dashboard.tables import Mark, Table
from tests.dashboard.helpers import SMALL, Markup, Reader, cells, open_scene

HOSTILE: Final = (
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "<a href='javascript:alert(1)'>c</a>",
    '" onmouseover="alert(1)',
    "</td></table><h1>",
    "&lt;b&gt; & AT&T",
)


@cache
def real() -> Verdict:
    return verify(SMALL)


def broken(report: Report, step: str, **changes: Any) -> Report:
    """A report in which one step, and all that follow it, differ."""
    at = STEPS.index(step)
    return Report(
        tuple(
            replace(check, outcome=Outcome.DIFFERS, **changes) if place >= at else check
            for place, check in enumerate(report.checks)
        )
    )


def show(verdict: Verdict, dtype: str = "float32") -> AppTest:
    """A page with nothing but the panel."""

    # AppTest runs this function's text in a file of its own, where the annotations' names are not known
    def page(config: "AttentionConfig", verdict: "Verdict", dtype: str) -> None:
        from dashboard import verdict_panel

        line = verdict_panel.Line(str)
        line.begin(config)
        line.end(config, verdict)
        verdict_panel.table(verdict, dtype)

    app = AppTest.from_function(page, args=(SMALL, verdict, dtype), default_timeout=60).run()
    assert not app.exception
    return app


def headline(app: AppTest) -> str:
    value: str = app.markdown[0].value
    return value


def rows(app: AppTest) -> list[list[str]]:
    (html,) = app.get("html")
    return cells(html.proto.body)


# The line ------------------------------------------------------------------------------------------------------------


def test_equal() -> None:
    text = headline(show(real()))
    assert text.startswith(":green-badge[")
    assert "**All 10 steps equal PyTorch's.**" in text
    assert f"{max(check.max_abs for check in real().maths.checks):.2e} in float64" in text
    assert f"{max(check.max_abs for check in real().arithmetic.checks):.2e} on screen" in text


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_differs_in_the_maths(step: str) -> None:
    app = show(replace(real(), maths=broken(real().maths, step, reason="7 cells differ")))
    assert headline(app).startswith(":red-badge[")
    assert "differs" in headline(app)
    assert f"**`{step}` is the first step that differs**: 7 cells differ." in headline(app)
    assert "equal PyTorch's" not in headline(app)
    (detail,) = [element.value for element in app.markdown[1:]]
    assert detail == f"**The maths**, first at `{step}`: 7 cells differ."


def test_rounding() -> None:
    app = show(replace(real(), arithmetic=broken(real().arithmetic, "scores", reason="1 cell differs")))
    text = headline(app)
    assert text.startswith(":orange-badge[")
    assert "rounding" in text
    assert "**The maths is equal**; on screen `scores` is the first step over the tolerance: 1 cell differs." in text
    assert app.markdown[1].value == "**The arithmetic**, first at `scores`: 1 cell differs."
    assert not any("**The maths**" in element.value or "**The probe**" in element.value for element in app.markdown[1:])


def test_the_maths_comes_before_the_arithmetic() -> None:
    verdict = replace(
        real(), maths=broken(real().maths, "context", reason="a"), arithmetic=broken(real().arithmetic, "q", reason="b")
    )
    app = show(verdict)
    assert headline(app).startswith(":red-badge[")
    assert "`context`" in headline(app)
    assert [element.value for element in app.markdown[1:]] == [
        "**The maths**, first at `context`: a.",
        "**The arithmetic**, first at `q`: b.",
    ]


def test_a_probe_that_differs_is_red() -> None:
    # some scenes cannot show a fault; the fixed probe can, and must not be hidden by a scene that is equal
    app = show(replace(real(), probe=broken(real().probe, "weights", reason="3 cells differ")))
    assert headline(app).startswith(":red-badge[")
    assert "`weights`" in headline(app)
    assert [element.value for element in app.markdown[1:]] == ["**The probe**, first at `weights`: 3 cells differ."]


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.EQUAL])
@pytest.mark.parametrize("part", ["maths", "arithmetic", "probe"])
def test_no_other_outcome_is_green(part: str, outcome: Outcome) -> None:  # N03
    report: Report = getattr(real(), part)
    last = replace(report.checks[-1], outcome=outcome, reason="why")
    changes: dict[str, Any] = {part: Report((*report.checks[:-1], last))}
    app = show(replace(real(), **changes))
    assert not headline(app).startswith(":green-badge[")
    assert "why" in headline(app)
    if part != "probe":
        assert f"✗ {outcome}" in rows(app)[-1]


def test_nan_names_its_side() -> None:  # N03
    import torch

    clean, dirty = torch.ones(2, 3, dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64)
    dirty[0, 1] = torch.nan
    tolerance = Tolerance(rtol=1e-7, atol=1e-9)
    for ours, pytorch, words in (
        (dirty, clean, "1 NaN in ours, none in PyTorch's"),
        (clean, dirty, "1 NaN in PyTorch's, none in ours"),
        (dirty, dirty, "1 NaN in ours and 1 in PyTorch's"),
    ):
        check = compare("output", ours, pytorch, tolerance)
        app = show(replace(real(), maths=Report((*real().maths.checks[:-1], check))))
        assert headline(app).startswith(":red-badge[")
        assert words in headline(app)
        assert "nan" not in "".join(rows(app)[-1]), "the difference is over the cells that are numbers"


@pytest.mark.parametrize("scenes", [(None, SMALL), (replace(SMALL, seed=7), SMALL), (SMALL, SMALL)], ids=str)
def test_the_line_never_shows_the_verdict_of_another_scene(
    scenes: tuple[AttentionConfig | None, AttentionConfig],
) -> None:
    # while a new picture is drawn, the line says that its numbers are being checked
    def page(before: "AttentionConfig | None", now: "AttentionConfig", verdict: "Verdict") -> None:
        from dashboard import verdict_panel

        line = verdict_panel.Line(str)
        if before:
            line.end(before, verdict)
        line.begin(now)

    before, now = scenes
    app = AppTest.from_function(page, args=(before, now, real()), default_timeout=60).run()
    assert not app.exception
    known = before == now
    assert (verdict_panel.CHECKING in headline(app)) == (not known)
    assert ("All 10 steps" in headline(app)) == known


def test_the_line_keeps_a_verdict_that_is_known() -> None:
    reader = Reader()
    known = reader.verdict
    reader.set("curve", "linear")
    assert reader.verdict == known, "a look changes no number"
    (line,) = [element.value for element in reader.app.markdown]
    assert verdict_panel.CHECKING not in line


# The table -----------------------------------------------------------------------------------------------------------


def test_one_row_a_step_in_order() -> None:
    _, _, *body = rows(show(real()))
    assert [row[0] for row in body] == list(STEPS)
    assert {len(row) for row in body} == {12}


def test_rows_hold_the_checks() -> None:
    verdict = real()
    groups, head, *body = rows(show(verdict, "float32"))
    assert groups[1:3] == ["the maths: float64", "the arithmetic: float32"]
    assert len(head) == 12
    for row, maths, check, distance in zip(
        body, verdict.maths.checks, verdict.arithmetic.checks, verdict.distances, strict=True
    ):
        assert row[1] == " × ".join(map(str, maths.shape))
        assert row[2] == row[4] == "✓ equal"
        assert [float(text) for text in (row[3], row[5], row[6], row[10], row[11])] == pytest.approx(
            [maths.max_abs, check.max_abs, check.max_rel, distance.ours, distance.pytorch], rel=5e-3
        )
        assert check.worst is not None
        assert row[7] == ("" if check.max_abs == 0 else ", ".join(map(str, check.worst)))
        share = float(row[9].removesuffix(" %"))
        assert share / 100 == pytest.approx(check.margin, rel=0.05)
        atol, rtol = row[8].removesuffix("·|x|").split(" + ")
        assert float(atol) == pytest.approx(check.tolerance.atol, rel=0.05)
        assert float(rtol) == pytest.approx(check.tolerance.rtol, rel=0.05)


def test_small_numbers_are_scientific() -> None:  # N23: never 0.000000
    report = Report(tuple(replace(check, max_abs=1.19e-7, max_rel=3.4e-12) for check in real().arithmetic.checks))
    body = rows(show(replace(real(), arithmetic=report)))[2:]
    assert {(row[5], row[6]) for row in body} == {("1.19e-07", "3.40e-12")}
    assert "1.19e-07 on screen" in headline(show(replace(real(), arithmetic=report)))


def test_zero_is_zero_and_has_no_worst_cell() -> None:
    report = Report(tuple(replace(check, max_abs=0.0, max_rel=0.0, margin=0.0) for check in real().arithmetic.checks))
    body = rows(show(replace(real(), arithmetic=report)))[2:]
    assert {(row[5], row[6], row[7], row[9]) for row in body} == {("0", "0", "", "0")}


def test_a_difference_says_how_many_where_and_both_numbers() -> None:  # N23
    import torch

    pytorch = torch.linspace(1, 2, 24, dtype=torch.float32).reshape(1, 2, 3, 4)
    ours = pytorch.clone()
    ours[0, 1, 2, 3] += 0.5
    ours[0, 0, 0, 0] += 0.01
    check = compare("weights", ours, pytorch, Tolerance(rtol=1.3e-6, atol=1e-5))
    at = STEPS.index("weights")
    checks = list(real().arithmetic.checks)
    checks[at] = check
    app = show(replace(real(), arithmetic=Report(tuple(checks))))
    assert "2 cells differ, worst at [0, 1, 2, 3]: ours 2.5, PyTorch's 2." in headline(app)
    row = rows(app)[2 + at]
    assert row[4] == "✗ differs"
    assert row[5] == "5.00e-01"
    assert row[7] == "0, 1, 2, 3"
    assert row[8] == "1e-05 + 1.3e-06·|x|"


def test_differences_are_marked_by_more_than_colour() -> None:
    app = show(replace(real(), maths=broken(real().maths, "merged", reason="x")))
    (html,) = app.get("html")
    assert html.proto.body.count('class="bad">✗ differs<') == 2  # merged and output
    assert html.proto.body.count('class="good">✓ equal<') == 18


# Markup (Z03) --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_table_becomes_markup(text: str) -> None:
    table = Table(text, [text, text], [[text, text], [Mark(text, "code"), Mark(text, "bad")]], [(text, 2)])
    html = tables.html(table, kind="steps")
    read = Markup(html)
    assert read.tags <= {"div", "table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert read.attributes <= {"class", "scope", "colspan", "tabindex", "role", "aria-label"}
    assert read.text == [text] * 8, "and the reader sees it letter by letter"


@pytest.mark.parametrize("text", HOSTILE)
def test_no_name_of_a_step_becomes_markup(text: str) -> None:
    checks: tuple[Check, ...] = tuple(replace(check, step=text) for check in real().maths.checks)
    (html,) = show(replace(real(), maths=Report(checks)), dtype=text).get("html")
    read = Markup(html.proto.body)
    assert read.tags <= {"div", "table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert text in read.text


def test_a_table_names_its_rows_and_columns() -> None:
    # a screen reader says which step and which column a number stands in
    html = Table("c", ["a", "b"], [["x", "1"], ["y", "2"]], [("g", 2)]).html()
    assert html.count('<th scope="col">') == 2
    assert html.count('<th scope="row">') == 2
    assert html.count('<th scope="colgroup" colspan="2">') == 1
    assert cells(html) == [["g"], ["a", "b"], ["x", "1"], ["y", "2"]]


def test_tables_stand_side_by_side_in_order() -> None:
    html = tables.html(Table("one", ["a"], []), Table("two", ["b"], []), kind="cell")
    assert html.startswith('<div class="tables cell" tabindex="0" role="group" aria-label="one; two">')
    assert html.index("one") < html.index("two")
    assert 'class="groups"' not in html, "no empty row above a table without groups"


def test_the_page_shows_the_same_table() -> None:
    (html,) = show(real()).get("html")
    assert open_scene(SMALL).table == html.proto.body
