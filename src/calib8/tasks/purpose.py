"""What the user says that the outputs are for, as one value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypedDict, cast

from calib8.errors import UsageError
from calib8.parameters import parameter
from calib8.requests import Request, requested
from calib8.tasks.judges.find import AnyJudge, task_name
from calib8.tasks.kinds import task_called

if TYPE_CHECKING:  # plans are judged without what reads models
    import onnx_ir as ir

    from calib8.tasks.branches import Meaning


@dataclass(frozen=True)
class Purpose(Request):
    """What the outputs of a network are for; what is not said is told by the graph.

    Attributes:
        task: what the network is for, a key of ``calib8.tasks.kinds.NEEDS``; or a judge with its head.
        branches: part of an output, such as ``output0`` or ``output0[4:84]`` → what it is, of
            ``calib8.tasks.kinds.KINDS``; see ``calib8.tasks.meaning.meaning_of``.
        threshold: of task ``speech``: above it a number of a frame says yes; None: 0.5 for numbers between
            0 and 1, 0 for others.

    Raises:
        UsageError: there is no such task; a threshold of another task, or one that is no finite number.
    """

    task: str | AnyJudge | None = None
    branches: Mapping[str, str] = field(default_factory=dict)
    threshold: float | None = None

    def __post_init__(self) -> None:
        """Checks the name of the task."""
        super().__post_init__()
        if self.task is not None and (isinstance(self.task, str) or not isinstance(self.task_name, str)):
            task_called(cast(str, self.task))
        given: object = self.task
        if isinstance(given, type):
            name = given.__name__
            raise UsageError("task", f"is the class {name}, not a judge", f"Give one, such as {name}(…)")
        if self.threshold is not None:
            self._check_threshold(self.threshold)

    def _check_threshold(self, threshold: float) -> None:
        if not math.isfinite(threshold):
            raise UsageError(parameter("threshold", threshold), "is not finite", "Give a number, such as 0.5")
        if self.task_name not in (None, "speech"):
            problem = f"is not of task {self.task_name}, which makes no decisions"
            raise UsageError(parameter("threshold"), problem, f"It is of {parameter('task', 'speech')}")
        if self.task is not None and not isinstance(self.task, str):
            problem = "is given beside a judge, which holds it"
            raise UsageError(parameter("threshold"), problem, "Give SpeechJudge(threshold=…)")

    @property
    def task_name(self) -> str | None:
        """Name of the task."""
        return task_name(self.task)

    def meaning(self, model: ir.Model) -> Meaning:
        """The branches of a model's outputs, see ``calib8.tasks.meaning.meaning_of``."""
        from calib8.tasks.meaning import meaning_of

        return self._deciding(meaning_of(model, task=self.task_name, branches=self.branches))

    def judged(self, model: ir.Model) -> Meaning:
        """The same for a judge, see ``calib8.tasks.meaning.judged_meaning``."""
        from calib8.tasks.meaning import judged_meaning

        return self._deciding(judged_meaning(model, self.task, self.branches))

    def without_graph(self) -> Meaning | None:
        """What a judge is told of outputs where no float graph says what they are; None: nothing."""
        from calib8.tasks.branches import of_threshold

        return of_threshold(self.threshold)

    def _deciding(self, meaning: Meaning) -> Meaning:
        """The same with the threshold of its decisions."""
        if self.threshold is None:
            return meaning
        branches = [
            replace(one, threshold=self.threshold) if one.kind == "decisions" else one
            for one in meaning.branches
        ]
        if tuple(branches) == meaning.branches:
            problem = "is of decisions per frame, and no output is said to hold some"
            raise UsageError(parameter("threshold"), problem, f"Give {parameter('task', 'speech')} too")
        return replace(meaning, branches=tuple(branches))


class OutputWords(TypedDict, total=False):
    """The fields of a ``Purpose`` that say what outputs are, as keywords."""

    task: str | AnyJudge | Purpose | None
    branches: Mapping[str, str]


class PurposeWords(OutputWords, total=False):
    """The fields of a ``Purpose`` as keywords."""

    threshold: float | None


def purpose_of(words: Mapping[str, object]) -> Purpose:
    """What the keywords of a call say: ``task``, ``branches``, ``threshold``, or a ``Purpose`` as the task.

    Raises:
        UsageError: there is no such task, or the others stand beside a ``Purpose``.
    """
    return requested(Purpose, words, words.get("task"), field="task")


NOTHING_SAID: Final = Purpose()
