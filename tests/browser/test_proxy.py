"""Two processes behind nginx with the shipped configuration, one of which dies while it is read."""

import getpass
import gzip
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, WebSocket, expect

from tests.browser.conftest import judged
from tests.browser.serving import APP, NGINX, ROOT, Server, free_port, serve, wait_for
from tests.browser.test_heads import press_seed, scene, wait_for_seed

CONFIG: Final = ROOT / "dashboard" / "deploy" / "nginx.conf"
LINE: Final = re.compile(r'reader=(\S+) process=(.+) status=.*"\S+ (\S+) ')
QUERY: Final = "embed_dim=96&num_heads=8&num_tokens=11&seed=5&pin=2-3-4"

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed (on Debian: apt-get install nginx-light)")


@dataclass(frozen=True)
class Request:
    """What nginx logged of a request: whose, the process that answered ("-": nginx alone), and the path."""

    reader: str
    process: str
    path: str


@dataclass(frozen=True)
class Proxy:
    """nginx, and the processes behind it by their host and port."""

    address: str
    folder: Path
    servers: dict[str, Server]

    def requests(self, reader: str) -> list[Request]:
        """What a reader was answered. An open websocket is not among it."""
        found = LINE.findall((self.folder / "access.log").read_text())
        requests = [Request(who, tried.split(", ")[-1], path) for who, tried, path in found]
        return [request for request in requests if request.reader == reader]

    def logged(self, reader: str, path: str) -> Request:
        """A request that has just been answered: nginx logs it after that."""
        end = time.monotonic() + 10
        while time.monotonic() < end:
            for request in self.requests(reader):
                if request.path == path:
                    return request
        raise TimeoutError(f"{path} is not in nginx's log")

    def process_of(self, context: BrowserContext) -> str:
        """The process that a browser's next request is sent to."""
        path = f"/_stcore/health?{time.monotonic_ns()}"
        context.request.get(self.address + path)
        return self.logged(reader_of(context), path).process


def reader_of(context: BrowserContext) -> str:
    """The number by which nginx knows a browser."""
    return next(cookie.get("value", "") for cookie in context.cookies() if cookie.get("name") == "lab_process")


@contextmanager
def nginx(*servers: Server) -> Iterator[Proxy]:
    """Run nginx with the shipped configuration; only the ports are others."""
    port = str(free_port())
    ports = [server.address.rpartition(":")[2] for server in servers]
    text = CONFIG.read_text()
    for shipped, free in zip(("8501", "8502", "8080"), (*ports, port), strict=True):
        assert text.count(shipped) == 1
        text = text.replace(shipped, free)
    # Started by root, its workers would be another user, who may not enter the folder.
    as_started = f"daemon off; user {getpass.getuser()};"
    behind = {f"127.0.0.1:{own}": server for own, server in zip(ports, servers, strict=True)}
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "nginx.conf")
        config.write_text(text)
        with subprocess.Popen([str(NGINX), "-p", folder, "-c", config, "-g", as_started]) as process:
            try:
                address = f"http://127.0.0.1:{port}"
                wait_for(f"{address}/_stcore/health", process)
                yield Proxy(address, Path(folder), behind)
            finally:
                process.terminate()


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    local = "--server.address=127.0.0.1"
    with serve(APP, local) as first, serve(APP, local) as second, nginx(first, second) as running:
        yield running


@pytest.fixture
def new_reader(browser: Browser) -> Iterator[Callable[[], BrowserContext]]:
    """Browsers that were never here."""
    contexts: list[BrowserContext] = []

    def new() -> BrowserContext:
        contexts.append(browser.new_context(viewport={"width": 1440, "height": 900}))
        return contexts[-1]

    yield new
    for context in contexts:
        context.close()


def ask(
    proxy: Proxy, path: str, headers: dict[str, str] | None = None, method: str = "GET", body: bytes = b""
) -> tuple[HTTPResponse, bytes]:
    """The answer to one request, as it was sent."""
    connection = HTTPConnection(proxy.address.removeprefix("http://"), timeout=20)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    content = b"" if answer.status == HTTPStatus.SWITCHING_PROTOCOLS else answer.read()
    connection.close()
    return answer, content


def test_what_a_reader_gets(proxy: Proxy) -> None:
    first, html = ask(proxy, "/")
    given = first.getheader("set-cookie") or ""
    assert re.fullmatch(r"lab_process=[0-9a-f]{32}; Path=/; HttpOnly; SameSite=Lax", given)
    again, _ = ask(proxy, "/", {"Cookie": given.split(";")[0]})
    assert again.getheader("set-cookie") is None, "a reader keeps the number"

    found = re.search(r"/static/js/protobuf[^\"]+", html.decode())
    assert found
    for reader in ("first", "second"):
        script, packed = ask(proxy, found[0], {"Accept-Encoding": "gzip", "Cookie": f"lab_process={reader}"})
        assert script.getheader("content-encoding") == "gzip"
        assert "immutable" in (script.getheader("cache-control") or "")
        assert len(packed) < 0.3 * len(gzip.decompress(packed))
    assert proxy.logged("first", found[0]).process in proxy.servers
    assert proxy.logged("second", found[0]).process == "-", "nginx has kept it"

    assert ask(proxy, "/_stcore/metrics")[0].status == HTTPStatus.NOT_FOUND
    upload, _ = ask(proxy, "/_stcore/upload_file/any/file", method="PUT", body=bytes(100_000))
    assert upload.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://lab.example:8080", HTTPStatus.SWITCHING_PROTOCOLS),
        ("https://lab.example:8080", HTTPStatus.SWITCHING_PROTOCOLS),  # TLS may end before nginx
        (None, HTTPStatus.SWITCHING_PROTOCOLS),  # no browser
        ("http://lab.example", HTTPStatus.FORBIDDEN),
        ("http://elsewhere.example", HTTPStatus.FORBIDDEN),
        ("null", HTTPStatus.FORBIDDEN),
    ],
)
def test_only_the_page_itself_opens_a_websocket(proxy: Proxy, origin: str | None, status: int) -> None:
    headers = {"Host": "lab.example:8080", "Connection": "Upgrade", "Upgrade": "websocket"}
    headers |= {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "bm90IGEgcmFuZG9tIGtleQ=="}
    if origin:
        headers["Origin"] = origin
    reader, path = "asker", f"/_stcore/stream?{origin}"
    assert ask(proxy, path, headers | {"Cookie": f"lab_process={reader}"})[0].status == status
    if status == HTTPStatus.FORBIDDEN:
        assert proxy.logged(reader, path).process == "-", "Streamlit was asked"


def visit(proxy: Proxy, context: BrowserContext) -> tuple[Page, list[WebSocket]]:
    """Open the page; the websockets that it opens are added to the list."""
    page = context.new_page()
    sockets: list[WebSocket] = []
    page.on("websocket", lambda socket: sockets.append(socket))  # a bound method is more than Playwright takes
    page.goto(f"{proxy.address}/?{QUERY}")
    judged(page)
    return page, sockets


def test_a_process_dies_and_its_readers_go_on(proxy: Proxy, new_reader: Callable[[], BrowserContext]) -> None:
    """The last test of this file: one of the two is dead after it."""
    first = new_reader()
    moved, sockets_of_moved = visit(proxy, first)
    opened, sockets_of_opened = visit(proxy, first)  # and then left alone
    dead = proxy.process_of(first)
    # where a reader is sent is drawn by lot
    second = next(context for context in (new_reader() for _ in range(40)) if proxy.process_of(context) != dead)
    stayed, sockets_of_stayed = visit(proxy, second)
    alive = proxy.process_of(second)
    for page, process in ((moved, dead), (stayed, alive)):
        requests = proxy.requests(reader_of(page.context))
        assert {request.process for request in requests} - {"-"} == {process}
        assert len(requests) > 100
        press_seed(page)
        wait_for_seed(page, 6)

    with moved.expect_websocket(timeout=30_000), opened.expect_websocket(timeout=30_000):  # without a reload
        os.kill(proxy.servers[dead].process, signal.SIGKILL)
        press_seed(stayed)
        wait_for_seed(stayed, 7)
    assert len(sockets_of_stayed) == 1, "the other process's reader had to connect again"

    for page, before in ((moved, 6), (opened, 5)):
        assert scene(page) == f"8x11-of-96-causal-seed{before}-float32"
        for seed in (before + 1, before + 2):
            press_seed(page)
            wait_for_seed(page, seed)
            assert scene(page) == f"8x11-of-96-causal-seed{seed}-float32"
            expect(page.locator(".heads .below h2")).to_contain_text("Head 2: query 3 → key 4")
            for label, value in {"Seed": seed, "Heads": 8, "Tokens": 11, "Embed dim": 96}.items():
                slider = page.locator(f'input[type=range][aria-label="{label}"]')
                expect(slider).to_have_attribute("aria-valuetext", str(value))
    assert len(sockets_of_moved) == len(sockets_of_opened) == 2
    assert proxy.process_of(first) == alive
