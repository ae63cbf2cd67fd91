"""The dashboard with faults that a test asks for: a computation that kills its thread, and one that takes its time."""

import asyncio
import queue
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import streamlit as st
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from attention import multi_head
from attention.config import AttentionConfig
from dashboard import assets
from dashboard.app import warm_up

DEADLY_SEED: Final = 66
SLOW_SEED: Final = 77

_right: Final[Callable[..., Any]] = multi_head.draw_and_attend
_go_on: Final = threading.Event()
_dying: Final[queue.SimpleQueue[threading.Thread]] = queue.SimpleQueue()


def _faulty(config: AttentionConfig, *more: Any) -> Any:
    if config.seed == DEADLY_SEED:
        _dying.put(threading.current_thread())
        raise SystemExit("this thread ends here")
    if config.seed == SLOW_SEED:
        _go_on.wait()
    return _right(config, *more)


async def _release(_request: Request) -> PlainTextResponse:
    """Let what waits go on."""
    _go_on.set()
    return PlainTextResponse("ok")


async def _bury(_request: Request) -> PlainTextResponse:
    """Answer once the thread that dies is gone, and the server knows: a wish that comes before would be lost."""
    await asyncio.to_thread(lambda: _dying.get(timeout=10).join())
    return PlainTextResponse("ok")


@asynccontextmanager
async def with_faults(app: st.App) -> AsyncGenerator[None, None]:
    """Not before: who imports this file for its seeds keeps an attention without faults."""
    multi_head.draw_and_attend = _faulty  # type: ignore[assignment]
    async with warm_up(app):
        yield


app = st.App(
    str(Path(__file__).parents[2] / "dashboard" / "main.py"),
    lifespan=with_faults,
    routes=[assets.route(), Route("/release", _release), Route("/bury", _bury)],
)
