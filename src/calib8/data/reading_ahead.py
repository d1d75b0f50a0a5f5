"""Samples of a slow source, read ahead in a thread, in the order of the source.

At most ``MOST_AHEAD`` samples wait, and no more than ``MOST_BYTES`` but for the first of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from threading import Condition, Thread
from typing import Final

from calib8.data.samples import Pending

MOST_AHEAD: Final = 32
"""Samples that wait."""

MOST_BYTES: Final = 64 << 20
"""Bytes that they hold."""


def read_ahead(source: Callable[[], Iterator[Pending]]) -> Generator[Pending, None, None]:
    """The samples that ``source`` yields, the next ones read already.

    An error of the source is raised when its turn comes. Closing the generator ends the thread.
    """
    shelf = _Shelf()
    reader = Thread(target=_fill, args=(source, shelf), name="calib8-reading", daemon=True)
    reader.start()
    try:
        while (taken := shelf.take()) is not None:
            if isinstance(taken, Exception):
                raise taken
            yield taken
    finally:
        shelf.close()
        reader.join()


class _Shelf:
    """What waits, between the thread that reads and the one that uses."""

    def __init__(self) -> None:
        self._waiting: deque[Pending | Exception | None] = deque()
        self._held = 0
        self._closed = False
        self._changed = Condition()

    def put(self, item: Pending | Exception | None) -> bool:
        """Waits for room; False where nobody takes anything any more."""
        held = item.held if isinstance(item, Pending) else 0
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._has_room(held))
            self._waiting.append(item)
            self._held += held
            self._changed.notify_all()
            return not self._closed

    def take(self) -> Pending | Exception | None:
        """The next one, None behind the last."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting))
            item = self._waiting.popleft()
            self._held -= item.held if isinstance(item, Pending) else 0
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """Nothing is taken any more."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _has_room(self, held: int) -> bool:
        return not self._waiting or (len(self._waiting) < MOST_AHEAD and self._held + held <= MOST_BYTES)


def _fill(source: Callable[[], Iterator[Pending]], shelf: _Shelf) -> None:
    try:
        for item in source():
            if not shelf.put(item):
                return
        shelf.put(None)
    except Exception as error:  # for the one who takes
        shelf.put(error)
