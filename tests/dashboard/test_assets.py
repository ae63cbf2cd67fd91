"""What the browser loads: every file that the picture asks for, from this server, and nothing else of the disk."""

import gzip
import re
from pathlib import Path
from typing import Final

import plotly
import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from dashboard import assets, chart, heatmap
from tests.dashboard.helpers import ROOT, Answer, get

STATIC: Final = ROOT / "dashboard" / "heatmap" / "static"
PLOTLY: Final = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
FILES: Final = {file.name: file for file in (*sorted(STATIC.iterdir()), PLOTLY)}
TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
APP: Final = Starlette(routes=[assets.route()])


def ask(name: str, release: str | None = None, **headers: str) -> Answer:
    path = f"/lab/{assets.release() if release is None else release}/{name}"
    return get(APP, path, {key.replace("_", "-"): value for key, value in headers.items()})


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_served_as_it_is(name: str) -> None:
    plain = ask(name)
    assert plain.status == 200
    assert plain.body == FILES[name].read_bytes()
    assert "content-encoding" not in plain.headers
    assert plain.headers["content-type"].split(";")[0] == TYPES[Path(name).suffix]
    packed = ask(name, accept_encoding="gzip, deflate, br")
    assert packed.status == 200
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert int(packed.headers["content-length"]) == len(packed.body)
    # a cache on the way must not give the packed one to who cannot read it
    assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"


def test_plotly_is_the_installed_packages() -> None:
    answer = ask("plotly.min.js", accept_encoding="gzip")
    assert gzip.decompress(answer.body) == PLOTLY.read_bytes()
    assert len(answer.body) < len(PLOTLY.read_bytes()) / 2


def test_this_release_may_be_kept_for_good() -> None:
    headers = ask("heatmap.js").headers
    assert "immutable" in headers["cache-control"]
    assert "max-age=31536000" in headers["cache-control"]
    assert headers["etag"] == f'"{assets.release()}"'


@pytest.mark.parametrize("release", ["0" * 12, "old", "latest", " "])
def test_another_release_may_not_be_kept(release: str) -> None:
    # a page that was open during an update still gets the files; nobody keeps them under the wrong name
    answer = ask("heatmap.js", release)
    assert answer.status == 200
    assert answer.headers["cache-control"] == "no-cache"


def test_an_unchanged_file_is_not_sent_again() -> None:
    tag = ask("heatmap.js").headers["etag"]
    for encoding in ("gzip", "identity"):
        answer = ask("heatmap.js", if_none_match=tag, accept_encoding=encoding)
        assert answer.status == 304
        assert answer.body == b""
        assert answer.headers["etag"] == tag
        assert "immutable" in answer.headers["cache-control"]
    assert ask("heatmap.js", if_none_match='"another"').status == 200
    assert ask("nothing.js", if_none_match=tag).status == 404, "no file, changed or not"


@pytest.mark.parametrize(
    "name",
    [
        "nothing.js",
        "",
        ".",
        "..",
        "...js",
        "__init__.py",
        "assets.py",
        "PLOTLY.MIN.JS",
        "heatmap.js ",
        "heatmap.js/",
        "heatmap.js.map",
        "heatmap",
        "../assets.py",
        "../../app.py",
        "../static/heatmap.js",
        "..%2fassets.py",
        "..%2f..%2fapp.py",
        "%2e%2e/__init__.py",
        "..\\..\\app.py",
        "..\\static\\heatmap.js",
        "/etc/passwd",
        "//etc/passwd",
        "/proc/self/environ",
        "C:\\heatmap.js",
        "file:heatmap.js",
        "heatmap.js\x00.css",
        "\x00.js",
        "x" * 5000 + ".js",
    ],
    ids=lambda name: repr(name[:24]),
)
def test_nothing_else_is_served(name: str) -> None:
    answer = ask(name)
    # the router itself sends a path with a slash too many back without it; what it points at must be one of ours
    assert answer.status == 404 or (answer.status == 307 and name == "heatmap.js/")
    assert b"import" not in answer.body
    assert b"root:" not in answer.body


@pytest.mark.parametrize("file", [PLOTLY, STATIC / "heatmap.js"], ids=lambda file: file.name)
def test_no_absolute_path(file: Path) -> None:
    assert ask(str(file)).status == 404


def test_unknown_names_are_not_kept() -> None:  # C08
    # each costs up to the longest path that the server takes, and one more look at the folder
    ask("heatmap.js")
    before = assets.packed.cache_info().currsize
    for number in range(50):
        assert ask(f"unknown-{number}.js").status == 404
    assert assets.packed.cache_info().currsize == before


def test_every_release_has_its_own_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # the digest is over the very bytes: a changed file never hides behind an address that browsers keep
    for file in STATIC.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(assets, "_STATIC", tmp_path)
    digest = assets.release.__wrapped__
    assert digest() == assets.release()
    (tmp_path / "heatmap.css").write_text("/* changed */")
    changed = digest()
    assert changed != assets.release()
    monkeypatch.setattr(plotly, "__version__", "0.0.0")
    assert digest() != changed


@pytest.mark.parametrize(("base", "prefix"), [("", ""), ("lab/demo", "/lab/demo"), ("/deep/er/", "/deep/er")])
def test_below_a_base_path(monkeypatch: pytest.MonkeyPatch, base: str, prefix: str) -> None:
    # behind a proxy the app may live under a path: the address and the route must move together
    monkeypatch.setattr(st, "get_option", {"server.baseUrlPath": base}.__getitem__)
    url = assets.url("load.js")
    assert url == f"{prefix}/lab/{assets.release()}/load.js"
    assert get(Starlette(routes=[assets.route()]), url).status == 200


def test_every_file_that_is_asked_for_is_there() -> None:
    asked = set(re.findall(r'(?:from "\./|import\("\./|[^\w]file\(")([\w.]+)"', "".join(map(_text, _sources()))))
    assert {"heatmap.js", "plotly.min.js", "heatmap.css", "scene.js", "chart.js", "svg.js"} <= asked
    for name in asked:
        assert ask(name).status == 200, name
    # and the way in, which goes to the page with each message
    for drawing in ("heatmap", "chart"):
        script = assets.script(drawing)
        assert assets.url("load.js") in script
        assert f'load("{drawing}")' in script
        assert f"{drawing}: () =>" in _text(STATIC / "load.js")
    unused = {file.name for file in _sources()} - asked - {"load.js", "icon.svg"}
    assert unused == set(), "nothing lies there that nobody loads"


def test_no_third_party_address() -> None:
    # privacy, and a class room without a network: no font, script or style from another server
    for file in _sources():
        # the names of the SVG language look like addresses and are never fetched
        text = re.sub("http://www.w3.org/(2000/svg|1999/xlink)", "", _text(file))
        assert not re.search(r"""https?:|["'(]//|@import""", text), file.name
    for page in (heatmap._HTML, chart._HTML, assets.script("heatmap"), *map(_text, (ROOT / "dashboard").glob("*.css"))):
        assert not re.search(r"https?:|src=|@import", page)


def _sources() -> list[Path]:
    return sorted(STATIC.iterdir())


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def page_app(*parts: bytes, kind: str = "text/html; charset=utf-8", status: int = 200) -> ASGIApp:
    """An app that answers with these parts of a body, and the tags put in."""

    async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
        headers = {"content-type": kind, "content-length": str(sum(map(len, parts)))}
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return assets.Early(answer)


def test_the_page_names_what_the_picture_will_need() -> None:
    answer = get(page_app(b"<html><head><title>x</title></he", b"ad><body>&lt;/head></body>", b"</html>"), "/", {})
    text = answer.body.decode()
    assert int(answer.headers["content-length"]) == len(answer.body)
    head, rest = text.split("</head>")
    assert rest == "<body>&lt;/head></body></html>", "what follows is untouched"
    named = re.findall(r'(?:src|href)="([^"]+)"', head)
    assert named[0] == assets.url("plotly.min.js")
    assert f'<script async fetchpriority="high" src="{named[0]}">' in head
    loaded = {file for file in FILES if file.endswith((".js", ".css"))}
    assert {name.rpartition("/")[2] for name in named} == loaded - assets.LATER, "all that a picture loads"
    assert loaded > assets.LATER, "what is left for later is there"
    for name in named:
        assert get(APP, name, {}).status == 200


@pytest.mark.parametrize(
    ("query", "waits"),
    [("hide=seed", True), ("seed=3&view=handout", True), ("", False), ("seed=3", False), ("a=hide&review=1", False)],
)
def test_a_link_that_hides_something_waits_until_it_is_hidden(query: str, waits: bool) -> None:
    answer = get(page_app(b"<head></head>"), "/", query=query)
    assert int(answer.headers["content-length"]) == len(answer.body)
    assert (b"<style>body:not(:has(.view))" in answer.body) == waits


@pytest.mark.parametrize(
    ("kind", "status"), [("application/json", 200), ("text/javascript", 200), ("text/html", 404), ("text/html", 304)]
)
def test_what_is_no_page_is_left_as_it_is(kind: str, status: int) -> None:
    answer = get(page_app(b"<head></head>", kind=kind, status=status), "/", {})
    assert answer.status == status
    assert answer.body == b"<head></head>"


def test_a_page_without_a_head_is_left_as_it_is() -> None:
    answer = get(page_app(b"<p>", b"plain"), "/", {})
    assert answer.body == b"<p>plain"
    assert answer.headers["content-length"] == "8"
