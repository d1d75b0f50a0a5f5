"""A table that fits a model whose tensors changed: their ranges chosen anew, all others kept.

Ranges come from all calibration samples, like those that they replace: the model is run over them once more
(twice where the method counts in bins of its own), and nothing is kept of a sample but its statistics.

    method of the old range     the same method
    auto                        the best of: the method that auto had taken, the old range, all plain methods,
                                scored behind the readers on the samples that repair (``autorange/by_tensor``)
    auto, not to be scored      mse-behind
    auto, no hope for it        the method that auto had taken
    decides what is found       as the others, and then wide enough again (``autorange/score_ranges``)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

import onnx_ir as ir

from calib8.autorange.by_tensor import BOTH, choose_by_tensor
from calib8.autorange.plain import plain_tables
from calib8.autorange.score_ranges import WHOLE, whole_scores
from calib8.calibration.choose import choose_table, range_method
from calib8.calibration.collect import CountingWork
from calib8.calibration.collect_layouts import LayoutWork
from calib8.calibration.decide import AUTO, with_power_of_two
from calib8.calibration.functions_behind import functions_behind, functions_for
from calib8.calibration.ranges import BEHIND, METHODS, clipped_share
from calib8.calibration.ranges.two_pass import TWO_PASS_METHODS
from calib8.calibration.statistics import Statistics, TensorStatistics
from calib8.data.whole import Found, Work, dataset_of_runs, found_of_all
from calib8.errors import Calib8Error, TableError, UsageError
from calib8.model.carried import Carried
from calib8.model.graph import model_hash
from calib8.progress import SampleCounter
from calib8.qparams import QuantSpec
from calib8.repair.candidate import Candidate, RepairData
from calib8.table import POWER_OF_TWO, CalibrationTable, TableEntry

_PREFIX: Final = f"{AUTO}: "
_REASON: Final = "chosen anew behind a repair"

FALLBACK: Final = BEHIND
"""Stands in for methods of other tools, and for ``ema``, whose decay the table does not tell."""


def refitted(
    candidate: Candidate,
    model: ir.Model,
    changed: Collection[str],
    data: RepairData,
    *,
    scored: bool = True,
) -> Candidate:
    """The candidate with another model, whose ranges fit it.

    Args:
        candidate: what there was, without corrections of layers that changed.
        model: the new prepared model.
        changed: names of tensors whose values are others than in the old one. Those that the table has get a
            range by the method they had, see the top of the file; ``mse-behind`` stands in for one that is
            not known here.
        data: what to run.
        scored: whether ranges of ``auto`` are scored; without, they are those of ``mse-behind``.

    Raises:
        TableError: the table names a method that cannot be.
        CalibrationError: a tensor held NaN or infinite values.
        ModelError, DataError: ONNX Runtime cannot run the model, or the samples cannot be read again.
    """
    entries = dict(candidate.table.entries)
    ways = {name: _way(name, entries[name].method) for name in sorted(changed) if name in entries}
    if not scored:
        ways = {name: _unscored(way) for name, way in ways.items()}
    if ways:
        spec = candidate.scheme.activations
        statistics = tensor_statistics(model, tuple(ways), data)
        for way in dict.fromkeys(ways.values()):
            names = [name for name in ways if ways[name] == way]
            entries.update(_chosen(way, names, model, statistics, spec, data))
        automatic = [name for name in ways if ways[name].automatic]
        plain = replace(candidate, model=model, table=CalibrationTable(model_hash(model), dict(entries)))
        if automatic and data.promises(plain):
            entries.update(_scored(candidate, model, automatic, entries, statistics, data))
        whole = [name for name in ways if candidate.table.entries[name].reason == WHOLE]
        table = CalibrationTable(model_hash(model), entries)
        table = whole_scores(table, model, data.meaning, statistics.tensors, spec, among=whole)
        return replace(candidate, model=model, table=table)
    return replace(candidate, model=model, table=CalibrationTable(model_hash(model), entries))


def tensor_statistics(model: ir.Model, tensors: Collection[str], data: RepairData) -> Statistics:
    """Statistics of the named tensors of a changed model over all calibration samples.

    They do not depend on the order of the samples or on threads; one batch is in memory at a time.

    Args:
        model: a prepared float graph.
        tensors: graph inputs or computed float32 tensors.
        data: its dataset, or its runs where it has none.

    Raises:
        ModelError, DataError: ONNX Runtime cannot run the model, or the samples cannot be read again.
    """
    work = CountingWork(Carried(model), tuple(sorted(tensors)))
    return found_of_data(work, data, "choosing ranges anew")


def found_of_data(work: Work[Found], data: RepairData, stage: str) -> Found:
    """What a work finds of all calibration samples, of the runs where there are no others.

    Raises:
        ModelError, DataError: ONNX Runtime cannot run the model, or the samples cannot be read again.
    """
    dataset = dataset_of_runs(data.runs) if data.dataset is None else data.dataset
    return found_of_all(work, dataset, data.threads, stage, data.progress)


@dataclass(frozen=True)
class _Way:
    """How a range was chosen: the method, its percent, and what the table says around it."""

    method: str
    percent: float | None
    automatic: bool
    power_of_two: bool


def _way(tensor: str, written: str) -> _Way:
    """What the method of a table's entry says.

    Raises:
        TableError: a method of this program with something that it does not take.
    """
    automatic, plain = written.startswith(_PREFIX), written.removeprefix(_PREFIX)
    name, _, percent = plain.removesuffix(POWER_OF_TWO).partition(" ")
    power_of_two = plain.endswith(POWER_OF_TWO)
    if name in TWO_PASS_METHODS and not percent:
        return _Way(name, None, automatic, power_of_two)
    if name not in METHODS:
        return _Way(FALLBACK, None, automatic, power_of_two)
    try:
        share = float(percent) if percent else None
        range_method(name, share)
    except (ValueError, UsageError) as error:
        problem = f"its range is by '{written}', and '{name}' cannot take '{percent}'"
        raise TableError(f"tensor '{tensor}'", problem, "Correct the table, or calibrate again") from error
    return _Way(name, share, automatic, power_of_two)


def _unscored(way: _Way) -> _Way:
    """The way of a range that ``auto`` shall not choose."""
    return _Way(FALLBACK, None, False, way.power_of_two) if way.automatic else way


def _chosen(
    way: _Way,
    names: Collection[str],
    model: ir.Model,
    statistics: Statistics,
    spec: QuantSpec,
    data: RepairData,
) -> dict[str, TableEntry]:
    """New entries of tensors whose ranges were chosen in one way."""
    own = Statistics(statistics.model_hash, {name: statistics.tensors[name] for name in names})
    counts = None
    if way.method in TWO_PASS_METHODS:
        others = statistics.tensors.keys() - set(names)
        layout = TWO_PASS_METHODS[way.method].layout
        work = LayoutWork(Carried(model), statistics, layout, frozenset(others))
        counts = work.counts(found_of_data(work, data, "choosing ranges anew, second pass"))
    functions = functions_for(way.method, model)
    table = choose_table(
        own, spec, way.method, way.percent, counts=counts, functions=functions, threads=data.threads
    )
    if way.power_of_two:
        table = with_power_of_two(table, own.tensors, spec)
    prefix = _PREFIX if way.automatic else ""
    return {
        name: replace(entry, method=prefix + entry.method, reason=_REASON)
        for name, entry in table.entries.items()
    }


def _scored(
    candidate: Candidate,
    model: ir.Model,
    names: Collection[str],
    chosen: Mapping[str, TableEntry],
    statistics: Statistics,
    data: RepairData,
) -> dict[str, TableEntry]:
    """Entries of the tensors that ``auto`` chooses; as there, none where no scoring graph can be run."""
    if not names:
        return {}
    old, spec = candidate.table.entries, candidate.scheme.activations
    own = Statistics(statistics.model_hash, {name: statistics.tensors[name] for name in names})
    power_of_two = any(old[name].method.endswith(POWER_OF_TWO) for name in names)
    functions = {name: found for name, found in functions_behind(model).items() if name in names}
    plain = plain_tables(own, spec, power_of_two=power_of_two, functions=functions, threads=data.threads)
    offered = {}
    for name in names:
        kept = _kept(old[name], chosen[name], own.tensors[name])
        offered[name] = [chosen[name], kept, *(table.entries[name] for table in plain.values())]
    counter = SampleCounter("comparing ranges", len(data.runs), data.progress)
    try:
        rules = choose_by_tensor(
            model, offered, spec, data.runs, data.threads, counter, target=candidate.scheme
        )
    except Calib8Error:
        return {}
    return {name: _told(entry) for name, entry in rules[BOTH].items() if entry is not chosen[name]}


def _told(entry: TableEntry) -> TableEntry:
    """An entry that ``auto`` took."""
    method = _PREFIX + entry.method.removeprefix(_PREFIX)
    return replace(entry, method=method, reason=f"{_REASON}: {entry.reason}")


def _kept(old: TableEntry, new: TableEntry, statistics: TensorStatistics) -> TableEntry:
    """The old range for the new values."""
    return replace(new, range=old.range, method=old.method, clipped=clipped_share(statistics, old.range))


def without_corrections(candidate: Candidate, layers: Collection[str]) -> tuple[Candidate, tuple[str, ...]]:
    """The candidate without the corrections of changed layers, and a note if there were any."""
    kept = {name: found for name, found in candidate.corrections.items() if name not in layers}
    dropped = len(candidate.corrections) - len(kept)
    if not dropped:
        return candidate, ()
    note = f"corrections dropped, as the constants of their layers changed: {dropped}"
    return replace(candidate, corrections=kept), (note,)
