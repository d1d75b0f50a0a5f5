"""Waiting for what another thread yields, and doing something meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Final, TypeVar

SECONDS: Final = 0.2
"""Between two looks."""

Item = TypeVar("Item")


def awaited(
    source: Callable[[], Iterable[Item]], meanwhile: Callable[[], None], stop: Callable[[], None]
) -> Iterator[Item]:
    """What a source yields, in this thread, while the source itself runs in another.

    Args:
        source: is called in the other thread.
        meanwhile: is called again and again while nothing comes; what it raises ends the waiting.
        stop: is called where the waiting ends before the source does.

    Raises:
        BaseException: whatever the source raised.
    """
    box: Queue[tuple[Item | None, BaseException | None]] = Queue(2)
    left, ended = Event(), Event()

    def put(item: Item | None, error: BaseException | None) -> None:
        while not left.is_set():
            with suppress(Full):
                box.put((item, error), timeout=SECONDS)
                return

    def work() -> None:
        try:
            for item in source():
                put(item, None)
                if left.is_set():
                    return
            put(None, StopIteration())
        except BaseException as error:
            put(None, error)

    thread = Thread(target=work, name="calib8-cluster", daemon=True)
    thread.start()
    try:
        while True:
            try:
                item, error = box.get(timeout=SECONDS)
            except Empty:
                meanwhile()
                continue
            if isinstance(error, StopIteration):
                ended.set()
                return
            if error is not None:
                raise error
            yield item  # type: ignore[misc]
            meanwhile()
    finally:
        left.set()
        if not ended.is_set():
            stop()
            thread.join(SECONDS * 50)
