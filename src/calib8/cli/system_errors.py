"""What the system refuses a command: memory, open files, threads, space for what it prints, long names."""

from __future__ import annotations

import errno
import os
import sys
from typing import Final

from calib8.errors import Calib8Error, OutputError, UsageError
from calib8.parameters import parameter

_MEMORY: Final = ("bad_alloc", "cannot allocate memory", "failed to allocate memory", "failed to map segment")
"""What libraries say where memory is out, in small letters."""

_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})
_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})
_NAMES: Final = frozenset({errno.ENAMETOOLONG, errno.ELOOP})


def refused_by_system(error: BaseException) -> Calib8Error | None:
    """An error as one that says what to do; None where the system is not what refused."""
    text = str(error).lower()
    if isinstance(error, MemoryError) or any(word in text for word in _MEMORY):
        cure = f"Free some, raise its limit (ulimit -v), or take less at once ({parameter('batch', 1)})"
        return Calib8Error("memory", "there is not enough of it", cure)
    if isinstance(error, RuntimeError) and "start new thread" in text:
        cure = f"Raise the limit of processes (ulimit -u), or give {parameter('threads', 1)}"
        return Calib8Error("threads", "the system starts no more of them", cure)
    if not isinstance(error, OSError):
        return None
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    if error.errno in _FILES:
        return Calib8Error(name or "files", "too many files are open", "Raise the limit (ulimit -n)")
    if error.errno in _SPACE:
        problem = f"cannot be written ({error.strerror})"
        return OutputError(name or "standard output", problem, "Choose a place with free space")
    if error.errno in _NAMES:
        return UsageError(name or "a path", f"is the name of no file ({error.strerror})", "Give another path")
    if error.errno == errno.ENOMEM:
        return refused_by_system(MemoryError())
    return None


def let_go_of_output() -> None:
    """What is still to be printed goes nowhere if it cannot be printed: Python would fail when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
