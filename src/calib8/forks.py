"""What a forked child has to know: locks that nobody holds there, and what must never be destroyed there.

A child has the memory of its parent, but only the thread that forked. A lock that another thread held would
stay locked for ever, and a destructor that waits for threads would wait for ever. What a lock protects must
be in order between any two steps of Python.
"""

from __future__ import annotations

import ctypes
import os
import threading
from types import TracebackType
from weakref import WeakSet


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


_locks: WeakSet[ForkLock] = WeakSet()
_undying: WeakSet[object] = WeakSet()
_count = 0


def fork_count() -> int:
    """How many forks lie between the first process and this one: another number, another process."""
    return _count


def never_destroy_in_child(owner: object) -> None:
    """Children keep this object to their end; here it lives and dies as ever.

    For what owns threads: its destructor would wait for them.
    """
    _undying.add(owner)


def _in_child() -> None:
    global _count
    _count += 1
    for lock in list(_locks):
        lock.renew()
    for owner in list(_undying):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))


os.register_at_fork(after_in_child=_in_child)
