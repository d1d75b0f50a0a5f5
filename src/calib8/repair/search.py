"""One search for the best repairs: its stages, how it ends, and what it has tried.

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
from typing import Final

from calib8.autorange.check import Check
from calib8.repair.bias import correct_biases
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.floor import NO_FLOOR, Floor, finds_fewer
from calib8.repair.held_back import Judge
from calib8.repair.repairs import GAIN_DB, REPAIRS, Repair, gain_asked
from calib8.repair.step import Step
from calib8.table import CalibrationTable
from calib8.tasks.limits import badness
from calib8.tasks.verdict import Verdict

BELOW_FLOOR: Final = "what gained more in all left less of the scores than plain ranges do"
"""Why a search ends with less than it found."""

AGAIN: Final = 3
"""How often a stage may come again for a better verdict: with layers in float 60 % of the work by then."""

MORE_DB: Final = 10.0
"""What outputs need more where they have enough dB and the verdict is not "kept"; those with as much count
as poor where none has less."""

COMPARED_DB: Final = 3.0
"""What a candidate may lack when its ranges are not compared yet. Behind equalization they are those of the
methods that comparing had taken before; comparing again takes longer than all else. Networks of 14 to 21 dB
gained up to 2 dB by it, and repairs behind it 2.5 to 4 more."""

LESS: Final = 0.8
"""What is left of the excess (``calib8.tasks.limits``) where a verdict of the same word is clearly better."""

NOT_WORTH_IT: Final = "left out: the model would be slower, and the verdict hardly better"
"""Why a stage that gains something is left out."""


@dataclass(frozen=True)
class Judged:
    """A candidate as the stages left it; with its biases corrected; what that changed; its quality."""

    candidate: Candidate
    corrected: Candidate
    report: RepairReport
    quality: Check


@dataclass(frozen=True)
class Finished:
    """A candidate that nothing more happens to, and its quality as it is."""

    candidate: Candidate
    quality: Check


@dataclass
class Search:
    """What the stages share, and the steps they take."""

    judge: Judge
    data: RepairData
    steps: list[Step] = field(default_factory=list)
    floor: Floor = NO_FLOOR
    last: Judged | None = None

    def judged(self, candidate: Candidate) -> Judged:
        """The candidate and its quality."""
        corrected, report = correct_biases(candidate, self.data)
        return Judged(candidate, corrected, report, self.judge.quality(corrected))

    def stage(
        self, best: Judged, alternatives: Mapping[tuple[str, ...], Repair], data: RepairData | None = None
    ) -> Judged:
        """The best of what there was and of all alternatives; these look at ``data``, None: at the usual."""
        found, tried, winner = best, list[Step](), tuple[str, ...]()
        for names, repair in alternatives.items():
            least = max(found.quality.sqnr_db, best.quality.sqnr_db + gain_asked(names))
            changed, report = repair(best.candidate, self._looking(data or self.data, least))
            if changed is best.candidate:
                tried.append(Step(names, best.quality, best.quality, False, (), report.notes))
                continue
            now = self.judged(changed)
            self.last = now if self.floor is NO_FLOOR else None
            tried.append(Step(names, best.quality, now.quality, False, report.layers, report.notes))
            better = now.quality.sqnr_db > least
            if better and self.floor.allows(now.quality, best.quality):
                found, winner = now, names
        self.steps += [replace(step, kept=step.names == winner) for step in tried]
        return found

    def preferred(self, best: Judged, name: str, repair: Repair) -> Judged:
        """What a repair makes of it where that is as good; else what there was."""
        changed, report = repair(best.candidate, self.data)
        if changed is best.candidate:
            self.steps.append(Step((name,), best.quality, best.quality, False, (), report.notes))
            return best
        now = self.judged(changed)
        kept = now.quality.sqnr_db >= best.quality.sqnr_db
        kept = kept and self.floor.allows(now.quality, best.quality)
        self.steps.append(Step((name,), best.quality, now.quality, kept, report.layers, report.notes))
        return now if kept else best

    def _looking(self, data: RepairData, least_db: float) -> RepairData:
        """What a repair looks at that is kept only where the quality is above ``least_db``."""

        def promises(candidate: Candidate) -> bool:
            quality = self.judge.quality(correct_biases(candidate, self.data)[0])
            return quality.sqnr_db > least_db - COMPARED_DB

        return replace(data, promises=promises)

    def stage_for_verdict(self, best: Judged, alternatives: Mapping[tuple[str, ...], Repair]) -> Judged:
        """A stage that is worth its cost where the verdict on samples held back gets clearly better by it.

        It comes again, ``AGAIN`` times at most, while it gains something and the verdict is not "kept",
        however many dB there are. What came behind the last clearly better verdict is left out.
        """
        data = replace(self.data, more_db=MORE_DB)
        verdict = self.judge.verdict(best.corrected)
        found, last, worth_it = best, best, len(self.steps)
        for _ in range(AGAIN):
            if verdict.state not in ("damaged", "ruined"):
                break
            before, last = last, self.stage(last, alternatives, data)
            if last is before:
                break
            now = self.judge.verdict(last.corrected)
            if _clearly_better(now, verdict):
                found, verdict, worth_it = last, now, len(self.steps)
        left_out = [
            replace(step, kept=False, notes=(*step.notes, NOT_WORTH_IT)) if step.kept else step
            for step in self.steps[worth_it:]
        ]
        self.steps[worth_it:] = left_out
        return found

    def finish(self, judged: Judged, bare: Check | None, ways: Sequence[str]) -> Finished:
        """The best of the candidate, whose quality may be known, and of it with corrected biases."""
        known = self.judge.quality(judged.candidate) if bare is None else bare
        found, tried, winner = Finished(judged.candidate, known), list[Step](), tuple[str, ...]()
        for name in ways:
            changed, report, quality = self._finished(judged, name, known)
            tried.append(Step((name,), known, quality, False, report.layers, report.notes))
            better = quality.sqnr_db > max(found.quality.sqnr_db, known.sqnr_db + GAIN_DB)
            better = better or not self.floor.allows(found.quality, judged.quality)
            if better and self.floor.allows(quality, judged.quality):
                found, winner = Finished(changed, quality), (name,)
        self.steps += [replace(step, kept=step.names == winner) for step in tried]
        return found

    def finds_fewer(self, final: Finished, plain: Judged) -> bool:
        """Whether the result loses detections that the plain candidate with corrected biases keeps."""
        meaning = self.judge.meaning
        if meaning is None or not self.floor.least or final.candidate is plain.corrected:
            return False
        now, before = (self.judge.found(one, meaning) for one in (final.candidate, plain.corrected))
        return finds_fewer(now, before)

    def back_to(self, plain: Judged, tables: Mapping[str, CalibrationTable]) -> Finished:
        """The plain candidate with corrected biases: of all that was found its ranges alone are kept."""
        before = self.judge.quality(plain.candidate)
        known = [replace(step, kept=tables.get(step.name) == plain.candidate.table) for step in self.steps]
        layers, notes = plain.report.layers, (*plain.report.notes, BELOW_FLOOR)
        self.steps = [*known, Step(("bias",), before, plain.quality, True, layers, notes)]
        return Finished(plain.corrected, plain.quality)

    def _finished(self, judged: Judged, way: str, bare: Check) -> tuple[Candidate, RepairReport, Check]:
        """The candidate with biases corrected in one way, and its quality."""
        if REPAIRS[way] is correct_biases:  # the way in which the stages judged
            return judged.corrected, judged.report, judged.quality
        changed, report = REPAIRS[way](judged.candidate, self.data)
        return changed, report, self.judge.quality(changed) if report.layers else bare


def _clearly_better(now: Verdict, before: Verdict) -> bool:
    """A better word, or the same one and at least a fifth less lost; see ``calib8.tasks.limits``."""
    if now.state != before.state:
        return badness(now.state) > badness(before.state)
    return now.excess <= LESS * before.excess
