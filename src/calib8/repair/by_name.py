"""Repairs by name: exactly those that the user wants, in the order of ``REPAIRS``.

Those that may change the float function stay only where the samples held back lose nothing by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from calib8.autorange.check import Check
from calib8.autorange.samples import ChosenSamples
from calib8.parameters import parameter
from calib8.progress import Progress, silent
from calib8.repair.candidate import Candidate, RepairData
from calib8.repair.held_back import Judge
from calib8.repair.repairs import REPAIRS, RISKY
from calib8.repair.result import Repaired
from calib8.repair.search import Search
from calib8.repair.step import UNKNOWN, Step
from calib8.repair.wanted import check_data, repairs_called
from calib8.scheme import check_has_spots
from calib8.tasks.branches import Meaning


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
        UsageError: there is no such repair, it needs data, or the target has no 16-bit codes for it.
        Calib8Error: a model cannot be run.
    """
    wanted = repairs_called(names)
    check_data(wanted, with_data=samples is not None)
    if "spots" in wanted:
        check_has_spots(candidate.scheme, parameter("repair", "spots"))
    runs, dataset = ((), None) if samples is None else (samples.scored, samples.dataset)
    data = RepairData(runs, threads, progress, candidate.model, original, dataset, meaning)
    judge = None if samples is None else Judge(
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
    judge: Judge | None
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
        search = Search(self.judge, self.data)
        return search.judged(changed).quality.sqnr_db >= search.judged(self.candidate).quality.sqnr_db
