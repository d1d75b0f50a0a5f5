"""``write_report``: what a function of calib8 returned, as one page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import onnx_ir as ir

from calib8.analysis.comparison import Comparison
from calib8.analysis.evaluation import Evaluation
from calib8.analysis.model_bytes import model_bytes_on_disk
from calib8.analysis.model_pair import Model
from calib8.analysis.runtimes import is_float_model
from calib8.calibration.streaming import opened_for
from calib8.data.fed import Fed, fed_from
from calib8.data.reading import NOTHING_READ, Reading, SampleWords
from calib8.data.samples import Dataset, DataSource
from calib8.errors import Calib8Error, UsageError
from calib8.files import atomic_output, is_translated
from calib8.model.fix_inputs import with_fixed
from calib8.model.load import ModelSource, load_model
from calib8.model.metadata import PREFIX
from calib8.outcomes import Quantization
from calib8.passes.stored_statistics import BATCH_NORMS
from calib8.progress import Progress, ShownProgress, callback_of, draws_progress, silent
from calib8.quantization.qdq import holds_codes
from calib8.remedies import Treatment
from calib8.requests import requested, takes_words_of
from calib8.run_report.around import Around
from calib8.run_report.chosen_samples import ChosenReading, chosen_reading
from calib8.run_report.environment import environment
from calib8.run_report.of_judged import of_comparison, of_evaluations, of_treatment
from calib8.run_report.of_quantize import of_quantization
from calib8.run_report.of_tune import of_tuning
from calib8.run_report.page import page
from calib8.run_report.page_path import check_page
from calib8.run_report.side_by_side import SideBySide, side_by_side
from calib8.run_report.told import RunReport
from calib8.session.stored_preprocess import stored_preprocess
from calib8.tasks.purpose import Purpose, PurposeWords, purpose_of
from calib8.tasks.verdict import unjudged
from calib8.tflite.magic import claims_to_be_tflite
from calib8.tuning.tune import Tuning

if TYPE_CHECKING:
    from typing_extensions import Unpack

Result: TypeAlias = "Quantization | Comparison | Treatment | Tuning | Evaluation | Sequence[Evaluation]"
"""What a report can be written of."""


class TellingWords(SampleWords, PurposeWords):
    """Keywords of ``write_report``."""


@draws_progress
@takes_words_of(Reading, Purpose, without=("labels", "batch", "shapes"))
def write_report(
    result: Result,
    path: str | os.PathLike[str],
    *,
    data: DataSource | Reading | None = None,
    fp32: Model | None = None,
    progress: ShownProgress = None,
    **words: Unpack[TellingWords],
) -> None:
    """Writes what was found as one HTML file that needs no other file and no network.

    Verdict, what was done, layers, the network as a drawing, tensors, the worst samples: as far as the result
    and the data tell. A few samples are run through both models for that, at most 32.

    Args:
        result: of ``quantize``, ``evaluate``, ``compare``, ``diagnose`` or ``tune``.
        path: of the page, with the suffix ``.html``.
        data: samples for layers, tensors and samples, or a ``Reading``, whose other fields are keywords too.
            The result of ``quantize`` knows its own. Without data these parts are left out, except for what
            the result itself tells.
        fp32: the float model, where the result does not know it (``tune``) or it is no file any more.
        progress: see ``calib8.calibrate``.
        words: fields of ``Reading``, and of ``Purpose``: what the outputs mean.

    Raises:
        UsageError: a result of another kind, a path of another kind of file.
        OutputError: the page cannot be written; an old one stays intact.
        Calib8Error: models or data cannot be read, or the data do not fit the models: nothing is written.
    """
    reading = NOTHING_READ if data is None else requested(Reading, words, data, field="data")
    around = Around(fp32, environment=environment(reading.threads))
    write_told(result, path, Asked(reading, purpose_of(words), around, callback_of(progress)))


@dataclass(frozen=True, eq=False)
class Asked:
    """What a report is made of beside the result.

    Attributes:
        reading: samples; without data the result's own, or none.
        purpose: what the outputs mean.
        around: files, times, the next command.
        progress: see ``calib8.calibrate``.
        typed: texts name parameters as on the command line.
    """

    reading: Reading
    purpose: Purpose
    around: Around
    progress: Progress = silent
    typed: bool = False

    @property
    def fp32(self) -> Model | None:
        """The float model, where it is known beside the result."""
        return self.around.fp32

    def dataset(self, inputs_of: ModelSource, stored_in: Sequence[Path]) -> Dataset | None:
        """The data that were given, for a float model."""
        if self.reading.data is None:
            return None
        reading = self.reading
        original = load_model(with_fixed(inputs_of, reading.fix))
        if reading.preprocess is None:
            reading = replace(reading, preprocess=stored_preprocess(stored_in))
        return opened_for(original, replace(reading, labels=None))

    def seen(
        self, fp32: Model, int8: Model, dataset: Dataset | None, compared: Comparison | None = None,
        made: Quantization | None = None, counted: bool = True,
    ) -> SideBySide | None:  # fmt: skip
        """Both models on some samples; None without data. Where they cannot be run it says why.

        Raises:
            DataError: samples cannot be read, or do not fit the models.
        """
        if dataset is None:
            return None
        reading = replace(chosen_reading(dataset, self.reading.threads, made), fix=self.reading.fix)
        try:
            seen = side_by_side(
                fp32, int8, reading, purpose=self.purpose, compared=compared, counted=counted,
                progress=self.progress,
            )  # fmt: skip
        except Calib8Error as error:  # the result itself is told all the same
            seen = SideBySide(reading.where, compared, error.text, None, (), unjudged(error.text))
        else:
            seen = replace(seen, fed=_fed(dataset, compared))
        if seen.note:
            _refuse_unreadable(reading)
        return seen


def _refuse_unreadable(reading: ChosenReading) -> None:
    """Tells apart data that cannot be used from models that cannot be run: of the former nothing is told.

    Raises:
        DataError: there is no sample, or one cannot be read.
    """
    for _ in reading.opened(()):
        pass


def _fed(dataset: Dataset, compared: Comparison | None) -> Fed | None:
    """The data, where all that went in is known to be of them."""
    samples = dataset.count if compared is None else compared.images
    return None if samples is None else fed_from(dataset, samples)


def write_told(result: Result, path: str | os.PathLike[str], asked: Asked) -> None:
    """``write_report`` for who knows more than the result.

    Raises:
        Calib8Error: see ``write_report``.
    """
    file = check_page(path)
    write_page(file, told_of(result, asked), typed=asked.typed)


def write_page(path: Path, report: RunReport, *, typed: bool) -> None:
    """Writes a report that was told; ``typed``: see ``Asked``.

    Raises:
        OutputError: it cannot be written; an old page stays intact.
    """
    text = page(report, typed=typed)
    with atomic_output(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def told_of(result: Any, asked: Asked) -> RunReport:
    """What a page tells of a result.

    Raises:
        Calib8Error: see ``write_report``.
    """
    if isinstance(result, Quantization):
        return _of_quantization(result, asked)
    if isinstance(result, Comparison):
        return _of_comparison(result, asked)
    if isinstance(result, Treatment):
        return _of_treatment(result, asked)
    if isinstance(result, Tuning):
        return _of_tuning(result, asked)
    several = [result] if isinstance(result, Evaluation) else result
    if isinstance(several, list | tuple) and several and all(isinstance(one, Evaluation) for one in several):
        return _of_evaluations(several, asked)
    problem = f"is of type {type(result).__name__}, of which no report is known"
    raise UsageError("result", problem, "Give what quantize, evaluate, compare, diagnose or tune returned")


def _of_quantization(result: Quantization, asked: Asked) -> RunReport:
    calibration = result.calibration
    dataset = None if calibration is None else calibration.dataset
    binned = calibration is not None and all(one.binned for one in calibration.statistics.tensors.values())
    if dataset is None:
        dataset = asked.dataset(ir.to_proto(result.prepared.model), ())
    if dataset is None:
        return of_quantization(result, None, asked.around)
    fp32, int8 = _models(result, asked)
    seen = asked.seen(fp32, int8, dataset, made=result, counted=not binned)
    return of_quantization(result, seen, asked.around)


def _models(result: Quantization, asked: Asked) -> tuple[Model, Model]:
    """The float model and what was made of it: files as far as there are some.

    Without the file of the float model it is the prepared one, with the batch normalizations that a repair
    estimated, where one did.
    """
    file = asked.around.int8
    if asked.fp32 is not None:
        return asked.fp32, ir.to_proto(result.model) if file is None or is_translated(file) else file
    known = None if result.repaired is None else result.repaired.reference
    int8 = ir.to_proto(result.model)
    kept = [entry for entry in int8.metadata_props if entry.key != PREFIX + BATCH_NORMS]
    del int8.metadata_props[:]
    int8.metadata_props.extend(kept)
    return ir.to_proto(result.prepared.model if known is None else known), int8


def _of_comparison(result: Comparison, asked: Asked) -> RunReport:
    fp32, int8 = asked.fp32 or _file(result.fp32), asked.around.int8 or _file(result.int8)
    seen = None
    if fp32 is not None and int8 is not None:
        dataset = asked.dataset(fp32, [int8])
        seen = asked.seen(fp32, int8, dataset, result)
    return of_comparison(result, seen, None if int8 is None else load_model(int8), asked.around)


def _of_treatment(result: Treatment, asked: Asked) -> RunReport:
    comparison, made = result.diagnosis.comparison, result.diagnosis.dissection.model
    path = asked.around.int8 or (None if result.made_here else _file(comparison.int8))
    fp32 = asked.fp32 or _file(comparison.fp32)
    int8: Model = path if path is not None else ir.to_proto(made)
    seen = None
    if fp32 is not None:
        dataset = asked.dataset(fp32, [] if path is None else [path])
        seen = asked.seen(fp32, int8, dataset, comparison)
    return of_treatment(result, seen, made if path is None else load_model(path), asked.around)


def _of_tuning(result: Tuning, asked: Asked) -> RunReport:
    int8 = _file(str(result.path))
    seen = None
    if asked.fp32 is not None and int8 is not None:
        seen = asked.seen(asked.fp32, int8, asked.dataset(asked.fp32, [int8]))
    return of_tuning(result, seen, None if int8 is None else load_model(int8), asked.around)


def _of_evaluations(result: Sequence[Evaluation], asked: Asked) -> RunReport:
    paths = [_file(one.model) for one in result]
    sizes = [None if path is None else model_bytes_on_disk(path) for path in paths]
    plain = [path for path in paths if path is not None and path.suffix == ".onnx"]
    fp32 = next((path for path in plain if is_float_model(path)), None)
    int8 = next((path for path in plain if not is_float_model(path) and _is_qdq(path)), None)
    seen = None
    if fp32 is not None and int8 is not None:
        dataset = asked.dataset(fp32, [int8])
        seen = asked.seen(fp32, int8, dataset)
    if int8 is None:
        return of_evaluations(result, seen, None, asked.around, sizes)
    return of_evaluations(result, seen, load_model(int8), asked.around, sizes, model_bytes_on_disk(int8))


def _is_qdq(path: Path) -> bool:
    return not claims_to_be_tflite(path) and holds_codes(load_model(path))


def _file(name: str) -> Path | None:
    path = Path(name)
    return path if path.is_file() else None
