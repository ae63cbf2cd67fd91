"""Large tensors go back to the system as soon as they are freed.

glibc keeps what is freed for the next allocation, and raises the size from which it asks the system anew to that of the
largest tensor so far, up to 32 MB: after one large scene a server holds 100 MB that nobody uses. From 8 MB on, which no
tensor of the usual scenes reaches, it is told to ask the system each time. Where there is another C library, nothing
is done.
"""

import ctypes
from contextlib import suppress
from typing import Final

_M_MMAP_THRESHOLD: Final = -3  # of malloc.h
_LARGE: Final = 8 * 1024 * 1024  # bytes


def give_back_large() -> None:
    """Set it for the whole process, once."""
    with suppress(AttributeError, OSError, TypeError):  # no mallopt there, or no C library to open
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE)
