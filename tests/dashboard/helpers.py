"""A reader without a browser, the picture's numbers as the browser would read them, and the server's answers.

AppTest is not thread-safe (X06): these tests run one after another.
"""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from starlette.types import ASGIApp, Message
from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from streamlit.testing.v1 import AppTest
from torch import Tensor

from attention.config import AttentionConfig
from dashboard import cached

ROOT: Final = Path(__file__).parents[2]
SMALL: Final = AttentionConfig(embed_dim=12, num_heads=3, num_tokens=5)
# every size another one, masked and not, and in half precision
SCENES: Final = (
    SMALL,
    AttentionConfig(embed_dim=14, num_heads=2, num_tokens=5, causal=False, dtype="float16", seed=3),
    AttentionConfig(embed_dim=20, num_heads=10, num_tokens=11, seed=4),
    AttentionConfig(embed_dim=28, num_heads=4, num_tokens=3, causal=False, seed=2**32 - 1),
)
PICTURE: Final = "heads_picture"
SHOW: Final = "show_hidden"  # the button under a verdict whose scene hides mistakes

# widgets that one fragment draws, or leaves out: who drew the first has the others too, or they are gone
_TOGETHER: Final = {"_at_step": {"_at_head", "_guess"}, "quiz": {"mistake", "second", "norm", "activation"}}

# the kinds of widget that the pages use
_KINDS: Final = ("select_slider", "slider", "number_input", "toggle", "selectbox", "segmented_control", "pills")


def link(config: AttentionConfig) -> dict[str, str]:
    """The parameters of a link to a scene."""
    return {
        "embed_dim": str(config.embed_dim),
        "num_heads": str(config.num_heads),
        "num_tokens": str(config.num_tokens),
        "seed": str(config.seed),
        "causal": str(config.causal).lower(),
        "dtype": config.dtype,
        **({"weights": config.weights} if config.trained else {}),
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
    What the whole script did not draw again is gone, as in the page.

    `pictures` are the messages of all pictures, by the key of each; `html` the bodies of all HTML by their class;
    `charts` the figures by key, `chart_words` what is said of them; `grids` the messages of sweeps; `said` the Markdown
    of the last run, `captions` its captions and `warnings` its warnings.

    Nothing here raises for what went wrong in the app: see `faults`.
    """

    def __init__(self, page: str = "", /, **parameters: str | list[str]) -> None:
        self.app = AppTest.from_file(ROOT / "dashboard" / "main.py", default_timeout=60)
        self.app.query_params.update(parameters)
        if page:
            self.app.switch_page(_path(page))
        self.widgets: dict[str, Any] = {}
        self.buttons: dict[str, Any] = {}
        self.keyed: dict[str, Any] = {}
        self.captions: list[str] = []
        self.pictures: dict[str, bytes] = {}
        self.identities: dict[str, str] = {}
        self.clicked: dict[str, dict[str, object]] = {}
        self.html: dict[str, list[str]] = {}
        self.charts: dict[str, dict[str, Any]] = {}
        self.chart_words: dict[str, str] = {}
        self.grids: dict[str, dict[str, Any]] = {}
        self.said: list[str] = []
        self.warnings: list[str] = []
        self.expanders: dict[str, str] = {}
        self.opened: set[str] = set()
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
        return self._send()

    def open(self, page: str) -> "Reader":
        """Go to a page, by its name, or its file beside `main.py`."""
        self.app.switch_page(_path(page))
        self.clicked = {}
        return self.rerun()

    def forget_link(self) -> "Reader":
        """Lose the parameters of the address, as a browser does on the way to another page."""
        self.app.query_params.clear()
        return self

    def press(self, label: str) -> "Reader":
        """Press a button of the page."""
        return self._send(WidgetState(id=self.buttons[label].id, trigger_value=True))

    def press_key(self, key: str) -> "Reader":
        """Press the button of a key, where several have the same label."""
        return self._send(WidgetState(id=self.keyed[key].id, trigger_value=True))

    def set(self, key: str, value: object) -> "Reader":
        """Move a control."""
        self.widgets[key].set_value(value)
        return self.rerun()

    def click(self, picture: str = PICTURE, /, **state: object) -> "Reader":
        """What a picture reports of a click: `pin` ("head-query-key", or "none") or `enlarged` (a head, or "all")."""
        self.clicked[picture] = self.clicked.get(picture, {}) | state
        return self.rerun()

    def open_code(self) -> "Reader":
        """Open the code below the page."""
        return self.expand("The code that ran")

    def expand(self, label: str) -> "Reader":
        """Open an expander."""
        self.opened.add(label)
        return self.rerun()

    def value(self, key: str) -> Any:
        """What a control is set to."""
        return self.app.session_state[key]

    def parameter(self, name: str) -> str:
        """What a parameter of the address says; where it says several things, the last."""
        found = self.app.query_params[name]
        return found if isinstance(found, str) else found[-1]

    @property
    def scene(self) -> Scene:
        """The picture on the page; the last of them, where there are several."""
        return decode(self.message)

    def picture(self, key: str) -> Scene:
        """The picture of a key."""
        return decode(self.pictures[key])

    def table_of(self, kind: str, place: int = 0) -> list[list[str]]:
        """The body rows of a table: of the first that a panel of this kind shows, or of another."""
        return list(tables("".join(self.html[kind])).values())[place]

    def caption_of(self, kind: str, place: int = 0) -> str:
        """The caption of that table."""
        return list(tables("".join(self.html[kind])))[place]

    def _send(self, *more: WidgetState) -> "Reader":
        states = [widget._widget_state for widget in self.widgets.values()]
        for picture, identity in self.identities.items():
            states.append(WidgetState(id=identity, json_value=json.dumps(self.clicked.get(picture, {}))))
        for label, identity in self.expanders.items():
            states.append(WidgetState(id=identity, bool_value=label in self.opened))
        self.app._run(WidgetStates(widgets=[*states, *more]))
        return self._look()

    def _look(self) -> "Reader":
        app = self.app
        self.faults = [element.value for element in (*app.exception, *app.error)]
        drawn = [widget for kind in _KINDS for widget in getattr(app, kind)]
        self.drew = {widget.key for widget in drawn}
        if "curve" in self.drew:  # only the whole script draws it
            self.widgets, self.pictures, self.identities, self.html, self.charts = {}, {}, {}, {}, {}
            self.buttons, self.keyed, self.chart_words, self.grids = {}, {}, {}, {}
        for first, others in _TOGETHER.items():
            if first in self.drew:
                self.widgets = {key: widget for key, widget in self.widgets.items() if key not in others}
        self.widgets |= {widget.key: widget for widget in drawn}
        # a fragment may have left one out: its page has forgotten it
        self.widgets = {key: widget for key, widget in self.widgets.items() if key in app.session_state}
        for picture in app.get("bidi_component"):
            key = picture.proto.id.split("-", 2)[2]
            if picture.proto.component_name == "attention_chart":
                chart = json.loads(picture.proto.bytes)
                self.charts[key], self.chart_words[key] = chart["figure"], chart["summary"]
                continue
            if picture.proto.component_name == "attention_sweep":
                self.grids[key], self.identities[key] = json.loads(picture.proto.bytes), picture.proto.id
                continue
            self.message, self.identity = picture.proto.bytes, picture.proto.id
            self.pictures[key], self.identities[key] = self.message, self.identity
            self.drew.add(PICTURE)
        bodies: dict[str, list[str]] = {}
        for html in app.get("html"):
            bodies.setdefault(_kind(html.proto.body), []).append(html.proto.body)
        self.html |= bodies
        self.said = _markdown(app)
        self.warnings = [element.value for element in app.warning]
        for expander in app.expander:
            self.expanders[expander.label] = expander.proto.id
        for html in app.get("html"):
            if 'class="tables steps"' in html.proto.body:
                self.table = html.proto.body
                self.differences = [text for text in _markdown(app) if not _is_headline(text)]
                self.drew.add("table")
                self.buttons = {label: button for label, button in self.buttons.items() if button.key != SHOW}
        self.buttons |= {button.label: button for button in app.button}
        self.keyed |= {button.key: button for button in app.button if button.key}
        for text in filter(_is_headline, _markdown(app)):
            self.verdict = text
        self.captions = captions = [caption.value for caption in app.caption]
        only_one_count = any(caption.startswith("Heads: 1") for caption in captions)
        if only_one_count:
            self.drew.add("num_heads")
            self.widgets.pop("num_heads", None)
        # the fragment of the heads was drawn again, or all of the page, with or without a word
        if self.drew & {"num_heads", "curve"}:
            self.notices = [caption for caption in captions if caption.startswith(":material/info:")]
        return self


def open_scene(config: AttentionConfig, **more: str | list[str]) -> Reader:
    """A reader who opened a link to a scene."""
    return Reader(**{**link(config), **more})


def assert_shows(scene: Scene, tiles: Sequence[Tensor], allowed: Tensor | None = None) -> None:
    """The picture is of these numbers, to the last bit of float32, under this mask; its range is their true range.

    Nothing is sent for forbidden cells if all of them are nothing: 0, or minus infinity.
    """
    numbers = torch.stack([tile.detach().float() for tile in tiles])
    mask = torch.ones(numbers.shape[1:], dtype=torch.bool) if allowed is None else allowed
    header = scene.header
    assert (header["heads"], header["queries"], header["keys"]) == tuple(numbers.shape)
    assert scene.mask.tolist() == mask.tolist()
    left_out = numbers[:, ~mask]
    nothing = bool(((left_out == 0) | left_out.isneginf()).all())
    sent = numbers[:, mask] if nothing else numbers
    assert header["sent"] == sent.numel()
    expected = torch.where(mask, numbers, 0.0) if nothing else numbers
    assert np.array_equal(scene.weights, expected.numpy(), equal_nan=True)
    finite = sent[sent.isfinite()]
    if header["kind"] == "difference":
        over = finite[finite > 0]
        assert bool(len(over)) == (header["low"] < header["high"])
        assert not len(over) or header["high"] / 10 <= over.max() <= header["high"]
        assert not len(over) or over.min() < 10 * header["low"] or header["high"] / header["low"] > 9e15
    elif header["kind"] == "signed":
        assert (header["low"], header["high"]) == (finite.min().item(), finite.max().item())
    else:
        assert (header["low"], header["high"]) == (0, max([1, *finite.tolist()]))
    assert header["nans"] == int(sent.isnan().sum())


def empty_caches() -> None:
    """Forget all that was computed for earlier tests."""
    for function in (cached.picture, cached.verdict, cached.facts):
        function.clear()


def number(text: str) -> float:
    """The number that a cell of a table says, good or bad."""
    return float(text.removeprefix("✓ ").removeprefix("✗ ").replace("−", "-").replace("∞", "inf").replace(",", ""))


def _markdown(app: AppTest) -> list[str]:
    return [element.value for element in app.markdown]


def _is_headline(text: str) -> bool:
    return re.match(r":\w+-badge\[:material/(check_circle|cancel|error|hourglass):", text) is not None


def _path(page: str) -> str:
    return page if "/" in page else f"app_pages/{page}.py"


def _kind(body: str) -> str:
    """The class of the first `div`: "tables steps" gives "steps"."""
    found = re.search(r'<div class="(?:tables )?([a-z]+)"', body)
    return found[1] if found else ""


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


def get(app: ASGIApp, path: str, headers: Mapping[str, str] | None = None, query: str = "") -> Answer:
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
        "query_string": query.encode(),
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
