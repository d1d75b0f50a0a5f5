"""The report of ``quantize``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from calib8.data.fed import fed_from
from calib8.files import is_translated
from calib8.model.metadata import stored_entries
from calib8.number_texts import count, percent
from calib8.outcomes import Quantization
from calib8.passes.float_work import FloatWork
from calib8.run_report.around import Around
from calib8.run_report.layers import Known, inside
from calib8.run_report.made_of import what_its_bytes_are
from calib8.run_report.side_by_side import SideBySide
from calib8.run_report.told import Attempt, Figure, Headline, RunReport, Work
from calib8.run_report.words import (
    fed_figures,
    output_figures,
    size_figures,
    task_figures,
    verdict_words,
    where_compared,
)
from calib8.tasks.verdict import Verdict, unjudged

LARGEST: Final = 3
"""Layers in float that are named."""


def of_quantization(result: Quantization, seen: SideBySide | None, around: Around) -> RunReport:
    """What to tell of a model that was made.

    Args:
        result: what was made.
        seen: both models on some samples; None where there were no data.
        around: files and times.
    """
    decisions = result.placement.decisions
    statistics = None if result.calibration is None else result.calibration.statistics
    if statistics is None or not all(one.binned for one in statistics.tensors.values()):
        statistics = None if seen is None else seen.statistics
    work = result.float_work()
    known = Known(
        {one.node: one.quantized for one in decisions},
        {one.node: one.reason for one in decisions if one.reason},
        None if seen is None else seen.comparison,
        {one.node: one.share for one in work.layers}, statistics, result.table,
    )  # fmt: skip
    told = inside(result.model, known)
    counted = 0 if statistics is None else statistics.samples
    return RunReport(
        around.int8.name if around.int8 is not None else result.model.graph.name or "model",
        "quantize",
        _headline(result, work, seen, around),
        Work(
            (*_facts(result, around), *told.contents),
            _methods(result),
            _attempts(result),
            notes=tuple(_notes(result)),
        ),
        layers=told.layers,
        layers_note=_layers_note(seen),
        network=told.network,
        tensors=told.tensors,
        tensors_note=f"Counted on {count(counted, 'sample')}." if counted else "",
        samples=() if seen is None else seen.samples,
        samples_note="" if seen is None else f"The worst of {seen.where}.",
        timings=around.timings,
        environment=around.environment,
    )


def _headline(result: Quantization, work: FloatWork, seen: SideBySide | None, around: Around) -> Headline:
    verdict = result.verdict or unjudged("no verdict was asked for")
    truth = f"against FP32, on {count(verdict.samples, 'sample')}"
    figures = [figure for task in verdict.tasks for figure in task_figures(task.figures, truth)]
    if seen is not None and seen.comparison is not None:
        found = output_figures(seen.comparison)
        figures += [one for one in found if one.label not in {figure.label for figure in figures}]
    nodes, coded = len(result.placement.decisions), len(result.placement.quantized_nodes())
    counts = (("nodes/int8", float(coded)), ("nodes/all", float(nodes)))
    figures += [*size_figures(*around.bytes), Figure("in int8", f"{coded} of {nodes} nodes", numbers=counts)]
    largest = ", ".join(f"{one.node} {percent(one.share)}" for one in work.layers[:LARGEST])
    named = largest and f"of the MACs: {largest}"
    figures.append(Figure("work in float", percent(work.share), named, (("float_macs", work.share),)))
    words = verdict_words(verdict, _where(verdict))
    return Headline(verdict.state, verdict.word, words, tuple(figures), around.next)


def _where(verdict: Verdict) -> str:
    told = count(verdict.samples, "sample")
    return f"the {told} it was made from: no proof" if verdict.shared else f"{told} held back"


def _facts(result: Quantization, around: Around) -> Iterator[Figure]:
    stored = stored_entries(result.model)
    if isinstance(around.fp32, str | Path):
        yield Figure("float model", str(around.fp32))
    if around.int8 is not None:
        yield Figure("int8 model", str(around.int8))
    yield Figure("target", stored.get("target", ""), f"{stored.get('weights', '')} weights")
    yield Figure("activations", stored.get("activations", ""))
    calibration, done = result.calibration, result.repaired
    if calibration is not None:
        samples = calibration.statistics.samples
        yield Figure("calibrated on", count(samples, "sample"))
        if calibration.dataset is not None:
            yield from fed_figures(fed_from(calibration.dataset, samples))
        if calibration.auto is not None:
            yield Figure("ranges", f"auto chose {calibration.auto.chosen}")
    if done is not None:
        held = "" if not done.held_back else f"judged on {done.held_back} runs"
        yield Figure("effort", done.effort or "repairs named", held)
    if result.spots:
        yield Figure("16-bit codes", f"{len(result.spots)} tensors")
    if around.int8 is not None and not is_translated(around.int8):
        yield from what_its_bytes_are(result.model, around.bytes[1])
    difference = result.prepared.max_abs_diff
    differs = f"outputs differ by {difference:.2g} at most" if difference else "same outputs"
    yield Figure("prepared model", differs, "against the original, on a sample")


def _methods(result: Quantization) -> tuple[tuple[str, int], ...]:
    counts = Counter(entry.method for entry in result.table.entries.values())
    return tuple(sorted(counts.items(), key=lambda one: (-one[1], one[0])))


def _attempts(result: Quantization) -> tuple[Attempt, ...]:
    steps = () if result.repaired is None else result.repaired.steps
    return tuple(Attempt(one.name, one.before_db, one.after_db, one.kept, one.notes) for one in steps)


def _notes(result: Quantization) -> Iterator[str]:
    yield from result.notes
    if result.caution:
        yield result.caution
    if result.repaired is not None and result.repaired.warning:
        yield result.repaired.warning
    auto = None if result.calibration is None else result.calibration.auto
    yield from () if auto is None else auto.notes


def _layers_note(seen: SideBySide | None) -> str:
    if seen is None:
        return "Without data layers are not compared: the columns of losses are empty."
    return where_compared(seen.where, seen.note, compared=seen.comparison is not None)
