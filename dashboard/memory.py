"""What the server does so that memory it has freed is free."""

import ctypes
from contextlib import suppress
from typing import Final

# of malloc.h
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8


def give_back() -> None:
    """Let glibc, where that is the C library, return large tensors to the system as soon as they are dropped.

    Each visitor's run is a thread, and each thread would keep what it has freed: hundreds of MB for a class. Once, at
    the start: it holds for the whole process.
    """
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_ARENA_MAX, 2)
        mallopt(_M_MMAP_THRESHOLD, 1_000_000)
