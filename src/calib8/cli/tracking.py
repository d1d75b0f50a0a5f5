"""``--log`` and ``--log-model``: trackers that are told of a run, checked before the work starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from calib8.addresses import without_secrets
from calib8.cli.commands import print_error
from calib8.cli.headings import RESULTS, option
from calib8.cli.progress import shown_progress
from calib8.cli.terminal import Terminal
from calib8.cli.typed import options_of_the_command
from calib8.errors import Calib8Error, UsageError
from calib8.parameters import on_command_line

if TYPE_CHECKING:
    from calib8.analysis.speed import Benchmark
    from calib8.run_report.told import RunReport
    from calib8.tracking.record import RunRecord
    from calib8.tracking.tracker import Tracker

NOT_LOGGED: Final = 4
"""Exit code where the results are written, but a tracker could not be told of them."""

_LOG_HELP: Final = (
    "Log the run: mlflow[:URI], tensorboard:DIR or wandb[:ENTITY/PROJECT]; may be given several times. Exit "
    "code 4: the results are there, but could not be logged."
)
_MODEL_HELP: Final = "With --log: upload the model too."

_NO_PARAMETERS: Final = frozenset({"log", "log_model", "json", "quiet", "report"})
"""Options that say nothing of what was done."""


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """Trackers that are told of a run; None: none is."""

    log: Annotated[list[str] | None, option(RESULTS, "--log", "TRACKER[:PLACE]", _LOG_HELP)] = None
    log_model: Annotated[bool, option(RESULTS, "--log-model", None, _MODEL_HELP)] = False

    def opened(self, models: Sequence[Path]) -> Log:
        """The trackers, ready to be told.

        Args:
            models: to be uploaded if it is asked for; empty: the command has none.

        Raises:
            UsageError, OutputError: see ``calib8.tracking.trackers.checked_trackers``.
        """
        if not self.log:
            if self.log_model:
                raise UsageError("--log-model", "goes with --log only", "Give --log too")
            return Log()
        if self.log_model and not models:
            raise UsageError("--log-model", "is given, and there is no file of a model", "Leave it out")
        from calib8.tracking.trackers import checked_trackers

        return Log(checked_trackers(self.log), tuple(models) if self.log_model else ())


@dataclass(frozen=True)
class Log:
    """Trackers of a command.

    Attributes:
        trackers: that were asked for.
        models: to be uploaded.
        failures: of trackers that could not be told.
    """

    trackers: tuple[Tracker, ...] = ()
    models: tuple[Path, ...] = ()
    failures: list[Calib8Error] = field(default_factory=list)

    def tell(self, terminal: Terminal, result: Any, report: RunReport) -> None:
        """Tells the trackers of a run that has a page; what goes wrong is said, and ends nothing."""
        from calib8.tracking.recorded import record_of

        self._tell(terminal, record_of(result, report, _parameters(), self.models, typed=True))

    def tell_benchmark(self, terminal: Terminal, found: Benchmark) -> None:
        """The same of timings."""
        if self.trackers:
            from calib8.processors import usable_cores
            from calib8.run_report.environment import environment
            from calib8.tracking.recorded import record_of_benchmark

            here = environment(usable_cores())
            self._tell(terminal, record_of_benchmark(found, here, _parameters(), self.models))

    def _tell(self, terminal: Terminal, record: RunRecord) -> None:
        from calib8.tracking.trackers import tell_all

        with shown_progress(terminal, "logging the run"):
            places, failures = tell_all(self.trackers, record)
        for place in places:
            terminal.say(f"log {place}")
        for failure in failures:
            self.failed(failure)

    def failed(self, failure: Calib8Error) -> None:
        """Says that the run could not be told."""
        print_error(on_command_line(failure.text))
        self.failures.append(failure)

    def end(self) -> None:
        """Ends the command where a tracker could not be told.

        Raises:
            typer.Exit: with the exit code 4.
        """
        if self.failures:
            raise typer.Exit(NOT_LOGGED)


def _parameters() -> dict[str, str]:
    """The options of this command and their values, without those that are not given."""
    found = {}
    for name, value in options_of_the_command().items():
        if name not in _NO_PARAMETERS and value is not None and value != [] and value is not False:
            several = isinstance(value, list | tuple)
            text = ", ".join(map(str, value)) if several else str(value)
            found[name.replace("_", "-")] = without_secrets(text)
    return found
