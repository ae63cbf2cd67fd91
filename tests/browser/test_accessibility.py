"""For readers who read a screen differently: what axe finds, the table under a picture, keyboard, focus, motion."""

import re
from dataclasses import replace
from itertools import cycle
from typing import Final

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from attention import AttentionConfig
from tests.browser import axe
from tests.browser.axe import Own, examine, findings
from tests.browser.conftest import OpenPage
from tests.browser.looks import DARK, DARK_PHONE, LIGHT, PHONE, Look, at_rest, looked_at, paths
from tests.browser.serving import Server
from tests.browser.test_heads import hover, press_seed, wait_for_seed, weights

DEFAULT: Final = AttentionConfig()
# `python -m tests.accessibility` takes every page in every look
SOME: Final = list(zip(paths(), cycle((DARK_PHONE, LIGHT, PHONE, DARK)), strict=False))


@pytest.mark.parametrize(("path", "look"), SOME, ids=[f"{path or 'first'}-{look.name}" for path, look in SOME])
def test_a_page_is_for_everybody(browser: Browser, server: Server, path: str, look: Look) -> None:
    """Nothing moves for who asks for that, every picture says what is to be seen and has a table, axe finds nothing."""
    still = replace(look, others={**look.others, "reduced_motion": "reduce"})
    with looked_at(browser, server, path, still) as page:
        assert page.evaluate(MOVING) == []
        pictures = page.locator(".heads").all()
        assert pictures or path == "scenes"
        for picture in pictures:
            assert_says_what_is_seen(page, picture)
        assert [one for one in examine(page, with_sidebar=not path) if one.whose == "ours"] == []
        assert page.evaluate(MOVING) == [], "now that everything is open"
        for picture in pictures:
            head, *rows = cells(picture)
            assert len(head) > 1
            assert rows
            assert all(len(row) == len(head) and all(row) for row in rows)


def assert_says_what_is_seen(page: Page, picture: Locator) -> None:
    stage = picture.locator(".stage")
    label = stage.get_attribute("aria-label") or ""
    assert re.search(r"largest|farthest|no difference|Every number|two keys|left blank", label), label
    described = page.locator(f"#{stage.get_attribute('aria-describedby')}")
    assert "Arrow keys" in (described.text_content() or "")
    assert picture.locator(".twin table").count() == 0, "made when it is opened"


def test_whose_a_finding_is(browser: Browser, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with looked_at(browser, server, "", LIGHT, "num_tokens=4&embed_dim=8&num_heads=1") as page:
        page.evaluate(
            """() => {
              for (const place of [".heads .below", ".stMain"]) {
                const picture = document.createElement("img");
                picture.src = "data:,";
                document.querySelector(place).prepend(picture);
              }
            }"""
        )
        assert sorted((one.rule, one.whose) for one in findings(page)) == [("image-alt", "ours")] * 2
        monkeypatch.setattr(axe, "STREAMLITS", (Own("image-alt", "img", "a test"),))
        assert {one.whose: "below" in one.selector for one in findings(page)} == {"ours": True, "Streamlit's": False}


def cells(picture: Locator) -> list[list[str]]:
    """The texts of the open table, its headers too."""
    rows: list[list[str]] = picture.locator(".twin table").evaluate(
        "(table) => [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    return rows


def number(text: str) -> np.float32:
    return np.float32(text.replace("−", "-").replace("∞", "inf"))


def test_the_table_has_the_numbers_and_follows_them(open_page: OpenPage) -> None:
    page = open_page()
    picture = page.locator(".heads")
    summary = picture.locator(".twin summary")
    summary.focus()
    page.keyboard.press("Enter")
    assert picture.locator(".twin thead th").evaluate_all("(all) => all.every((one) => one.scope === 'col')")
    assert picture.locator(".twin tbody th").evaluate_all("(all) => all.every((one) => one.scope === 'row')")
    expect(picture.locator(".twin caption")).to_have_text("head 0, weight: query 0 to 15, key 0 to 15")
    same(cells(picture), weights(DEFAULT)[0].numpy())

    press_seed(page)
    wait_for_seed(page, 43)
    same(cells(picture), weights(AttentionConfig(seed=43))[0].numpy())
    picture.locator(".titles button").nth(5).click()
    same(cells(picture), weights(AttentionConfig(seed=43))[5].numpy())
    picture.locator("select.tile").select_option("head 7")
    same(cells(picture), weights(AttentionConfig(seed=43))[7].numpy())
    expect(picture.locator(".twin caption")).to_contain_text("head 7")
    press_seed(page)
    wait_for_seed(page, 44)
    same(cells(picture), weights(AttentionConfig(seed=44))[7].numpy())


def same(shown: list[list[str]], expected: np.ndarray) -> None:
    """The table shows these weights under a causal mask, to the last bit."""
    head, *rows = shown
    assert head == ["", *(f"key {key}" for key in range(expected.shape[1]))]
    assert [row[0] for row in rows] == [f"query {query}" for query in range(expected.shape[0])]
    for query, (_, *texts) in enumerate(rows):
        for key, text in enumerate(texts):
            assert (text == "masked") == (key > query)
            assert key > query or number(text) == expected[query, key]


def test_a_large_table_comes_in_pages(open_page: OpenPage) -> None:
    page = open_page("embed_dim=64&num_heads=2&num_tokens=256")
    picture = page.locator(".heads")
    picture.locator(".twin summary").click()
    assert picture.locator(".twin td").count() <= 64 * 33
    picture.locator("select.row").select_option("query 192 to 255")
    picture.locator("select.column").select_option("key 96 to 127")
    rows = cells(picture)
    assert rows[0][1] == "key 96"
    assert rows[-1][0] == "query 255"
    expected = weights(AttentionConfig(embed_dim=64, num_heads=2, num_tokens=256))[0].numpy()
    assert number(rows[-1][1]) == expected[255, 96]
    assert number(rows[1][-1]) == expected[192, 127]
    page.locator('input[type=range][aria-label="Tokens"]').focus()
    page.keyboard.press("Home")
    page.locator('.heads[data-scene*="2x1-"]').wait_for()
    assert cells(picture) == [["", "key 0"], ["query 0", "1"]], "what was picked is no longer there"
    assert not picture.locator("select.row").is_visible()


def test_a_table_scrolls_inside_itself(open_page: OpenPage) -> None:
    page = open_page(**PHONE.options)
    page.locator(".twin summary").click()
    sheet = page.locator(".twin .sheet")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    box = sheet.bounding_box()
    assert box
    assert box["x"] + box["width"] <= 390
    sheet.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('.twin .sheet').scrollLeft > 0")
    assert "head 0" in (sheet.get_attribute("aria-label") or "")


def test_the_cell_cursor_goes_everywhere_and_speaks(open_page: OpenPage) -> None:
    page = open_page("pin=none")
    spoken = page.locator(".heads .spoken")
    hover(page, 3, 9, 2)
    assert spoken.text_content() == "", "a pointer would fill the ears of whoever listens"
    page.mouse.move(5, 5)
    stage = page.locator(".heads .stage")
    stage.focus()
    for key, cell in (
        ("End", "head 0 · query 0 → key 15: masked"),
        ("ArrowDown", "head 0 · query 1 → key 15: masked"),
        ("Home", "head 0 · query 1 → key 0: 0."),
        ("Control+End", "head 0 · query 15 → key 15: 0."),
        ("PageDown", "head 1 · query 15 → key 15: 0."),
        ("Control+Home", "head 1 · query 0 → key 0: 1"),
    ):
        page.keyboard.press(key)
        expect(spoken).to_contain_text(cell)
        expect(page.locator(".heads .readout")).to_contain_text(cell)
        expect(page.locator(".heads .marks")).to_have_attribute("data-marked", "12")
    page.keyboard.press("Enter")
    expect(spoken).to_have_text("head 1 · query 0 → key 0: 1 (pinned, worked out below)")
    page.keyboard.press("Enter")
    expect(spoken).to_contain_text("not pinned any more")
    page.keyboard.press("Escape")
    expect(spoken).to_have_text("No cell.")
    assert spoken.get_attribute("aria-live") == "polite"
    page.keyboard.press("Tab")
    expect(stage).not_to_be_focused()


# How many pixels of the painted canvas are NaN's red, and how many are white, in the last row of the last tile.
NAN_ROW: Final = """
() => {
  const canvas = document.querySelector(".heads .pixels");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let [red, white] = [0, 0];
  for (let i = 0; i < data.length; i += 4) {
    const isRed = data[i] > 200 && data[i + 1] < 60 && data[i + 2] < 60 && data[i + 3] === 255;
    red += isRed;
    white += data[i] > 240 && data[i + 1] > 240 && data[i + 2] > 240 && data[i + 3] === 255;
  }
  return [red, white];
}
"""


@pytest.mark.parametrize("tokens", [16, 48])
def test_nan_is_told_by_more_than_its_colour(open_page: OpenPage, tokens: int) -> None:
    page = open_page(f"num_tokens={tokens}&embed_dim=48&num_heads=2", "pytorch_differs")
    expect(page.locator(".heads .readout")).to_contain_text("cells are NaN")
    red, white = page.evaluate(NAN_ROW)
    assert red > 100
    assert white > red / 20, "the word, or where there is no room for it crosses"


# The contrast of the outline with what lies behind it, and its width in pixels; what has none has 0.
OUTLINE: Final = """
(element) => {
  const style = getComputedStyle(element);
  const isClear = (node) => /rgba|transparent/.test(getComputedStyle(node).backgroundColor);
  let behind = element;
  while (behind.parentElement && isClear(behind)) behind = behind.parentElement;
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const luminance = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map((part) => linear(part / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const colours = [style.outlineColor, getComputedStyle(behind).backgroundColor];
  const [a, b] = colours.map(luminance).sort((x, y) => y - x);
  const width = style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth);
  return { width, contrast: (a + 0.05) / (b + 0.05) };
}
"""


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=lambda look: look.name)
def test_the_focus_is_seen(browser: Browser, server: Server, look: Look) -> None:
    with looked_at(browser, server, "", look) as page:
        page.keyboard.press("Tab")
        page.locator(".twin summary").click()
        page.locator(".heads .titles button").first.click()
        page.keyboard.press("Tab")
        for name in (
            ".heads .stage", ".heads .titles button", ".heads .all", ".twin summary", ".twin select", ".twin .sheet",
            ".heads .below .tables", ".tables.steps", "[data-testid=stExpander] summary",
        ):  # fmt: skip
            element = page.locator(name).first
            element.focus()
            at_rest(page)
            outline = element.evaluate(OUTLINE)
            assert outline["width"] >= 2, name
            assert outline["contrast"] >= 3, (name, outline)


# What moves, or would.
MOVING: Final = """
() => {
  const second = (text) => parseFloat(text) * (text.includes("ms") ? 0.001 : 1);
  const seconds = (text) => Math.max(...text.split(",").map(second));
  const isStill = (element) => ["", "::before", "::after"].every((part) => {
    const style = getComputedStyle(element, part || null);
    const times = [style.transitionDuration, style.transitionDelay, style.animationDuration];
    return times.every((text) => seconds(text) <= 0.001);
  });
  const moving = [...document.querySelectorAll("body *")].filter((element) => !isStill(element));
  // Streamlit's script goes on with an expander's height, but it already has all of it
  const isWhole = (element) =>
    element.matches("[data-testid=stExpander] details") && element.clientHeight >= element.scrollHeight;
  const running = document.getAnimations().filter(
    ({ effect }) => effect.getComputedTiming().duration > 1 && !isWhole(effect.target),
  );
  return [
    ...moving.map((element) => element.outerHTML.slice(0, 100)),
    ...running.map((one) => one.animationName ?? one.transitionProperty),
  ];
}
"""


def test_who_asks_for_less_motion_gets_none_while_something_changes(open_page: OpenPage) -> None:
    page = open_page("num_tokens=5&embed_dim=24&num_heads=2", reduced_motion="reduce")
    assert page.evaluate(MOVING) == []
    page.locator("[data-testid=stExpander] summary").last.click()
    page.locator(".twin summary").first.click()
    press_seed(page)
    assert page.evaluate(MOVING) == []
    page.get_by_test_id("stSidebarCollapseButton").locator("button").click()
    assert page.evaluate(MOVING) == []


def test_motion_is_seen_where_it_is_wanted(open_page: OpenPage) -> None:
    """Else the test above would look for nothing."""
    page: Page = open_page("num_tokens=5&embed_dim=24&num_heads=2")
    assert page.evaluate(MOVING) != []
