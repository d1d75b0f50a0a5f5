"""What the user says that the outputs are for, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypedDict, cast

from calib8.errors import UsageError
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

    Raises:
        UsageError: there is no such task.
    """

    task: str | AnyJudge | None = None
    branches: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Checks the name of the task."""
        super().__post_init__()
        if self.task is not None and (isinstance(self.task, str) or not isinstance(self.task_name, str)):
            task_called(cast(str, self.task))
        given: object = self.task
        if isinstance(given, type):
            name = given.__name__
            raise UsageError("task", f"is the class {name}, not a judge", f"Give one, such as {name}(…)")

    @property
    def task_name(self) -> str | None:
        """Name of the task."""
        return task_name(self.task)

    def meaning(self, model: ir.Model) -> Meaning:
        """The branches of a model's outputs, see ``calib8.tasks.meaning.meaning_of``."""
        from calib8.tasks.meaning import meaning_of

        return meaning_of(model, task=self.task_name, branches=self.branches)

    def judged(self, model: ir.Model) -> Meaning:
        """The same for a judge, see ``calib8.tasks.meaning.judged_meaning``."""
        from calib8.tasks.meaning import judged_meaning

        return judged_meaning(model, self.task, self.branches)


class PurposeWords(TypedDict, total=False):
    """The fields of a ``Purpose`` as keywords."""

    task: str | AnyJudge | Purpose | None
    branches: Mapping[str, str]


def purpose_of(words: Mapping[str, object]) -> Purpose:
    """What the keywords of a call say: ``task`` and ``branches``, or a ``Purpose`` as the task.

    Raises:
        UsageError: there is no such task, or branches stand beside a ``Purpose``.
    """
    return requested(Purpose, words, words.get("task"), field="task")


NOTHING_SAID: Final = Purpose()
