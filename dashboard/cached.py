"""From a config to what a page shows, cached: small frozen values and bytes, which nobody can change.

The cache is one for all visitors. Every entry is keyed by its name and a frozen config alone, and every
cache is bounded in entries and in bytes.
"""

import os
import threading
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import streamlit as st

from attention.compare import Tolerance
from attention.scenes import Scene
from attention.verify_block import BlockConfig
from attention.verify_head import HeadConfig
from dashboard.heatmap import Picture

Value = TypeVar("Value")
Config = Scene


class Held(Generic[Value]):
    """What one visitor's picture was made of, kept until its verdict is found, so that it is made once.

    Not in a cache: tensors could be changed by whoever holds them, and a large scene is 60 MB.
    """

    def __init__(self) -> None:
        self._held: tuple[object, Value] | None = None

    def hold(self, config: object, make: Callable[[], Value]) -> Value:
        """Make it, unless it is held already, and hold it."""
        if self._held is None or self._held[0] != config:
            self._held = None  # before the next is made: two would be twice the memory
            self._held = config, make()
        return self._held[1]

    def let_go(self, config: object) -> Value | None:
        """Hand it out, if it is still that of the config, and hold nothing any more."""
        held, self._held = self._held, None
        return held[1] if held and held[0] == config else None


@st.cache_data(max_entries=256, max_size="200MB", show_spinner=False)
def _pictures(name: str, config: Config, _make: Callable[[], Picture]) -> Picture:
    return _make()


@st.cache_data(max_entries=1024, max_size="50MB", show_spinner=False)
def _verdicts(name: str, config: Config, tolerance: Tolerance, _make: Callable[[], Value]) -> Value:
    return _make()


@st.cache_data(max_entries=1024, max_size="50MB", show_spinner=False)
def _facts(name: str, config: Config, _make: Callable[[], Value]) -> Value:
    return _make()


def picture(name: str, config: Config, make: Callable[[], Picture]) -> Picture:
    """A picture, packed for the browser; `name` tells a config's pictures apart."""
    return _once(("picture", name, config), lambda maker: _pictures(name, config, maker), make)


def verdict(name: str, config: Config, tolerance: Tolerance, make: Callable[[], Value]) -> Value:
    """The verdict of a scene under the reader's tolerance, and what belongs to it; `name` is the page's."""
    key = "verdict", name, config, tolerance
    return _once(key, lambda maker: _verdicts(name, config, tolerance, maker), make)


def facts(name: str, config: Config, make: Callable[[], Value]) -> Value:
    """Small frozen values that stand beside a picture: statistics, claims, rows of a table."""
    return _once(("facts", name, config), lambda maker: _facts(name, config, maker), make)


def known(name: str, config: Config) -> Any | None:
    """What `facts` has for this name and config already, or None: for what is too long to compute inside of it.

    A cached function may not draw a progress bar that stands outside of it, and would draw it again at every hit.
    """
    try:
        return _facts(name, config, _refuse)
    except _UnknownError:
        return None


class _UnknownError(Exception):
    """There is nothing in the cache."""


def _refuse() -> Any:
    raise _UnknownError  # what raises is not cached


# As many computations at once as there are cores: more of them would only hold more memory, each for longer.
_GATE: Final = threading.BoundedSemaphore(os.cpu_count() or 1)
_LOCK: Final = threading.Lock()
_under_way: Final[dict[object, threading.Event]] = {}
_inside: Final = threading.local()


def _once(key: object, cache: Callable[[Callable[[], Value]], Value], make: Callable[[], Value]) -> Value:
    """What the cache has; else make it, once the gate lets this visitor in.

    Who asks for what somebody else is making waits for that, and takes no place at the gate. One computation within
    another goes straight on: nobody who is in waits for somebody who is not.
    """
    if getattr(_inside, "gate", False):
        return cache(make)
    while True:
        try:
            return cache(_refuse)
        except _UnknownError:
            pass
        with _LOCK:
            others = _under_way.get(key)
            if others is None:
                own = _under_way[key] = threading.Event()
        if others is None:
            break
        others.wait()  # then look again: it may have failed, or be too large to be kept
    try:
        with _GATE:
            _inside.gate = True
            return cache(make)
    finally:
        _inside.gate = False
        with _LOCK:
            del _under_way[key]
        own.set()


def identity(config: Config, name: str = "") -> str:
    """A scene's name, for files and for telling two pictures apart."""
    return "-".join((*_parts(config), *name.split())).replace("_", "-")


def _parts(config: Config) -> tuple[str, ...]:
    if isinstance(config, HeadConfig):
        _, *rest = _parts(config.scene)  # how many heads the scene has is not asked
        size = f"1x{config.scene.num_tokens}-of-{config.scene.embed_dim}"
        return size, f"head{config.head_dim}to{config.value_dim}", *rest
    if isinstance(config, BlockConfig):
        norm = "pre" if config.norm_first else "post"
        return (*_parts(config.scene), f"depth{config.depth}", norm, config.activation)
    if isinstance(config, tuple):
        scene, mask = config
        rules = (f"{field}{value}" for field, value in vars(mask).items() if value not in (None, False))
        return (*_parts(scene), "under", *rules)
    mask_name = "causal" if config.causal else "full"
    size = f"{config.num_heads}x{config.num_tokens}-of-{config.embed_dim}"
    return size, mask_name, f"seed{config.seed}", config.dtype
