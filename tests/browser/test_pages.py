"""Every page in a real browser: it draws, it is judged, it fits, and it moves when it is told to."""

import re
from itertools import cycle
from typing import Final

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage, judged
from tests.browser.looks import paths

# path, and how many pictures the page has at its first scene
PAGES: Final = {
    "": 1, "one_head": 2, "masks": 3, "head_counts": 5, "four_ways": 1, "block": 2,
    "break_it": 3, "precision": 2, "pytorch_differs": 1, "compare": 3, "predict": 2, "train": 1,
}  # fmt: skip
LESSONS: Final = [path for path in PAGES if path not in ("", "train")]

# Whether anything was painted on the first picture: how many colours its canvas has.
COLOURS: Final = """
(canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size;
}
"""


def test_all_pages_with_a_picture_are_here() -> None:
    assert set(paths()) - set(PAGES) == {"scenes"}


def scene(page: Page, place: int = -1) -> str:
    """The name of what a picture shows; the last one unless said otherwise."""
    return page.locator(".heads[data-scene]").nth(place).get_attribute("data-scene") or ""


def verdict(page: Page) -> str:
    return page.locator(".st-key-verdict").inner_text()


@pytest.mark.parametrize(("path", "scheme"), list(zip(PAGES, cycle(("light", "dark")), strict=False)))
def test_a_page_draws_and_is_judged(open_page: OpenPage, path: str, scheme: str) -> None:
    page = open_page(path=path, color_scheme=scheme)
    expect(page.locator(".heads[data-scene]")).to_have_count(PAGES[path])
    assert ("differs" if path == "break_it" else "equal") in verdict(page)
    assert page.locator("[data-testid=stException], [data-testid=stAlert]").count() == 0
    for canvas in page.locator(".heads .pixels").all():
        assert canvas.evaluate(COLOURS) > 2, "painted, on a ground of one colour"
    assert page.locator("h1").count() == 1
    expect(page.locator(".tables.steps")).to_be_visible()


@pytest.mark.parametrize("path", LESSONS)
def test_a_shared_control_moves_every_picture(open_page: OpenPage, path: str) -> None:
    page = open_page("embed_dim=48&num_heads=4&num_tokens=7", path)
    before = [scene(page, place) for place in range(PAGES[path] - (path == "head_counts"))]
    slider = page.locator('input[type=range][aria-label="Seed"]')
    slider.focus()
    page.keyboard.press("ArrowRight")
    for place, name in enumerate(before):
        expect(page.locator(".heads").nth(place)).not_to_have_attribute("data-scene", name)
        expect(page.locator(".heads").nth(place)).to_have_attribute("data-scene", re.compile("seed43"))
    judged(page)
    assert ("differs" if path == "break_it" else "equal") in verdict(page)
    page.wait_for_function("() => location.search.includes('seed=43')")  # the field of the seed is drawn last


def test_controls_outlive_a_visit_to_another_page(open_page: OpenPage) -> None:  # U01
    page = open_page("embed_dim=64&num_heads=4&head_dim=32&depth=3&num_tokens=6", "one_head")
    go = page.locator("[data-testid=stSidebarNavLink]")
    for title, expected in (
        ("Transformer block", "depth=3"),
        ("One head", "head_dim=32"),
        ("Every head", "num_heads=4"),
    ):
        go.filter(has_text=title).click()
        expect(page.locator("h1")).to_contain_text(title)
        judged(page)
        # Playwright's own idea of the address lags behind pushState
        page.wait_for_function("text => location.search.includes(text)", arg=expected)
        assert "embed_dim=64" in page.evaluate("location.search")
    expect(page.locator(".heads .titles button")).to_have_count(4)


def test_the_steps_are_scrubbed_with_an_arrow_key(open_page: OpenPage) -> None:
    page = open_page("embed_dim=12&head_dim=4&num_tokens=5&step=scores", "one_head")
    thumb = page.locator('input[type=range][aria-label="Step"]')
    thumb.focus()
    for step in ("scaled", "masked", "weights", "context"):
        page.keyboard.press("ArrowRight")
        expect(page.locator(".heads").last).to_have_attribute("data-scene", re.compile(f"-{step}-"))
        page.wait_for_url(re.compile(f"step={step}") if step != "weights" else re.compile(r"^((?!step=).)*$"))
    expect(page.locator(".tables.row")).to_contain_text("The context")


def test_a_click_works_another_query_out(open_page: OpenPage) -> None:
    page = open_page("embed_dim=12&head_dim=4&num_tokens=5", "one_head")
    expect(page.get_by_role("heading", name="Query 4, worked out")).to_be_visible()
    stage = page.locator(".heads .stage").last
    stage.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Query 3, worked out")).to_be_visible()
    page.wait_for_url(re.compile("pin=0-3-4"))


def test_rules_are_put_together_and_are_in_the_link(open_page: OpenPage) -> None:
    page = open_page("num_tokens=8&embed_dim=24&num_heads=2", "masks")
    page.get_by_role("button", name="padding", exact=True).click()
    page.get_by_role("button", name="window", exact=True).click()
    page.wait_for_url(re.compile("rules=padding&rules=window|rules=window&rules=padding"))
    expect(page.locator(".tables.mask")).to_contain_text("queries that see nothing")
    expect(page.locator(".tables.mask")).to_contain_text("0, 1")
    expect(page.locator(".heads").first).to_have_attribute("data-scene", re.compile("window4"))
    judged(page)
    assert "equal" in verdict(page)
    page.reload()
    judged(page)
    expect(page.locator(".tables.mask")).to_contain_text("0, 1")


def test_the_first_query_is_in_the_link_too(open_page: OpenPage) -> None:
    page = open_page("num_tokens=6", "predict")
    query = page.get_by_label("Query", exact=True)
    expect(query).to_have_value("3")  # the usual one, which the link leaves out
    query.fill("0")
    query.press("Enter")
    page.wait_for_function("() => location.search.includes('of_query=0')")
    page.reload()
    expect(query).to_have_value("0")


def test_the_block_shows_where_a_step_stands(open_page: OpenPage) -> None:
    page = open_page("num_tokens=5&embed_dim=24&num_heads=2&depth=1&block_step=hidden", "block")
    expect(page.locator(".diagram .marked")).to_have_text("feed-forward")
    expect(page.locator(".diagram .skip")).to_have_count(2)
    box, arc = page.locator(".diagram .sum").first.bounding_box(), page.locator(".diagram .skip").first.bounding_box()
    assert box
    assert arc
    assert abs(arc["x"] + arc["width"] - (box["x"] + box["width"] / 2)) < 3, "the residual ends over the sum"
    assert arc["y"] + arc["height"] <= box["y"] + 1


def test_the_code_that_ran_is_that_of_the_page(open_page: OpenPage) -> None:
    page = open_page("num_tokens=5&embed_dim=24&num_heads=2&depth=1", "block")
    page.get_by_text("The code that ran").click()
    expect(page.locator("[data-testid=stCode]")).to_contain_text("def run_block")


def test_an_enlarged_tile_stays_enlarged(open_page: OpenPage) -> None:
    page = open_page("num_tokens=6&embed_dim=24&num_heads=2", "four_ways")
    page.locator(".heads .titles button").nth(1).click()
    expect(page.locator(".heads .titles button")).to_have_text(["packed"])
    page.locator('input[type=range][aria-label="Seed"]').focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".heads").first).to_have_attribute("data-scene", re.compile("seed43"))
    expect(page.locator(".heads .titles button")).to_have_text(["packed"])


def test_the_script_of_one_head_after_other_pages(open_page: OpenPage) -> None:
    page = open_page()
    page.locator("[data-testid=stSidebarNavLink]").filter(has_text="One head").click()
    expect(page.locator("h1")).to_contain_text("One head")
    page.get_by_role("button", name="Script: one head").click()
    expect(page.locator(".tables.claims")).to_contain_text("holds")
    expect(page.locator(".heads").last).to_have_attribute(
        "data-scene", re.compile("^1x5-of-256-head64to256-full-seed42")
    )
    judged(page)
    assert "equal" in verdict(page)
    assert page.locator("[data-testid=stException], [data-testid=stAlert]").count() == 0
