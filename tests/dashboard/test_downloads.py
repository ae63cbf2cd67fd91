"""What is downloaded is sent as it is; everything else may be packed as before."""

import asyncio
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from dashboard.downloads import Unpacked


def passed_on(scope: Scope) -> Scope:
    """What the app behind the middleware is asked."""
    asked: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(scope)

    async def nothing(*_: Any) -> Any:
        return {}

    asyncio.run(Unpacked(app)(scope, nothing, nothing))
    return asked[0]


HEADERS = [(b"host", b"x"), (b"Accept-Encoding", b"gzip, br"), (b"range", b"bytes=0-1")]


@pytest.mark.parametrize("path", ["/media/abc.npz", "/base/media/abc.csv"])
def test_a_download_takes_no_gzip(path: str) -> None:
    scope = {"type": "http", "path": path, "headers": HEADERS}
    found = passed_on(scope)
    assert found == {**scope, "headers": [HEADERS[0], HEADERS[2]]}
    assert scope["headers"] == HEADERS, "the server's own is left alone"


@pytest.mark.parametrize(
    "scope",
    [
        {"type": "http", "path": "/", "headers": HEADERS},
        {"type": "http", "path": "/multimedia", "headers": HEADERS},
        {"type": "websocket", "path": "/media/x", "headers": HEADERS},
        {"type": "lifespan"},
    ],
    ids=["page", "name", "websocket", "lifespan"],
)
def test_all_else_is_passed_on_as_it_came(scope: Scope) -> None:
    assert passed_on(scope) is scope
