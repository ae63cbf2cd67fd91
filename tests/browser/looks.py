"""The ways in which a page is looked at: themes, a phone, a window zoomed to 200 %; and when a page is at rest."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from playwright.sync_api import Browser, Page, sync_playwright

from dashboard.contents import PAGES
from tests.browser.serving import APP, Server, chromium, serve


@dataclass(frozen=True)
class Look:
    """A window: its size in CSS pixels, its theme, and what else a browser is told of it."""

    name: str
    width: int
    height: int
    scheme: str = "light"
    others: dict[str, Any] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        """What a browser's new context takes."""
        size = {"width": self.width, "height": self.height}
        return {"viewport": size, "color_scheme": self.scheme, **self.others}


_TOUCH: Final = {"has_touch": True, "is_mobile": True}
LIGHT: Final = Look("light", 1440, 900)
DARK: Final = Look("dark", 1440, 900, "dark")
PHONE: Final = Look("phone", 390, 844, others=_TOUCH)
DARK_PHONE: Final = Look("dark-phone", 390, 844, "dark", others=_TOUCH)
# what a browser at 200 % gives a window of 1440 x 900
ZOOM: Final = Look("zoom", 720, 450, others={"device_scale_factor": 2})
LOOKS: Final = (LIGHT, DARK, PHONE, DARK_PHONE, ZOOM)

# Nothing runs, nothing moves, and every picture and chart is drawn.
_AT_REST: Final = """
() => {
  const running = document.querySelector(".stApp")?.dataset.testScriptState !== "notRunning";
  const all = (name) => [...document.querySelectorAll(name)];
  const drawn = (chart) => chart.querySelector(".main-svg");
  return !running && document.querySelector("h1")
    && !all("[data-stale=true], [data-testid=stSkeleton], [data-testid=stSpinner]").length
    && all(".heads").every((picture) => picture.dataset.scene)
    && all(".chart .plot").every(drawn)
    && !document.querySelector(".st-key-verdict")?.textContent.includes("checking")
    && document.getAnimations().every((one) => one.playState !== "running");
}
"""


def paths() -> list[str]:
    """The path of every page in the navigation; the first opens without one."""
    _, *others = (name for name, *_ in PAGES)
    return ["", *others]


def at_rest(page: Page) -> None:
    """Wait until nothing runs any more and all is drawn."""
    page.wait_for_function(_AT_REST, timeout=60_000)


@contextmanager
def looked_at(browser: Browser, server: Server, path: str, look: Look, query: str = "") -> Iterator[Page]:
    """A page in a session of its own, at rest."""
    context = browser.new_context(**look.options)
    try:
        page = context.new_page()
        page.goto(f"{server.address}/{path}?{query}")
        at_rest(page)
        yield page
    finally:
        context.close()


def unfold(page: Page) -> None:
    """Make the window as high as the page, so that all of it is in view: Streamlit scrolls a part of the window."""
    width = page.viewport_size["width"] if page.viewport_size else 0
    for _ in range(3):  # a higher window may make what is in it higher
        height = page.evaluate("() => document.querySelector('.stMain').scrollHeight")
        page.set_viewport_size({"width": width, "height": min(height, 12_000)})
    at_rest(page)


def visits(wanted: Sequence[str], looks: Sequence[Look]) -> Iterator[tuple[str, Look, Page]]:
    """Every page in every look, on a server and in a browser of their own; of the pages only those wanted, if any are.

    The first page is called "first".
    """
    with serve(APP) as server, sync_playwright() as playwright, chromium(playwright) as browser:
        for path in paths():
            name = path or "first"
            for look in looks if name in wanted or not wanted else ():
                with looked_at(browser, server, path, look) as page:
                    yield name, look, page
