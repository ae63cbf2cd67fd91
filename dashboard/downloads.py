"""Files that a reader downloads are sent as they are.

Streamlit would gzip each of them at the highest level, on the thread that serves everybody: 3.4 MB a second, and
numbers hardly shrink. A proxy may still pack what it sends.
"""

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

_MEDIA: Final = "/media/"  # where Streamlit has what is downloaded; a base path may stand before it


class Unpacked:
    """Middleware around Streamlit's own: a request for a download does not say that it takes gzip."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] == "http" and _MEDIA in scope["path"]:
            headers = [(name, value) for name, value in scope["headers"] if name.lower() != b"accept-encoding"]
            scope = {**scope, "headers": headers}
        await self._app(scope, receive, send)
