"""Files that a reader takes home, in a real browser."""

import json
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
from playwright.sync_api import Download, Page

from attention import AttentionConfig, script
from attention.multi_head import attend_as_configured
from dashboard.take_home import LABEL
from tests.browser.conftest import OpenPage, judged

SCENE = AttentionConfig(embed_dim=12, num_heads=3, num_tokens=5, seed=7)
QUERY = "embed_dim=12&num_heads=3&num_tokens=5&seed=7"


def download(page: Page, name: str) -> Download:
    with page.expect_download() as found:
        page.get_by_role("button", name=re.compile(f"{name}")).click()
    return found.value


def path(found: Download) -> Path:
    return Path(found.path())


def test_tensors_script_and_report(open_page: OpenPage) -> None:
    page = open_page(QUERY, accept_downloads=True)
    page.get_by_text(LABEL).click()
    found = download(page, "NPZ$")
    assert found.suggested_filename == "attention-3x5-of-12-causal-seed7-float32-weights.npz"
    weights = attend_as_configured(SCENE).weights
    with np.load(path(found)) as file:
        assert np.array_equal(file["weights"], weights.numpy())
    assert len(path(download(page, "CSV")).read_text().splitlines()) == 1 + weights.numel()
    page.get_by_text("Script", exact=True).click()
    assert path(download(page, "Script$")).read_text(encoding="utf-8") == script.text(SCENE, 0, 4)


def test_the_link_in_the_report_is_that_of_the_moved_slider(open_page: OpenPage) -> None:
    page = open_page(QUERY, accept_downloads=True)
    page.get_by_text(LABEL).click()
    page.get_by_text("Report", exact=True).click()
    page.get_by_role("button", name="JSON").wait_for()
    page.locator('input[type=range][aria-label="Seed"]').press("ArrowRight")
    page.wait_for_url("**seed=8**")
    judged(page)
    page.locator('.heads[data-scene*="seed8"]').wait_for()
    page.wait_for_function("() => !document.querySelector('[data-stale=\"true\"]')")
    report = json.loads(path(download(page, "JSON")).read_text(encoding="utf-8"))
    assert report["scene"]["seed"] == 8
    link = urlsplit(report["link"])
    assert parse_qs(link.query)["seed"] == ["8"]
    assert f"{link.scheme}://{link.netloc}/" == f"{page.url.split('?')[0]}"
