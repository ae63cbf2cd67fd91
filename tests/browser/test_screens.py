"""Every page on a phone and zoomed to 200 %, judged on real screenshots: nothing cut off, all of it painted."""

import io
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.looks import DARK_PHONE, PHONE, ZOOM, Look, at_rest, looked_at, paths, unfold
from tests.browser.serving import Server

Pixels = NDArray[np.uint8]

NARROW: Final = [PHONE, ZOOM]
EDGE: Final = 6  # CSS pixels of ground at either side

# Texts of pictures that lie over each other: titles, what is said above them, ticks, the names of axes.
OVERLAPPING: Final = """
() => [...document.querySelectorAll(".heads")].flatMap((picture) => {
  const texts = picture.querySelectorAll(
    ".titles button:not([hidden]), .plot text, .twin summary, .modebar-btn, .bar .all:not([hidden])",
  );
  const boxes = [...texts].map((text) => [text, text.getBoundingClientRect()]);
  const range = document.createRange(); // the readout is a wide box; what counts are the lines of its text
  const readout = picture.querySelector(".readout");
  range.selectNodeContents(readout);
  boxes.push(...[...range.getClientRects()].map((line) => [readout, line]));
  const shown = boxes.filter(([text, box]) => box.width && box.height && text.textContent + text.dataset?.title);
  const over = (x, y) => Math.min(x.right, y.right) - Math.max(x.left, y.left) > 2
    && Math.min(x.bottom, y.bottom) - Math.max(x.top, y.top) > 3;
  return shown.flatMap(([a, x], i) => shown.slice(i + 1).filter(([, y]) => over(x, y))
    .map(([b]) => `${a.textContent || a.dataset.title} | ${b.textContent || b.dataset.title}`));
})
"""


def screenshot(part: Page | Locator) -> Pixels:
    """(height, width, 3), as a reader sees it."""
    return np.asarray(Image.open(io.BytesIO(part.screenshot(animations="disabled"))).convert("RGB"))


def colours(pixels: Pixels) -> int:
    return len(np.unique(pixels.reshape(-1, 3), axis=0))


@pytest.mark.parametrize("look", NARROW, ids=lambda look: look.name)
@pytest.mark.parametrize("path", paths())
def test_nothing_is_cut_off(browser: Browser, server: Server, path: str, look: Look) -> None:
    with looked_at(browser, server, path, look) as page:
        assert page.evaluate("document.scrollingElement.scrollWidth") <= look.width
        title, header = page.locator("h1").bounding_box(), page.locator("header").first.bounding_box()
        assert title
        assert header
        assert title["y"] >= header["y"] + header["height"], "the title is not under the header"
        unfold(page)
        shot = screenshot(page)
        ratio = shot.shape[1] // look.width
        ground = shot[-1, shot.shape[1] // 2]
        for side in (shot[:, : EDGE * ratio], shot[:, -EDGE * ratio :]):
            assert (side == ground).all(), "something reaches the edge of the window"
        assert (shot != ground).any(axis=2).mean() > 0.02, "the page is there"
        assert page.evaluate(OVERLAPPING) == []
        for picture in page.locator(".heads .stage").all():
            box = picture.bounding_box()
            assert box
            top, left, bottom, right = (
                round(ratio * edge) for edge in (box["y"], box["x"], box["y"] + box["height"], box["x"] + box["width"])
            )
            assert colours(shot[top:bottom, left:right]) > 16, "a picture of almost one colour"


@pytest.mark.parametrize("look", [DARK_PHONE, ZOOM], ids=lambda look: look.name)
def test_the_sidebar_opens_and_closes(browser: Browser, server: Server, look: Look) -> None:
    with looked_at(browser, server, "", look) as page:
        before = screenshot(page)
        page.get_by_test_id("stExpandSidebarButton").click()
        at_rest(page)
        opened = screenshot(page)
        assert (opened != before).any(axis=2).mean() > 0.3
        sidebar = page.get_by_test_id("stSidebar")
        controls = sidebar.locator("a:visible, input:visible, button:visible").all()
        assert len(controls) > 10
        for control in controls:
            control.scroll_into_view_if_needed()
            box = control.bounding_box()
            assert box
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= look.width
            assert box["y"] + box["height"] <= look.height + 1, "it can be brought into view"
        close = page.get_by_test_id("stSidebarCollapseButton").locator("button")
        close.scroll_into_view_if_needed()
        close.click()
        expect(page.get_by_test_id("stExpandSidebarButton")).to_be_visible()
        at_rest(page)
        page.mouse.move(look.width - 1, look.height - 1)
        after = screenshot(page)
        assert (after != before).any(axis=2).mean() < 0.01, "as it was"
