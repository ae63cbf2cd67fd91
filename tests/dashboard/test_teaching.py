"""The teacher's link: what it hides, how it is made, and what of it is refused."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import teaching
from dashboard.teaching import PARTS, VIEWS
from tests.dashboard.helpers import ROOT, SMALL, Reader, link

VIEW_STYLES = ROOT / "dashboard" / "views"


def styles(reader: Reader) -> str:
    return "".join(html.proto.body for html in reader.app.get("html"))


def view(reader: Reader) -> str:
    sheets = {name: (VIEW_STYLES / f"{name}.css").read_text() for name in VIEWS[1:]}
    found = [name for name, sheet in sheets.items() if sheet in styles(reader)]
    assert len(found) <= 1
    return found[0] if found else "screen"


def hidden_by(reader: Reader) -> list[str]:
    """The rules that hide something because a link says so."""
    return re.findall(r"<style>([^<]*) \{ display: none !important; \}</style>", styles(reader))


def is_hidden(reader: Reader, name: str) -> bool:
    return any(PARTS[name][1] in rule for rule in hidden_by(reader))


def test_without_a_word_nothing_is_hidden() -> None:
    reader = Reader(**link(SMALL))
    assert not any(is_hidden(reader, name) for name in PARTS)
    assert view(reader) == "screen"


@pytest.mark.parametrize("name", PARTS)
def test_a_link_hides_one_part(name: str) -> None:
    reader = Reader(**link(SMALL), hide=name)
    assert [part for part in PARTS if is_hidden(reader, part)] == [name]
    assert reader.faults == []


def test_a_hidden_control_keeps_its_value() -> None:
    reader = Reader(**link(SMALL), hide="seed,causal,controls")
    assert reader.value("seed") == SMALL.seed
    assert reader.identity
    assert f"seed{SMALL.seed}" in reader.scene.header["id"]


def test_several_may_be_named_in_one_text_or_in_many() -> None:
    for said in ("seed,code", ["seed", "code"], ["code,seed", "seed"]):
        reader = Reader(**link(SMALL), hide=said)
        assert [part for part in PARTS if is_hidden(reader, part)] == ["seed", "code"]


def test_nothing_of_the_sidebar_is_left_where_all_of_it_is_hidden() -> None:
    for said, all_of_it in (("pages,controls", True), ("controls", False)):
        (rule,) = hidden_by(Reader(**link(SMALL), hide=said))
        assert ("stExpandSidebarButton" in rule) == all_of_it


def test_what_is_hidden_stays_hidden_on_the_next_page() -> None:
    reader = Reader(**link(SMALL), hide="code", view="projector").forget_link().open("masks")
    assert is_hidden(reader, "code")
    assert view(reader) == "projector"
    assert reader.parameter("hide") == "code"
    assert reader.parameter("view") == "projector"


@pytest.mark.parametrize(("name", "text"), [("hide", "nonsense"), ("hide", "seed,</style>"), ("view", "<script>")])
def test_what_there_is_not_is_refused_and_said(name: str, text: str) -> None:
    reader = Reader(**link(SMALL), **{name: text})
    assert any("The link asked for something impossible" in caption for caption in reader.captions)
    assert not any(is_hidden(reader, part) for part in PARTS)
    assert view(reader) == "screen"
    assert text not in styles(reader)
    assert name not in reader.app.query_params


@pytest.mark.parametrize("shown", VIEWS)
def test_a_view_is_on_the_page(shown: str) -> None:
    assert view(Reader(**link(SMALL), view=shown)) == shown


def test_the_link_opens_on_the_same_page() -> None:
    """Made here, and opened by somebody else."""
    teacher = Reader("masks", **link(SMALL), rules=["window", "padding"], window="2", pad_left="1")
    teacher.set("seed", 5).set("num_tokens", 7)
    teacher.press_key("share")
    (code,) = [code.value for code in teacher.app.code]
    student = Reader("masks", **parse_qs(urlsplit(code).query))
    assert student.faults == []
    for key in ("embed_dim", "num_heads", "num_tokens", "seed", "causal", "dtype", "rules", "window", "pad_left"):
        assert student.value(key) == teacher.value(key), key
    assert student.pictures["masks"] == teacher.pictures["masks"]


def test_what_a_teacher_hides_is_in_the_link() -> None:
    def script() -> None:
        import streamlit as st

        from dashboard.teaching import link_to

        said = {"pin": ["1-2-3"], "rules": ["window", "T ≠ S"], "hide": ["code"]}
        st.code(link_to(said, ["pages", "steps"], "projector"), language=None)
        st.code(link_to(said, [], "screen"), language=None)

    code, screen = AppTest.from_function(script).run().code
    assert "hide" not in screen.value
    expected = {"pin": ["1-2-3"], "rules": ["window", "T ≠ S"], "hide": ["pages,steps"], "view": ["projector"]}
    assert parse_qs(urlsplit(code.value).query) == expected


def test_the_button_counts_together_with_a_control_that_moved_just_before() -> None:
    """A busy server takes both at once, and the control's callback says which fragments run."""
    teacher = Reader(**link(SMALL))
    teacher.widgets["num_tokens"].set_value(7)
    teacher.press_key("share")
    (code,) = [code.value for code in teacher.app.code]
    assert parse_qs(urlsplit(code).query)["num_tokens"] == ["7"]


def test_the_whole_scene_is_in_a_link_even_where_it_is_the_usual_one() -> None:
    """A default may be another tomorrow; the link is kept in somebody's slides."""
    teacher = Reader().press_key("share")
    (code,) = [code.value for code in teacher.app.code]
    assert {"embed_dim", "num_heads", "num_tokens", "seed", "causal", "dtype"} <= set(parse_qs(urlsplit(code).query))


def test_every_part_is_called_something() -> None:
    names = [called for called, _ in PARTS.values()]
    assert len(set(names)) == len(names)
    assert teaching.VIEWS[0] == "screen"
