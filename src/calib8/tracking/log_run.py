"""``log_run``: what a function of calib8 returned, told to trackers of experiments."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from calib8.analysis.model_bytes import model_bytes_on_disk
from calib8.analysis.model_pair import Model
from calib8.analysis.speed import Benchmark
from calib8.data.reading import NOTHING_READ, Reading
from calib8.data.samples import DataSource
from calib8.files import check_model_file, checked_path
from calib8.progress import ShownProgress, callback_of, draws_progress
from calib8.requests import requested, takes_words_of
from calib8.run_report.around import Around
from calib8.run_report.environment import environment
from calib8.run_report.write import Asked, Result, TellingWords, told_of
from calib8.tasks.purpose import Purpose, purpose_of
from calib8.tracking.recorded import record_of, record_of_benchmark
from calib8.tracking.trackers import checked_trackers, tell_all

if TYPE_CHECKING:
    from typing_extensions import Unpack

Logged: TypeAlias = "Result | Benchmark"
"""What can be logged."""


@draws_progress
@takes_words_of(Reading, Purpose, without=("labels", "batch", "shapes"))
def log_run(
    result: Logged,
    to: str | Sequence[str],
    *,
    data: DataSource | Reading | None = None,
    fp32: Model | None = None,
    model: str | os.PathLike[str] | None = None,
    parameters: Mapping[str, object] | None = None,
    progress: ShownProgress = None,
    **words: Unpack[TellingWords],
) -> tuple[str, ...]:
    """Logs what was found to MLflow, TensorBoard or Weights & Biases.

    Parameters, figures, the verdict, the layers and the parts (candidates, models, timings), the environment
    and the page of ``write_report``. A few samples are run through both models for that, at most 32.

    Args:
        result: of ``quantize``, ``evaluate``, ``compare``, ``diagnose``, ``tune`` or ``benchmark``.
        to: ``mlflow``, ``mlflow:URI``, ``tensorboard:FOLDER``, ``wandb`` or ``wandb:ENTITY/PROJECT``, or a
            list of them. All are checked before anything is run.
        data: samples for the layers, as for ``write_report``; the result of ``quantize`` knows its own.
        fp32: the float model, where the result does not know it.
        model: file of a model that is uploaded too; None: none is.
        parameters: more to log, name → value.
        progress: see ``calib8.calibrate``.
        words: fields of ``Reading``, and of ``Purpose``: what the outputs mean.

    Returns:
        Where the run is now, in words, one line per tracker.

    Raises:
        UsageError: a result of another kind, an unknown tracker, a package that is not installed.
        OutputError: a tracker cannot be reached or written to. The others were told all the same.
        Calib8Error: models or data cannot be read.
    """
    given = {str(name): str(value) for name, value in (parameters or {}).items()}
    models = () if model is None else (_model(model),)
    trackers = checked_trackers(to)
    reading = NOTHING_READ if data is None else requested(Reading, words, data, field="data")
    here = environment(reading.threads)
    if isinstance(result, Benchmark):
        record = record_of_benchmark(result, here, given, models)
    else:
        around = Around(fp32, bytes=_sizes(fp32, models), environment=here)
        report = told_of(result, Asked(reading, purpose_of(words), around, callback_of(progress)))
        record = record_of(result, report, given, models)
    places, failures = tell_all(trackers, record)
    if failures:
        raise failures[0]
    return tuple(places)


def _model(path: str | os.PathLike[str]) -> Path:
    file = checked_path(path, "model")
    check_model_file(file, "Give the path of a model")
    return file


def _sizes(fp32: Model | None, models: Sequence[Path]) -> tuple[int | None, int | None]:
    """Bytes of the float model and of the one that is uploaded, as far as there are files."""
    is_file = isinstance(fp32, str | os.PathLike) and Path(fp32).is_file()
    return (
        model_bytes_on_disk(Path(fp32)) if is_file else None,  # type: ignore[arg-type]
        model_bytes_on_disk(models[0]) if models else None,
    )
