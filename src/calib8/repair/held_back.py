"""The samples held back: what judges candidates, and what is left of it for the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from calib8.autorange.check import Check, Expected, Outputs, check_model, float_outputs
from calib8.autorange.samples import ChosenSamples
from calib8.model.runtime import Arrays
from calib8.progress import Progress, SampleCounter
from calib8.repair.candidate import Candidate
from calib8.repair.floor import Found
from calib8.tasks.branches import Meaning
from calib8.tasks.seen import is_float
from calib8.tasks.task_verdicts import TaskTruths
from calib8.tasks.verdict import Verdict, unjudged, verdict_of


@dataclass(frozen=True)
class Held:
    """Inputs of the runs that judged, and the float outputs of the float model for them."""

    runs: tuple[Arrays, ...]
    outputs: tuple[Outputs, ...]
    _truths: list[TaskTruths] = field(default_factory=list, compare=False)

    def verdict(self, model: ir.Model, meaning: Meaning, threads: int, *, shared: bool = False) -> Verdict:
        """The verdict on an int8 model.

        Args:
            model: its QDQ graph.
            meaning: branches of its outputs.
            threads: for ONNX Runtime.
            shared: the runs are those that made the model.

        Raises:
            ModelError, DataError: ONNX Runtime cannot run it.
        """
        outputs = float_outputs(model, self.runs, threads)
        names = [value.name or "" for value in model.graph.outputs if is_float(value)]
        tasks = self._truth(meaning, names).verdicts(outputs)
        return verdict_of(meaning, self.outputs, outputs, tasks, shared=shared)

    def _truth(self, meaning: Meaning, names: Sequence[str]) -> TaskTruths:
        """What the float model answers, read once for one meaning."""
        known = self._truths
        if not (known and known[0].meaning is meaning and list(known[0].names) == list(names)):
            known[:] = [TaskTruths(meaning, names, self.outputs, self.runs)]
        return known[0]


@dataclass
class Judge:
    """Quality of candidates on the runs held back."""

    samples: ChosenSamples
    most: int
    threads: int
    progress: Progress
    meaning: Meaning | None = None
    outputs: Sequence[Outputs] = ()
    expected: Expected | None = None
    _held: Held | None = None

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

    def verdict(self, candidate: Candidate) -> Verdict:
        """What the verdict on a candidate would be."""
        if self.meaning is None:
            return unjudged("what the outputs mean is not known")
        return self.held().verdict(candidate.coded.model, self.meaning, self.threads)

    def held(self) -> Held:
        """What it judged with, after the first quality was asked for."""
        if self._held is None or (self.expected is not None and not self._held.outputs):
            outputs = () if self.expected is None else tuple(self.expected.outputs)
            self._held = Held(self.samples.held_back[: len(outputs)], outputs)
        return self._held
