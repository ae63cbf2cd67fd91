"""What a reader sees when something breaks: the state survives in the URL, and other readers go on."""

import os
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import judged
from tests.browser.faulty_app import DEADLY_SEED, SLOW_SEED
from tests.browser.serving import APP, Server, free_port, serve
from tests.browser.test_heads import press_seed, scene, wait_for_seed

FAULTY = Path(__file__).with_name("faulty_app.py")


@pytest.fixture(scope="module")
def faulty() -> Iterator[Server]:
    with serve(FAULTY) as running:
        yield running


def visit(browser: Browser, server: Server, query: str) -> Page:
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.goto(f"{server.address}/?{query}")
    judged(page)
    return page


def ask(server: Server, path: str) -> None:
    urllib.request.urlopen(f"{server.address}/{path}", timeout=10).close()


def test_a_thread_that_dies_takes_nothing_with_it(browser: Browser, faulty: Server) -> None:
    other = visit(browser, faulty, "seed=1")
    page = visit(browser, faulty, f"seed={DEADLY_SEED - 1}&embed_dim=96&num_heads=8")
    cores = os.cpu_count() or 1
    for _ in range(cores + 1):  # a thread that kept its place at the gate would leave none for the last
        press_seed(page)  # the deadly one
        page.locator(".st-key-verdict").get_by_text("checking").wait_for()
        ask(faulty, "bury")
        # the old picture is never shown as the new scene's
        assert f"seed{DEADLY_SEED}-" not in scene(page)
        page.keyboard.press("ArrowLeft")
        wait_for_seed(page, DEADLY_SEED - 1)
    press_seed(page, 2)
    wait_for_seed(page, DEADLY_SEED + 1)
    assert scene(page) == f"8x16-of-96-causal-seed{DEADLY_SEED + 1}-float32"
    press_seed(other)
    wait_for_seed(other, 2)
    page.context.close()
    other.context.close()


def test_a_reader_moves_on_from_a_slow_run(browser: Browser, faulty: Server) -> None:
    page = visit(browser, faulty, f"seed={SLOW_SEED - 1}")
    press_seed(page)
    page.locator(".st-key-verdict").get_by_text("checking").wait_for()  # the reader sees that it runs
    press_seed(page)
    expect(page.locator('input[type=range][aria-label="Seed"]')).to_have_value(str(SLOW_SEED + 1))
    other = visit(browser, faulty, "seed=3")  # the slow run is in nobody's way
    press_seed(other)
    wait_for_seed(other, 4)
    ask(faulty, "release")
    wait_for_seed(page, SLOW_SEED + 1)
    page.wait_for_function(f"() => location.search.includes('seed={SLOW_SEED + 1}')")
    page.reload()
    wait_for_seed(page, SLOW_SEED + 1)  # and what was moved on to is in the URL
    page.context.close()
    other.context.close()


def test_the_server_restarts_under_an_open_page(browser: Browser) -> None:
    port = free_port()
    with serve(APP, port=port) as server:
        page = visit(browser, server, "seed=65&embed_dim=96&num_heads=8&causal=false&pin=2-3-1")
        press_seed(page)
        wait_for_seed(page, 66)
        page.wait_for_function("() => location.search.includes('seed=66')")
        os.kill(server.process, signal.SIGKILL)
    expect(page.get_by_role("dialog")).to_contain_text("Connection error", timeout=30_000)
    expect(page.locator('input[type=range][aria-label="Seed"]')).to_be_disabled()
    assert "seed=66" in page.url
    with serve(APP, port=port):
        expect(page.get_by_role("dialog")).to_have_count(0, timeout=30_000)
        # the page has asked for a whole run, and a key meets a slider that stays
        page.locator('[data-test-connection-state="CONNECTED"][data-test-script-state="notRunning"]').wait_for()
        judged(page)
        press_seed(page)
        wait_for_seed(page, 67)
        assert scene(page) == "8x16-of-96-full-seed67-float32"
        expect(page.locator(".heads .below h2")).to_contain_text("Head 2: query 3 → key 1")
        page.context.close()
