"""Training in a real browser: the heads change while it runs, and stand still once it is stopped."""

import re

from playwright.sync_api import Page, expect

from attention.trained import LESSONS
from tests.browser.conftest import OpenPage


def step(page: Page) -> int:
    found = re.search(r"step(\d+)$", page.locator(".heads").get_attribute("data-scene") or "")
    assert found is not None
    return int(found[1])


def test_heads_form_and_stop_when_they_are_told_to(open_page: OpenPage) -> None:
    page = open_page("task=repeat&train_seed=3", "train")  # it takes some ten seconds: there is time to stop it
    assert step(page) == 0
    page.evaluate(
        """() => {
          window.steps = new Set();
          const heads = document.querySelector(".heads");
          const watch = new MutationObserver(() => steps.add(heads.dataset.scene));
          watch.observe(heads, { attributeFilter: ["data-scene"] });
        }"""
    )
    page.get_by_role("button", name="Train", exact=True).click()
    page.wait_for_function("() => steps.size >= 3", timeout=60_000)
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("button", name="Go on", exact=True)).to_be_visible()
    expect(page.locator(".stMarkdown", has_text="stopped")).to_be_visible()
    expect(page.locator(".st-key-verdict")).to_contain_text("equal PyTorch's")
    stopped = step(page)
    assert 0 < stopped < LESSONS["repeat"].works.steps
    page.get_by_role("button", name="Go on", exact=True).click()
    page.locator(f'.heads[data-scene$="step{LESSONS["repeat"].works.steps}"]').wait_for(timeout=60_000)
    expect(page.locator(".stMarkdown", has_text="trained")).to_be_visible()
