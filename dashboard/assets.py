"""What the browser loads besides Streamlit, served by the app itself: nothing comes from a CDN.

Plotly's own JavaScript is taken from the installed `plotly` package. The release is in the path,
so a browser may keep the files for good and never mixes two releases.
"""

import gzip
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Final, Literal

import plotly
import streamlit as st
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_STATIC: Final = Path(__file__).parent / "heatmap" / "static"
_PLOTLY: Final = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
# what the first picture does without: loaded once a chart or a sweep is drawn, or a picture taken home
LATER: Final = {
    "chart.js", "chart.css", "export.js", "inline.js", "standalone.js", "svg.js", "sweep.js", "sweep.css",
}  # fmt: skip

# a link that hides something, or is for a projector or a handout; and what it waits behind until `teaching` has spoken
_HIDES: Final = re.compile(rb"(^|&)(hide|view)=")
_CURTAIN: Final = b"<style>body:not(:has(.view)) :is([data-testid=stSidebar], .stMain) { visibility: hidden }</style>"

# Sent with every message, so it holds only the way to the files.
_SCRIPT: Final = """
const ready = (async () => {
  const { load } = await import(new URL("%(loader)s", location.origin).href);
  return load("%(drawing)s");
})();
export default function (component) {
  let stopped = false;
  let stop = () => {};
  const { parentElement } = component;
  parentElement.latest = component;
  ready.then((draw) => {
    if (!stopped && parentElement.latest === component) stop = draw(component);
  });
  return () => { stopped = true; stop(); };
}
"""


def url(name: str) -> str:
    """The address of a file on this server, whichever page it is asked from."""
    return f"{_base()}/lab/{release()}/{name}"


def script(drawing: Literal["heatmap", "chart", "sweep"]) -> str:
    """The JavaScript of a mounted component."""
    return _SCRIPT % {"loader": url("load.js"), "drawing": drawing}


def route() -> Route:
    """The route that serves them."""
    return Route(f"{_base()}/lab/{{release}}/{{name}}", _serve)


class Early:
    """Has the browser load and run with the first page already what the picture will need.

    It would otherwise hear of Plotly, which takes it half a second, only once the page's first run has come back; until
    then it mostly waits. And where the link hides something, nothing is seen until the page has been told what:
    Streamlit draws HTML, `teaching`'s style sheet too, later than the controls. To Streamlit's page, which is HTML and
    small, tags are added; nothing else is touched.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the app does, HTML with the tags in its head."""
        held: Message | None = None  # the start of an answer in HTML, whose length is not known yet
        body = b""
        curtain = _CURTAIN if _HIDES.search(scope.get("query_string", b"")) else b""

        async def with_tags(message: Message) -> None:
            nonlocal held, body
            if message["type"] == "http.response.start" and _is_page(message):
                held = message
            elif held is None:
                await send(message)
            else:
                body += message.get("body", b"")
                if not message.get("more_body"):
                    body = body.replace(b"<head>", b"<head>" + _tags() + curtain, 1)
                    MutableHeaders(scope=held)["Content-Length"] = str(len(body))
                    await send(held)
                    await send({"type": "http.response.body", "body": body})

        asks = scope["type"] == "http" and scope["method"] == "GET"
        await self._app(scope, receive, with_tags if asks else send)


def _is_page(start: Message) -> bool:
    headers = MutableHeaders(scope=start)
    is_html = headers.get("content-type", "").startswith("text/html")
    return is_html and start["status"] == 200 and "content-encoding" not in headers


@cache
def _tags() -> bytes:
    modules = sorted(url(file.name) for file in _STATIC.glob("*.js") if file.name not in LATER)
    return (
        f'<script async fetchpriority="high" src="{url(_PLOTLY.name)}"></script>'
        f'<link rel="preload" as="style" href="{url("heatmap.css")}">'
        + "".join(f'<link rel="modulepreload" href="{module}">' for module in modules)
    ).encode()


@cache
def release() -> str:
    """A digest of all the files, and Plotly's version."""
    digest = hashlib.blake2b(plotly.__version__.encode(), digest_size=6)
    for file in sorted(_STATIC.iterdir()):
        digest.update(file.read_bytes())
    return digest.hexdigest()


@cache
def packed(name: str) -> bytes:
    """A file's content, gzipped once and kept.

    Raises:
        KeyError: there is no such file. It is not kept, or made-up names would fill the memory.
    """
    return gzip.compress(_files()[name].read_bytes(), mtime=0)


@cache
def _files() -> dict[str, Path]:
    return {file.name: file for file in (*_STATIC.iterdir(), _PLOTLY) if file.suffix in _TYPES}


async def _serve(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _files():
        return PlainTextResponse("There is no such file.", status_code=404)
    content = packed(name)
    this_release = request.path_params["release"] == release()
    headers = {
        "ETag": f'"{release()}"',
        "Cache-Control": "public, max-age=31536000, immutable" if this_release else "no-cache",
        "Vary": "Accept-Encoding",
    }
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
    else:
        content = gzip.decompress(content)
    return Response(content, media_type=_TYPES[Path(name).suffix], headers=headers)


def _base() -> str:
    path = str(st.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{path}" if path else ""
