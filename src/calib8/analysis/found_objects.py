"""The objects that a detector finds in samples, one by one: class, score and box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from calib8.data.batches import Batch
from calib8.data.samples import Dataset
from calib8.model.runtime import Session
from calib8.tasks.branches import Meaning
from calib8.tasks.judges.boxes import areas
from calib8.tasks.judges.detections import DetectionJudge
from calib8.tasks.judges.find import find_judge
from calib8.tasks.judges.interface import F64, Array, split_samples
from calib8.tasks.truths import Pictures


@dataclass(frozen=True)
class FoundObject:
    """One object.

    Attributes:
        number: of its class.
        name: of its class; None where it is not known.
        score: 0 … 1.
        box: x1, y1, x2, y2 in pixels, see ``Finder.pictures``.
    """

    number: int
    name: str | None
    score: float
    box: tuple[float, float, float, float]


@dataclass
class Finder:
    """Reads the outputs of a detector, whose form the first sample tells.

    Attributes:
        session: the model.
        meaning: branches of its outputs; None: not known.
        names: class → what it is called.
        most: objects of a sample at most, those with the best scores; None: all.
        pictures: image files, in whose pixels boxes are told; None: in those of the model's input.
        judge: that of the task; None before the first sample.
    """

    session: Session
    meaning: Meaning | None
    names: Mapping[int, str]
    most: int | None = None
    pictures: Pictures | None = None
    judge: DetectionJudge | None = field(default=None, init=False)

    def found(self, batch: Batch, outputs: Sequence[Array]) -> list[tuple[FoundObject, ...]]:
        """The objects of each sample of a batch, best score first.

        Raises:
            UsageError: the form of the outputs is not known.
            DataError: outputs that do not fit it, or an image that cannot be read.
        """
        each = split_samples(outputs, batch.names)
        if self.judge is None:
            feeds = {name: array[:1] for name, array in batch.inputs.items()}
            output_names = [spec.name for spec in self.session.outputs]
            self.judge = cast(
                DetectionJudge, find_judge("detect", output_names, each[0], feeds, self.meaning)
            )
        return [self._objects(self.judge, *one) for one in zip(each, batch.names, strict=True)]

    def _objects(self, judge: DetectionJudge, outputs: Sequence[Array], name: str) -> tuple[FoundObject, ...]:
        """Those above the score from which boxes count as found."""
        answer = judge.read(outputs, name)
        good = (answer.scores > judge.least_score) & (areas(answer.boxes) > 0)
        boxes = self._in_picture(answer.boxes[good], name)
        rows = zip(answer.classes[good].tolist(), answer.scores[good].tolist(), boxes.tolist(), strict=True)
        found = tuple(
            FoundObject(number, self.names.get(number), score, tuple(box)) for number, score, box in rows
        )
        return found[: self.most]

    def _in_picture(self, boxes: F64, name: str) -> F64:
        return boxes if self.pictures is None else self.pictures.geometry(name).back(boxes)


def pictures_seen(dataset: Dataset) -> Pictures | None:
    """The image files of a dataset; None where it holds arrays, or other than one folder."""
    folder = Path(dataset.source)
    if dataset.preprocess is None or not folder.is_dir():
        return None
    return Pictures(folder, [pending.name for pending in dataset.pending()], dataset.preprocess)
