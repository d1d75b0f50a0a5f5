"""The order of repairs, and which of them stay.

by name      exactly those that the user wants, in the order of ``REPAIRS``
by effort    a search in stages, each with alternatives; what is best on samples held back goes on

    quality(c)    SQNR of the outputs in dB, held-back samples, of candidate c with its biases corrected
    stage         best alternative by quality, taken if it gains more than ``GAIN_DB``
    finish        the best of: biases corrected in the ways of the effort, biases as they were

The one-shot bias correction is part of the quality because some repairs only pay together with it:
equalization makes weights coarser, and what that adds on average is what the correction takes out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Final

import onnx_ir as ir

from calib8.autorange.check import Outputs, check_model, float_outputs
from calib8.autorange.samples import ChosenSamples
from calib8.errors import UsageError
from calib8.progress import Progress, SampleCounter, silent
from calib8.repair.bias import correct_biases
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.repairs import (
    DATA_FREE,
    DEFAULT_EFFORT,
    EFFORTS,
    NONE,
    ONE_OF,
    REPAIRS,
    Effort,
    Repair,
    stages_of,
)
from calib8.table import CalibrationTable

GAIN_DB: Final = 0.1
"""Smaller gains are no reason to change anything."""


@dataclass(frozen=True)
class Step:
    """One repair that was tried.

    Attributes:
        name: of the repair, or of the ranges tried.
        before_db, after_db: quality without and with it, see the top of the file; NaN where it was not
            judged, −inf where an output was not finite.
        kept: it is part of the result.
        layers: names of the layers that it changed.
        notes: what else there is to know.
    """

    name: str
    before_db: float
    after_db: float
    kept: bool
    layers: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Repaired:
    """What is left to quantize.

    Attributes:
        candidate: model, ranges and corrections.
        table: the ranges chosen for the model as it was before repairs.
        steps: all that was tried, in that order.
        effort: what was asked for, empty where repairs were named.
        held_back: runs that judged.
    """

    candidate: Candidate
    table: CalibrationTable
    steps: tuple[Step, ...]
    effort: str
    held_back: int


@dataclass
class _Judge:
    """Quality of candidates on the runs held back."""

    samples: ChosenSamples
    most: int
    threads: int
    progress: Progress
    expected: list[Outputs] = field(default_factory=list)

    def quality(self, candidate: Candidate) -> float:
        """SQNR of the outputs in dB."""
        runs = self.samples.held_back[: self.most]
        if not self.expected:
            self.expected = float_outputs(candidate.model, runs, self.threads)
        counter = SampleCounter("checking the model", len(runs), self.progress)
        model = candidate.quantized().model
        return check_model("", model, runs, self.expected, self.threads, counter).sqnr_db


def repair_by_effort(
    candidate: Candidate,
    samples: ChosenSamples,
    effort: str,
    *,
    tables: Mapping[str, CalibrationTable] = MappingProxyType({}),
    threads: int = 2,
    progress: Progress = silent,
) -> Repaired:
    """The best candidate that the effort finds.

    The same samples in any order give the same result, whatever the number of threads.

    Args:
        candidate: prepared model, ranges and target.
        samples: runs to repair with, and others to judge with.
        effort: a key of ``EFFORTS``.
        tables: other ranges to try, by name.
        threads: for ONNX Runtime and native code.
        progress: see ``Progress``.

    Raises:
        UsageError: there is no such effort.
        Calib8Error: a model cannot be run.
    """
    plan = effort_called(effort)
    data = RepairData(samples.scored[: plan.repairing], threads, progress, candidate.model)
    judge = _Judge(samples, plan.held_back, threads, progress)
    search = _Search(judge, data)
    bare, best = judge.quality(candidate), search.judged(candidate)
    best = search.stage(best, {name: partial(_with_table, table=table) for name, table in tables.items()})
    table = best.candidate.table
    for stage in stages_of(plan, candidate.scheme):
        best = search.stage(best, {name: in_turn(name) for name in stage})
    final = search.finish(best, bare if best.candidate is candidate else None, plan.finish)
    steps = tuple(search.steps)
    if final.quality < bare:  # what the stages found only serves with corrected biases, and they do not
        final, table = _Finished(candidate, bare), candidate.table
        steps = tuple(replace(step, kept=False) for step in steps)
    return Repaired(final.candidate, table, steps, effort, len(samples.held_back[: plan.held_back]))


def repair_by_name(
    candidate: Candidate,
    samples: ChosenSamples | None,
    names: Sequence[str],
    *,
    original: ir.Model | None = None,
    threads: int = 2,
    progress: Progress = silent,
) -> Repaired:
    """The candidate with exactly the named repairs, in the order of ``REPAIRS``; what each gained is told.

    Args:
        candidate, threads, progress: as for ``repair_by_effort``.
        samples: as there; None will do for repairs that look at no data, whose gain is unknown then.
        names: keys of ``REPAIRS``, or ``NONE`` alone.
        original: the model as it was loaded, for repairs that look at its batch normalizations.

    Raises:
        UsageError: there is no such repair, or it needs data.
        Calib8Error: a model cannot be run.
    """
    wanted = repairs_called(names)
    check_data(wanted, with_data=samples is not None)
    runs = () if samples is None else samples.scored
    data = RepairData(runs, threads, progress, candidate.model, original)
    judge = None if samples is None else _Judge(samples, len(samples.held_back), threads, progress)
    steps, table = list[Step](), candidate.table
    before = judge.quality(candidate) if judge is not None and wanted else math.nan
    for name in wanted:
        candidate, report = REPAIRS[name](candidate, data)
        after = judge.quality(candidate) if judge is not None and report.layers else before
        steps.append(Step(name, before, after, bool(report.layers), report.layers, report.notes))
        before = after
    return Repaired(candidate, table, tuple(steps), "", 0 if samples is None else len(samples.held_back))


@dataclass(frozen=True)
class Repairs:
    """What was asked for; false where it is nothing.

    Attributes:
        effort: a key of ``EFFORTS``, empty where repairs are named.
        names: keys of ``REPAIRS`` in the order in which they are carried out.
    """

    effort: str = ""
    names: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.effort or self.names)

    @property
    def method(self) -> str | None:
        """The range method that goes with the effort, None for the default one."""
        return EFFORTS[self.effort].method if self.effort else None


def repairs_wanted(
    effort: str | None, names: Sequence[str] | None, *, with_data: bool, with_table: bool
) -> Repairs:
    """What to do: what was asked for, else ``DEFAULT_EFFORT`` where ranges are chosen from data.

    Raises:
        UsageError: both are given, one does not exist, or there are no data for them.
    """
    option = "--effort" if effort is not None else "--repair"
    if effort is not None and names is not None:
        raise UsageError("--repair", "does not go with --effort", "Name repairs, or give an effort")
    found = Repairs("" if effort is None else effort, repairs_called(names or ()))
    if effort is not None:
        effort_called(effort)
    if found.effort and not with_data:
        raise UsageError(option, "repairs look at data, and none are given", "Give --data")
    check_data(found.names, with_data=with_data)
    if effort is None and names is None and with_data and not with_table:
        return Repairs(DEFAULT_EFFORT)
    return found


def check_data(names: Sequence[str], *, with_data: bool) -> None:
    """Refuses repairs that need data where there are none.

    Raises:
        UsageError: there is one.
    """
    blind = [name for name in names if name not in DATA_FREE]
    if blind and not with_data:
        cure = f"Give --data; without them there are {', '.join(DATA_FREE)}"
        raise UsageError(f"--repair {blind[0]}", "it looks at data, and none are given", cure)


def repaired(
    candidate: Candidate,
    samples: ChosenSamples | None,
    wanted: Repairs,
    *,
    tables: Mapping[str, CalibrationTable] = MappingProxyType({}),
    original: ir.Model | None = None,
    threads: int = 2,
    progress: Progress = silent,
) -> Repaired:
    """Carries out what is wanted; the arguments are those of ``repair_by_effort`` and ``repair_by_name``.

    Raises:
        Calib8Error: a model cannot be run.
    """
    if wanted.effort and samples is not None:
        return repair_by_effort(
            candidate, samples, wanted.effort, tables=tables, threads=threads, progress=progress
        )
    return repair_by_name(
        candidate, samples, wanted.names, original=original, threads=threads, progress=progress
    )


def effort_called(name: str) -> Effort:
    """The effort of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in EFFORTS:
        raise UsageError(f"--effort {name}", "unknown effort", f"Use {', '.join(EFFORTS)}")
    return EFFORTS[name]


def repairs_called(names: Sequence[str]) -> tuple[str, ...]:
    """The repairs of those names in the order in which they are carried out, each once.

    Raises:
        UsageError: one does not exist, two exclude each other, or ``NONE`` stands beside others.
    """
    if NONE in names:
        if len(set(names)) > 1:
            raise UsageError(f"--repair {','.join(names)}", f"'{NONE}' stands alone", "Name repairs, or none")
        return ()
    unknown = [name for name in names if name not in REPAIRS]
    if unknown:
        cure = f"Use some of {', '.join(REPAIRS)}, or {NONE}"
        raise UsageError(f"--repair {unknown[0]}", "unknown repair", cure)
    for group in ONE_OF:
        twice = [name for name in group if name in names]
        if len(twice) > 1:
            problem = f"'{twice[0]}' and '{twice[1]}' do the same in two ways"
            raise UsageError(f"--repair {','.join(names)}", problem, "Choose one of them")
    return tuple(name for name in REPAIRS if name in names)


def in_turn(names: str) -> Repair:
    """Several repairs one after the other, their names joined by ``+``, as one."""
    repairs = [REPAIRS[name] for name in names.split("+")]

    def carried_out(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
        layers: dict[str, None] = {}
        notes: list[str] = []
        for repair in repairs:
            candidate, report = repair(candidate, data)
            layers |= dict.fromkeys(report.layers)
            notes += report.notes
        return candidate, RepairReport(names, tuple(layers), tuple(notes))

    return carried_out


@dataclass(frozen=True)
class _Judged:
    """A candidate as the stages left it; with its biases corrected; what that changed; its quality."""

    candidate: Candidate
    corrected: Candidate
    report: RepairReport
    quality: float


@dataclass(frozen=True)
class _Finished:
    """A candidate that nothing more happens to, and its quality as it is."""

    candidate: Candidate
    quality: float


@dataclass
class _Search:
    """What the stages share, and the steps they take."""

    judge: _Judge
    data: RepairData
    steps: list[Step] = field(default_factory=list)

    def judged(self, candidate: Candidate) -> _Judged:
        """The candidate and its quality."""
        corrected, report = correct_biases(candidate, self.data)
        return _Judged(candidate, corrected, report, self.judge.quality(corrected))

    def stage(self, best: _Judged, alternatives: Mapping[str, Repair]) -> _Judged:
        """The best of what there was and of all alternatives."""
        found, tried, winner = best, list[Step](), ""
        for name, repair in alternatives.items():
            changed, report = repair(best.candidate, self.data)
            if changed is best.candidate:
                tried.append(Step(name, best.quality, best.quality, False, (), report.notes))
                continue
            now = self.judged(changed)
            tried.append(Step(name, best.quality, now.quality, False, report.layers, report.notes))
            if now.quality > max(found.quality, best.quality + GAIN_DB):
                found, winner = now, name
        self.steps += [replace(step, kept=step.name == winner) for step in tried]
        return found

    def finish(self, judged: _Judged, bare: float | None, ways: Sequence[str]) -> _Finished:
        """The best of the candidate, whose quality may be known, and of it with corrected biases."""
        known = self.judge.quality(judged.candidate) if bare is None else bare
        found, tried, winner = _Finished(judged.candidate, known), list[Step](), ""
        for name in ways:
            changed, report, quality = self._finished(judged, name, known)
            tried.append(Step(name, known, quality, False, report.layers, report.notes))
            if quality > max(found.quality, known + GAIN_DB):
                found, winner = _Finished(changed, quality), name
        self.steps += [replace(step, kept=step.name == winner) for step in tried]
        return found

    def _finished(self, judged: _Judged, way: str, bare: float) -> tuple[Candidate, RepairReport, float]:
        """The candidate with biases corrected in one way, and its quality."""
        if REPAIRS[way] is correct_biases:  # the way in which the stages judged
            return judged.corrected, judged.report, judged.quality
        changed, report = REPAIRS[way](judged.candidate, self.data)
        return changed, report, self.judge.quality(changed) if report.layers else bare


def _with_table(
    candidate: Candidate, data: RepairData, *, table: CalibrationTable
) -> tuple[Candidate, RepairReport]:
    """The candidate with other ranges; the same one where they are the same."""
    del data
    if table == candidate.table:
        return candidate, RepairReport("ranges", ())
    return replace(candidate, table=table), RepairReport("ranges", ())
