"""The whole flow on one page: load → prepare → collect → choose ranges → quantize."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

from calib8.analysis.saturation_here import saturation_notes
from calib8.autorange.chosen_table import chosen_table
from calib8.autorange.samples import bytes_to_keep
from calib8.calibration.decide import AUTO, Wish, check_wish, needs_bins, with_given
from calib8.calibration.gather import Gathered, checkpointing, gather
from calib8.calibration.given import GivenRanges, given_ranges
from calib8.calibration.source import (
    Model,
    Module,
    Shapes,
    open_data,
    open_statistics,
    prepare_for_table,
)
from calib8.calibration.statistics import Statistics
from calib8.data.fit import fit_preprocess
from calib8.data.preprocess import Preprocess
from calib8.data.presets import known_preprocess
from calib8.data.samples import DataSource, open_dataset
from calib8.data.shards import Shard
from calib8.errors import UsageError
from calib8.formats.bind import bind, without_range
from calib8.formats.table_file import TableFile
from calib8.int8_model import (
    STATISTICS_METHOD,
    int8_model,
    judged_model,
    other_tables,
    repaired_candidate,
    with_spots,
)
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.outcomes import Calibration as Calibration
from calib8.outcomes import Collection as Collection
from calib8.outcomes import Quantization as Quantization
from calib8.parameters import parameter
from calib8.passes.place import calibration_tensors
from calib8.progress import Progress, check_positive, silent
from calib8.repair.candidate import Candidate
from calib8.repair.wanted import Repairs, repairs_wanted
from calib8.scheme import QuantScheme, target_scheme
from calib8.table import CalibrationTable
from calib8.tasks.meaning import NOTHING_NAMED, meaning_of

DEFAULT_METHOD: Final = AUTO


def as_model(model: Model | Module, example_inputs: object) -> Model:
    """A torch module as the ONNX model that it is exported as; anything else as it stands.

    Raises:
        UsageError: a module without example inputs, or example inputs without a module.
        Calib8Error: what ``calib8.training.export.export_module`` raises.
    """
    torch = sys.modules.get("torch")  # where it was never imported there is no module
    module = getattr(getattr(torch, "nn", None), "Module", ())
    if isinstance(model, module):
        if example_inputs is None:
            problem = "is a torch module, and example_inputs were not given"
            raise UsageError(type(model).__name__, problem, "Give a batch as its forward takes it")
        from calib8.training.export import export_module  # the only import of torch

        return export_module(model, example_inputs)
    if example_inputs is not None:
        raise UsageError("example_inputs", "are for torch modules only", "Leave them out")
    return cast(Model, model)


def collect_statistics(
    model: Model | Module,
    data: DataSource,
    *,
    preprocess: Preprocess | str | None = None,
    labels: str | os.PathLike[str] | None = None,
    samples: int | None = None,
    batch: int | None = None,
    threads: int = 2,
    skip_bad: bool = False,
    keep_float: Sequence[str] = (),
    shard: tuple[int, int] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    example_inputs: object = None,
    progress: Progress = silent,
) -> Collection:
    """Runs the float model over the data once and counts; ``calibrate(statistics=…)`` chooses ranges.

    Args:
        shard: (i, n): only the i-th of n parts of the data, i from 1. The merged statistics of all parts
            are those of one run, whatever machines of one CPU type made them.
        model, data, preprocess, labels, samples, batch, threads, skip_bad, keep_float, checkpoint,
            checkpoint_every, example_inputs, progress: see ``calibrate``.

    Raises:
        Calib8Error: what can be wrong with model, data or options, in one line each.
    """
    _check_counts(batch, threads)
    saving = checkpointing(checkpoint, checkpoint_every)
    part = None if shard is None else Shard(*shard)
    model = as_model(model, example_inputs)
    source, dataset = open_data(
        model, data, preprocess=preprocess, labels=labels, samples=samples, skip_bad=skip_bad,
        keep_float=keep_float, shard=part,
    )  # fmt: skip
    found = gather(
        source.prepared.model, source.tensors, dataset, batch=batch, threads=threads, shard=part,
        checkpoint=saving, progress=progress,
    )  # fmt: skip
    return Collection(source.prepared, found.statistics, dataset, found.resumed, found.fallback)


def calibrate(
    model: Model | Module,
    data: DataSource | None = None,
    *,
    statistics: Statistics | str | os.PathLike[str] | None = None,
    preprocess: Preprocess | str | None = None,
    labels: str | os.PathLike[str] | None = None,
    method: str | None = None,
    activations: str = "uint8",
    target: str = "onnxruntime",
    weights: str = "per-channel",
    percent: float | None = None,
    decay: float | None = None,
    power_of_two: bool = False,
    ranges: GivenRanges | None = None,
    samples: int | None = None,
    batch: int | None = None,
    threads: int = 2,
    skip_bad: bool = False,
    keep_float: Sequence[str] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    keep_statistics: bool = True,
    keep_samples: int = 0,
    example_inputs: object = None,
    shapes: Shapes | None = None,
    task: str | None = None,
    branches: Mapping[str, str] = NOTHING_NAMED,
    progress: Progress = silent,
) -> Calibration:
    """Runs the float model over the data, once or twice by method, and chooses a range for every activation.

    Args:
        model: path or ModelProto of the float model, or a torch module; the tensors of a module are called
            as the nodes of its traced graph, see ``calib8.training.tracing``.
        data: images or arrays, see ``calib8.data.samples.open_dataset``.
        statistics: those of an earlier run over the same model, or their file, in place of data. The table
            is the same, byte for byte.
        preprocess: how images become inputs, or the name of a preset, see ``calib8.data.presets``; not needed
            for arrays. That of ``statistics`` is known, and another one refused.
        labels: the list to check an image folder against; calibration itself needs none.
        method: a key of ``calib8.calibration.ranges.METHODS``, or one that needs data: ``ema``, ``auto`` or
            a key of ``calib8.calibration.ranges.two_pass.TWO_PASS_METHODS``, which read them twice. None:
            ``auto`` with data, ``mse-behind`` with statistics.
        activations: ``uint8``, ``int8`` or ``int8-symmetric``: the type that the search assumes.
        target: for ``auto``: the target that the whole model is checked for; it must take ``activations``.
        weights: for ``auto``: ``per-channel`` or ``per-tensor``, the scales of weights in that check.
        percent: for ``percentile``: share of the values to keep, 50 … 100; None for its default.
        decay: for ``ema``: weight of what was seen before, 0 … 1; None for 0.99.
        power_of_two: widen every range so that its scale is a power of two.
        ranges: pattern of tensor names → ``Range``, (low, high), or ``QParams`` of the type ``activations``;
            of several patterns that match the last counts. They win over everything.
        samples: at most so many.
        batch: samples per run, None for what is fastest; the result does not depend on it.
        threads: for decoding, the float model, counting and searching; the result does not depend on it.
        skip_bad: pass over images that cannot be read.
        keep_float: names of nodes that will stay float: what only they need is not calibrated. A tensor that
            a node yields names it too.
        checkpoint: a file that the statistics are saved in on the way. Where it exists, the run goes on
            with it; the result is that of one run. It stays when all is done.
        checkpoint_every: samples between two savings; None: every 10 seconds or more seldom.
        keep_statistics: False: only the table is wanted. What it does not need is not gathered then, which
            takes less time: ``minmax`` needs no histograms. The table is the same.
        keep_samples: so many samples of lowest SHA-256 are kept, with what the model yields for them, as long
            as memory allows; not with a checkpoint.
        example_inputs: for a torch module: a tensor or a tuple of them as forward takes them, axis 0 the
            batch; None for any other model.
        shapes: with statistics: input name → sizes, where neither model nor preprocessing say them.
        task: for ``auto``: what the network is for, a key of ``calib8.tasks.kinds.NEEDS``; None: told by the
            graph.
        branches: for ``auto``: part of an output, such as ``output0`` or ``output0[4:84]`` → what it is, of
            ``calib8.tasks.kinds.KINDS``; what is not named is told by the graph.
        progress: see ``Progress``.

    Raises:
        Calib8Error: what can be wrong with model, data or options, in one line each.
    """
    method = method or default_method(from_statistics=statistics is not None)
    wish = Wish(method, percent, decay, power_of_two)
    check_wish(wish, from_statistics=statistics is not None)
    scheme = target_scheme(target).with_activations(activations).with_weights(weights)
    _check_counts(batch, threads)
    saving = checkpointing(checkpoint, checkpoint_every)
    model = as_model(model, example_inputs)
    if shapes and data is not None:
        raise UsageError("shapes", "are given beside data, which have their own", "Leave them out")
    if statistics is not None:
        if data is not None or saving is not None:
            raise UsageError("calibrate", "saved statistics take no data and no checkpoint", "Give one only")
        source, kept = open_statistics(model, statistics, keep_float, preprocess, shapes)
        meaning = meaning_of(source.prepared.model, task=task, branches=branches)
        chosen, notes = given_ranges(ranges or {}, source.tensors, scheme.activations)
        found = Gathered(kept)
    elif data is None:
        cure = f"Give {parameter('data')} or {parameter('statistics')}"
        raise UsageError("calibrate", "neither data nor statistics were given", cure)
    else:
        source, dataset = open_data(
            model, data, preprocess=preprocess, labels=labels, samples=samples, skip_bad=skip_bad,
            keep_float=keep_float, shard=None,
        )  # fmt: skip
        meaning = meaning_of(source.prepared.model, task=task, branches=branches)
        chosen, notes = given_ranges(ranges or {}, source.tensors, scheme.activations)
        found = gather(
            source.prepared.model, source.tensors, dataset, batch=batch, threads=threads, checkpoint=saving,
            decay=wish.moving_decay, bins=keep_statistics or needs_bins(wish, chosen), keep=keep_samples,
            keep_bytes=bytes_to_keep(meaning), progress=progress,
        )  # fmt: skip
    table, report = chosen_table(
        source, found, wish, scheme, chosen, meaning, keep_float=keep_float, batch=batch, threads=threads,
        progress=progress,
    )  # fmt: skip
    table = replace(table, inputs=source.sizes)
    return Calibration(
        source.prepared, found.statistics, table, source.dataset, found.resumed, found.fallback, notes,
        report, found.kept,
    )  # fmt: skip


def default_method(*, from_statistics: bool = False) -> str:
    """Name of the method that is used where none is asked for."""
    return STATISTICS_METHOD if from_statistics else DEFAULT_METHOD


def _check_counts(batch: int | None, threads: int) -> None:
    check_positive("batch", 1 if batch is None else batch)
    check_positive("threads", threads)


def quantize(
    model: Model | Module,
    data: DataSource | None = None,
    *,
    table: CalibrationTable | TableFile | None = None,
    partial: bool = False,
    statistics: Statistics | str | os.PathLike[str] | None = None,
    target: str = "onnxruntime",
    activations: str | None = None,
    weights: str = "per-channel",
    preprocess: Preprocess | str | None = None,
    labels: str | os.PathLike[str] | None = None,
    method: str | None = None,
    percent: float | None = None,
    decay: float | None = None,
    power_of_two: bool = False,
    ranges: GivenRanges | None = None,
    effort: str | None = None,
    repair: Sequence[str] | None = None,
    samples: int | None = None,
    batch: int | None = None,
    threads: int = 2,
    skip_bad: bool = False,
    keep_float: Sequence[str] = (),
    spots: Sequence[str] = (),
    example_inputs: object = None,
    shapes: Shapes | None = None,
    task: str | None = None,
    branches: Mapping[str, str] = NOTHING_NAMED,
    progress: Progress = silent,
) -> Quantization:
    """Makes the INT8 model, from data, from statistics or from a table.

    Args:
        model: path or ModelProto of the float model, or a torch module, see ``calibrate``.
        data: calibration data; needed unless ``table`` or ``statistics`` are given.
        table: ranges of an earlier calibration of the same model, or a table of another tool, as
            ``calib8.formats.tables.read_table`` reads it.
        partial: with such a table: pass over names that the model does not have, and leave nodes in float
            whose tensors the table lacks.
        statistics: those of an earlier run, see ``calibrate``.
        target: a key of ``calib8.scheme.TARGETS``.
        activations: activation type, None for the target's own.
        weights: ``per-channel``: a scale per output channel; ``per-tensor``: one for each weight.
        power_of_two: the scales of all activations are powers of two, those that ops share too. A table
            that was made so asks for it by itself.
        ranges: as for ``calibrate``; they win over the table too, and give it what it lacks.
        effort: how much is tried to keep the accuracy, a key of ``calib8.repair.repairs.EFFORTS``. None:
            ``balanced`` where there are data to calibrate with, else nothing.
        repair: keys of ``calib8.repair.repairs.REPAIRS`` to carry out, in place of an effort; ``("none",)``
            for none at all. All but ``DATA_FREE`` ones need data.
        keep_float: names of nodes to keep in float.
        spots: names of tensors whose codes have 16 bits in place of 8, see ``calib8.passes.spots``; only the
            target ``calib8`` has such codes.
        shapes: without data: input name → sizes, where the model leaves them open and neither table nor
            preprocessing say them.
        task, branches: see ``calibrate``; repairs and the verdict judge by them too.
        preprocess, labels, method, percent, decay, samples, batch, threads, skip_bad, example_inputs,
            progress: see ``calibrate``; with the effort ``fast`` the default method is ``mse-behind``.

    Raises:
        Calib8Error: what can be wrong with model, data, table or options, in one line each.
    """
    scheme = target_scheme(target).with_weights(weights)
    scheme = scheme if activations is None else scheme.with_activations(activations)
    wanted = repairs_wanted(effort, repair, with_data=data is not None, with_table=table is not None)
    model = as_model(model, example_inputs)
    if table is not None:
        file = TableFile("calib8", table) if isinstance(table, CalibrationTable) else table
        if not isinstance(file, TableFile):
            raise UsageError("table", f"is of type {type(table).__name__}", "Read it with calib8.read_table")
        return _with_table(
            model, data, file, scheme, keep_float, wanted, partial=partial, power_of_two=power_of_two,
            ranges=ranges or {}, preprocess=preprocess, labels=labels, samples=samples, threads=threads,
            skip_bad=skip_bad, shapes=shapes, named=(task, branches), spots=spots, progress=progress,
        )  # fmt: skip
    if data is None and statistics is None:
        problem = "neither data nor statistics nor a table was given"
        raise UsageError("quantize", problem, f"Give {parameter('data')} or {parameter('table')}")
    calibration = calibrate(
        model, data, statistics=statistics, preprocess=preprocess, labels=labels,
        method=method or wanted.method, activations=scheme.activation_name, target=target, weights=weights,
        percent=percent, decay=decay, power_of_two=power_of_two, ranges=ranges, samples=samples, batch=batch,
        threads=threads, skip_bad=skip_bad, keep_float=keep_float, keep_statistics=False,
        keep_samples=wanted.samples, shapes=shapes, task=task, branches=branches, progress=progress,
    )  # fmt: skip
    if calibration.dataset is not None:
        preprocess = calibration.dataset.preprocess
    elif calibration.statistics.preprocess is not None:
        preprocess = Preprocess.from_json(calibration.statistics.preprocess, "statistics")
    elif preprocess is not None:
        preprocess = fit_preprocess(preprocess, graph_inputs(calibration.prepared.model), "preprocessing")
    floats = (prepared := calibration.prepared).nodes_called(keep_float)
    start = with_spots(Candidate(prepared.model, calibration.table, scheme, floats, power_of_two), spots)
    meaning = meaning_of(prepared.model, task=task, branches=branches)
    others = {} if method is not None else other_tables(calibration, start, meaning)
    done = repaired_candidate(
        start, wanted, calibration.dataset, others, meaning, threads, progress, kept=calibration.kept,
        original=load_model(model) if wanted.names else None,
    )  # fmt: skip
    result = judged_model(int8_model(start, done, prepared, preprocess, {}), meaning, threads)
    notes = (*calibration.notes, *result.notes, *saturation_notes(result.model, scheme.name))
    return replace(result, calibration=calibration, notes=notes)


def _with_table(
    model: Model,
    data: DataSource | None,
    file: TableFile,
    scheme: QuantScheme,
    keep_float: Sequence[str],
    wanted: Repairs,
    *,
    partial: bool,
    power_of_two: bool,
    ranges: GivenRanges,
    preprocess: Preprocess | str | None,
    labels: str | os.PathLike[str] | None,
    samples: int | None,
    threads: int,
    skip_bad: bool,
    shapes: Shapes | None,
    named: tuple[str | None, Mapping[str, str]],
    spots: Sequence[str],
    progress: Progress,
) -> Quantization:
    """The INT8 model with the ranges of a table; data are for repairs and to compare the prepared model."""
    original, prepared = prepare_for_table(model, data, preprocess, shapes=shapes, known=file.table.inputs)
    given, notes = given_ranges(ranges, calibration_tensors(prepared.model), scheme.activations)
    zero_points = not scheme.activations.symmetric
    bound = bind(file, prepared.model, original, partial=partial, zero_points=zero_points)
    table = replace(with_given(bound.table, given, {}), inputs=file.table.inputs)
    binding = replace(bound, table=table)
    floats = prepared.nodes_called(keep_float)
    unranged = without_range(prepared.model, scheme, floats, binding, partial=partial)
    dataset = None
    if data is not None and wanted:
        dataset = open_dataset(
            data, graph_inputs(original), preprocess, labels=labels, samples=samples, skip_bad=skip_bad
        )
    start = with_spots(Candidate(prepared.model, table, scheme, floats, power_of_two), spots, unranged)
    meaning = meaning_of(prepared.model, task=named[0], branches=named[1])
    done = repaired_candidate(
        start, wanted, dataset, {}, meaning, threads, progress, original=original, unranged=unranged
    )
    made = int8_model(start, done, prepared, known_preprocess(preprocess), unranged)
    result = judged_model(made, meaning, threads)
    notes = (*notes, *result.notes, *saturation_notes(result.model, scheme.name))
    return replace(result, binding=binding, notes=notes)
