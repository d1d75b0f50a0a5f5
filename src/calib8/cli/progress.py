"""Progress of long steps: a bar with rate and remaining time on a terminal, nothing in a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from calib8.cli.terminal import Terminal, escaped


class SamplesSeen:
    """The ``progress`` that the pipeline calls; remembers how many samples were done.

    Attributes:
        done: samples done in the first stage, the one that passes all of them.
        total: samples in all, None where unknown.
    """

    def __init__(self, bar: Progress | None, before: str, after: str) -> None:
        """``bar`` None: nothing is drawn. ``before`` and ``after``: steps around the stage."""
        self.done = 0
        self.total: int | None = None
        self._bar = bar
        self._after = after
        self._task: TaskID | None = None
        self._first: str | None = None
        self._stage = ""
        self._waiting = None if bar is None else bar.add_task(before, total=None)

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Shows the bar of a stage; what follows its last sample is shown as one step of unknown length."""
        self._first = self._first or stage
        if stage == self._first:
            self.done, self.total = done, total
        if self._bar is None:
            return
        if self._task is None or stage != self._stage:
            self._leave_waiting()
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._stage, self._task = stage, self._bar.add_task(stage, total=total)
        self._bar.update(self._task, completed=done, total=total)
        if total is not None and done >= total and self._waiting is None and self._after:
            self._waiting = self._bar.add_task(self._after, total=None)

    @property
    def missing(self) -> int:
        """Samples that were announced and did not come: bad ones that were skipped."""
        return 0 if self.total is None else max(self.total - self.done, 0)

    def _leave_waiting(self) -> None:
        if self._bar is not None and self._waiting is not None:
            self._bar.remove_task(self._waiting)
        self._waiting = None


@contextmanager
def shown_progress(terminal: Terminal, before: str, after: str = "") -> Iterator[SamplesSeen]:
    """A progress display for the time of the block.

    Args:
        terminal: where to; nothing is drawn unless it is watched.
        before: what happens until the first sample.
        after: what happens after the last one, empty if nothing that takes time.
    """
    if not terminal.animated:
        yield SamplesSeen(None, before, after)
        return
    columns = (
        _Stage(),
        BarColumn(),
        _Samples(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=terminal.err, transient=True) as bar:
        yield SamplesSeen(bar, before, after)


class _Stage(ProgressColumn):
    """What is under way, which may be the name of a file."""

    def render(self, task: Task) -> Text:
        """The text of one line."""
        return Text(escaped(task.description))


class _Samples(ProgressColumn):
    """Samples done, in all, and per second; nothing for a step of unknown length."""

    def render(self, task: Task) -> Text:
        """The text of one line."""
        if task.total is None:
            return Text("")
        speed = task.finished_speed or task.speed
        rate = "" if speed is None else f"  {speed:.1f}/s"
        return Text(f"{task.completed:.0f}/{task.total:.0f}{rate}", style="progress.data.speed")
