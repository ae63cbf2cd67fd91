"""What every page has around its picture: title, words, equation, things to try, presets, verdict, claims, code."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import streamlit as st

from attention.claims import Claim
from attention.scenes import Scene, config_of
from attention.trained import inputs
from attention.verify import Verdict
from dashboard import blind_note, controls, fragments, presets, sources, tables, verdict_panel
from dashboard.notes import notes
from dashboard.presets import Preset
from dashboard.tables import Mark, Table
from dashboard.verdict_panel import Line


@dataclass(frozen=True)
class Lesson:
    """The words of a page.

    `lead` is Markdown, two sentences; `equation` LaTeX; `tries` are things to do and what will be seen; `code` is
    what ran, in the order in which it did.
    """

    title: str
    lead: str
    equation: str = ""
    tries: Sequence[str] = ()
    code: Sequence[Callable[..., object] | type] = ()
    presets: Sequence[Preset] = ()
    has_more: bool = False


def begin(lesson: Lesson) -> Line:
    """Draw what stands above the picture; returns the verdict's line."""
    fragments.begin_page(lesson.has_more)
    st.title(lesson.title, anchor=False)
    line = Line(notes)
    st.container(key="lead").markdown(f"{lesson.lead} ${lesson.equation}$" if lesson.equation else lesson.lead)
    return line


def end(lesson: Lesson, verdict: Callable[[], None]) -> None:
    """Draw what stands below the picture: things to try, the verdict with its tolerances, and the code that ran."""
    with st.container(key="try"):
        st.header("Try", anchor=False)
        st.markdown("\n".join(f"- {what}" for what in lesson.tries))
        presets.draw(lesson.presets)
    with st.container(key="steps"):
        st.header("Step by step against PyTorch", anchor=False)
        controls.draw_tolerance()
    verdict()
    trained = (inputs.tokens, inputs.parameters) if controls.asked().config.trained else ()
    sources.draw((*trained, *lesson.code))


def put(html: str) -> None:
    """Put HTML on the page that a panel made, every text in it escaped."""
    st.html(html)


def judged(
    line: Line,
    config: object,
    verdict: Verdict,
    scene: Scene,
    claims: Sequence[Claim] = (),
    only: str = "",
) -> None:
    """Inside the verdict's fragment: say it in the line, and lay it out in the table, the scripts' claims below it.

    `scene` is what the verdict is on; its settings may hide mistakes, which is said too.
    """
    line.end(config, verdict, blind_note.badge(scene))
    with st.container(key="judged"):
        blind_note.draw(scene)
        verdict_panel.table(verdict, config_of(scene).dtype, only)
        if claims:
            st.html(tables.html(_of_claims(claims), kind="claims"))


def _of_claims(claims: Sequence[Claim]) -> Table:
    rows = [
        (claim.text, Mark("✓ holds", "good") if claim.holds else Mark("✗ does not hold", "bad"), claim.found)
        for claim in claims
    ]
    caption = "What the scripts assert, on this scene (torch.allclose at 1e-6 and 1e-6)"
    return Table(caption, ("assertion", "here", "found"), rows)
