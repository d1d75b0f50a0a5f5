"""The order of repairs, and which of them stay.

by name      exactly those that the user wants, in the order of ``REPAIRS``
             those that may change the float function only where the samples held back lose nothing by it
by effort    a search in stages, each with alternatives; what is best on samples held back goes on; with too
             few samples to hold some back nothing is tried, as nothing could be proved

    quality(c)    SQNR of the outputs in dB, held-back samples, of candidate c with its biases corrected:
                  ``Check.sqnr_db``, the mean of the typical run's and the total
    stage         best alternative by quality, taken if it gains more than ``gain_asked``
    finish        the best of: biases corrected in the ways of the effort, biases as they were

The one-shot bias correction is part of the quality because some repairs only pay together with it:
equalization makes weights coarser, and what that adds on average is what the correction takes out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Final

import onnx_ir as ir

from calib8.autorange.check import Check, Expected, Outputs, check_model, float_outputs
from calib8.autorange.samples import ChosenSamples, too_few
from calib8.model.runtime import Arrays
from calib8.progress import Progress, SampleCounter, silent
from calib8.repair.bias import correct_biases
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.floor import NO_FLOOR, Floor, Found, finds_fewer
from calib8.repair.repairs import GAIN_DB, REPAIRS, RISKY, Repair, gain_asked, in_turn, stages_of
from calib8.repair.step import UNKNOWN, Step, worth_trying
from calib8.repair.wanted import Repairs, check_data, effort_called, repairs_called
from calib8.table import CalibrationTable
from calib8.tasks.branches import Meaning

BELOW_FLOOR: Final = "what gained more in all left less of the scores than plain ranges do"
"""Why a search ends with less than it found."""

CHANCE_DB: Final = 0.5
"""What a few objects decide where scores do: so little behind is no reason to drop all repairs."""


@dataclass(frozen=True)
class Held:
    """Inputs of the runs that judged, and the float outputs of the float model for them."""

    runs: tuple[Arrays, ...]
    outputs: tuple[Outputs, ...]


@dataclass(frozen=True)
class Repaired:
    """What is left to quantize.

    Attributes:
        candidate: model, ranges and corrections.
        table: the ranges chosen for the model as it was before repairs.
        steps: all that was tried, in that order.
        effort: what was asked for, empty where repairs were named.
        held_back: runs that judged.
        shared: those that judged are those that repaired: what a step gained on them proves nothing.
        warning: why the effort tried no repair, and the cure; empty where it did.
        estimated: the float model as it would be loaded where repairs changed what it is meant to compute,
            None where they did not.
        reference: the same, prepared.
        held: the runs that judged; None where none did, or nobody asks any more.
    """

    candidate: Candidate
    table: CalibrationTable
    steps: tuple[Step, ...]
    effort: str
    held_back: int
    shared: bool = False
    warning: str = ""
    estimated: ir.Model | None = None
    reference: ir.Model | None = None
    held: Held | None = None


@dataclass
class _Judge:
    """Quality of candidates on the runs held back."""

    samples: ChosenSamples
    most: int
    threads: int
    progress: Progress
    meaning: Meaning | None = None
    outputs: Sequence[Outputs] = ()
    expected: Expected | None = None

    def quality(self, candidate: Candidate) -> Check:
        """SQNR of the outputs."""
        runs = self.samples.held_back[: self.most]
        if self.expected is None:
            outputs = self.outputs or float_outputs(candidate.model, runs, self.threads)
            self.expected = Expected.of(outputs, self.meaning)
        counter = SampleCounter("checking the model", len(runs), self.progress)
        return check_model("", candidate.coded.model, runs, self.expected, self.threads, counter)

    def found(self, candidate: Candidate, meaning: Meaning) -> Found:
        """What stays found."""
        held = self.held()
        outputs = float_outputs(candidate.coded.model, held.runs, self.threads)
        return Found.of(meaning, held.outputs, outputs)

    def held(self) -> Held:
        """What it judged with, after the first quality was asked for."""
        outputs = () if self.expected is None else tuple(self.expected.outputs)
        return Held(self.samples.held_back[: len(outputs)], outputs)


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
    judge = _Judge(
        samples, plan.held_back, threads, progress, meaning, samples.outputs[: plan.held_back]
    )  # fmt: skip
    search = _Search(judge, data)
    bare, best = judge.quality(candidate), search.judged(candidate)
    best = search.stage(best, {(name,): partial(_with_table, table=table) for name, table in tables.items()})
    table, plain = best.candidate.table, search.last or best
    search.floor, search.last = Floor.of(meaning, plain.quality), None
    plain = plain if search.floor.least else best
    for stage in stages_of(plan, candidate.scheme, candidate.model, mixed=mixed):
        tried = [names for names in stage if worth_trying(names, search.steps)]
        best = search.stage(best, {names: in_turn(names) for names in tried})
    final = search.finish(best, bare if best.candidate is candidate else None, plan.finish)
    if not search.floor.holds(final.quality) or search.finds_fewer(final, plain):
        final, table = search.back_to(plain, tables), plain.candidate.table
    elif final.quality.sqnr_db < bare.sqnr_db - (CHANCE_DB if search.floor.least else 0.0):
        # what was found only serves with corrected biases
        final, table = _Finished(candidate, bare), candidate.table
        search.steps = [replace(step, kept=False) for step in search.steps]
    steps = tuple(search.steps)
    held = judge.held()
    return Repaired(final.candidate, table, steps, effort, len(held.runs), held=held)


def repair_by_name(
    candidate: Candidate,
    samples: ChosenSamples | None,
    names: Sequence[str],
    *,
    original: ir.Model | None = None,
    meaning: Meaning | None = None,
    threads: int = 2,
    progress: Progress = silent,
) -> Repaired:
    """The candidate with the named repairs, in the order of ``REPAIRS``; what each gained is told.

    Those of ``RISKY`` are left out where the samples held back lose by them.

    Args:
        candidate, meaning, threads, progress: as for ``repair_by_effort``.
        samples: as there; None will do for repairs that look at no data, whose gain is unknown then.
        names: keys of ``REPAIRS``, or ``NONE`` alone.
        original: the model as it was loaded, for repairs that look at its batch normalizations.

    Raises:
        UsageError: there is no such repair, or it needs data.
        Calib8Error: a model cannot be run.
    """
    wanted = repairs_called(names)
    check_data(wanted, with_data=samples is not None)
    runs, dataset = ((), None) if samples is None else (samples.scored, samples.dataset)
    data = RepairData(runs, threads, progress, candidate.model, original, dataset, meaning)
    judge = None if samples is None else _Judge(
        samples, len(samples.held_back), threads, progress, meaning
    )  # fmt: skip
    start = _Named(candidate, data, judge)
    before = start.quality() if wanted else UNKNOWN
    for name in wanted:
        before = start.carry_out(name, before)
    held_back, shared = (0, False) if samples is None else (len(samples.held_back), samples.shared)
    return Repaired(
        start.candidate, candidate.table, tuple(start.steps), "", held_back, shared, "", start.estimated,
        None if start.estimated is None else start.data.prepared,
        None if start.judge is None or not start.steps else start.judge.held(),
    )  # fmt: skip


def repaired(
    candidate: Candidate,
    samples: ChosenSamples | None,
    wanted: Repairs,
    *,
    tables: Mapping[str, CalibrationTable] = MappingProxyType({}),
    original: ir.Model | None = None,
    meaning: Meaning | None = None,
    threads: int = 2,
    progress: Progress = silent,
) -> Repaired:
    """Carries out what is wanted; the arguments are those of ``repair_by_effort`` and ``repair_by_name``.

    Raises:
        Calib8Error: a model cannot be run.
    """
    if wanted.effort and samples is not None:
        return repair_by_effort(
            candidate,
            samples,
            wanted.effort,
            tables=tables,
            meaning=meaning,
            mixed=wanted.mixed,
            threads=threads,
            progress=progress,
        )
    return repair_by_name(
        candidate,
        samples,
        wanted.names,
        original=original,
        meaning=meaning,
        threads=threads,
        progress=progress,
    )


@dataclass(frozen=True)
class _Judged:
    """A candidate as the stages left it; with its biases corrected; what that changed; its quality."""

    candidate: Candidate
    corrected: Candidate
    report: RepairReport
    quality: Check


@dataclass(frozen=True)
class _Finished:
    """A candidate that nothing more happens to, and its quality as it is."""

    candidate: Candidate
    quality: Check


@dataclass
class _Search:
    """What the stages share, and the steps they take."""

    judge: _Judge
    data: RepairData
    steps: list[Step] = field(default_factory=list)
    floor: Floor = NO_FLOOR
    last: _Judged | None = None

    def judged(self, candidate: Candidate) -> _Judged:
        """The candidate and its quality."""
        corrected, report = correct_biases(candidate, self.data)
        return _Judged(candidate, corrected, report, self.judge.quality(corrected))

    def stage(self, best: _Judged, alternatives: Mapping[tuple[str, ...], Repair]) -> _Judged:
        """The best of what there was and of all alternatives."""
        found, tried, winner = best, list[Step](), tuple[str, ...]()
        for names, repair in alternatives.items():
            changed, report = repair(best.candidate, self.data)
            if changed is best.candidate:
                tried.append(Step(names, best.quality, best.quality, False, (), report.notes))
                continue
            now = self.judged(changed)
            self.last = now if self.floor is NO_FLOOR else None
            tried.append(Step(names, best.quality, now.quality, False, report.layers, report.notes))
            better = now.quality.sqnr_db > max(
                found.quality.sqnr_db, best.quality.sqnr_db + gain_asked(names)
            )
            if better and self.floor.allows(now.quality, best.quality):
                found, winner = now, names
        self.steps += [replace(step, kept=step.names == winner) for step in tried]
        return found

    def finish(self, judged: _Judged, bare: Check | None, ways: Sequence[str]) -> _Finished:
        """The best of the candidate, whose quality may be known, and of it with corrected biases."""
        known = self.judge.quality(judged.candidate) if bare is None else bare
        found, tried, winner = _Finished(judged.candidate, known), list[Step](), tuple[str, ...]()
        for name in ways:
            changed, report, quality = self._finished(judged, name, known)
            tried.append(Step((name,), known, quality, False, report.layers, report.notes))
            better = quality.sqnr_db > max(found.quality.sqnr_db, known.sqnr_db + GAIN_DB)
            better = better or not self.floor.allows(found.quality, judged.quality)
            if better and self.floor.allows(quality, judged.quality):
                found, winner = _Finished(changed, quality), (name,)
        self.steps += [replace(step, kept=step.names == winner) for step in tried]
        return found

    def finds_fewer(self, final: _Finished, plain: _Judged) -> bool:
        """Whether the result loses detections that the plain candidate with corrected biases keeps."""
        meaning = self.judge.meaning
        if meaning is None or not self.floor.least or final.candidate is plain.corrected:
            return False
        now, before = (self.judge.found(one, meaning) for one in (final.candidate, plain.corrected))
        return finds_fewer(now, before)

    def back_to(self, plain: _Judged, tables: Mapping[str, CalibrationTable]) -> _Finished:
        """The plain candidate with corrected biases: of all that was found its ranges alone are kept."""
        before = self.judge.quality(plain.candidate)
        known = [replace(step, kept=tables.get(step.name) == plain.candidate.table) for step in self.steps]
        layers, notes = plain.report.layers, (*plain.report.notes, BELOW_FLOOR)
        self.steps = [*known, Step(("bias",), before, plain.quality, True, layers, notes)]
        return _Finished(plain.corrected, plain.quality)

    def _finished(self, judged: _Judged, way: str, bare: Check) -> tuple[Candidate, RepairReport, Check]:
        """The candidate with biases corrected in one way, and its quality."""
        if REPAIRS[way] is correct_biases:  # the way in which the stages judged
            return judged.corrected, judged.report, judged.quality
        changed, report = REPAIRS[way](judged.candidate, self.data)
        return changed, report, self.judge.quality(changed) if report.layers else bare


@dataclass
class _Named:
    """Repairs by name, as far as they are carried out.

    Attributes:
        candidate: with all that stays so far.
        data: what repairs look at.
        judge: None without data.
        steps: so far.
        estimated: the model as it would be loaded with the statistics that a repair gave it, None without.
    """

    candidate: Candidate
    data: RepairData
    judge: _Judge | None
    steps: list[Step] = field(default_factory=list)
    estimated: ir.Model | None = None

    def quality(self) -> Check:
        """Of the candidate, NaN without data."""
        return UNKNOWN if self.judge is None else self.judge.quality(self.candidate)

    def carry_out(self, name: str, before: Check) -> Check:
        """Repairs the candidate, whose quality was ``before``; returns what it is then."""
        changed, report = REPAIRS[name](self.candidate, self.data)
        judge = self.judge
        if report.new_original is not None:
            self.data, self.estimated = self.data.after(changed.model, report), report.new_original
            judge = self.judge = None if judge is None else replace(judge, outputs=(), expected=None)
        after = before if judge is None or not report.layers else judge.quality(changed)
        kept = bool(report.layers) and (name not in RISKY or self._loses_nothing(changed))
        self.steps.append(Step((name,), before, after, kept, report.layers, report.notes))
        if not kept:
            return before
        self.candidate = changed
        return after

    def _loses_nothing(self, changed: Candidate) -> bool:
        """Whether the samples held back agree, biases corrected with and without what was changed."""
        if self.judge is None:
            return True
        search = _Search(self.judge, self.data)
        return search.judged(changed).quality.sqnr_db >= search.judged(self.candidate).quality.sqnr_db


def _with_table(
    candidate: Candidate, data: RepairData, *, table: CalibrationTable
) -> tuple[Candidate, RepairReport]:
    """The candidate with other ranges; the same one where they are the same."""
    del data
    if table == candidate.table:
        return candidate, RepairReport(())
    return replace(candidate, table=table), RepairReport(())
