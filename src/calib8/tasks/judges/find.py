"""The judge of a task, for a model whose outputs for one sample are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.errors import UsageError
from calib8.tasks.branches import Meaning
from calib8.tasks.judges.classes import find_class_judge
from calib8.tasks.judges.ctc import find_ctc
from calib8.tasks.judges.decode_points import find_point_head
from calib8.tasks.judges.detections import DetectionJudge
from calib8.tasks.judges.embeddings import find_embedding
from calib8.tasks.judges.find_detection_head import find_detection_head
from calib8.tasks.judges.interface import TASKS, Array, Judge
from calib8.tasks.judges.keypoints import KeypointJudge
from calib8.tasks.judges.masks import MaskJudge, find_mask_head

AnyJudge = Judge[Any, Any, Any]


def check_task(task: str) -> None:
    """Refuses an unknown task.

    Raises:
        UsageError: it is none of ``TASKS``.
    """
    if task not in TASKS:
        raise UsageError(f"--task {task}", "unknown task", f"Use one of {', '.join(TASKS)}")


def task_name(task: str | AnyJudge | None) -> str | None:
    """The name of a task that was given by name or as a judge."""
    return task if isinstance(task, str) else getattr(task, "task", None)


def find_judge(
    task: str,
    names: Sequence[str],
    outputs: Sequence[Array],
    feeds: Mapping[str, npt.NDArray[np.generic]],
    meaning: Meaning | None = None,
) -> AnyJudge:
    """The judge of a task.

    Args:
        task: one of ``TASKS``.
        names: of the outputs.
        outputs: of the float model for one sample, batch axis of length 1 included; none of them empty.
        feeds: what it was fed with.
        meaning: branches of the outputs as the graph has them; None: it is not known.

    Raises:
        UsageError: an unknown task, outputs that do not fit it (they are listed), or that are empty or not
            finite.
    """
    check_task(task)
    _check_telling(task, names, outputs)
    if task == "detect":
        return DetectionJudge(find_detection_head(names, outputs, picture_size(feeds, task), meaning))
    if task == "segment":
        return MaskJudge(find_mask_head(names, outputs))
    if task == "embed":
        return find_embedding(names, outputs)
    if task == "ctc":
        return find_ctc(names, outputs)
    if task == "keypoints":
        return KeypointJudge(find_point_head(names, outputs, picture_size(feeds, task)))
    return find_class_judge(names, outputs)


def _check_telling(task: str, names: Sequence[str], outputs: Sequence[Array]) -> None:
    """Refuses outputs whose values tell nothing."""
    cure = "From Python give a judge with its head"
    for name, array in zip(names, outputs, strict=True):
        if not array.size:
            raise UsageError(f"--task {task}", f"output {name} is empty for the first sample", cure)
        if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
            problem = f"output {name} is not finite for the first sample"
            raise UsageError(f"--task {task}", problem, cure)


def picture_size(feeds: Mapping[str, npt.NDArray[np.generic]], task: str) -> tuple[int, int]:
    """Height and width of the only input of rank 4.

    Raises:
        UsageError: there is none, or several.
    """
    shapes = [array.shape for array in feeds.values() if array.ndim == 4]
    if len(shapes) != 1:
        problem = f"the model has {len(shapes)} inputs of rank 4, so the size of the picture is not known"
        raise UsageError(f"--task {task}", problem, "From Python give a judge with its head")
    [shape] = shapes
    last = shape[3] in (1, 3, 4) and shape[1] not in (1, 3, 4)
    return (int(shape[1]), int(shape[2])) if last else (int(shape[2]), int(shape[3]))
