"""A table that fits a model whose tensors changed: their ranges chosen anew, all others kept."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import onnx_ir as ir

from calib8.calibration.choose import choose_table
from calib8.calibration.collect import collect
from calib8.calibration.decide import AUTO, with_power_of_two
from calib8.calibration.ranges import METHODS
from calib8.calibration.statistics import Statistics
from calib8.model.graph import model_hash
from calib8.progress import SampleCounter
from calib8.repair.candidate import Candidate, RepairData
from calib8.table import POWER_OF_TWO, CalibrationTable, TableEntry

FALLBACK = "mse"
"""Stands in for a method that needs more than statistics of the runs."""


def refitted(candidate: Candidate, model: ir.Model, changed: Collection[str], data: RepairData) -> Candidate:
    """The candidate with another model, whose ranges fit it.

    Args:
        candidate: what there was.
        model: the new prepared model.
        changed: names of tensors whose values are others than in the old one. Those that the table has get a
            range by the method they had, from the runs of ``data``; ``mse`` stands in for a method that needs
            more than these.
        data: what to run.

    Raises:
        CalibrationError: a tensor held NaN or infinite values.
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    table = candidate.table
    names = sorted(name for name in changed if name in table.entries)
    entries = dict(table.entries)
    if names:
        counter = SampleCounter("choosing ranges anew", len(data.runs), data.progress)
        statistics = collect(model, names, data.runs, threads=data.threads, on_batch=counter)
        for name in names:
            entries[name] = _chosen(statistics, name, entries[name], candidate)
    return replace(candidate, model=model, table=CalibrationTable(model_hash(model), entries))


def _chosen(statistics: Statistics, name: str, old: TableEntry, candidate: Candidate) -> TableEntry:
    own = Statistics(statistics.model_hash, {name: statistics.tensors[name]})
    prefix = f"{AUTO}: " if old.method.startswith(f"{AUTO}: ") else ""
    plain = old.method.removeprefix(prefix)
    spec = candidate.scheme.activations
    method, percent = _method(plain.removesuffix(POWER_OF_TWO))
    table = choose_table(own, spec, method, percent, threads=1)
    if plain.endswith(POWER_OF_TWO):
        table = with_power_of_two(table, own.tensors, spec)
    entry = table.entries[name]
    return replace(entry, method=prefix + entry.method, reason="chosen anew behind a repair")


def _method(full_name: str) -> tuple[str, float | None]:
    """Name and percent of a method that statistics are enough for."""
    name, _, percent = full_name.partition(" ")
    if name not in METHODS:
        return FALLBACK, None
    return name, float(percent) if percent else None


def without_corrections(candidate: Candidate, layers: Collection[str]) -> tuple[Candidate, tuple[str, ...]]:
    """The candidate without the corrections of changed layers, and a note if there were any."""
    kept = {name: found for name, found in candidate.corrections.items() if name not in layers}
    dropped = len(candidate.corrections) - len(kept)
    if not dropped:
        return candidate, ()
    note = f"corrections dropped, as the constants of their layers changed: {dropped}"
    return replace(candidate, corrections=kept), (note,)
