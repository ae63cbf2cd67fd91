"""A lesson as a class would have it: the teacher's link, a prediction, its answer, a comparison, a script to run."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import torch
from playwright.sync_api import Page, expect

from attention.config import AttentionConfig
from attention.multi_head import attend_as_configured
from dashboard.take_home import LABEL
from tests.browser.conftest import OpenPage, judged

SCENE = AttentionConfig(num_tokens=6)
HEAD, QUERY = 0, 3


def weights(config: AttentionConfig) -> torch.Tensor:
    return attend_as_configured(config).weights[0]


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def teachers_link(page: Page) -> str:
    """What a teacher does: open a scene, choose what to hide, take the link."""
    page.get_by_role("button", name="Open in “Predict, then reveal”").click()
    expect(page.locator("h1")).to_have_text("Predict, then reveal")
    judged(page)
    page.get_by_role("button", name="Teacher's link").click()
    dialog = page.get_by_role("dialog")
    for part in ("the list of pages", "seed", "step by step"):
        dialog.get_by_role("button", name=part, exact=True).click()
    link = dialog.locator("code")
    expect(link).to_contain_text("hide=pages,seed,steps")
    return link.inner_text()


def column(page: Page, place: int) -> list[str]:
    return page.locator(".tables.predict tbody tr").locator(f":nth-child({place})").all_inner_texts()


def fill_in(page: Page, row: list[float]) -> None:
    for key, weight in enumerate(row):
        field = page.get_by_label(f"key {key}", exact=True)
        field.fill(f"{weight:.3f}")
        field.press("Enter")
        expect(page.locator(".tables.predict tbody tr").nth(key)).not_to_contain_text("–")
    page.get_by_role("button", name="Check", exact=True).click()


def test_a_lesson_from_the_link_to_the_script(open_page: OpenPage, tmp_path: Path) -> None:
    link = teachers_link(open_page(path="scenes", waits=False))
    page = open_page(link.split("?")[1], "predict", accept_downloads=True)

    # what the teacher hides is not there, and the numbers are the teacher's
    expect(page.locator(".st-key-seed")).to_be_hidden()
    expect(page.locator("[data-testid=stSidebarNav]")).to_be_hidden()
    expect(page.locator(".tables.steps")).to_be_hidden()
    expect(page.locator(".st-key-causal")).to_be_visible()

    # predict: from what the page gives, by the equation; a guess first
    fill_in(page, [1 / 6] * 6)
    expect(page.get_by_text("are right within 0.05")).to_contain_text("of 6")
    scaled = torch.tensor([number(text) for text in column(page, 2)], dtype=torch.float64)[: QUERY + 1]
    answer = [*torch.softmax(scaled, 0).tolist(), 0, 0]
    fill_in(page, answer)
    expect(page.get_by_text("All 6 weights are right")).to_be_visible()

    # reveal: the weights are those of the library
    expect(page.locator(".tables.predict thead")).not_to_contain_text("weight")
    page.get_by_role("button", name="Reveal").click()
    expect(page.locator(".tables.predict thead")).to_contain_text("weight")
    shown = torch.tensor([number(text) for text in column(page, 6)])
    right = weights(SCENE)[HEAD, QUERY]
    assert (shown - right).abs().max() < 5e-5
    judged(page)

    # compare: pin this, take the mask away
    page.get_by_role("button", name="Pin as A, and compare").click()
    expect(page.locator("h1")).to_have_text("Compare two settings")
    judged(page)
    page.get_by_text("B − A is 0 in every cell").wait_for()
    page.locator(".st-key-causal label").click()
    said = page.get_by_text("at most")
    difference = (weights(replace(SCENE, causal=False)).double() - weights(SCENE).double()).abs()
    expect(said).to_contain_text(f"at most {difference.max():.3g}")
    expect(page.locator(".st-key-seed")).to_be_hidden()  # as the link said, on this page too
    judged(page)

    # take it home: the script of B prints what the page says that it prints, and what the library has
    page.get_by_text(LABEL).click()
    page.get_by_text("Script", exact=True).click()
    with page.expect_download() as found:
        page.get_by_role("button", name=re.compile("Script$")).click()
    script = tmp_path / "scene.py"
    found.value.save_as(script)
    ran = subprocess.run([sys.executable, "-I", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == page.locator("[data-testid=stExpander] code").last.inner_text().strip()
    printed = re.search(r"weights of head (\d+), query (\d+): (.*)", ran.stdout)
    assert printed is not None
    head, query = int(printed[1]), int(printed[2])
    expected = weights(replace(SCENE, causal=False))[head, query]
    assert torch.equal(torch.tensor([float(text) for text in printed[3].split()]), expected)


# The parts that a frame showed, of those that may be hidden, from the first frame on.
WATCH = """
  window.shown = new Set();
  const parts = { seed: ".st-key-seed", pages: "[data-testid=stSidebarNav]", steps: ".st-key-steps" };
  const look = () => {
    for (const [name, selector] of Object.entries(parts)) {
      const part = document.querySelector(selector);
      if (part?.checkVisibility({ visibilityProperty: true })) window.shown.add(name);
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
"""


def test_what_a_link_hides_is_never_seen_not_even_while_the_page_opens(open_page: OpenPage) -> None:
    page = open_page()
    page.context.add_init_script(WATCH)
    for hidden, seen in (("", {"seed", "pages", "steps"}), ("hide=seed,pages", {"steps"})):
        page.goto(f"{page.url.split('?')[0]}?{hidden}")
        judged(page)
        page.wait_for_function("wanted => wanted.every((name) => window.shown.has(name))", arg=sorted(seen))
        assert set(page.evaluate("() => [...window.shown]")) == seen
