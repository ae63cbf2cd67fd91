"""A reader without a browser, the picture's numbers as the browser would read them, and the server's answers.

AppTest is not thread-safe (X06): these tests run one after another.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from starlette.types import ASGIApp, Message
from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from streamlit.testing.v1 import AppTest

from attention.config import AttentionConfig

ROOT: Final = Path(__file__).parents[2]
SMALL: Final = AttentionConfig(embed_dim=12, num_heads=3, num_tokens=5)
PICTURE: Final = "heads_picture"

# the kinds of widget that the pages use
_KINDS: Final = ("select_slider", "slider", "number_input", "toggle", "selectbox", "segmented_control")


def link(config: AttentionConfig) -> dict[str, str]:
    """The parameters of a link to a scene."""
    return {
        "embed_dim": str(config.embed_dim),
        "num_heads": str(config.num_heads),
        "num_tokens": str(config.num_tokens),
        "seed": str(config.seed),
        "causal": str(config.causal).lower(),
        "dtype": config.dtype,
    }


@dataclass(frozen=True)
class Scene:
    """A picture's message, read as `scene.js` reads it, but into arrays.

    `weights` is (H, T, S), with zeros where nothing was sent. `numbers` is all that follows the header.
    """

    header: dict[str, Any]
    mask: NDArray[np.bool_]
    weights: NDArray[np.float32]
    packed: bool
    numbers: bytes


def decode(message: bytes) -> Scene:
    """Read a message; its layout is checked on the way."""
    length = int.from_bytes(message[:4], "little")
    header = json.loads(message[4 : 4 + length])
    heads, queries, keys = header["heads"], header["queries"], header["keys"]
    numbers = message[4 + length :]
    mask_bytes = (-(-queries * keys // 8) + 3) & ~3
    # a Float32Array must begin at a multiple of four, or the browser throws
    assert length % 4 == 0
    assert (4 + length + mask_bytes) % 4 == 0
    assert len(numbers) == mask_bytes + 4 * header["sent"], "nothing is missing and nothing is left over"
    bits = np.frombuffer(numbers[:mask_bytes], dtype=np.uint8)
    mask = np.unpackbits(bits, count=queries * keys).astype(bool).reshape(queries, keys)
    values = np.frombuffer(numbers[mask_bytes:], dtype="<f4")
    packed = header["sent"] == heads * np.count_nonzero(mask)
    weights = np.zeros((heads, queries, keys), dtype=np.float32)
    if packed:
        weights[:, mask] = values.reshape(heads, -1)
    else:
        weights[:] = values.reshape(weights.shape)
    return Scene(header, mask, weights, packed, numbers)


class Reader:
    """Someone at the page, without a browser.

    It remembers what the page remembers. After a change most reruns draw a few fragments only, and AppTest
    then knows nothing but these: the widgets, the picture and the verdict here are the newest of each, as in
    the page. With each change it sends the state of every widget, as the page does; AppTest's own `run()` sends
    those of the last tree, and Streamlit then takes the others from the link, which nobody keeps up to date here.

    Nothing here raises for what went wrong in the app: see `faults`.
    """

    def __init__(self, **parameters: str | list[str]) -> None:
        self.app = AppTest.from_file(ROOT / "dashboard" / "main.py", default_timeout=60)
        self.app.query_params.update(parameters)
        self.widgets: dict[str, Any] = {}
        self.clicked: dict[str, object] = {}
        self.code_is_open = False
        self.code_id = ""
        self.message = b""
        self.identity = ""
        self.verdict = ""
        self.table = ""
        self.differences: list[str] = []
        self.notices: list[str] = []
        self.faults: list[str] = []
        self.drew: set[str] = set()
        self.app.run()
        self._look()

    def rerun(self) -> "Reader":
        """Send the state of every widget: the whole script runs, or what the callback of a change asks for."""
        states = [widget._widget_state for widget in self.widgets.values()]
        states.append(WidgetState(id=self.identity, json_value=json.dumps(self.clicked)))
        states.append(WidgetState(id=self.code_id, bool_value=self.code_is_open))
        self.app._run(WidgetStates(widgets=states))
        return self._look()

    def open(self, page: str) -> "Reader":
        """Go to a page, by its file beside `main.py`."""
        self.app.switch_page(page)
        return self.rerun()

    def set(self, key: str, value: object) -> "Reader":
        """Move a control."""
        self.widgets[key].set_value(value)
        return self.rerun()

    def click(self, **state: object) -> "Reader":
        """What the picture reports of a click: `pin` ("head-query-key", or "none") or `enlarged` (a head, or "all")."""
        self.clicked |= state
        return self.rerun()

    def open_code(self) -> "Reader":
        """Open the code below the page."""
        self.code_is_open = True
        return self.rerun()

    def value(self, key: str) -> Any:
        """What a control is set to."""
        return self.app.session_state[key]

    @property
    def scene(self) -> Scene:
        """The picture on the page."""
        return decode(self.message)

    def _look(self) -> "Reader":
        app = self.app
        self.faults = [element.value for element in (*app.exception, *app.error)]
        drawn = [widget for kind in _KINDS for widget in getattr(app, kind)]
        self.widgets |= {widget.key: widget for widget in drawn}
        self.drew = {widget.key for widget in drawn}
        for picture in app.get("bidi_component"):
            self.message, self.identity = picture.proto.bytes, picture.proto.id
            self.drew.add(PICTURE)
        for expander in app.expander:
            self.code_id = expander.proto.id
        for html in app.get("html"):
            if 'class="tables steps"' in html.proto.body:
                self.table = html.proto.body
                self.differences = [text for text in _markdown(app) if not _is_headline(text)]
                self.drew.add("table")
        for text in filter(_is_headline, _markdown(app)):
            self.verdict = text
        captions = [caption.value for caption in app.caption]
        only_one_count = any(caption.startswith("Heads: 1") for caption in captions)
        if only_one_count:
            self.drew.add("num_heads")
            self.widgets.pop("num_heads", None)
        if "num_heads" in self.drew:  # the fragment of the heads was drawn again, with or without a word
            self.notices = [caption for caption in captions if caption.startswith(":material/info:")]
        return self


def open_scene(config: AttentionConfig, **more: str | list[str]) -> Reader:
    """A reader who opened a link to a scene."""
    return Reader(**{**link(config), **more})


def _markdown(app: AppTest) -> list[str]:
    return [element.value for element in app.markdown]


def _is_headline(text: str) -> bool:
    return "-badge[" in text


def cells(table: str) -> list[list[str]]:
    """The text of an HTML table's cells, row by row, head rows included."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", table, re.S)
    return [[unescape(text) for text in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)] for row in rows]


def tables(html: str) -> dict[str, list[list[str]]]:
    """The body rows of every table, by caption."""
    found = re.findall(r"<caption>(.*?)</caption>.*?<tbody>(.*?)</tbody>", html, re.S)
    return {unescape(caption): cells(body) for caption, body in found}


class Markup(HTMLParser):
    """What a browser would make of HTML: the tags, the names of their attributes, and the text between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep a tag."""
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        """Keep a text."""
        self.text.append(data)


@dataclass(frozen=True)
class Answer:
    """What the server answered."""

    status: int
    headers: dict[str, str]
    body: bytes


def get(app: ASGIApp, path: str, headers: Mapping[str, str] | None = None) -> Answer:
    """Ask an ASGI app, as its server would. Starlette's own client needs a package that is not installed.

    `path` is as the app gets it: percent signs are already decoded.
    """
    sent: list[Message] = []
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    async def answer() -> None:
        await app(scope, receive, send)

    asyncio.run(answer())
    start = sent[0]
    return Answer(
        status=start["status"],
        headers={name.decode(): value.decode() for name, value in start["headers"]},
        body=b"".join(message.get("body", b"") for message in sent[1:]),
    )
