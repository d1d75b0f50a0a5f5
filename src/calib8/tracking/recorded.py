"""From a result and what a page tells of it to a record: a figure is the same on the page and in trackers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calib8.analysis.speed import Benchmark
from calib8.model.metadata import stored_entries
from calib8.outcomes import Quantization
from calib8.parameters import Text
from calib8.run_report.page import page
from calib8.run_report.told import Figure, LayerRow, RunReport
from calib8.tracking.parts import parts_of
from calib8.tracking.record import LAYER_COLUMNS, RunRecord, Table, by_name


def record_of(
    result: Any, report: RunReport, parameters: Mapping[str, str], models: Sequence[Path] = (), *,
    typed: bool = False,
) -> RunRecord:  # fmt: skip
    """The record of a run that has a page.

    Args:
        result: what a function returned.
        report: what the page tells.
        parameters: options; facts that the result knows are added.
        models: files to be uploaded.
        typed: texts name parameters as on the command line; else as in Python.
    """
    numbers = [pair for figure in report.headline.figures for pair in figure.numbers]
    times = [(f"seconds/{stage}", seconds) for stage, seconds in report.timings]
    if times:
        times.append(("seconds/all", sum(seconds for _, seconds in times)))
    noun, parts = parts_of(result)
    return RunRecord(
        f"{report.command} {report.title}",
        report.command,
        report.headline.word,
        str(Text(report.headline.text)),
        {**_facts(result, report), **parameters},
        by_name([*numbers, *times]),
        _layers(report),
        noun,
        parts,
        _named(report.environment),
        page(report, typed=typed),
        tuple(models),
    )


def record_of_benchmark(
    found: Benchmark, environment: Sequence[Figure], parameters: Mapping[str, str],
    models: Sequence[Path] = (),
) -> RunRecord:  # fmt: skip
    """The record of timings, which have no page: its figures are those of the fastest."""
    noun, parts = parts_of(found)
    fastest = next(part for part in parts if part.chosen)
    names = list(dict.fromkeys(Path(timing.subject.model).name for timing in found.timings))
    return RunRecord(
        f"benchmark {', '.join(names[:3])}{' …' if len(names) > 3 else ''}",
        "benchmark",
        grounds=f"fastest: {fastest.name}",
        parameters=parameters,
        figures=fastest.figures,
        noun=noun,
        parts=parts,
        environment=_named(environment),
        models=tuple(models),
    )


def _facts(result: Any, report: RunReport) -> dict[str, str]:
    """What the page says was done, and what a model that was made says of itself."""
    facts = _named(report.work.facts)
    if isinstance(result, Quantization):
        facts |= {key: value for key, value in stored_entries(result.model).items() if len(value) <= 500}
    return facts


def _named(figures: Sequence[Figure]) -> dict[str, str]:
    return {one.label: f"{one.value} ({one.note})" if one.note else one.value for one in figures}


def _layers(report: RunReport) -> Table:
    """In the order of the network; layers that no node belongs to stand last."""
    known = dict.fromkeys(node.layer for node in report.network if node.layer is not None)
    order = [*known, *(place for place in range(len(report.layers)) if place not in known)]
    return Table(LAYER_COLUMNS, tuple(_row(report.layers[place]) for place in order))


def _row(row: LayerRow) -> tuple[str | float | None, ...]:
    why = str(Text(row.why)) if row.precision == "float" else ""
    return (
        row.name, row.op, row.precision, row.local_db, row.cumulative_db, row.weight_db, row.saturated, why,
    )  # fmt: skip
