"""What a forked child has to know: locks that nobody holds there, what is done for the first time is done
whole, and what must never be destroyed there.

A child has the memory of its parent, but only the thread that forked. A lock that another thread held would
stay locked for ever, and a destructor that waits for threads would wait for ever. What a lock protects must
be in order between any two steps of Python.

A module that another thread was importing would never be ready in the child, nor would what a library sets up
when it is first used, and who needs it would wait for that thread: a fork waits for such things to be whole.
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
"""Seconds that a fork waits at most; it would wait for ever for what waited for it."""


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


class _Gate:
    """A fork begins when no other thread is inside, and no thread comes in while one is about to begin.

    A thread that is inside may enter again, and may fork: it waits for nobody, as others may wait for it.
    """

    def __init__(self) -> None:
        """Nobody is inside."""
        self._changed = threading.Condition(threading.RLock())
        self._inside: dict[int, int] = {}
        self._forks = 0

    def enter(self) -> None:
        """Waits until no fork is about to begin."""
        me = threading.get_ident()
        with self._changed:
            while self._forks and me not in self._inside:
                self._changed.wait()
            self._inside[me] = self._inside.get(me, 0) + 1

    def leave(self) -> None:
        """Undoes one ``enter``."""
        me = threading.get_ident()
        with self._changed:
            self._inside[me] -= 1
            if not self._inside[me]:
                del self._inside[me]
                self._changed.notify_all()

    def holds(self) -> bool:
        """Whether the calling thread is inside."""
        return threading.get_ident() in self._inside

    def before_fork(self, longest: float) -> None:
        """Waits so many seconds at most (below 0: for ever); what is known of threads stays as it is then."""
        self._changed.acquire()
        self._forks += 1
        if not self.holds():
            self._changed.wait_for(lambda: not self._inside, None if longest < 0.0 else longest)

    def after_fork(self) -> None:
        """In the parent."""
        self._forks -= 1
        self._changed.notify_all()
        self._changed.release()

    def in_child(self) -> None:
        """Only the thread that forked is there."""
        me = threading.get_ident()
        self._changed, self._forks = threading.Condition(threading.RLock()), 0
        self._inside = {thread: depth for thread, depth in self._inside.items() if thread == me}


@contextmanager
def whole() -> Iterator[None]:
    """No other thread forks before what is done inside is done.

    For what libraries do once in a process, and what would wait for another thread in a child: let it take
    no lock that a thread may hold while it forks.
    """
    _gate.enter()
    try:
        yield
    finally:
        _gate.leave()


@contextmanager
def whole_imports() -> Iterator[None]:
    """No other thread forks before all that is imported inside is imported to its end.

    For imports inside functions that threads call.
    """
    with whole():
        _wait_before_logging()
        yield


class _Forking(threading.local):
    """The fork that this thread is about; ``begun``: how often its hook was called before it."""

    begun = 0


_gate = _Gate()
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
    if not _forking.begun:  # else what is registered a second time is called
        _gate.before_fork(LONGEST_WAIT)
    _forking.begun += 1


def _in_parent() -> None:
    if _forking.begun:  # else what was registered while the fork waited is called
        _forking.begun = 0
        _gate.after_fork()


def _free_in_child() -> None:
    _forking.begun = 0
    _gate.in_child()


def _in_child() -> None:
    global _count
    _count += 1
    for lock in list(_locks):
        lock.renew()
    for owner in list(_undying):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))


os.register_at_fork(after_in_child=_in_child)
os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_free_in_child)
