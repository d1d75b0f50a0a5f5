"""Maps of classes: how much of each class lies where it did.

    map       class of highest score per pixel; with one score per pixel: 1 where it is above the threshold
    ∩_c, a_c, b_c   pixels of class c in both maps, in the model's, in the truth's, over all images
    miou      mean over the classes of ∩_c / (a_c + b_c − ∩_c)
    dice      mean over the classes of 2·∩_c / (a_c + b_c)
    pixels    share of the pixels with the same class

Classes that neither map has do not count; of a map with a threshold the background does not either. Pixels
that the labels leave out (−1) are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from calib8.errors import DataError, UsageError
from calib8.parameters import parameter
from calib8.requests import fit_fields
from calib8.tasks.judges.interface import I64, Array, check_head, output_of, told
from calib8.tensors import shape_text

_MOST_CLASSES: Final = 0xFFFF

_MOST_STRETCHED: Final = 8.0
"""A map whose rows are so much closer than its columns, or the other way round, is none."""

LEFT_OUT: Final = -1
"""Class of pixels that do not count."""


@dataclass(frozen=True)
class MaskHead:
    """What an output says of pixels.

    Attributes:
        output: its index.
        axis: of the scores of a pixel, behind the batch: 0 for [1, C, H, W], 2 for [1, H, W, C]; None where
            the output holds numbers of classes already, or one score per pixel: [1, H, W], and numbers with
            an axis of length 1 for the channel too.
        threshold: with one score per pixel: those above it are 1; None where there are scores of classes.
        classes: how many there are; None where the output does not say.
    """

    output: int = 0
    axis: int | None = 0
    threshold: float | None = None
    classes: int | None = None

    def __post_init__(self) -> None:
        """Checks types, and that the axis is one.

        Raises:
            UsageError: a field of another type, or an axis that no map has.
        """
        fit_fields(self)
        if self.axis is not None and not -3 <= self.axis < 3:
            cure = "Give 0 for [1, C, H, W], 2 for [1, H, W, C]"
            raise UsageError(f"MaskHead(axis={self.axis})", "is none of the 3 axes behind the batch", cure)


@dataclass(frozen=True)
class MaskTruth:
    """The map of one image.

    Attributes:
        classes: int64 [H, W], −1 where the labels say nothing.
        labelled: the user's labels, rather than the map of FP32.
    """

    classes: I64
    labelled: bool = True


@dataclass(frozen=True)
class MaskRecord:
    """Pixels per class: int64 [classes] each, see the top of the file."""

    common: I64
    own: I64
    others: I64


@dataclass(frozen=True)
class MaskJudge:
    """Judges maps.

    Attributes:
        head: what the output means.
    """

    head: MaskHead
    task: ClassVar[str] = "segment"

    def __post_init__(self) -> None:
        """Checks that there is a head."""
        check_head(self, self.head, MaskHead)

    @property
    def first_class(self) -> int:
        """The first one that counts: not the background of a map with a threshold."""
        return 1 if self.head.threshold is not None else 0

    def read(self, outputs: Sequence[Array], name: str) -> I64:
        """Map of classes int64 [H, W]; see ``Judge``."""
        head = self.head
        array = output_of(outputs, head.output, name, "Mend the MaskHead")
        scores = array[0] if array.ndim > 2 and len(array) == 1 else array
        if head.axis is None and scores.ndim == 3 and 1 in (scores.shape[0], scores.shape[2]):
            scores = scores[0] if scores.shape[0] == 1 else scores[:, :, 0]
        if scores.ndim != (2 if head.axis is None else 3):
            problem = f"an output of shape {list(array.shape)} is not a map of pixels"
            raise DataError(name, problem, "Give a MaskHead that says what the outputs are")
        if head.threshold is not None:
            one = scores if head.axis is None else np.take(scores, 0, axis=head.axis)
            return np.asarray(one > head.threshold, np.int64)
        if head.axis is None:
            if not _are_classes(scores):
                problem = f"holds {scores.min():g} … {scores.max():g}, which are not numbers of classes"
                raise DataError(name, f"output {head.output} {problem}", "Mend the MaskHead")
            return np.asarray(scores, np.int64)
        return np.asarray(np.argmax(np.nan_to_num(scores, nan=-np.inf), axis=head.axis), np.int64)

    def as_truth(self, answer: I64) -> MaskTruth:
        """The map as it is."""
        return MaskTruth(answer, labelled=False)

    def compare(self, answer: I64, truth: MaskTruth) -> MaskRecord:
        """Counts the pixels of every class.

        Raises:
            DataError: maps of two sizes.
        """
        expected = truth.classes
        if answer.shape != expected.shape:
            if not truth.labelled:
                raise DataError("masks", f"are {answer.shape} and {expected.shape}", "Compare one network")
            expected = nearest(expected, (answer.shape[0], answer.shape[1]))
        valid = expected != LEFT_OUT
        left, right = answer[valid], expected[valid]
        count = int(max(left.max(initial=0), right.max(initial=0))) + 1
        both = left[left == right]
        return MaskRecord(
            *(np.bincount(one, minlength=count).astype(np.int64) for one in (both, left, right))
        )

    def figures(self, records: Sequence[MaskRecord]) -> dict[str, float]:
        """``miou``, ``dice`` and ``pixels``."""
        common, own, others = pixels_of(records)
        total, same = int(own.sum()), int(common.sum())
        seen = np.flatnonzero(own + others)
        seen = seen[seen >= self.first_class]
        union = own[seen] + others[seen] - common[seen]
        return told(
            {
                "miou": float(np.mean(common[seen] / union)) if len(seen) else None,
                "dice": float(np.mean(2 * common[seen] / (own[seen] + others[seen]))) if len(seen) else None,
                "pixels": same / total if total else None,
            }
        )


def pixels_of(records: Sequence[MaskRecord]) -> tuple[I64, I64, I64]:
    """∩_c, a_c and b_c over all images, see the top of the file: int64 [classes] each."""
    count = max((len(one.common) for one in records), default=0)
    sums = np.zeros((3, count), np.int64)
    for one in records:
        sums[:, : len(one.common)] += np.stack([one.common, one.own, one.others])
    return sums[0], sums[1], sums[2]


def nearest(classes: I64, size: tuple[int, int]) -> I64:
    """A map in another size: the class at the centre of each pixel."""
    rows = ((np.arange(size[0]) + 0.5) * classes.shape[0] / size[0]).astype(np.int64)
    columns = ((np.arange(size[1]) + 0.5) * classes.shape[1] / size[1]).astype(np.int64)
    return np.asarray(classes[rows][:, columns])


def find_mask_head(
    names: Sequence[str], outputs: Sequence[Array], size: tuple[int, int] | None = None
) -> MaskHead:
    """The first output that has a score or a class per pixel.

    Args:
        names: of the outputs.
        outputs: of the float model for one sample.
        size: height and width of the model's input in pixels; None: not known. A table of boxes has rows and
            columns too, though not in the proportion of the picture.

    Raises:
        UsageError: there is none.
    """
    for index, array in enumerate(outputs):
        inner = array.shape[1:]
        if array.ndim not in (3, 4) or len(array) != 1 or max(inner) < 2:
            continue
        if size is not None and not _in_proportion(inner, size):
            continue
        numbers = array.ndim == 3 or 1 in (inner[0], inner[-1])
        if array.dtype.kind in "iub" and numbers and _are_classes(array):
            return MaskHead(index, None)
        if array.dtype.kind != "f":
            continue
        if array.ndim == 3:
            return MaskHead(index, None, _middle(array))
        axis = _scores_axis(inner)
        if inner[axis] == 1:
            return MaskHead(index, axis, _middle(array))
        return MaskHead(index, axis, classes=int(inner[axis]))
    listed = ", ".join(f"{name} {shape_text(a.shape)}" for name, a in zip(names, outputs, strict=True))
    cure = "From Python give a MaskHead that says what the outputs are, or a judge of your own"
    raise UsageError(
        parameter("task", "segment"), f"outputs {listed}: none has scores of pixels, [1, C, H, W]", cure
    )


def _in_proportion(inner: tuple[int, ...], size: tuple[int, int]) -> bool:
    """Whether rows and columns are to each other about as those of the picture."""
    axes = [axis for axis in range(len(inner)) if len(inner) == 2 or axis != _scores_axis(inner)]
    rows, columns = (inner[axis] for axis in axes)
    stretched = rows * size[1] / (columns * size[0])
    return 1 / _MOST_STRETCHED <= stretched <= _MOST_STRETCHED


def _are_classes(array: Array) -> bool:
    return bool(array.size) and int(array.min()) >= 0 and int(array.max()) <= _MOST_CLASSES


def _scores_axis(inner: tuple[int, ...]) -> int:
    """Channels lie last where there are fewer of them than rows and columns, and not first."""
    return 2 if inner[2] < min(inner[:2]) and inner[0] >= inner[1] // 4 and inner[0] > inner[2] else 0


def _middle(array: Array) -> float:
    """0.5 of probabilities, 0 of what is not through its sigmoid."""
    return 0.5 if float(array.min()) >= 0.0 and float(array.max()) <= 1.0 else 0.0
