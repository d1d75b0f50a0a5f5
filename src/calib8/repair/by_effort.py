"""Repairs by effort: a search in stages, each with alternatives.

What is best on samples held back goes on; with too few samples to hold some back nothing is tried, as nothing
could be proved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final

from calib8.autorange.samples import ChosenSamples, too_few
from calib8.progress import Progress, silent
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.floor import Floor
from calib8.repair.held_back import Judge
from calib8.repair.repairs import in_turn, stages_of
from calib8.repair.result import Repaired
from calib8.repair.search import Finished, Search
from calib8.repair.wanted import effort_called
from calib8.table import CalibrationTable
from calib8.tasks.branches import Meaning

CHANCE_DB: Final = 0.5
"""What a few objects decide where scores do: so little behind is no reason to drop all repairs."""


def repair_by_effort(
    candidate: Candidate,
    samples: ChosenSamples,
    effort: str,
    *,
    tables: Mapping[str, CalibrationTable] = MappingProxyType({}),
    meaning: Meaning | None = None,
    mixed: bool = True,
    threads: int = 2,
    progress: Progress = silent,
) -> Repaired:
    """The best candidate that the effort finds.

    The same samples in any order give the same result, whatever the number of threads.

    Args:
        candidate: prepared model, ranges and target.
        samples: runs to repair with, and others to judge with; where they are the same nothing is tried.
        effort: a key of ``EFFORTS``.
        tables: other ranges to try, by name.
        meaning: branches of the outputs; None: each output is one.
        mixed: a few layers may stay float.
        threads: for ONNX Runtime and native code.
        progress: see ``Progress``.

    Raises:
        UsageError: there is no such effort.
        Calib8Error: a model cannot be run.
    """
    plan = effort_called(effort)
    if samples.shared:
        why = f"{too_few(samples)}, or name repairs with --repair"
        return Repaired(candidate, candidate.table, (), effort, 0, shared=True, warning=why)
    runs = samples.scored[: plan.repairing]
    data = RepairData(runs, threads, progress, candidate.model, dataset=samples.dataset, meaning=meaning)
    judge = Judge(
        samples, plan.held_back, threads, progress, meaning, samples.outputs[: plan.held_back]
    )  # fmt: skip
    search = Search(judge, data)
    bare, best = judge.quality(candidate), search.judged(candidate)
    best = search.stage(best, {(name,): partial(_with_table, table=table) for name, table in tables.items()})
    table, plain = best.candidate.table, search.last or best
    search.floor, search.last = Floor.of(meaning, plain.quality), None
    plain = plain if search.floor.least else best
    for stage in stages_of(plan, candidate.scheme, candidate.model, mixed=mixed):
        best = search.stage(best, {names: in_turn(names) for names in stage})
    final = search.finish(best, bare if best.candidate is candidate else None, plan.finish)
    if not search.floor.holds(final.quality) or search.finds_fewer(final, plain):
        final, table = search.back_to(plain, tables), plain.candidate.table
    elif final.quality.sqnr_db < bare.sqnr_db - (CHANCE_DB if search.floor.least else 0.0):
        # what was found only serves with corrected biases
        final, table = Finished(candidate, bare), candidate.table
        search.steps = [replace(step, kept=False) for step in search.steps]
    steps = tuple(search.steps)
    held = judge.held()
    return Repaired(final.candidate, table, steps, effort, len(held.runs), held=held)


def _with_table(
    candidate: Candidate, data: RepairData, *, table: CalibrationTable
) -> tuple[Candidate, RepairReport]:
    """The candidate with other ranges; the same one where they are the same."""
    del data
    if table == candidate.table:
        return candidate, RepairReport(())
    return replace(candidate, table=table), RepairReport(())
