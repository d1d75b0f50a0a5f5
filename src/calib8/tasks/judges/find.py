"""The judge of a task, for a model whose outputs for one sample are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.errors import UsageError
from calib8.parameters import entry, one_of, parameter
from calib8.tasks.branches import Meaning, Sureness
from calib8.tasks.judges.classes import find_class_judge
from calib8.tasks.judges.ctc import find_ctc
from calib8.tasks.judges.decisions import find_speech
from calib8.tasks.judges.decode_points import find_point_head
from calib8.tasks.judges.detections import DetectionJudge
from calib8.tasks.judges.embeddings import find_embedding
from calib8.tasks.judges.find_detection_head import find_detection_head
from calib8.tasks.judges.interface import TASKS, Array, Judge
from calib8.tasks.judges.keypoints import KeypointJudge
from calib8.tasks.judges.masks import MaskJudge, find_mask_head
from calib8.tasks.judges.named_places import check_whole
from calib8.tasks.judges.signals import find_signal
from calib8.tasks.kinds import Kind

AnyJudge = Judge[Any, Any, Any]

_KINDS: Final[Mapping[str, tuple[Kind, ...]]] = {
    "segment": ("map",),
    "embed": ("embedding",),
    "ctc": ("ctc",),
    "classify": ("logits", "probabilities"),
    "keypoints": ("keypoints",),
    "speech": ("decisions",),
    "enhance": ("signal",),
}
"""Task → kinds of the one output that its judge reads."""

_SURENESS: Final[tuple[Sureness, ...]] = ("named", "sure", "likely", "guessed")


def check_task(task: str) -> None:
    """Refuses an unknown task.

    Raises:
        UsageError: it is none of ``TASKS``.
    """
    if task not in TASKS:
        raise UsageError(parameter("task", task), "unknown task", one_of(task, TASKS))


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
        UsageError: an unknown task, outputs that do not fit it (they are listed), several that do, or outputs
            that are empty or not finite.
    """
    check_task(task)
    _check_telling(task, names, outputs)
    if task == "detect":
        return DetectionJudge(find_detection_head(names, outputs, picture_size(feeds, task), meaning))
    places = list(range(len(names))) if meaning is None else _told_outputs(task, names, meaning)
    names, outputs = [names[place] for place in places], [outputs[place] for place in places]
    if task == "segment":
        mask = find_mask_head(names, outputs, _known_size(feeds))
        return MaskJudge(replace(mask, output=places[mask.output]))
    if task == "keypoints":
        points = find_point_head(names, outputs, picture_size(feeds, task), _posed(meaning))
        if points.layout != "columns" and meaning is not None:
            check_whole(task, meaning, _KINDS[task])
        return KeypointJudge(replace(points, output=places[points.output]))
    if task == "embed":
        vector = find_embedding(names, outputs)
        return replace(vector, output=places[vector.output])
    if task == "ctc":
        lines = find_ctc(names, outputs)
        return replace(lines, output=places[lines.output])
    if task == "speech":
        told = () if meaning is None else meaning.branches
        threshold = next((one.threshold for one in told if one.threshold is not None), None)
        heard = find_speech(names, outputs, threshold)
        return replace(heard, output=places[heard.output])
    if task == "enhance":
        signal = find_signal(names, outputs)
        return replace(signal, output=places[signal.output])
    classes = find_class_judge(names, outputs)
    return replace(classes, output=places[classes.output])


def _told_outputs(task: str, names: Sequence[str], meaning: Meaning) -> list[int]:
    """Indices of the outputs that may be what the task reads.

    Those that the graph, or the user, is surest of; where none is known to be of the task, all but unused
    ones.

    Raises:
        UsageError: several are as sure as each other, or the user named a part of one.
    """
    if task != "keypoints":  # boxes and scores may lie beside them
        check_whole(task, meaning, _KINDS[task])
    whole = [
        branch for branch in meaning.branches if len(branch.pieces) == 1 and branch.pieces[0].axis is None
    ]
    told = [branch for branch in whole if branch.kind in _KINDS[task] and branch.pieces[0].output in names]
    surest = min((_SURENESS.index(branch.sureness) for branch in told), default=0)
    told = [branch for branch in told if _SURENESS.index(branch.sureness) == surest]
    if len(told) > 1:
        listed = [branch.pieces[0].output for branch in told]
        cure = f"Say which ones do not count, such as {entry('branches', listed[-1], 'unused')}"
        raise UsageError(
            parameter("task", task), f"{', '.join(listed)} all are of it, and one is judged", cure
        )
    if told:
        return [list(names).index(told[0].pieces[0].output)]
    unused = {branch.pieces[0].output for branch in whole if branch.kind == "unused"}
    return [place for place, name in enumerate(names) if name not in unused]


def _posed(meaning: Meaning | None) -> list[str]:
    """Outputs [1, 5 + c·k, n] of boxes, one score and points, as the graph or the user has it."""
    found = dict[str, dict[tuple[int | None, int, int], Kind]]()
    for branch in () if meaning is None else meaning.branches:
        for piece in branch.pieces:
            kinds = found.setdefault(piece.output, {})
            kinds[piece.axis, piece.first, piece.last] = branch.kind
    return [
        output
        for output, kinds in found.items()
        if kinds.get((1, 0, 4)) == "boxes"
        and kinds.get((1, 4, 5)) in ("scores", "objectness")
        and any(kind == "keypoints" and place[:2] == (1, 5) for place, kind in kinds.items())
    ]


def _check_telling(task: str, names: Sequence[str], outputs: Sequence[Array]) -> None:
    """Refuses outputs whose values tell nothing."""
    cure = "From Python give a judge with its head"
    for name, array in zip(names, outputs, strict=True):
        if not array.size:
            raise UsageError(parameter("task", task), f"output {name} is empty for the first sample", cure)
        if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
            problem = f"output {name} is not finite for the first sample"
            raise UsageError(parameter("task", task), problem, cure)


def _known_size(feeds: Mapping[str, npt.NDArray[np.generic]]) -> tuple[int, int] | None:
    """That of the picture, None where it is not known."""
    try:
        return picture_size(feeds, "segment")
    except UsageError:
        return None


def picture_size(feeds: Mapping[str, npt.NDArray[np.generic]], task: str) -> tuple[int, int]:
    """Height and width of the only input of rank 4.

    Raises:
        UsageError: there is none, or several.
    """
    shapes = [array.shape for array in feeds.values() if array.ndim == 4]
    if len(shapes) != 1:
        problem = f"the model has {len(shapes)} inputs of rank 4, so the size of the picture is not known"
        raise UsageError(parameter("task", task), problem, "From Python give a judge with its head")
    [shape] = shapes
    last = shape[3] in (1, 3, 4) and shape[1] not in (1, 3, 4)
    return (int(shape[1]), int(shape[2])) if last else (int(shape[2]), int(shape[3]))
