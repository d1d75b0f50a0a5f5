"""Options that say what the outputs of a model mean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Final

from calib8.cli.headings import MEANING, option

if TYPE_CHECKING:
    from calib8.tasks.purpose import Purpose

_TASK_HELP: Final = (
    "What the network is for: detect, segment, classify, embed, ctc, keypoints, speech or enhance. "
    "Default: told by the graph."
)
_BRANCH_HELP: Final = (
    "What an output is, or part of it: NAME=KIND or 'NAME[FIRST:LAST]=KIND', such as "
    "'output0[4:84]=scores'. Kinds: boxes, scores, objectness, mask-coefficients, masks, map, keypoints, "
    "logits, probabilities, embedding, ctc, decisions, signal, unused, other; of a raw grid of anchors "
    "yolov2-grid, yolov3-grid or yolov5-grid, with the anchors behind a colon if they are known. May be "
    "given several times. Default: told by the graph."
)


_THRESHOLD_HELP: Final = (
    "Of decisions per frame, with --task speech: above it a number says yes. Default: 0.5 for numbers "
    "between 0 and 1, 0 for others."
)


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """What outputs are; None: not given."""

    task: Annotated[str | None, option(MEANING, "--task", "NAME", _TASK_HELP)] = None
    branch: Annotated[list[str] | None, option(MEANING, "--branch", "NAME=KIND", _BRANCH_HELP)] = None

    @property
    def branches(self) -> dict[str, str]:
        """Part of an output → kind.

        Raises:
            UsageError: an option names no kind, or a part twice.
        """
        if not self.branch:
            return {}
        from calib8.tasks.named import parse_branches

        return parse_branches(self.branch)

    def purpose(self) -> Purpose:
        """The request that these options are.

        Raises:
            UsageError: no such task or kind, or a part that is named twice.
        """
        from calib8.tasks.purpose import Purpose

        return Purpose(self.task, self.branches)


@dataclass(frozen=True, kw_only=True)
class MeaningOptions(OutputOptions):
    """What outputs mean, and how they are judged; None: not given."""

    threshold: Annotated[float | None, option(MEANING, "--threshold", "X", _THRESHOLD_HELP)] = None

    def purpose(self) -> Purpose:
        """The request that these options are.

        Raises:
            UsageError: as of the others, or a threshold of another task.
        """
        return replace(super().purpose(), threshold=self.threshold)
