"""``--report``: one page that tells a run, for the commands that judge models."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from calib8.addresses import without_secrets
from calib8.cli.headings import RESULTS, option
from calib8.cli.options import ReadingOptions
from calib8.cli.outputs import model_bytes_on_disk
from calib8.cli.progress import shown_progress
from calib8.cli.terminal import Terminal
from calib8.cli.tracking import Log
from calib8.errors import Calib8Error

if TYPE_CHECKING:
    from calib8.data.preprocess import Preprocess
    from calib8.data.reading import Reading
    from calib8.run_report.stage_times import StageTimes
    from calib8.run_report.write import Result
    from calib8.tasks.purpose import Purpose

_HELP: Final = (
    "Write one page that tells the run: verdict, layers, network, tensors, worst samples. A few samples "
    "are run once more for it."
)
PageOption = Annotated[Path | None, option(RESULTS, "--report", "FILE.html", _HELP)]


def check_report(path: Path | None) -> None:
    """Refuses what is not the name of a page, before any work is done.

    Raises:
        UsageError, OutputError: see ``calib8.run_report.page_path.check_page``.
    """
    if path is not None:
        from calib8.run_report.page_path import check_page

        check_page(path, "--report")


def write_run_report(
    terminal: Terminal,
    path: Path | None,
    result: Result,
    times: StageTimes,
    *,
    fp32: Path | None,
    int8: Path | None,
    reading: Reading,
    purpose: Purpose,
    command: Sequence[str] = (),
    cure: Sequence[str] = (),
    log: Log,
) -> None:
    """Writes the page and says so, and tells trackers of it; nothing where none was asked for.

    Args:
        terminal: to say it on.
        path: the page; None: none.
        result: what was found.
        times: of the stages so far.
        fp32, int8: the models' files; None where there is none.
        reading: the data.
        purpose: what the outputs mean.
        command: to go on with; empty: none.
        cure: to go on with where something is lost; empty: ``command``.
        log: trackers.

    Raises:
        Calib8Error: what can be wrong with models, data or the page.
    """
    if path is None and not log.trackers:
        return
    timings = times.told()
    from calib8.run_report.around import Around
    from calib8.run_report.environment import environment
    from calib8.run_report.write import Asked, told_of, write_page

    sizes = tuple(None if file is None else model_bytes_on_disk(file) for file in (fp32, int8))
    around = Around(
        fp32,
        int8,
        shlex.join(command),
        (sizes[0], sizes[1]),
        timings,
        environment(reading.threads),
        shlex.join(cure),
    )
    try:
        with shown_progress(terminal, "writing the report") as progress:
            report = told_of(result, Asked(reading, purpose, around, progress, typed=True))
    except Calib8Error as error:
        if path is not None:
            raise
        log.failed(error)
        return
    if path is not None:
        write_page(path, report, typed=True)
        terminal.say(f"report {path}")
    if log.trackers:
        log.tell(terminal, result, report)


def diagnose_command(
    models: Sequence[Path],
    data: str,
    reading: ReadingOptions,
    preprocess: Preprocess | None,
    purpose: Purpose,
) -> list[str]:
    """What finds out why the second of two models lost its accuracy, on the same data; else empty."""
    if len(models) != 2:
        return []
    from calib8.cli.preprocessing import preprocessing_flags
    from calib8.cli.steps import meaning_flags, reading_flags

    meant = meaning_flags(purpose.task_name, purpose.branches, purpose.threshold)
    flags = [*reading_flags(reading), *preprocessing_flags(preprocess), *meant]
    return ["calib8", "diagnose", *map(str, models), "--data", without_secrets(data), *flags]
