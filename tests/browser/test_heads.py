"""The page of all heads in a real browser: what AppTest cannot see."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Page, expect
from plotly.colors import get_colorscale

from attention import AttentionConfig
from attention.multi_head import attend_as_configured
from tests.browser.conftest import OpenPage, judged
from tests.browser.serving import Server

SEED = 'input[type=range][aria-label="Seed"]'
DEFAULT = AttentionConfig()

# The middle of a cell, in pixels of the page, from the axes of the mounted plot.
CELL = """
([head, query, key]) => {
  const root = document.querySelector(".heads");
  const button = [...root.querySelectorAll(".titles button")].find((b) => b.textContent === `head ${head}`);
  const place = [...root.querySelectorAll(".titles button")].indexOf(button);
  const { xaxis, yaxis } = root.querySelector(".plot")._fullLayout;
  const tokens = Number(root.dataset.scene.match(/x(\\d+)-of/)[1]);
  const columns = xaxis.maxallowed, rows = yaxis.maxallowed;
  const gap = 12, title = 24;
  const tileX = 1 - gap / (xaxis._length / columns), unit = yaxis._length / rows, tileY = 1 - title / unit;
  const x = (place % columns) + ((key + 0.5) / tokens) * tileX;
  const y = Math.floor(place / columns) + 1 - tileY + ((query + 0.5) / tokens) * tileY;
  const stage = root.querySelector(".stage").getBoundingClientRect();
  const across = (x - xaxis.range[0]) / (xaxis.range[1] - xaxis.range[0]);
  const down = (y - yaxis.range[1]) / (yaxis.range[0] - yaxis.range[1]);
  return [stage.left + xaxis._offset + across * xaxis._length, stage.top + yaxis._offset + down * yaxis._length];
}
"""
# The painted colour at a point of the page.
PIXEL = """
([x, y]) => {
  const canvas = document.querySelector(".heads .pixels");
  const box = canvas.getBoundingClientRect();
  const ratio = canvas.width / box.width;
  return [...canvas.getContext("2d").getImageData((x - box.left) * ratio, (y - box.top) * ratio, 1, 1).data];
}
"""

# How far along the colour scale a weight lies.
CURVES: dict[str, Callable[[NDArray[np.float32]], NDArray[np.float32]]] = {
    "linear": lambda w: w,
    "sqrt": np.sqrt,
    "log": lambda w: np.clip(1 + np.log10(np.maximum(w, 1e-9)) / 4, 0, 1),
}


def weights(config: AttentionConfig) -> torch.Tensor:
    return attend_as_configured(config).weights[0]


def cell_at(page: Page, head: int, query: int, key: int) -> tuple[float, float]:
    x, y = page.evaluate(CELL, [head, query, key])
    return x, y


def hover(page: Page, head: int, query: int, key: int) -> str:
    page.mouse.move(*cell_at(page, head, query, key))
    return page.locator(".heads .tip").text_content() or ""


def shown_weight(text: str) -> float:
    return float(text.split(": ")[-1])


def pinned_weight(page: Page) -> float:
    readout = page.locator(".heads .readout").text_content() or ""
    assert readout.endswith(" (pinned, worked out below)")
    return shown_weight(readout.split(" (")[0])


def scene(page: Page) -> str:
    return page.locator(".heads").get_attribute("data-scene") or ""


def press_seed(page: Page, times: int = 1) -> None:
    page.locator(SEED).focus()
    for _ in range(times):
        page.keyboard.press("ArrowRight")


def wait_for_seed(page: Page, seed: int) -> None:
    page.locator(f'.heads[data-scene*="seed{seed}-"]').wait_for()
    judged(page)


def test_first_paint_is_a_finished_scene(open_page: OpenPage) -> None:
    page = open_page()
    expect(page.locator(".heads .titles button")).to_have_count(12)
    expect(page.locator(".st-key-verdict")).to_contain_text("All 10 steps equal PyTorch's")
    expect(page.locator(".heads .below h2")).to_contain_text("Head 0: query 9 → key 4")
    expect(page.locator(".tables.steps tbody tr")).to_have_count(10)
    assert page.locator(".heads .colorbar").count() + page.locator(".heads .cbaxis").count() > 0  # P16: there is one
    assert page.locator(".heads .cbaxis").count() == 1
    assert page.get_by_text("query (attends)").count() == 1  # S18
    assert page.get_by_text("key (attended to)").count() == 1


@pytest.mark.parametrize("curve", CURVES)
def test_the_colours_are_those_of_the_numbers(open_page: OpenPage, curve: str) -> None:
    """Read the painted pixels and compare them with the library's weights (P09, P13: rows from the top, 0 to 1)."""
    config = AttentionConfig(embed_dim=24, num_heads=3, num_tokens=20, seed=7)
    page = open_page(f"embed_dim=24&num_heads=3&num_tokens=20&seed=7&curve={curve}&pin=none")
    expected = weights(config).numpy()
    place = CURVES[curve](expected)
    stops = get_colorscale("Viridis")
    positions = [position for position, _ in stops]
    channels = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for _, colour in stops])
    for head, query, key in [(0, 0, 0), (0, 19, 3), (1, 7, 7), (1, 12, 2), (2, 19, 19), (2, 3, 1), (0, 10, 9)]:
        painted = page.evaluate(PIXEL, list(cell_at(page, head, query, key)))
        colour = [np.interp(place[head, query, key], positions, channels[:, i]) for i in range(3)]
        np.testing.assert_allclose(painted[:3], colour, atol=3)
    masked = page.evaluate(PIXEL, list(cell_at(page, 1, 2, 15)))
    assert max(masked[:3]) - min(masked[:3]) < 16, f"a masked cell must be grey, not a colour of the scale: {masked}"


def test_hovering_tells_the_exact_number_and_marks_every_head(open_page: OpenPage) -> None:
    page = open_page()
    text = hover(page, 5, 11, 2)
    assert text.startswith("head 5 · query 11 → key 2: ")
    assert np.float32(shown_weight(text)) == weights(DEFAULT)[5, 11, 2].numpy()
    expect(page.locator(".heads .marks")).to_have_attribute("data-marked", "12")
    marks = "([x, y]) => " + PIXEL.split("=>", 1)[1].replace(".pixels", ".marks")
    for head in range(12):
        x, y = cell_at(page, head, 11, 2)
        around = [page.evaluate(marks, [x + dx, y])[3] for dx in (-8, -7, -6, 6, 7, 8)]
        assert any(around), f"head {head} shows no mark"
    assert hover(page, 5, 2, 11).endswith("masked, may not attend")


def test_a_slider_move_changes_the_picture_in_place(open_page: OpenPage) -> None:
    page = open_page()
    page.evaluate("() => { document.querySelector('.heads .plot').tagged = true; }")
    left, top = cell_at(page, 0, 2, 0)
    right, bottom = cell_at(page, 0, 9, 7)
    page.mouse.move(left, top)
    page.mouse.down()
    page.mouse.move(right, bottom, steps=4)
    page.mouse.up()
    ranges = (
        "() => { const l = document.querySelector('.heads .plot')._fullLayout; return [l.xaxis.range, l.yaxis.range]; }"
    )
    zoomed = page.evaluate(ranges)
    assert zoomed[0][1] < 1, "the drag did not zoom"
    press_seed(page)
    wait_for_seed(page, 43)
    page.locator('input[type=range][aria-label="Tokens"]').focus()
    page.keyboard.press("ArrowRight")
    page.locator('.heads[data-scene^="12x17-"]').wait_for()
    assert page.evaluate("() => document.querySelector('.heads .plot').tagged"), "the plot was mounted anew"
    assert page.evaluate(ranges) == zoomed, "the zoom was lost"
    page.locator('.heads [data-title="Whole picture"]').click()
    assert page.evaluate(ranges) == [[0, 4], [3, 0]]
    text = hover(page, 3, 16, 16)
    config = AttentionConfig(seed=43, num_tokens=17)
    assert np.float32(shown_weight(text)) == weights(config)[3, 16, 16].numpy()


def test_clicking_pins_and_the_link_restores_everything(open_page: OpenPage) -> None:
    page = open_page(
        "embed_dim=96&num_heads=8&num_tokens=11&seed=5&causal=false&dtype=float64&curve=log&scale=per-head"
    )
    page.mouse.click(*cell_at(page, 6, 3, 8))  # U11
    expect(page.locator(".heads .below h2")).to_contain_text("Head 6: query 3 → key 8")
    expect(page.locator(".st-key-verdict")).to_contain_text("All 10 steps equal")
    page.get_by_role("button", name="Enlarge head 6").click()
    expect(page.locator(".heads .titles button")).to_have_count(1)
    page.wait_for_url("**head=6**")
    rtol = page.get_by_label("rtol", exact=True)
    rtol.fill("0.001")
    rtol.press("Enter")
    page.wait_for_url("**rtol=**")

    again = open_page(page.url.split("?")[1])
    assert scene(again) == scene(page) == "8x11-of-96-full-seed5-float64"
    expect(again.locator(".heads .below h2")).to_contain_text("Head 6: query 3 → key 8")
    expect(again.locator(".heads .titles button")).to_have_text(["head 6"])
    assert again.locator(".heads .below").inner_text() == page.locator(".heads .below").inner_text()
    assert again.locator(".tables.steps").inner_text() == page.locator(".tables.steps").inner_text()
    expect(again.get_by_label("rtol", exact=True)).to_have_value(rtol.input_value())
    again.get_by_role("button", name="all 8 heads").first.click()
    expect(again.locator(".heads .titles button")).to_have_count(8)
    again.wait_for_url(lambda url: "head=6" not in url)


def test_the_verdict_follows_the_tolerance_at_once(open_page: OpenPage) -> None:
    page = open_page()
    for name in ("rtol", "atol"):
        page.get_by_label(name, exact=True).fill("0")
        page.get_by_label(name, exact=True).press("Enter")
    expect(page.locator(".st-key-verdict")).to_contain_text("The maths is equal")
    expect(page.locator(".st-key-verdict")).to_contain_text("the first step over the tolerance")
    expect(page.locator(".tables.steps .bad").first).to_be_visible()


def test_heads_move_with_the_embed_dim_and_say_so(open_page: OpenPage) -> None:
    """U03."""
    page = open_page("embed_dim=32&num_heads=32")
    page.locator('input[type=range][aria-label="Embed dim"]').focus()
    page.keyboard.press("ArrowLeft")  # 28
    expect(page.get_by_text("32 heads do not divide 28; moved to 28")).to_be_visible()
    page.locator('.heads[data-scene^="28x16-of-28-"]').wait_for()
    judged(page)
    page.locator('input[type=range][aria-label="Heads"]').focus()
    page.keyboard.press("ArrowLeft")
    page.locator('.heads[data-scene^="14x16-of-28-"]').wait_for()
    expect(page.get_by_text("do not divide")).to_have_count(0)


@pytest.mark.parametrize(
    "query",
    [
        "embed_dim=abc&num_heads=&num_tokens=16.5&seed=-1&causal=maybe&dtype=int8&curve=x&scale=9",  # U07
        "embed_dim=999999&num_tokens=1e9&seed=99999999999999999999&pin=1-2&head=-3&rtol=nan&atol=inf",
        "embed_dim=%3Cscript%3Ealert(1)%3C/script%3E&pin=%3Cimg%20src=x%20onerror=alert(1)%3E&head=9999",  # Z03
        "embed_dim=20&num_heads=12",
    ],
)
def test_nonsense_in_the_link_falls_back(open_page: OpenPage, query: str) -> None:
    page = open_page(query)
    expect(page.locator(".st-key-verdict")).to_contain_text("All 10 steps equal PyTorch's")
    assert page.get_by_text("Traceback").count() == 0
    assert page.get_by_text("encountered an error").count() == 0
    notices = page.locator('[data-testid="stSidebar"] [data-testid="stCaptionContainer"]')
    expect(notices).to_have_count(1)


def test_one_drag_of_a_slider_is_one_new_picture(open_page: OpenPage) -> None:
    """U15."""
    page = open_page()
    page.evaluate(
        """() => {
          window.scenes = [];
          const root = document.querySelector(".heads");
          const note = () => window.scenes.push(root.dataset.scene);
          new MutationObserver(note).observe(root, { attributeFilter: ["data-scene"] });
        }"""
    )
    box = page.locator(SEED).locator("xpath=../../..").bounding_box()
    assert box
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.42 * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.8 * box["width"], middle, steps=12)
    page.mouse.up()
    page.locator('.heads:not([data-scene*="seed42-"])').wait_for()
    judged(page)
    assert len(set(page.evaluate("() => window.scenes"))) == 1


def test_a_held_key_ends_at_the_last_scene(open_page: OpenPage) -> None:
    """U16: quick changes while a run is busy; what is shown at the end belongs together."""
    page = open_page("num_tokens=64&pin=4-40-7")
    press_seed(page, times=10)
    wait_for_seed(page, 52)
    expect(page.get_by_label("Any seed")).to_have_value("52")
    expected = weights(AttentionConfig(num_tokens=64, seed=52))[4, 40, 7]
    assert np.float32(pinned_weight(page)) == expected.numpy()


def test_sessions_do_not_see_each_other(open_page: OpenPage) -> None:
    """X01: six sessions, all moved at once, each with its own numbers every time."""
    pages = [open_page(f"embed_dim=64&num_heads=4&num_tokens=8&seed={10 * i}&pin=1-5-2") for i in range(6)]
    for turn in range(1, 4):
        for page in pages:
            press_seed(page)
        for i, page in enumerate(pages):
            seed = 10 * i + turn
            wait_for_seed(page, seed)
            config = AttentionConfig(embed_dim=64, num_heads=4, num_tokens=8, seed=seed)
            assert np.float32(pinned_weight(page)) == weights(config)[1, 5, 2].numpy()


def test_the_keyboard_alone_reaches_and_pins_a_cell(open_page: OpenPage) -> None:
    page = open_page()
    page.locator(".heads .stage").focus()
    for key in ("ArrowDown", "ArrowRight", "PageDown"):
        page.keyboard.press(key)
    expect(page.locator(".heads .readout")).to_contain_text("head 1 · query 10 → key 5")
    page.keyboard.press("Enter")
    expect(page.locator(".heads .below h2")).to_contain_text("Head 1: query 10 → key 5")


def test_png_and_full_screen(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page(accept_downloads=True)
    stage = page.locator(".heads .stage").bounding_box()
    assert stage
    with page.expect_download() as download:
        page.locator('.heads [data-title="Download as PNG"]').click()
    assert download.value.suggested_filename == "attention-12x16-of-768-causal-seed42-float32.png"
    download.value.save_as(tmp_path / "picture.png")
    picture = Image.open(io.BytesIO((tmp_path / "picture.png").read_bytes()))
    assert picture.size == (2 * stage["width"], 2 * stage["height"])
    colours = picture.convert("RGB").getcolors(maxcolors=1 << 24)
    assert colours is not None
    assert len(colours) > 100
    page.locator('.heads [data-title="Full screen"]').click()
    page.wait_for_function("() => document.fullscreenElement?.classList.contains('heads')")
    inside = page.locator(".heads .stage").bounding_box()
    assert inside
    assert inside["width"] > 1400
    assert inside["y"] + inside["height"] <= 900, "all heads fit on the screen"


def test_dark_theme(open_page: OpenPage) -> None:
    """P27: the colours of the numbers are the same in both themes; the rest follows the theme."""
    light, dark = open_page(), open_page(color_scheme="dark")
    at = "([x, y]) => " + PIXEL.split("=>", 1)[1]
    for cell in [(0, 9, 0), (7, 12, 4)]:
        assert light.evaluate(at, list(cell_at(light, *cell))) == dark.evaluate(at, list(cell_at(dark, *cell)))
    masked = [page.evaluate(at, list(cell_at(page, 2, 1, 13))) for page in (light, dark)]
    assert sum(masked[0][:3]) > 600 > 300 > sum(masked[1][:3])
    for page, background in ((light, "rgb(255, 255, 255)"), (dark, "rgb(17, 20, 27)")):
        line = page.locator("div:has(> .st-key-verdict)")
        assert line.evaluate("(node) => getComputedStyle(node).backgroundColor") == background, "it covers the picture"
    label = dark.locator(".heads .xtick text").first.evaluate("(node) => getComputedStyle(node).fill")
    assert min(map(int, re.findall(r"\d+", label)[:3])) > 180


def test_a_phone(open_page: OpenPage) -> None:
    page = open_page(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    assert page.evaluate("() => document.scrollingElement.scrollWidth") <= 390
    stage = page.locator(".heads .stage").bounding_box()
    assert stage
    assert stage["x"] >= 0
    assert stage["x"] + stage["width"] <= 390
    expect(page.locator(".heads .titles button:visible")).to_have_count(12)
    expect(page.locator(".st-key-verdict")).to_be_in_viewport()
    page.get_by_role("button", name="Enlarge head 7").tap()
    expect(page.locator(".heads .titles button")).to_have_text(["head 7"])
    page.mouse.wheel(0, 900)
    expect(page.locator(".st-key-verdict")).to_be_in_viewport()


@pytest.mark.parametrize(
    "query", ["num_tokens=1", "embed_dim=1", "embed_dim=8&num_heads=8", "embed_dim=1024&num_heads=32&num_tokens=256"]
)
def test_the_ends_of_the_sliders(open_page: OpenPage, query: str) -> None:
    """S15, U09, P24."""
    page = open_page(query)
    expect(page.locator(".st-key-verdict")).to_contain_text("All 10 steps equal PyTorch's")


def test_the_code_that_ran(open_page: OpenPage) -> None:
    page = open_page()
    page.get_by_text("The code that ran").click()
    expect(page.get_by_text("def scaled_dot_product(")).to_be_visible()


def test_the_log_stays_clean(open_page: OpenPage, server: Server) -> None:
    """U19."""
    open_page()
    log = server.log.read_text()
    assert "torch.classes" not in log
    assert "Traceback" not in log
