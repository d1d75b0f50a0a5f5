"""The whole flow on one page: load → prepare → collect → choose ranges → quantize."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from calib8.analysis.saturation_here import saturation_notes
from calib8.autorange.chosen_table import chosen_table
from calib8.autorange.samples import bytes_to_keep
from calib8.calibration.decide import Wish, needs_bins, with_given
from calib8.calibration.everywhere import gathered
from calib8.calibration.gather import NOT_SAVED, Checkpointing, CheckpointWords, Gathered, Gathering
from calib8.calibration.given import GivenRanges, given_ranges, other_scales
from calib8.calibration.range_choice import RangeChoice, RangeWords
from calib8.calibration.source import (
    Model,
    Source,
    open_data,
    open_statistics,
    prepare_for_table,
    refuse_recurrent_alone,
)
from calib8.calibration.statistics import Statistics
from calib8.calibration.streaming import opened_for
from calib8.data.fit import fit_preprocess
from calib8.data.preprocess import Preprocess
from calib8.data.presets import known_preprocess
from calib8.data.reading import BatchWords, LabelWords, Reading, ReadingWords, SampleWords
from calib8.data.samples import Dataset, DataSource
from calib8.data.shards import Shard
from calib8.errors import UsageError
from calib8.formats.bind import bind, without_range
from calib8.formats.table_file import TableFile
from calib8.int8_model import int8_model, judged_model, other_tables, repaired_candidate, with_spots
from calib8.model.fix_inputs import with_fixed
from calib8.model.graph import graph_inputs
from calib8.model.load import kept_open, load_model
from calib8.modules.given import Module, as_model
from calib8.outcomes import Calibration as Calibration
from calib8.outcomes import Collection as Collection
from calib8.outcomes import Quantization as Quantization
from calib8.parameters import parameter
from calib8.passes.place import calibration_tensors
from calib8.progress import Progress, ShownProgress, callback_of, draws_progress
from calib8.repair.candidate import Candidate
from calib8.repair.wanted import RepairChoice, Repairs, RepairWords
from calib8.requests import requested, takes_words_of
from calib8.scheme import QuantScheme, TargetChoice, TargetWords
from calib8.table import CalibrationTable, Range
from calib8.tasks.branches import Meaning
from calib8.tasks.purpose import OutputWords, Purpose, PurposeWords, purpose_of

if TYPE_CHECKING:
    from typing_extensions import Unpack


class CollectingWords(SampleWords, LabelWords, BatchWords, CheckpointWords):
    """Keywords of ``collect_statistics``."""


class CalibratingWords(ReadingWords, TargetWords, RangeWords, CheckpointWords, OutputWords):
    """Keywords of ``calibrate``."""


class QuantizingWords(ReadingWords, TargetWords, RangeWords, RepairWords, PurposeWords):
    """Keywords of ``quantize``."""


@draws_progress
@takes_words_of(Reading, Checkpointing, without=("shapes",))
def collect_statistics(
    model: Model | Module,
    data: DataSource | Reading,
    *,
    keep_float: Sequence[str] = (),
    shard: tuple[int, int] | None = None,
    checkpoint: str | os.PathLike[str] | Checkpointing | None = None,
    example_inputs: object = None,
    progress: ShownProgress = None,
    **words: Unpack[CollectingWords],
) -> Collection:
    """Runs the float model over the data once and counts; ``calibrate(statistics=…)`` chooses ranges.

    Args:
        model: see ``calibrate``.
        data: images or arrays, or a ``Reading``, whose other fields are keywords too.
        keep_float: see ``calibrate``.
        shard: (i, n): only the i-th of n parts of the data, i from 1. The merged statistics of all parts
            are those of one run, whatever machines of one CPU type made them.
        checkpoint: a file, or a ``Checkpointing``, whose other field is a keyword too.
        example_inputs, progress: see ``calibrate``.
        words: fields of ``Reading`` and ``Checkpointing``.

    Raises:
        Calib8Error: what can be wrong with model, data or options, in one line each.
    """
    reading = requested(Reading, words, data, field="data")
    saving = requested(Checkpointing, words, checkpoint, field="checkpoint")
    part = None if shard is None else Shard(*shard)
    source, dataset = open_data(as_model(model, example_inputs), reading, keep_float=keep_float, shard=part)
    how = Gathering(reading.batch, reading.threads, shard=part, checkpoint=saving)
    found = gathered(source.prepared.model, source.tensors, dataset, how, callback_of(progress))
    return Collection(source.prepared, found.statistics, dataset, found.resumed, found.fallback)


@draws_progress
@takes_words_of(Reading, TargetChoice, RangeChoice, Checkpointing, Purpose, without=("threshold",))
def calibrate(
    model: Model | Module,
    data: DataSource | Reading | None = None,
    *,
    statistics: Statistics | str | os.PathLike[str] | None = None,
    target: str | TargetChoice = "onnxruntime",
    ranges: GivenRanges | RangeChoice | None = None,
    keep_float: Sequence[str] = (),
    checkpoint: str | os.PathLike[str] | Checkpointing | None = None,
    keep_statistics: bool = True,
    example_inputs: object = None,
    progress: ShownProgress = None,
    **words: Unpack[CalibratingWords],
) -> Calibration:
    """Runs the float model over the data, once or twice by method, and chooses a range for every activation.

    Args:
        model: path or ModelProto of the float model, or a torch module; the tensors of a module are called
            as the nodes of its traced graph, see ``calib8.modules.tracing``.
        data: images or arrays, see ``calib8.data.samples.open_dataset``; or a ``Reading``, whose other fields
            (``preprocess``, ``labels``, ``samples``, ``batch``, ``threads``, ``skip_bad``, ``shapes``) are
            keywords too. Labels are to check an image folder against; calibration itself needs none.
        statistics: those of an earlier run over the same model, or their file, in place of data. The table
            is the same, byte for byte. The preprocessing is known then, and another one refused.
        target: for ``auto``: the target that the whole model is checked for; or a ``TargetChoice``, whose
            ``activations``, the code that ranges are searched for, and ``weights`` are keywords too. Without
            ``activations`` a name means ``uint8``, a ``TargetChoice`` the target's own.
        ranges: pattern of tensor names → ``Range``, (low, high), or ``QParams``: they win over everything; or
            a ``RangeChoice``, whose other fields (``method``, ``percent``, ``decay``, ``power_of_two``) are
            keywords too.
        keep_float: names of nodes that will stay float: what only they need is not calibrated. A tensor that
            a node yields names it too.
        checkpoint: a file that the statistics are saved in on the way, and gone on with; or a
            ``Checkpointing``, whose ``checkpoint_every`` is a keyword too.
        keep_statistics: False: only the table is wanted. What it does not need is not gathered then, which
            takes less time: ``minmax`` needs no histograms. The table is the same.
        example_inputs: for a torch module: a tensor or a tuple of them as forward takes them, axis 0 the
            batch; None for any other model.
        progress: True: a bar is drawn on standard error, or in the notebook; or a function of the stage, the
            samples done and the samples in all (None where unknown).
        words: fields of ``Reading``, ``TargetChoice``, ``RangeChoice``, ``Checkpointing``, and for ``auto``
            of ``Purpose``: ``task`` and ``branches``.

    Raises:
        Calib8Error: what can be wrong with model, data or options, in one line each.
    """
    choice = requested(TargetChoice, words, target, field="target")
    request = _Calibrating(
        requested(Reading, words, data, field="data"),
        statistics,
        choice.scheme()
        if choice.activations or choice is target
        else choice.scheme().with_activations("uint8"),
        requested(RangeChoice, words, ranges, field="ranges"),
        keep_float,
        purpose_of(words),
        requested(Checkpointing, words, checkpoint, field="checkpoint"),
        keep_statistics=keep_statistics,
    )
    return _calibrated(as_model(model, example_inputs), request, callback_of(progress))


@dataclass(frozen=True)
class _Calibrating:
    """What ranges are asked for.

    Attributes:
        reading, statistics: what they come from.
        scheme: the target.
        ranges, keep_float, purpose, saving, keep_statistics: see ``calibrate``.
        keep_samples: so many samples of lowest SHA-256 are kept, with what the model yields for them, as long
            as memory allows; not with a checkpoint.
        quantizing: codes follow, so a model that the target leaves in float is refused before data are read.
    """

    reading: Reading
    statistics: Statistics | str | os.PathLike[str] | None
    scheme: QuantScheme
    ranges: RangeChoice
    keep_float: Sequence[str]
    purpose: Purpose
    saving: Checkpointing = NOT_SAVED
    keep_statistics: bool = False
    keep_samples: int = 0
    quantizing: bool = False


def _calibrated(model: Model, asked: _Calibrating, progress: Progress) -> Calibration:
    """The ranges of a model."""
    reading, wish = asked.reading, asked.ranges.wish(from_statistics=asked.statistics is not None)
    if asked.statistics is not None:
        if reading.data is not None or asked.saving:
            raise UsageError("calibrate", "saved statistics take no data and no checkpoint", "Give one only")
        source, kept = open_statistics(model, asked.statistics, reading, keep_float=asked.keep_float)
    elif reading.data is None:
        cure = f"Give {parameter('data')} or {parameter('statistics')}"
        raise UsageError("calibrate", "neither data nor statistics were given", cure)
    else:
        source, _ = open_data(model, reading, keep_float=asked.keep_float)
        kept = None
    if asked.quantizing:
        floats = source.prepared.nodes_called(asked.keep_float)
        refuse_recurrent_alone(source.prepared.model, asked.scheme, floats)
    meaning = asked.purpose.meaning(source.prepared.model)
    given, notes = given_ranges(asked.ranges.ranges or {}, source.tensors, asked.scheme.activations)
    found = _gathered(source, asked, wish, given, meaning, progress) if kept is None else Gathered(kept)
    table, report = chosen_table(
        source, found, wish, asked.scheme, given, meaning, keep_float=asked.keep_float, batch=reading.batch,
        threads=reading.threads, progress=progress,
    )  # fmt: skip
    table = replace(table, inputs=source.sizes)
    return Calibration(
        source.prepared, found.statistics, table, source.dataset, found.resumed, found.fallback, notes,
        report, found.kept,
    )  # fmt: skip


def _gathered(
    source: Source,
    asked: _Calibrating,
    wish: Wish,
    given: Mapping[str, Range],
    meaning: Meaning,
    progress: Progress,
) -> Gathered:
    """Statistics of the data."""
    dataset = cast(Dataset, source.dataset)
    how = Gathering(
        asked.reading.batch, asked.reading.threads, wish.moving_decay, checkpoint=asked.saving,
        bins=asked.keep_statistics or needs_bins(wish, given), keep=asked.keep_samples,
        keep_bytes=bytes_to_keep(meaning),
    )  # fmt: skip
    return gathered(source.prepared.model, source.tensors, dataset, how, progress)


@draws_progress
@takes_words_of(Reading, TargetChoice, RangeChoice, RepairChoice, Purpose)
def quantize(
    model: Model | Module,
    data: DataSource | Reading | None = None,
    *,
    table: CalibrationTable | TableFile | None = None,
    partial: bool = False,
    statistics: Statistics | str | os.PathLike[str] | None = None,
    target: str | TargetChoice = "onnxruntime",
    ranges: GivenRanges | RangeChoice | None = None,
    repair: Sequence[str] | RepairChoice | None = None,
    example_inputs: object = None,
    progress: ShownProgress = None,
    **words: Unpack[QuantizingWords],
) -> Quantization:
    """Makes the INT8 model, from data, from statistics or from a table.

    Args:
        model: path or ModelProto of the float model, or a torch module, see ``calibrate``.
        data: calibration data, or a ``Reading``, see ``calibrate``; needed unless ``table`` or
            ``statistics`` are given. Without them ``shapes`` say what the model leaves open.
        table: ranges of an earlier calibration of the same model, or a table of another tool, as
            ``calib8.formats.tables.read_table`` reads it.
        partial: with such a table: pass over names that the model does not have, and leave nodes in float
            whose tensors the table lacks.
        statistics: those of an earlier run, see ``calibrate``.
        target: a key of ``calib8.scheme.TARGETS``; or a ``TargetChoice``, whose other fields
            (``activations``, ``weights``) are keywords too.
        ranges: as for ``calibrate``, with its keywords; they win over the table too, and give it what it
            lacks. With the effort ``fast`` the default method is ``mse-behind``. With ``power_of_two`` the
            scales of all activations are powers of two, those that ops share too; a table that was made so
            asks for it by itself.
        repair: keys of ``calib8.repair.repairs.REPAIRS`` to carry out in place of an effort, ``("none",)``
            for none at all; or a ``RepairChoice``, whose other fields (``effort``, ``keep_float``, ``spots``)
            are keywords too.
        example_inputs, progress: see ``calibrate``.
        words: fields of ``Reading``, ``TargetChoice``, ``RangeChoice``, ``RepairChoice`` and ``Purpose``;
            repairs and the verdict judge by the last one too.

    Raises:
        Calib8Error: what can be wrong with model, data, table or options, in one line each.
    """
    request = _Request(
        requested(Reading, words, data, field="data"),
        requested(TargetChoice, words, target, field="target").scheme(),
        requested(RangeChoice, words, ranges, field="ranges"),
        requested(RepairChoice, words, repair, field="repair"),
        purpose_of(words),
    )
    wanted = request.repair.wanted(with_data=request.reading.data is not None, with_table=table is not None)
    model = as_model(model, example_inputs)
    if table is not None:
        file = TableFile("calib8", table) if isinstance(table, CalibrationTable) else table
        if not isinstance(file, TableFile):
            raise UsageError("table", f"is of type {type(table).__name__}", "Read it with calib8.read_table")
        return _with_table(model, file, request, wanted, callback_of(progress), partial=partial)
    if request.reading.data is None and statistics is None:
        problem = "neither data nor statistics nor a table was given"
        raise UsageError("quantize", problem, f"Give {parameter('data')} or {parameter('table')}")
    return _with_ranges(model, statistics, request, wanted, callback_of(progress))


@dataclass(frozen=True)
class _Request:
    """What an INT8 model is made of, see ``quantize``."""

    reading: Reading
    scheme: QuantScheme
    ranges: RangeChoice
    repair: RepairChoice
    purpose: Purpose


def _with_ranges(
    model: Model,
    statistics: Statistics | str | os.PathLike[str] | None,
    asked: _Request,
    wanted: Repairs,
    progress: Progress,
) -> Quantization:
    """The INT8 model with ranges that are chosen here, from data or from statistics."""
    keep_float, power_of_two = asked.repair.keep_float, asked.ranges.power_of_two
    ranges = replace(asked.ranges, method=asked.ranges.method or wanted.method)
    calibrating = _Calibrating(
        asked.reading, statistics, asked.scheme, ranges, keep_float, asked.purpose,
        keep_samples=wanted.samples, quantizing=True,
    )  # fmt: skip
    if wanted.names:
        model = kept_open(model)  # repairs by name look at it again
    calibration = _calibrated(model, calibrating, progress)
    prepared, threads = calibration.prepared, asked.reading.threads
    floats = prepared.nodes_called(keep_float)
    candidate = Candidate(prepared.model, calibration.table, asked.scheme, floats, power_of_two)
    start = with_spots(candidate, asked.repair.spots)
    meaning = asked.purpose.meaning(prepared.model)
    others = {} if asked.ranges.method is not None else other_tables(calibration, start, meaning)
    done = repaired_candidate(
        start, wanted, calibration.dataset, others, meaning, threads, progress, kept=calibration.kept,
        original=load_model(with_fixed(model, asked.reading.fix)) if wanted.names else None,
    )  # fmt: skip
    preprocess = _used(calibration, asked.reading.preprocess)
    result = judged_model(int8_model(start, done, prepared, preprocess, {}), meaning, threads)
    notes = (*calibration.notes, *result.notes, *saturation_notes(result.model, asked.scheme.name))
    return replace(result, calibration=calibration, notes=notes)


def _used(calibration: Calibration, given: Preprocess | str | None) -> Preprocess | None:
    """The preprocessing of the samples that ranges are of."""
    if calibration.dataset is not None:
        return calibration.dataset.preprocess
    if calibration.statistics.preprocess is not None:
        return Preprocess.from_json(calibration.statistics.preprocess, "statistics")
    inputs = graph_inputs(calibration.prepared.model)
    return None if given is None else fit_preprocess(given, inputs, "preprocessing")


def _with_table(
    model: Model, file: TableFile, asked: _Request, wanted: Repairs, progress: Progress, *, partial: bool
) -> Quantization:
    """The INT8 model with the ranges of a table; data are for repairs and to compare the prepared model."""
    reading, scheme, known = asked.reading, asked.scheme, file.table.inputs
    original, prepared = prepare_for_table(model, reading, known=known)
    given, notes = given_ranges(
        asked.ranges.ranges or {}, calibration_tensors(prepared.model), scheme.activations
    )
    zero_points = not scheme.activations.symmetric
    bound = bind(file, prepared.model, original, partial=partial, zero_points=zero_points)
    table = replace(with_given(bound.table, given, {}), inputs=known)
    binding = replace(bound, table=table)
    floats = prepared.nodes_called(asked.repair.keep_float)
    refuse_recurrent_alone(prepared.model, scheme, floats)
    unranged = without_range(prepared.model, scheme, floats, binding, partial=partial)
    looked_at = reading.data is not None and wanted
    dataset = opened_for(original, reading) if looked_at else None
    candidate = Candidate(prepared.model, table, scheme, floats, asked.ranges.power_of_two)
    start = with_spots(candidate, asked.repair.spots, unranged)
    meaning = asked.purpose.meaning(prepared.model)
    done = repaired_candidate(
        start, wanted, dataset, {}, meaning, reading.threads, progress, original=original, unranged=unranged
    )
    made = int8_model(start, done, prepared, known_preprocess(reading.preprocess), unranged)
    result = judged_model(made, meaning, reading.threads)
    if file.format != "calib8":
        scales = {name: found for name, found in result.qparams.items() if name not in result.spots}
        notes = (*notes, *other_scales(table, scales, scheme.activations))
    notes = (*notes, *result.notes, *saturation_notes(result.model, scheme.name))
    return replace(result, binding=binding, notes=notes)
