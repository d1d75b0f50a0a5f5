"""A bar in a notebook: one output of a cell, drawn anew by IPython alone, which needs no widgets."""

from __future__ import annotations

import html
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final
from uuid import uuid4

SHORTEST: Final = 0.1
"""Seconds between two drawings of one stage, but for its first and its last one."""


class NotebookBar:
    """The callback that draws."""

    def __init__(self, before: str) -> None:
        """Shows ``before`` as a step of unknown length."""
        self._ipython: Any = import_module("IPython.display")
        self._place = uuid4().hex
        self._stage, self._began, self._drawn = before, time.monotonic(), 0.0
        self._ipython.display(_bundle(before, 0, None, 0.0), raw=True, display_id=self._place)

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Draws a stage, unless it was drawn just now."""
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._began = stage, now
        elif now < self._drawn + SHORTEST and done != total:
            return
        self._drawn = now
        self._update(_bundle(stage, done, total, now - self._began))

    def end(self) -> None:
        """Leaves nothing behind."""
        self._update({"text/plain": "", "text/html": ""})

    def _update(self, bundle: dict[str, str]) -> None:
        self._ipython.update_display(bundle, raw=True, display_id=self._place)


@contextmanager
def notebook_bar(before: str) -> Iterator[NotebookBar]:
    """A bar below the cell for the time of the block; afterwards it is gone."""
    bar = NotebookBar(before)
    try:
        yield bar
    finally:
        bar.end()


def _bundle(stage: str, done: int, total: int | None, seconds: float) -> dict[str, str]:
    """A bar with stage, samples, rate, time so far and remaining time, as plain text and as HTML."""
    words, value = [stage], ""
    if total is not None:
        words.append(f"{done}/{total}")
        value = f' max="{max(total, 1)}" value="{done}"'
    if done and seconds > 0.0:
        words.append(f"{done / seconds:.1f}/s")
    words.append(_clock(seconds))
    if total is not None and 0 < done < total:
        words.append(f"{_clock(seconds * (total - done) / done)} left")
    text = "  ".join(words)
    return {"text/plain": text, "text/html": f"<progress{value}></progress> {html.escape(text)}"}


def _clock(seconds: float) -> str:
    """``1:02:03``, ``0:07``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
