"""What a reader takes home, PNG, SVG and HTML of pictures and charts: against the page and the library's numbers."""

import base64
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, expect
from plotly.colors import get_colorscale

from attention import AttentionConfig
from attention.multi_head import attend_as_configured
from dashboard import heatmap
from tests.browser.conftest import OpenPage
from tests.dashboard.helpers import Scene, decode

# A point in a cell beside its number, in pixels of the stage, from the axes of the mounted plot.
POINT: Final = """
(root, [place, query, key]) => {
  const { xaxis, yaxis } = root.querySelector(".plot")._fullLayout;
  const tokens = Number(root.dataset.scene.match(/x(\\d+)-of/)[1]);
  const columns = xaxis.maxallowed, rows = yaxis.maxallowed;
  const gap = 12, title = 24, beside = 0.1;
  const tileX = 1 - gap / (xaxis._length / columns), unit = yaxis._length / rows, tileY = 1 - title / unit;
  const x = (place % columns) + ((key + beside) / tokens) * tileX;
  const y = Math.floor(place / columns) + 1 - tileY + ((query + beside) / tokens) * tileY;
  const across = (x - xaxis.range[0]) / (xaxis.range[1] - xaxis.range[0]);
  const down = (y - yaxis.range[1]) / (yaxis.range[0] - yaxis.range[1]);
  return [Math.round(xaxis._offset + across * xaxis._length), Math.round(yaxis._offset + down * yaxis._length)];
}
"""
PAINTED: Final = """
(root, [x, y]) => [...root.querySelector(".pixels").getContext("2d").getImageData(x, y, 1, 1).data.slice(0, 3)]
"""
# An SVG as any page would show it: as an image, which may load nothing.
RENDERED: Final = """
async (text) => {
  const image = new Image();
  image.src = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas.toDataURL();
}
"""
# The component beside the page's own, with a message that no page would send.
MOUNT: Final = """
async ([message, markup]) => {
  const loader = performance.getEntriesByType("resource").find(({ name }) => name.endsWith("/load.js"));
  const { load } = await import(loader.name);
  const parent = document.body.appendChild(document.createElement("div"));
  parent.id = "mounted";
  parent.style = "position: fixed; inset: 0; z-index: 1000000; background: white";
  parent.innerHTML = markup;
  const style = getComputedStyle(document.querySelector(".heads"));
  for (const name of ["--st-text-color", "--st-background-color", "--st-font"])
    parent.style.setProperty(name, style.getPropertyValue(name));
  const data = Uint8Array.from(atob(message), (sign) => sign.charCodeAt(0));
  (await load("heatmap"))({ data, parentElement: parent, setStateValue() {} });
}
"""
# Where the chart of entropies has the diamonds of its means, which are orange.
MEANS: Final = """
plot => {
  const { xaxis, yaxis } = plot._fullLayout;
  const { x, y } = plot.data[1];
  const pixel = (axis, value) => Math.round(axis._offset + axis.d2p(value));
  return x.map((place, i) => [pixel(xaxis, place), pixel(yaxis, y[i])]);
}
"""
ORANGE: Final = (0xD9, 0x75, 0x2B)
SIZE: Final = "node => [2 * node.clientHeight, 2 * node.clientWidth]"
SMALL: Final = AttentionConfig(embed_dim=24, num_heads=3, num_tokens=5, seed=7)
QUERY: Final = "embed_dim=24&num_heads=3&num_tokens=5&seed=7"
CELLS: Final = ((0, 0), (1, 0), (2, 1), (3, 3), (4, 2), (4, 4), (1, 3))
SVG: Final = "{http://www.w3.org/2000/svg}"

Colours = NDArray[np.uint8]
AtHome = Callable[[Path], Page]


@dataclass(frozen=True)
class Drawing:
    """An SVG: its pixels as a page shows it, the texts, the names of elements and the strokes of rectangles in it."""

    pixels: Colours
    texts: list[str]
    elements: list[str]
    strokes: list[str]


def saved(page: Page, button: Locator, folder: Path, press: bool = False) -> Path:
    """Press a button, by the keyboard if asked, and keep what it downloads."""
    with page.expect_download() as download:
        if press:
            button.focus()
            page.keyboard.press("Enter")
        else:
            button.click()
    file = folder / download.value.suggested_filename
    download.value.save_as(file)
    return file


def button(picture: Locator, kind: str) -> Locator:
    return picture.locator(f'[data-title="Download as {kind}"], button[title="Download as {kind}"]')


def pixels_of(png: bytes) -> Colours:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


def drawn(page: Page, file: Path) -> Drawing:
    """Read an SVG; it refers to nothing outside of itself."""
    text = file.read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    for element in root.iter():
        for name, value in element.attrib.items():
            if name.endswith("href"):
                assert value.startswith(("data:image/png;base64,", "#")), value[:80]
            assert not re.search(r"url\((?!['\"]?#)", value), value[:80]
    assert not re.search(r"""url\((?!["']?(#|&quot;#|data:))""", text)
    url: str = page.evaluate(RENDERED, text)
    return Drawing(
        pixels_of(base64.b64decode(url.partition(",")[2])),
        ["".join(element.itertext()) for element in root.iter(f"{SVG}text")],
        [element.tag.removeprefix(SVG) for element in root.iter()],
        [element.attrib["stroke"] for element in root.iter(f"{SVG}rect") if "stroke" in element.attrib],
    )


@pytest.fixture
def at_home(browser: Browser) -> Iterator[AtHome]:
    """Opens a file from disk where there is no network; it asks for nothing and complains of nothing."""
    context = browser.new_context(offline=True, viewport={"width": 1000, "height": 800}, accept_downloads=True)
    trouble: list[str] = []

    def open_(file: Path) -> Page:
        page = context.new_page()
        page.on("console", lambda message: trouble.extend([message.text] if message.type == "error" else []))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: trouble.append(dialog.message))
        page.on("request", lambda request: trouble.extend({request.url[:80]} - {file.as_uri()[:80]}))
        page.goto(file.as_uri())
        page.locator(".heads[data-scene], .chart[data-file]").wait_for()
        return page

    yield open_
    context.close()
    assert not trouble, trouble


def message_of(page: Page) -> bytes:
    return base64.b64decode(page.locator("#message").text_content() or "")


def colours_at(picture: Locator, place: int) -> tuple[list[tuple[int, int]], Colours]:
    """Points in some cells of a tile, and the page's colours there."""
    points = [tuple(picture.evaluate(POINT, [place, *cell])) for cell in CELLS]
    return points, np.array([picture.evaluate(PAINTED, list(point)) for point in points])


def near(found: Any, expected: Any, atol: int = 3) -> None:
    np.testing.assert_allclose(np.asarray(found, dtype=int), np.asarray(expected, dtype=int), atol=atol)


def hovered(page: Page, query: int, key: int) -> float:
    """The number that the tip tells of a cell of the first tile."""
    root = page.locator(".heads")
    left, top = root.evaluate(POINT, [0, query, key])
    box = page.locator(".stage").bounding_box()
    assert box
    page.mouse.move(box["x"] + left, box["y"] + top)
    text = page.locator(".heads .tip").text_content() or ""
    assert f" {query} " in text
    return float(text.split(": ")[-1].replace("−", "-"))


def colour_of(kind: str, numbers: NDArray[np.float32], header: dict[str, Any]) -> NDArray[np.float64]:
    """The colours of numbers, by Plotly's own scales."""
    x, low, high = numbers.astype(float), header["low"], header["high"]
    if kind == "weights":
        name, place = "Viridis", np.sqrt(x)
    elif kind == "signed":
        name, place = "RdBu_r", 0.5 + x / (2 * max(-low, high))
    else:
        name, place = "Cividis", 0.08 + 0.92 * np.log10(x / low) / np.log10(high / low)
    stops = [(position, heatmap._rgb(colour)) for position, colour in get_colorscale(name)]
    positions = [position for position, _ in stops]
    return np.stack([np.interp(place, positions, [rgb[i] for _, rgb in stops]) for i in range(3)], axis=-1)


def take_home(page: Page, picture: Locator, folder: Path, at_home: AtHome) -> Scene:
    """Download a picture three times: every file shows what the page shows. Gives what the HTML holds."""
    files = {kind: saved(page, button(picture, kind), folder) for kind in ("PNG", "SVG", "HTML")}
    name = picture.get_attribute("data-scene")
    assert {file.name for file in files.values()} == {f"attention-{name}.{kind.lower()}" for kind in files}
    home = at_home(files["HTML"])
    scene = decode(message_of(home))
    kind, own = scene.header["kind"], home.locator(".heads")
    png, svg = pixels_of(files["PNG"].read_bytes()), drawn(page, files["SVG"])
    assert png.shape[:2] == tuple(picture.locator(".stage").evaluate(SIZE))
    assert {"rect", "text", "linearGradient"} <= set(svg.elements)
    assert ("pattern" in svg.elements) == (not scene.mask.all())
    for place, title in enumerate(scene.header["titles"]):
        assert title in svg.texts
        points, painted = colours_at(picture, place)
        expected = colour_of(kind, np.array([scene.weights[place][cell] for cell in CELLS]), scene.header)
        for cell, (x, y), colour, exact, alone in zip(
            CELLS, points, painted, expected, colours_at(own, place)[1], strict=True
        ):
            everywhere = [colour, png[2 * y + 1, 2 * x + 1], svg.pixels[y, x], alone]
            if scene.mask[cell]:
                for found in everywhere:
                    near(found, exact, atol=4)
            else:
                assert all(int(max(found)) - int(min(found)) < 16 for found in everywhere), "hatched, in no colour"
    query, key = CELLS[2]
    assert np.float32(hovered(home, query, key)) == scene.weights[0, query, key]
    for text in (scene.header["rowsName"], scene.header["columnsName"]):
        assert text in svg.texts
        expect(own.get_by_text(text)).to_have_count(1)
    return scene


def test_the_weights(open_page: OpenPage, at_home: AtHome, tmp_path: Path) -> None:
    page = open_page(f"{QUERY}&pin=none")
    scene = take_home(page, page.locator(".heads"), tmp_path, at_home)
    expected = attend_as_configured(SMALL).weights[0].numpy()
    assert np.array_equal(scene.weights, expected)
    texts = drawn(page, next(tmp_path.glob("*.svg"))).texts
    assert {"1" if x == 1 else f"{x:.3f}" for x in expected[expected > 0]} <= set(texts)


def test_signed_numbers_and_differences(open_page: OpenPage, at_home: AtHome, tmp_path: Path) -> None:
    page = open_page(f"{QUERY}&mistake=No+scale&at=1-4-2", "break_it")
    signed = take_home(page, page.locator(".heads").nth(0), tmp_path, at_home)
    right = attend_as_configured(SMALL)
    assert np.array_equal(signed.weights[0], right.scores[0, 1].numpy()), "with the mistake they are not scaled"
    np.testing.assert_allclose(signed.weights[1], right.scaled[0, 1].numpy(), rtol=1e-5, atol=1e-6)
    apart = take_home(page, page.locator(".heads").nth(1), tmp_path, at_home)
    ours, pytorch = signed.weights.astype(np.float64)
    assert np.array_equal(apart.weights[0], np.abs(ours - pytorch).astype(np.float32))
    assert (signed.header["kind"], apart.header["kind"]) == ("signed", "difference")


def test_a_file_shows_the_zoom_the_enlarged_head_and_the_pin(
    open_page: OpenPage, at_home: AtHome, tmp_path: Path
) -> None:
    """And the keyboard reaches the buttons."""
    page = open_page(f"{QUERY}&head=2&pin=2-3-1")
    picture = page.locator(".heads")
    picture.locator(".plot").evaluate(
        "plot => Plotly.relayout(plot, { 'xaxis.range': [0, 0.6], 'yaxis.range': [0.9, 0.3] })"
    )
    png = pixels_of(saved(page, button(picture, "PNG"), tmp_path, press=True).read_bytes())
    svg = drawn(page, saved(page, button(picture, "SVG"), tmp_path, press=True))
    for cell in ((2, 0), (2, 1), (3, 2)):
        x, y = picture.evaluate(POINT, [0, *cell])
        painted = picture.evaluate(PAINTED, [x, y])
        near(png[2 * y + 1, 2 * x + 1], painted)
        near(svg.pixels[y, x], painted)
    weights = attend_as_configured(SMALL).weights[0, 2]
    assert "head 2" in svg.texts
    assert f"{weights[2, 1]:.4f}" in svg.texts
    assert f"{weights[4, 4]:.4f}" not in svg.texts, "what is outside of the zoom is not there"
    assert "#ffffff" in svg.strokes, "the frame of the pinned cell"
    home = at_home(saved(page, button(picture, "HTML"), tmp_path, press=True))
    expect(home.locator(".heads .titles button")).to_have_text(["head 2"])
    readout = home.locator(".heads .readout").text_content() or ""
    assert readout.startswith("head 2 · query 3 → key 1: ")
    assert np.float32(float(readout.split(": ")[1].split(" ")[0])) == weights[3, 1].numpy()
    # what was taken home can be taken further
    again = drawn(page, saved(home, button(home.locator(".heads"), "SVG"), tmp_path))
    assert f"{weights[4, 4]:.4f}" in again.texts
    expect(button(home.locator(".heads"), "HTML")).to_have_count(0)


def test_titles_come_out_as_they_are(open_page: OpenPage, at_home: AtHome, tmp_path: Path) -> None:
    """P28, Z03."""
    page = open_page(QUERY)
    titles = ["<b>$x$</b>", "$5 & '\"", "</script><img src=x onerror=alert(1)>"]
    tiles = attend_as_configured(SMALL).weights[0].numpy()
    message = heatmap.payload(
        heatmap.picture(tiles, None, "x5-of-nothing", titles=titles),
        heatmap.Look(),
        "</title><script>alert(1)</script>",
    )
    page.evaluate(MOUNT, [base64.b64encode(message).decode(), heatmap._HTML])
    picture = page.locator("#mounted .heads")
    expect(picture.locator(".titles button")).to_have_text(titles)
    svg = drawn(page, saved(page, button(picture, "SVG"), tmp_path))
    assert set(titles) <= set(svg.texts)
    home = at_home(saved(page, button(picture, "HTML"), tmp_path))
    expect(home.locator(".heads .titles button")).to_have_text(titles)
    expect(home.locator("h1")).to_have_text("</title><script>alert(1)</script>")
    assert np.array_equal(decode(message_of(home)).weights, tiles)


def test_a_chart(open_page: OpenPage, at_home: AtHome, tmp_path: Path) -> None:
    """One Plotly draws it and the pictures; every file holds it whole."""
    page = open_page(QUERY, "head_counts")
    chart = page.locator(".chart[data-file]")
    chart.wait_for()
    expect(chart.locator(".plot[role=img]")).to_have_attribute("aria-label", re.compile("Mean entropy .* 3 heads"))
    files = {kind: saved(page, button(chart, kind), tmp_path, press=True) for kind in ("PNG", "SVG", "HTML")}
    weights = attend_as_configured(SMALL).weights[0]
    entropies = torch.special.entr(weights.double()).sum(-1).mean(-1) / np.log(2)
    png, svg = pixels_of(files["PNG"].read_bytes()), drawn(page, files["SVG"])
    assert png.shape[:2] == tuple(chart.locator(".plot").evaluate(SIZE))
    for x, y in chart.locator(".plot").evaluate(MEANS):
        near(png[2 * y, 2 * x], ORANGE)
        near(svg.pixels[y, x], ORANGE)
    assert {"one head", "mean", "even shares", "bits", "heads"} <= set(svg.texts)
    home = at_home(files["HTML"])
    figure = home.locator(".plot").evaluate("plot => plot.data.map(({ x, y }) => [x, y])")
    assert [y for x, y in zip(*figure[0], strict=True) if x == 2] == pytest.approx(entropies.tolist(), rel=1e-6)
    dots = home.locator(".chart .scatterlayer .point").count()
    assert dots == len(figure[0][0]) + len(figure[1][0])
    loaded = page.evaluate("() => performance.getEntriesByType('resource').map(({ name }) => name)")
    assert [url for url in loaded if "plotly" in url.lower() and "/lab/" not in url] == [], "one Plotly is enough"


def test_the_bar_on_a_phone(open_page: OpenPage) -> None:
    page = open_page(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    bar, readout = (page.locator(f".heads {part}").bounding_box() for part in (".modebar", ".readout"))
    assert bar
    assert readout
    assert bar["x"] >= 0
    assert bar["x"] + bar["width"] <= 390
    assert bar["y"] >= readout["y"] + readout["height"]
