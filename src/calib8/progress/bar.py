"""A bar with stage, samples, rate and remaining time: in terminals and notebooks, in a pipe nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
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

from calib8.parameters import escaped
from calib8.progress.notebook_bar import notebook_bar


class StageBar:
    """The callback that draws: one bar, of the stage that is under way."""

    def __init__(self, bar: Progress, before: str, after: str = "") -> None:
        """``before`` and ``after``: steps of unknown length around the stages; empty: none behind them."""
        self._bar, self._after = bar, after
        self._task: TaskID | None = None
        self._stage = ""
        self._waiting: TaskID | None = bar.add_task(before, total=None)

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Shows the bar of a stage; what follows its last sample is shown as one step of unknown length."""
        if self._task is None or stage != self._stage:
            self._leave_waiting()
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._stage, self._task = stage, self._bar.add_task(stage, total=total)
        self._bar.update(self._task, completed=done, total=total)
        if total is not None and done >= total and self._waiting is None and self._after:
            self._waiting = self._bar.add_task(self._after, total=None)

    def _leave_waiting(self) -> None:
        if self._waiting is not None:
            self._bar.remove_task(self._waiting)
        self._waiting = None


@contextmanager
def stage_bar(console: Console, before: str, after: str = "") -> Iterator[StageBar]:
    """A bar on a console for the time of the block; afterwards it is gone."""
    columns = (_Stage(), BarColumn(), _Samples(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        yield StageBar(bar, before, after)


@contextmanager
def drawn() -> Iterator[Callable[[str, int, int | None], None]]:
    """A bar on standard error or in the notebook for the time of the block; in a pipe nothing is drawn."""
    console = Console(stderr=True)
    if console.is_jupyter:  # where rich draws with ipywidgets alone
        with notebook_bar("starting") as bar_of_cell:
            yield bar_of_cell
        return
    if not console.is_terminal:
        yield lambda stage, done, total: None
        return
    with stage_bar(console, "starting") as bar:
        yield bar


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
