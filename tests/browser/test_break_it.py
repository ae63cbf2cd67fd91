"""The page of mistakes in a real browser: the worst cell, a click, the quiz, and the note on what settings hide."""

import re

from playwright.sync_api import Page, expect

from attention.bugs.quiz import questions
from tests.browser.conftest import OpenPage, judged

SMALL = "embed_dim=48&num_heads=4&num_tokens=7"


def said(page: Page) -> str:
    """The line about the cell on screen."""
    return page.locator(".stMarkdown p", has_text="is allowed").inner_text()


def choose(page: Page, label: str, name: str) -> None:
    """Choose from a list by typing; a long one has only the options in it that are in view."""
    page.get_by_label(label, exact=True).click()
    page.keyboard.type(name)
    page.get_by_role("option", name=name, exact=True).click()


def search(page: Page, text: str) -> None:
    """Wait until the address says it; Playwright's own idea of it lags behind."""
    page.wait_for_function("text => decodeURIComponent(location.search).includes(text)", arg=text)


def test_a_mistake_opens_on_its_first_step_at_the_worst_cell(open_page: OpenPage) -> None:
    page = open_page(f"{SMALL}&mistake=Mask+off+by+one", "break_it")
    assert "masked is the first step that differs" in page.locator(".st-key-verdict").inner_text()
    expect(page.locator("input[type=range][aria-label=Step]")).to_have_attribute("aria-valuetext", "masked")
    worst = said(page)
    assert "PyTorch's −∞" in worst
    assert "∞ apart" in worst
    # a colour of its own for what is infinitely far apart, and it is not that of NaN
    colours = (
        page.locator(".heads .pixels")
        .nth(1)
        .evaluate(
            """canvas => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const seen = {};
          for (let i = 0; i < data.length; i += 4) {
            const name = `${data[i]},${data[i + 1]},${data[i + 2]},${data[i + 3]}`;
            seen[name] = (seen[name] ?? 0) + 1;
          }
          return seen;
        }"""
        )
    )
    assert "214,39,40,255" not in colours
    # another cell by a click, and back
    stage = page.locator(".heads .stage").first
    stage.focus()
    for key in ("ArrowDown", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    search(page, "at=")
    page.wait_for_function("before => !document.body.innerText.includes(before)", arg=worst)
    page.get_by_role("button", name="To the worst cell").click()
    page.wait_for_function("before => document.body.innerText.includes(before)", arg=worst)
    assert "at=" not in page.evaluate("location.search").replace("mistake=", "")


def test_another_mistake_another_step(open_page: OpenPage) -> None:
    page = open_page(f"{SMALL}&at_step=output", "break_it")
    expect(page.locator("input[type=range][aria-label=Step]")).to_have_attribute("aria-valuetext", "output")
    choose(page, "Mistake", "Heads merged by view")
    expect(page.locator("input[type=range][aria-label=Step]")).to_have_attribute("aria-valuetext", "merged")
    judged(page)
    assert "merged is the first step that differs" in page.locator(".st-key-verdict").inner_text()
    search(page, "mistake=Heads")
    # one of a block brings the block, its steps and its switches
    choose(page, "And a second", "ReLU for GELU")
    expect(page.locator("[data-testid=stSidebar]").get_by_text("Activation")).to_be_visible()
    expect(page.locator(".tables.steps tbody tr")).to_have_count(17)


def test_the_quiz_from_a_wrong_guess_to_the_next_question(open_page: OpenPage) -> None:
    page = open_page(f"{SMALL}&quiz=attention", "break_it")
    code = page.get_by_role("heading", name="The code, right and wrong")
    expect(page.get_by_text("Question 1.")).to_be_visible()
    expect(code).to_have_count(0)

    def guess(name: str) -> None:
        choose(page, "Your guess", name)
        page.get_by_role("button", name="Answer").click()

    hidden, other = questions(in_block=False)[:2]
    guess(other.name)
    expect(page.get_by_text("not this one")).to_be_visible()
    expect(page.get_by_text("0 of 1 right at the first guess")).to_be_visible()
    guess(hidden.name)
    expect(page.get_by_text(f"It is {hidden.name}")).to_be_visible()
    expect(code).to_be_visible()
    page.get_by_role("button", name="Next question").click()
    expect(page.get_by_text("Question 2.")).to_be_visible()
    expect(code).to_have_count(0)
    search(page, "question=2")


def test_one_click_from_what_settings_hide_to_what_shows_it(open_page: OpenPage) -> None:
    page = open_page("embed_dim=48&num_heads=1&num_tokens=1&causal=false")
    line = page.locator(".st-key-verdict")
    expect(line).to_contain_text(re.compile(r"hides \d+ of \d+ mistakes"))
    page.locator(".st-key-show_hidden button").click()
    expect(line).not_to_contain_text("hides")
    judged(page)
    expect(page.locator(".st-key-show_hidden")).to_have_count(0)
    search(page, "num_heads=2")
    assert page.locator('input[type=range][aria-label="Tokens"]').get_attribute("aria-valuetext") == "16"


def test_properties_and_gradients_once_asked_for(open_page: OpenPage) -> None:
    page = open_page(SMALL)
    expect(page.locator(".tables.gradients")).to_have_count(0)
    page.get_by_text("Without PyTorch, and backwards").click()
    expect(page.locator(".tables.gradients tbody tr")).to_have_count(12)
    assert page.locator(".tables.gradients .bad").count() == 0
