"""The end of the pipeline: repairs, then integers, then what is stored with them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from importlib.metadata import version
from types import MappingProxyType
from typing import Final

import onnx_ir as ir

from calib8.autorange.samples import ChosenSamples, bytes_to_keep, choose_samples, kept_samples, runs_for_one
from calib8.autorange.score_ranges import WHOLE, whole_scores
from calib8.calibration.choose import PLAIN
from calib8.calibration.decide import AUTO, Wish, decide
from calib8.calibration.functions_behind import functions_behind
from calib8.calibration.given import without_effect
from calib8.calibration.kept_runs import KeptRun
from calib8.calibration.range_choice import STATISTICS_METHOD
from calib8.data.preprocess import Preprocess
from calib8.data.samples import Dataset
from calib8.errors import UsageError
from calib8.model.metadata import write_metadata
from calib8.model.trial_run import try_to_run
from calib8.ops.groups import WEIGHTED_OPS
from calib8.outcomes import Calibration, Quantization
from calib8.parameters import parameter
from calib8.passes.channel_factors import CHANNEL_FACTORS, channel_factors
from calib8.passes.converter_names import CONVERTER_NAMES
from calib8.passes.place import coded_products
from calib8.passes.prepare import PreparedModel
from calib8.passes.stored_statistics import BATCH_NORMS, statistics_text
from calib8.progress import Progress
from calib8.quantization.quantize import QuantizedGraph
from calib8.repair.by_effort import UNCLIPPED
from calib8.repair.candidate import Candidate
from calib8.repair.flow import repaired
from calib8.repair.result import Repaired
from calib8.repair.wanted import Repairs, effort_called
from calib8.scheme import TARGETS, QuantScheme, check_has_spots
from calib8.table import GIVEN, POWER_OF_TWO, CalibrationTable
from calib8.tasks.branches import Meaning
from calib8.tasks.verdict import unjudged

NO_SAMPLE: Final = "no sample was held back to judge with"


def repaired_candidate(
    start: Candidate,
    wanted: Repairs,
    dataset: Dataset | None,
    tables: Mapping[str, CalibrationTable],
    meaning: Meaning | None,
    threads: int,
    progress: Progress,
    *,
    original: ir.Model | None = None,
    unranged: Mapping[str, str] = MappingProxyType({}),
    kept: Sequence[KeptRun] | None = None,
) -> Repaired | None:
    """What the repairs leave to quantize, None where nothing is to be repaired.

    Args:
        start: model, ranges and target.
        wanted: which repairs.
        dataset: what they look at, None where there are no data.
        tables: other ranges to try, by name.
        meaning: branches of the outputs, by which repairs are judged; None: each output is one.
        threads, progress: see ``calib8.pipeline.calibrate``.
        original: the model as it was loaded, where a repair needs it.
        unranged: nodes that stay float for want of a range → reason.
        kept: samples that the calibration kept, as many as the effort wants; None: read some.

    Raises:
        Calib8Error: a model cannot be run.
    """
    if not wanted:
        return None
    candidate = replace(start, keep_float=start.keep_float | frozenset(unranged))
    samples = None if dataset is None else samples_for(wanted, dataset, threads, meaning, kept)
    return repaired(
        candidate,
        samples,
        wanted,
        tables=tables,
        original=original,
        meaning=meaning,
        threads=threads,
        progress=progress,
    )


def samples_for(
    wanted: Repairs,
    dataset: Dataset,
    threads: int,
    meaning: Meaning | None = None,
    kept: Sequence[KeptRun] | None = None,
) -> ChosenSamples:
    """The samples that repairs look at, and those that judge them: those that were kept, else read anew.

    Raises:
        DataError: nothing can be read any more.
    """
    largest = bytes_to_keep(meaning)
    if not wanted.effort:
        return choose_samples(dataset, threads, largest=largest)
    plan = effort_called(wanted.effort)
    if kept is not None:
        return kept_samples(kept, dataset, scored=plan.repairing, held_back=plan.held_back)
    more = runs_for_one(dataset)
    return choose_samples(
        dataset, threads, scored=more * plan.repairing, held_back=more * plan.held_back, largest=largest
    )  # fmt: skip


def int8_model(
    start: Candidate,
    done: Repaired | None,
    prepared: PreparedModel,
    preprocess: Preprocess | None,
    unranged: Mapping[str, str],
) -> Quantization:
    """The INT8 model with all that is to be known of it; ``calibration`` and ``binding`` are not set.

    Args:
        start: what there was before repairs.
        done: what repairs left of it.
        prepared: the prepared float model.
        preprocess: how images become its inputs, None where that is not known.
        unranged: nodes that stay float for want of a range → reason.

    Raises:
        TableError: the table lacks a tensor.
        ModelError: ONNX Runtime cannot run the result.
    """
    final, scheme = start if done is None else done.candidate, start.scheme
    result = replace(final, keep_float=start.keep_float).quantized(unranged) if unranged else final.coded
    entries = {"version": version("calib8"), "target": scheme.name, "activations": scheme.activation_name}
    entries["weights"] = scheme.weight_granularity
    usual = TARGETS.get(scheme.name, QuantScheme(scheme.name))
    if scheme.recurrent != usual.recurrent:
        entries["recurrent"] = scheme.recurrent
    decisions = result.placement.decisions
    float_layers = {d.node for d in decisions if d.op_type in WEIGHTED_OPS and not d.quantized}
    float_layers -= {node.name or "" for node in coded_products(final.model, scheme, result.keep_float)}
    entries["keep_float"] = json.dumps(sorted((result.keep_float | float_layers) - final.floats))
    if scheme.name == "tengine":
        entries[CONVERTER_NAMES] = json.dumps(dict(prepared.converter_names))
    if start.spots:
        entries["spots"] = json.dumps(sorted(start.spots))
    if done is not None:
        entries["repairs"] = json.dumps([name for step in done.steps if step.kept for name in step.names])
        changes = channel_factors(done.reference or prepared.model, final.model)
        if done.estimated is not None:
            entries[BATCH_NORMS] = statistics_text(done.estimated)
        if changes.factors or changes.others:
            entries[CHANNEL_FACTORS] = changes.to_json()
    table = start.table if done is None else done.table
    entries |= _ranges_asked_for(start.table, power_of_two=start.power_of_two)
    if preprocess is not None:
        entries["preprocess"] = preprocess.to_json()
    write_metadata(result.model, entries)
    stumbles = try_to_run(result.model, prepared.sample, made_up=prepared.made_up)
    caution = scheme.cautions.get(scheme.activation_name, "")
    return Quantization(
        result.model, result.placement, result.qparams, table, prepared, None, caution,
        notes=(*without_effect(start.table, result.placement, final.model), *_dropped(result),
               *_wide(result), *([stumbles] if stumbles else [])), repaired=done, spots=result.spots.taken,
    )  # fmt: skip


def judged_model(found: Quantization, meaning: Meaning, threads: int) -> Quantization:
    """The same with its verdict, from the runs that judged repairs; what it judged with is let go.

    Args:
        found: the int8 model.
        meaning: branches of its outputs.
        threads: for ONNX Runtime.

    Raises:
        ModelError, DataError: ONNX Runtime cannot run it.
    """
    done, held = found.repaired, None if found.repaired is None else found.repaired.held
    if done is None or held is None:
        why = "" if done is None else done.warning
        return replace(found, verdict=unjudged(why or NO_SAMPLE), meaning=meaning)
    verdict = held.verdict(found.model, meaning, threads, shared=done.shared)
    return replace(found, verdict=verdict, meaning=meaning, repaired=replace(done, held=None))


def _wide(result: QuantizedGraph) -> Iterator[str]:
    """Which tensors have 16-bit codes, and which were to have them and do not."""
    if result.spots.taken:
        yield f"16-bit codes: {', '.join(sorted(result.spots.taken))}"
    for name, reason in result.spots.refused.items():
        yield f"'{name}' keeps 8-bit codes: {reason}"


def with_spots(
    candidate: Candidate, spots: Collection[str], unranged: Mapping[str, str] = MappingProxyType({})
) -> Candidate:
    """The candidate with the 16-bit codes that the user wants.

    Args:
        candidate: what is to be quantized, before repairs.
        spots: names of tensors.
        unranged: nodes that stay float for want of a range → reason.

    Raises:
        UsageError: names the first tensor that cannot have them, with the reason.
        TableError: the table lacks a tensor.
    """
    if not spots:
        return candidate
    start = replace(candidate, spots=frozenset(spots))
    check_has_spots(start.scheme, parameter("spots", [min(start.spots)]))
    graph = start.quantized(unranged) if unranged else start.coded
    for name, reason in graph.spots.refused.items():
        cure = "Name a tensor that carries codes, as the table lists them, or leave it out"
        near = get_close_matches(name, graph.placement.readers, 3)
        similar = f": {', '.join(near)}" if near and name not in graph.placement.readers else ""
        raise UsageError(parameter("spots", [name]), reason, f"{cure}{similar}")
    return start


def _dropped(result: QuantizedGraph) -> Iterator[str]:
    """What codes that a repair chose did not get into the model."""
    for name, channels in result.dropped.items():
        yield f"'{name}': codes chosen for {channels} channels do not fit the target; rounded plainly"


def _ranges_asked_for(table: CalibrationTable, *, power_of_two: bool) -> dict[str, str]:
    """How the ranges of a table can be chosen again: one method for all tensors, and what the user gave.

    Args:
        table: as it was before repairs: what these put in its place nobody asked for.
        power_of_two: all scales are powers of two.
    """
    entries: dict[str, str] = {}
    given = {name: entry.range for name, entry in table.entries.items() if entry.method == GIVEN}
    chosen = (entry for entry in table.entries.values() if entry.reason != WHOLE)
    methods = {entry.method.removesuffix(POWER_OF_TWO) for entry in chosen} - {GIVEN}
    if any(name.startswith(f"{AUTO}: ") for name in methods):
        entries["method"] = AUTO
    elif len(methods) == 1 or methods == {PLAIN, STATISTICS_METHOD}:
        entries["method"] = max(methods, key=len)
    if power_of_two or table.power_of_two:
        entries["power_of_two"] = json.dumps(True)
    if given:
        entries["ranges"] = json.dumps({name: [held.min, held.max] for name, held in sorted(given.items())})
    return entries


def other_tables(
    calibration: Calibration, start: Candidate, meaning: Meaning | None
) -> dict[str, CalibrationTable]:
    """Where the default method chose the ranges: those that clip nothing, and last, as the plain ones to
    compare with, those of the default for statistics."""
    if calibration.auto is None:
        return {}
    given = {name: entry.range for name, entry in calibration.table.entries.items() if entry.method == GIVEN}
    model, spec = calibration.prepared.model, start.scheme.activations
    functions, found = functions_behind(model), dict[str, CalibrationTable]()
    for name, method in ((UNCLIPPED, "minmax"), (f"ranges {STATISTICS_METHOD}", STATISTICS_METHOD)):
        wish = Wish(method, power_of_two=start.power_of_two)
        table = decide(calibration.statistics, None, spec, wish, given, functions=functions)
        table = replace(table, inputs=calibration.table.inputs)
        tensors = calibration.statistics.tensors
        found[name] = table if start.power_of_two else whole_scores(table, model, meaning, tensors, spec)
    return found
