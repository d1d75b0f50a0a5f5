"""Giving memory that was freed back to the system, which the C library alone may put off for ever."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Final

LARGE: Final = 2**23
"""Bytes of constants from which on a model's memory matters more than the time to look after it."""


def trim_heap() -> None:
    """Returns all free pages of the heap; does nothing without a C library of GNU's.

    The C library keeps what lies between blocks in use; after a session of ONNX Runtime was opened that is
    more than the weights themselves.
    """
    if sys.platform != "linux":
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


def release_memory() -> None:
    """Frees graphs that nothing names any more, whose nodes name each other, then trims the heap."""
    gc.collect()
    trim_heap()
