"""Repairs by effort: a search in stages, each with alternatives.

What is best on samples held back goes on; with too few samples to hold some back nothing is tried, as nothing
could be proved.

Where some tensors get wider codes than 8 bits, a second search begins from ranges that clip nothing: clipping
is what the samples held back cannot see, as the ranges were chosen from them too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Final

from calib8.autorange.samples import ChosenSamples, runs_for_one, too_few
from calib8.parameters import Text, parameter
from calib8.progress import Progress, silent
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.floor import Floor
from calib8.repair.held_back import Judge
from calib8.repair.ranges_again import EQUALIZES, MOST_DB, RangesAgain, ranges_again, same_ranges
from calib8.repair.repairs import FLOATS, SPOTS, in_turn, stages_of
from calib8.repair.result import Repaired
from calib8.repair.search import Finished, Judged, Search
from calib8.repair.step import Step, worth_trying
from calib8.repair.wanted import effort_called
from calib8.table import CalibrationTable
from calib8.tasks.branches import Meaning

CHANCE_DB: Final = 0.5
"""What a few objects decide where scores do: so little behind is no reason to drop all repairs."""

CLIPPING_DB: Final = 1.0
"""What ranges that clip nothing may be behind: the judge's samples were calibrated with, others clip more."""

UNCLIPPED: Final = "ranges minmax"
"""Name of the second search."""

CLIPS_NOTHING: Final = "searched again from ranges that clip nothing, as other images clip more than these"

Stages = tuple[tuple[tuple[str, ...], ...], ...]


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
        tables: other ranges to try, by name; those called ``UNCLIPPED`` in the second search alone.
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
        why = Text(f"{too_few(samples)}, or name repairs with {parameter('repair')}")
        return Repaired(candidate, candidate.table, (), effort, 0, shared=True, warning=why)
    more = runs_for_one(samples.dataset)
    runs, most = samples.scored[: more * plan.repairing], more * plan.held_back
    data = RepairData(runs, threads, progress, candidate.model, dataset=samples.dataset, meaning=meaning)
    judge = Judge(samples, most, threads, progress, meaning, samples.outputs[:most])
    search = Search(judge, data)
    bare, best = judge.quality(candidate), search.judged(candidate)
    first = {name: table for name, table in tables.items() if name != UNCLIPPED}
    best = search.stage(best, {(name,): partial(_with_table, table=table) for name, table in first.items()})
    table, plain = best.candidate.table, search.last or best
    search.floor, search.last = Floor.of(meaning, plain.quality), None
    plain = plain if search.floor.least else best
    stages = stages_of(plan, candidate.scheme, candidate.model, mixed=mixed)
    again = ranges_again(first, table)
    final = _searched(search, best, stages, plan.finish, Finished(candidate, bare), again)
    least = bare.sqnr_db - (CHANCE_DB if search.floor.least else 0.0)
    if UNCLIPPED in tables and not same_ranges(tables[UNCLIPPED], table) and _took_wider_codes(search.steps):
        start, goal = replace(candidate, table=tables[UNCLIPPED]), _Goal(final, plain, least)
        found = _without_clipping(search, goal, start, stages, plan.finish)
        final, table = (final, table) if found is None else (found, start.table)
    if not search.floor.holds(final.quality) or search.finds_fewer(final, plain):
        final, table = search.back_to(plain, tables), plain.candidate.table
    elif final.quality.sqnr_db < least:
        # what was found only serves with corrected biases
        final, table = Finished(candidate, bare), candidate.table
        search.steps = [replace(step, kept=False) for step in search.steps]
    steps = tuple(search.steps)
    held = judge.held()
    return Repaired(final.candidate, table, steps, effort, len(held.runs), held=held)


def _searched(
    search: Search,
    best: Judged,
    stages: Stages,
    finish: Sequence[str],
    bare: Finished | None = None,
    again: RangesAgain | None = None,
) -> Finished:
    """What a search finds from a candidate; ``bare`` is the one without corrected biases, if it is known.

    Behind stages that equalize the ranges ``again`` are tried too, where most of the noise is gone.

    Where the verdict would not be that all is kept, what widens codes may cost as much again, if that makes
    the verdict clearly better.
    """
    chosen_db = best.quality.sqnr_db
    for stage in stages:
        tried = [names for names in stage if worth_trying(names, search.steps)]
        best = search.stage(best, {names: in_turn(names) for names in tried})
        if again is not None and _equalizes(stage) and best.quality.sqnr_db >= chosen_db + MOST_DB:
            compared = search.preferred(best, again.name, again)
            best, again = compared, again if compared is best else None
            chosen_db = best.quality.sqnr_db
    for stage in stages:
        if stage in (SPOTS, FLOATS):
            best = search.stage_for_verdict(best, {names: in_turn(names) for names in stage})
    known = bare.quality if bare is not None and best.candidate is bare.candidate else None
    return search.finish(best, known, finish)


def _equalizes(stage: Sequence[tuple[str, ...]]) -> bool:
    """Whether what a stage tries makes channels alike."""
    return any(not EQUALIZES.isdisjoint(names) for names in stage)


def _took_wider_codes(steps: Sequence[Step]) -> bool:
    """Whether spots or floats are part of what was found."""
    return any(_kept(stage, steps) for stage in (SPOTS, FLOATS))


def _kept(stage: tuple[tuple[str, ...], ...], steps: Sequence[Step]) -> bool:
    """Whether something of a stage is part of what was found."""
    return any(step.kept and step.names in stage for step in steps)


@dataclass(frozen=True)
class _Goal:
    """What a second search is to come up to.

    Attributes:
        first: what the first one found.
        plain: plain ranges with corrected biases, which must not find more.
        least: of the quality, in dB.
    """

    first: Finished
    plain: Judged
    least: float


def _without_clipping(
    search: Search, goal: _Goal, start: Candidate, stages: Stages, finish: Sequence[str]
) -> Finished | None:
    """What is found from ranges that clip nothing, where that is next to as good as what there is; else None.

    The tensors that such ranges serve worst are those that get wider codes: what is left may be as good as
    with ranges that clip, and on other images it clips less.
    """
    other, first = Search(search.judge, search.data, floor=search.floor), goal.first.quality
    found = _searched(other, other.judged(start), stages, finish)
    taken = found.quality.sqnr_db >= max(first.sqnr_db - CLIPPING_DB, goal.least)
    taken = taken and search.floor.allows(found.quality, first)
    taken = taken and (search.floor.holds(found.quality) or not search.floor.holds(first))
    taken = taken and not search.finds_fewer(found, goal.plain)
    notes = (CLIPS_NOTHING,) if taken else ()
    step = Step((UNCLIPPED,), first, found.quality, taken, (), notes)
    search.steps = [step, *other.steps] if taken else [*search.steps, step]
    return found if taken else None


def _with_table(
    candidate: Candidate, data: RepairData, *, table: CalibrationTable
) -> tuple[Candidate, RepairReport]:
    """The candidate with other ranges; the same one where they are the same."""
    del data
    if same_ranges(table, candidate.table):
        return candidate, RepairReport(())
    return replace(candidate, table=table), RepairReport(())
