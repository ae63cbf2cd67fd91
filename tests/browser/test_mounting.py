"""A component that is taken away and drawn again into the same place, as when a fragment becomes another."""

import base64
import json
from typing import Any, Final

import numpy as np
import pytest

from dashboard import chart, heatmap
from dashboard.heatmap import Look, Says
from tests.browser.conftest import OpenPage

DRAW_TWICE: Final = """
async ([drawing, message, markup]) => {
  const loader = performance.getEntriesByType("resource").find(({ name }) => name.endsWith("/load.js"));
  const { load } = await import(loader.name);
  const parent = document.body.appendChild(document.createElement("div"));
  parent.id = "mounted";
  parent.style = "position: fixed; inset: 0; z-index: 1000000; background: white; width: 800px";
  parent.innerHTML = markup;
  const data = () => Uint8Array.from(atob(message), (sign) => sign.charCodeAt(0));
  const draw = await load(drawing);
  const asked = [];
  const once = () => draw({ data: data(), parentElement: parent, setStateValue: (...what) => asked.push(what) });
  const counted = () => parent.querySelectorAll("button, canvas, svg").length;
  once();
  const first = counted();
  const stop = once();
  stop();
  once();
  window.asked = asked;
  return [first, counted()];
}
"""
PICTURE: Final = heatmap.payload(
    heatmap.picture(np.full((2, 3, 3), 0.25, dtype=np.float32), None, "small"),
    Look(),
    "words",
    says=Says(pinned="pinned"),
)
FIGURE: Final[dict[str, Any]] = {"data": [{"type": "scatter", "x": [0, 1], "y": [1, 2]}], "layout": {"height": 200}}
CHART: Final = json.dumps({"figure": FIGURE, "summary": "words", "file": "small"}).encode()


@pytest.mark.parametrize(
    ("drawing", "message", "markup"), [("heatmap", PICTURE, heatmap._HTML), ("chart", CHART, chart._HTML)]
)
def test_nothing_is_there_twice(open_page: OpenPage, drawing: str, message: bytes, markup: str) -> None:
    page = open_page("embed_dim=12&num_heads=3&num_tokens=3", "head_counts")
    first, again = page.evaluate(DRAW_TWICE, [drawing, base64.b64encode(message).decode(), markup])
    assert first > 5
    assert again == first
    if drawing == "heatmap":
        page.locator("#mounted .stage").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        assert [value.split("#")[0] for _, value in page.evaluate("asked")] == ["0-0-1"], "one key, one step, one click"
