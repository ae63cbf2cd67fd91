"""A sweep in a real browser: the grid fills in, keeps the focus while it does, and sets up the cell that is clicked."""

from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage


def cell(page: Page, name: str) -> str:
    """What a cell says of itself."""
    found = page.locator(f'.sweep button[aria-label^="{name}:"]').get_attribute("aria-label")
    assert found is not None
    return found


def test_a_sweep_fills_in_and_a_click_sets_its_cell_up(open_page: OpenPage) -> None:
    page = open_page("task=previous", "train")
    grid = page.locator(".sweep")
    expect(grid.locator("button.empty")).to_have_count(16)
    expect(grid.locator("button[aria-pressed=true]")).to_have_attribute(
        "aria-label", "1 layer, 1 head, causal: not trained yet"
    )
    page.get_by_role("button", name="Sweep", exact=True).click()
    last = grid.locator("button").last
    last.focus()
    # the lesson's own cell, then the first of the others
    page.locator('.sweep:not([data-filled="0"], [data-filled="1"])').wait_for(timeout=120_000)
    assert cell(page, "1 layer, 1 head, causal").endswith("% right")
    assert cell(page, "1 layer, 1 head, no mask").endswith("% right")
    assert cell(page, "2 layers, 8 heads, causal").endswith("not trained yet")
    expect(last).to_be_focused()
    filled = grid.locator("button:not(.empty, .now)").first
    assert filled.evaluate("button => getComputedStyle(button).backgroundColor") == "rgb(253, 231, 37)"
    assert last.evaluate("button => getComputedStyle(button).backgroundColor") == "rgba(0, 0, 0, 0)"
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator(".stMarkdown", has_text="settings trained")).to_contain_text("stopped")
    last.focus()
    page.keyboard.press("Enter")
    expect(grid.locator("button[aria-pressed=true]")).to_have_attribute(
        "aria-label", "2 layers, 8 heads, causal: not trained yet"
    )
    page.wait_for_function("() => /train_layers=2/.test(location.search) && /train_heads=8/.test(location.search)")
    expect(page.locator('input[type=range][aria-label="Layers"]')).to_have_value("2")
    expect(page.locator(".heads .titles button")).to_have_count(16)
