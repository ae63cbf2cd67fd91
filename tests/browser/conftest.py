"""One server and one browser for all browser tests; every page is watched for errors and foreign requests.

They end with this package: Playwright keeps an event loop running, in which other tests could not start theirs.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from tests.browser.serving import APP, Server, chromium, serve

OpenPage = Callable[..., Page]


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    with serve(APP) as running:
        yield running


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright, chromium(playwright) as running:
        yield running


@pytest.fixture
def open_page(server: Server, browser: Browser) -> Iterator[OpenPage]:
    """Opens a page with a query in a session of its own, once its picture, if it has one, is drawn and judged."""
    contexts = []
    trouble: list[str] = []

    def open_(query: str = "", path: str = "", waits: bool = True, **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: trouble.extend(_complaint(message)))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("requestfailed", lambda request: trouble.append(f"failed: {request.url}"))
        page.on("request", lambda request: trouble.extend(_foreign(request.url)))
        page.goto(f"{server.address}/{path}?{query}")
        if waits:
            judged(page)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not trouble, trouble


def judged(page: Page) -> None:
    """Wait until the picture is drawn and its verdict stands."""
    page.locator(".heads[data-scene]").first.wait_for(timeout=60_000)
    page.locator(".st-key-verdict").get_by_text("checking").wait_for(state="detached", timeout=60_000)
    page.locator(".st-key-verdict strong").wait_for(timeout=60_000)


def _complaint(message: ConsoleMessage) -> list[str]:
    """What the console says of an error. On a page with a path Streamlit looks for its own API below it first."""
    probe = re.search(r"/\w+/_stcore/(health|host-config)$", message.location.get("url", ""))
    return [message.text] if message.type == "error" and not probe else []


def _foreign(url: str) -> list[str]:
    """What to say of a request that leaves this machine; nothing of one that stays."""
    parts = urlsplit(url)
    return [] if parts.hostname == "127.0.0.1" or parts.scheme in ("data", "blob") else [f"foreign: {url}"]
