"""What a forked child has to know: locks that nobody holds there, modules that are whole, and what must never
be destroyed there.

A child has the memory of its parent, but only the thread that forked. A lock that another thread held would
stay locked for ever, and a destructor that waits for threads would wait for ever. What a lock protects must
be in order between any two steps of Python.

A module that another thread was importing would never be ready in the child, and who needs it would wait for
that thread: a fork waits for such imports in place.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final
from weakref import WeakSet

LONGEST_WAIT: Final = 30.0
"""Seconds that a fork waits for an import at most; it would wait for ever if that import waited for it."""


class ForkLock:
    """A lock for ``with``; in a forked child it is free, whoever held it in the parent."""

    def __init__(self) -> None:
        """Free."""
        self._lock = threading.Lock()
        _locks.add(self)

    def __enter__(self) -> None:
        """Waits until it is free."""
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Frees it."""
        self._lock.release()

    def renew(self) -> None:
        """Makes it free; for a process that has a single thread."""
        self._lock = threading.Lock()


@contextmanager
def whole_imports() -> Iterator[None]:
    """No other thread forks before all that is imported inside is imported to its end.

    For imports inside functions that threads call. One thread at a time is inside, and may enter again; let
    it do nothing but import there.
    """
    with _imports:
        _wait_before_logging()
        yield


class _Forking(threading.local):
    """The fork that this thread is about; ``held``: how often it has taken ``_imports`` for it."""

    held = 0


_imports = threading.RLock()
_forking = _Forking()
_locks: WeakSet[ForkLock] = WeakSet()
_undying: WeakSet[object] = WeakSet()
_count = 0
_ordered = False


def fork_count() -> int:
    """How many forks lie between the first process and this one: another number, another process."""
    return _count


def never_destroy_in_child(owner: object) -> None:
    """Children keep this object to their end; here it lives and dies as ever.

    For what owns threads: its destructor would wait for them.
    """
    _undying.add(owner)


def _wait_before_logging() -> None:
    """Lets a fork wait for imports before it takes locks that these need.

    What is registered last is called first, and ``logging`` takes a lock before a fork that every module with
    a logger asks for. Hooks that are registered while a fork waits would be called after it alone: those of
    ``concurrent.futures`` are there before anything longer is imported. Plans without float parts need none
    of this, and open without.
    """
    global _ordered
    if not _ordered:
        _ordered = True
        import logging  # noqa: F401

        os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_free_in_child)
        import concurrent.futures.thread  # noqa: F401


def _before() -> None:
    _forking.held += _imports.acquire(timeout=LONGEST_WAIT)


def _in_parent() -> None:
    if _forking.held:
        _forking.held -= 1
        _imports.release()


def _free_in_child() -> None:
    global _imports
    if _forking.held:
        _in_parent()
    else:  # forked by C code, or waited in vain: who holds it is not here
        _imports = threading.RLock()


def _in_child() -> None:
    global _count
    _count += 1
    for lock in list(_locks):
        lock.renew()
    for owner in list(_undying):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))


os.register_at_fork(after_in_child=_in_child)
os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_free_in_child)
