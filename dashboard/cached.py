"""From a config to what a page shows, cached: small frozen values and bytes, which nobody can change.

The cache is one for all visitors. Every entry is keyed by its name and a frozen config alone, and every
cache is bounded in entries and in bytes.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

import streamlit as st

from attention.compare import Tolerance
from attention.scenes import Scene
from attention.trained.config import TrainConfig
from attention.verify_block import BlockConfig
from attention.verify_head import HeadConfig
from dashboard.heatmap import Picture

Value = TypeVar("Value")
# what an entry is of: a scene, or a training run, whose numbers at a step are the same for all who ask
Key = Scene | TrainConfig


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
def picture(name: str, config: Key, _make: Callable[[], Picture]) -> Picture:
    """A picture, packed for the browser; `name` tells a config's pictures apart."""
    return gated(_make)


@st.cache_data(max_entries=1024, max_size="50MB", show_spinner=False)
def verdict(name: str, config: Key, tolerance: Tolerance, _make: Callable[[], Value]) -> Value:
    """The verdict of a scene under the reader's tolerance, and what belongs to it; `name` is the page's."""
    return gated(_make)


@st.cache_data(max_entries=1024, max_size="50MB", show_spinner=False)
def facts(name: str, config: Key, _make: Callable[[], Value]) -> Value:
    """Small frozen values that stand beside a picture: statistics, claims, rows of a table."""
    return gated(_make)


def known(name: str, config: Key) -> Any | None:
    """What `facts` has for this name and config already, or None: for what is too long to compute inside of it.

    A cached function may not draw a progress bar that stands outside of it, and would draw it again at every hit.
    """
    try:
        return facts(name, config, _refuse)
    except _UnknownError:
        return None


class _UnknownError(Exception):
    """There is nothing in the cache."""


def _refuse() -> Any:
    raise _UnknownError  # what raises is not cached


# As many computations at once as there are cores: more of them would only hold more memory, each for longer.
_GATE: Final = threading.BoundedSemaphore(os.cpu_count() or 1)
_inside: Final = threading.local()
# one for each whose value is being made, or waits at the gate; and whether there is none
_needs: Final[list[None]] = []
_counting: Final = threading.Lock()
_QUIET: Final = threading.Event()
_QUIET.set()


def give_way(longest: float) -> None:
    """Wait while anybody's value is being made or waits to be, so many seconds at most.

    What runs for minutes asks this between its steps, so that who only looks at a picture comes first.
    """
    _QUIET.wait(longest)


@contextmanager
def _needed() -> Iterator[None]:
    """Say that the machine is needed now."""
    with _counting:
        _needs.append(None)
        _QUIET.clear()
    try:
        yield
    finally:
        with _counting:
            _needs.pop()
            if not _needs:
                _QUIET.set()


def gated(make: Callable[[], Value]) -> Value:
    """Make a value once the gate lets this visitor in.

    Where it is then cached, Streamlit lets the others who want the same wait for it.

    Raises:
        RuntimeError: it is made within another. Two visitors, each in with what needs the other's, would wait for ever.
    """
    if make is _refuse:
        return make()
    if getattr(_inside, "gate", False):
        raise RuntimeError("a cached value is made within another; make it before")
    with _needed(), _GATE:
        _inside.gate = True
        try:
            return make()
        finally:
            _inside.gate = False


def identity(config: Scene, name: str = "") -> str:
    """A scene's name, for files and for telling two pictures apart."""
    return "-".join((*_parts(config), *name.split())).replace("_", "-")


def _parts(config: Scene) -> tuple[str, ...]:
    if isinstance(config, HeadConfig):
        _, *rest = _parts(config.scene)  # how many heads the scene has is not asked
        size = f"1x{config.scene.num_tokens}-of-{config.scene.embed_dim}"
        which = (f"of{config.head}",) if config.scene.trained else ()
        return size, f"head{config.head_dim}to{config.value_dim}", *which, *rest
    if isinstance(config, BlockConfig):
        norm = "pre" if config.norm_first else "post"
        return (*_parts(config.scene), f"depth{config.depth}", norm, config.activation)
    if isinstance(config, tuple):
        scene, mask = config
        rules = (f"{field}{value}" for field, value in vars(mask).items() if value not in (None, False))
        return (*_parts(scene), "under", *rules)
    mask_name = "causal" if config.causal else "full"
    size = f"{config.num_heads}x{config.num_tokens}-of-{config.embed_dim}"
    trained = (config.trained.slug,) if config.trained else ()
    return size, mask_name, f"seed{config.seed}", config.dtype, *trained
