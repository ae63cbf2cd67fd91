"""What axe-core finds on a page, and whose it is.

The rules are those of WCAG 2.0, 2.1 and 2.2, levels A and AA, and axe's best practices. A finding is ours, unless it is
listed here as Streamlit's own: its rule, and a selector of Streamlit's markup, with the reason. Nothing inside what we
write ourselves can be Streamlit's, nor can the contrast of colours, which our theme chooses.
"""

from dataclasses import dataclass
from typing import Any, Final

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.looks import at_rest, unfold

_TAGS: Final = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice")
_OPTIONS: Final = {"resultTypes": ["violations"], "runOnly": {"type": "tag", "values": _TAGS}}
_OURS: Final = ".heads, .sweep, .tables, .diagram, [data-testid=stHtml], [data-testid=stMarkdownContainer] *"
_OUR_RULES: Final = frozenset({"color-contrast", "color-contrast-enhanced", "link-in-text-block"})


@dataclass(frozen=True)
class Own:
    """What is Streamlit's own: a rule of axe, where in Streamlit's markup, and why we cannot mend it."""

    rule: str
    selector: str
    reason: str


STREAMLITS: Final[tuple[Own, ...]] = ()


@dataclass(frozen=True)
class Finding:
    """One element that breaks a rule; `whose` is "ours" or "Streamlit's"."""

    rule: str
    selector: str
    whose: str
    html: str
    why: str


def findings(page: Page) -> tuple[Finding, ...]:
    """All that axe finds on the page as it stands."""
    found: Any = Axe().run(page, options=_OPTIONS).response
    assert found["passes"] or found["violations"], "axe looked at nothing"
    return tuple(
        Finding(rule["id"], selector, _whose(page, rule["id"], selector), node["html"], node["failureSummary"])
        for rule in found["violations"]
        for node in rule["nodes"]
        for selector in [_selector(node["target"])]
    )


def _selector(target: list[Any]) -> str:
    """An element's selector; parts that lie in frames or shadow roots are no page's of ours, but are said."""
    return " >> ".join(part if isinstance(part, str) else " ".join(part) for part in target)


def _whose(page: Page, rule: str, selector: str) -> str:
    known = [own.selector for own in STREAMLITS if own.rule == rule and rule not in _OUR_RULES]
    is_streamlits = page.locator(selector).first.evaluate(
        "(element, [ours, known]) => !element.closest(ours) && known.some((selector) => element.matches(selector))",
        [_OURS, known],
    )
    return "Streamlit's" if is_streamlits else "ours"


def open_all(page: Page) -> None:
    """Open what is closed at first: expanders, and the tables under the pictures."""
    closed = page.locator(".stMain details:not([open]) > summary")
    while left := closed.count():
        closed.first.click()
        expect(closed).to_have_count(left - 1)
    at_rest(page)


def examine(page: Page, with_sidebar: bool = True) -> tuple[Finding, ...]:
    """All that axe finds with everything opened; `with_sidebar` opens that too, where it is closed at first."""
    open_all(page)
    unfold(page)  # what is out of view axe does not judge
    found = findings(page)
    button = page.get_by_test_id("stExpandSidebarButton")
    if with_sidebar and button.count():
        button.click()
        page.get_by_test_id("stSidebarCollapseButton").wait_for()
        found += findings(page)
    return found
