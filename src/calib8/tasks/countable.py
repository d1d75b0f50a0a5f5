"""Labels by which nothing, or only a part, can be measured: an error or a sentence, before a model runs.

boxes, points   some that has an area, stands for one object alone and is not cut away by the preprocessing
pixels          some that count, and of two classes; with one score per pixel some of the foreground
who is who      two samples of one label, and two of different ones
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import numpy as np

from calib8.errors import DataError
from calib8.number_texts import count
from calib8.parameters import parameter
from calib8.tasks.judges.detections import BoxTruth
from calib8.tasks.judges.embeddings import EmbeddingJudge
from calib8.tasks.judges.find import AnyJudge
from calib8.tasks.judges.keypoints import PointTruth
from calib8.tasks.judges.masks import LEFT_OUT, MaskTruth

CURE_OF_PAIRS: Final = "Give each identity one number, and two samples or more of several of them"


def check_objects(truths: Collection[BoxTruth | PointTruth], labelled: int, source: str) -> tuple[str, ...]:
    """What is odd about objects that were moved into the input.

    Args:
        truths: of every picture.
        labelled: objects before the preprocessing cut pictures.
        source: of the labels.

    Raises:
        DataError: no object can be found by any model.
    """
    flat, without, crowds, good = 0, 0, 0, 0
    for one in truths:
        points = isinstance(one, PointTruth)
        area = one.areas > 0.0 if points else np.all(one.boxes[:, 2:] > one.boxes[:, :2], axis=1)
        known = np.any(one.labelled_points, axis=1) if isinstance(one, PointTruth) else np.ones_like(area)
        flat += int(np.sum(~one.crowd & known & ~area))
        without += int(np.sum(~one.crowd & ~known))
        crowds += int(np.sum(one.crowd))
        good += int(np.sum(~one.crowd & known & area))
    cut = labelled - sum(len(one.crowd) for one in truths)
    said = ((flat, "without width or height"), (without, "without a labelled point"),
            (crowds, "of crowds (iscrowd)"), (cut, "cut away by the preprocessing"))  # fmt: skip
    if not good:
        why = ", ".join(f"{number} {what}" for number, what in said if number)
        problem = f"holds no object that a model could find ({count(labelled, 'object')}: {why})"
        raise DataError(source, problem, "Give every object its box or points, and check the preprocessing")
    if not flat:
        return ()
    has = "has" if flat == 1 else "have"
    return (f"{count(flat, 'object')} of {labelled} {has} no width or height: no model can find them",)


def check_pixels(
    files: Iterable[str], truth: Callable[[str], MaskTruth], source: str, *, one_score: bool
) -> tuple[str, ...]:
    """What is odd about maps, of which no more are read than it takes to see that they tell something.

    Args:
        files: the pictures.
        truth: reads the map of a picture.
        source: of the labels.
        one_score: the model has one score per pixel; label 1 is what it marks then.

    Raises:
        DataError: no pixel counts, or none is marked.
    """
    seen, pictures = set[int](), 0
    for file in files:
        seen |= set(np.unique(truth(file).classes).tolist()) - {LEFT_OUT}
        pictures += 1
        if len(seen) > 1:
            return ()
    of = f"the {count(pictures, 'map')}" if pictures > 1 else "the map"
    if not seen:
        problem = f"no pixel of {of} counts: all are 255, which means no class, or cut away"
        raise DataError(source, problem, "Write the number of its class into every pixel")
    if one_score and seen == {0}:
        problem = f"no pixel of {of} is above 0: nothing is marked"
        raise DataError(source, problem, "Write a number above 0 into every pixel of what the model marks")
    [only] = seen
    told = "is foreground" if one_score else f"has the class {only}"
    return (f"every pixel of {of} that counts {told}: what INT8 confuses with other classes does not show",)


def why_no_pairs(labels: Sequence[int]) -> str:
    """Why the labels of embeddings tell neither who is the same nor who is another; empty where they do."""
    if len(labels) < 2:
        return f"{count(len(labels), 'label')} tells of no pair of samples"
    kinds = len(set(labels))
    if kinds == 1:
        return f"all {len(labels)} samples have the label {labels[0]}: there is no pair of two identities"
    if kinds == len(labels):
        return f"each of the {len(labels)} samples has a label of its own: there is no pair of one identity"
    return ""


def check_identities(task: str | AnyJudge | None, labels: Sequence[int | None]) -> None:
    """Refuses labels that the user gave for embeddings and that tell no pair.

    Args:
        task: a name, or a judge with its head.
        labels: of all samples, None where there is none; empty where they are not known yet.

    Raises:
        DataError: no two samples of one label, or no two of different ones.
    """
    if not labels or not (task == "embed" or isinstance(task, EmbeddingJudge)):
        return
    why = why_no_pairs([label for label in labels if label is not None])
    if why:
        raise DataError(parameter("labels"), why, CURE_OF_PAIRS)
