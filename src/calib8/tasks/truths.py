"""Labels of images as the truth of a task: read, and moved to where the preprocessing puts them.

COCO JSON, YOLO text   → boxes, points     in pixels of the model's input
PNG                    → maps of classes   in its size
list of texts          → lines             as numbers of characters
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from calib8.data.coco_labels import CocoLabels, read_coco
from calib8.data.geometry import Geometry, geometry_of
from calib8.data.mask_labels import VOID, mask_file, read_mask
from calib8.data.object_labels import Objects, upright_size
from calib8.data.preprocess import Preprocess
from calib8.data.text_labels import read_texts
from calib8.data.yolo_labels import read_yolo
from calib8.errors import DataError, UsageError
from calib8.number_texts import count
from calib8.parameters import entry, parameter
from calib8.tasks.countable import check_objects, check_pixels
from calib8.tasks.judges.ctc import CtcJudge
from calib8.tasks.judges.detections import BoxTruth, DetectionJudge
from calib8.tasks.judges.find import AnyJudge
from calib8.tasks.judges.keypoints import KeypointJudge, PointTruth
from calib8.tasks.judges.masks import LEFT_OUT, MaskJudge, MaskTruth

OF_IMAGES: Final = ("detect", "segment", "keypoints", "ctc")
"""Tasks whose labels are files beside the images, not one class number per sample."""

OF_SOUND: Final = ("enhance",)
"""Tasks whose labels are files beside WAV files."""


@dataclass(frozen=True)
class Truths:
    """Labels of samples.

    Attributes:
        of: name of a sample → its truth.
        remarks: sentences about what is odd.
    """

    of: Callable[[str], Any]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pictures:
    """Image files and how they become inputs.

    Attributes:
        folder: where they are.
        files: their paths relative to it: the names of the samples.
        preprocess: with the size of the model's input.
    """

    folder: Path
    files: Sequence[str]
    preprocess: Preprocess

    def geometry(self, file: str) -> Geometry:
        """Where the points of an image lie in the input.

        Raises:
            DataError: the file is no image.
        """
        return geometry_of(self.preprocess, upright_size(self.folder / file, file))


def read_truths(judge: AnyJudge, labels: Path, pictures: Pictures, class_count: int) -> Truths:
    """Reads the labels of a task.

    Args:
        judge: that of the task.
        labels: a COCO JSON file or a folder of YOLO text files; for masks a folder of PNGs; for lines a list
            of texts.
        pictures: the images.
        class_count: of the model; 0 where it does not say.

    Raises:
        DataError: the labels cannot be read, are those of another task or other images, or nothing can be
            measured by them.
        UsageError: the task has no labels of this kind.
    """
    if isinstance(judge, MaskJudge):
        if not labels.is_dir():
            cure = "Give the folder of the PNGs, one per image"
            raise DataError(str(labels), "is not a folder of masks: labels of another task", cure)
        return _masks(judge, labels, pictures)
    if isinstance(judge, CtcJudge):
        texts = read_texts(labels, pictures.files)
        return Truths({file: judge.line(text, file) for file, text in texts.items()}.__getitem__)
    if not isinstance(judge, DetectionJudge | KeypointJudge):
        cure = f"Leave out {parameter('labels')}: FP32 is the truth then"
        raise UsageError(str(labels), f"labels of task {judge.task} are not read from files", cure)
    if isinstance(judge, DetectionJudge) and judge.head.assumed:
        problem = "are of boxes whose anchors are not known: no graph tells them"
        cure = "Give them with the form of the grid, such as " + entry(
            "branches", "NAME", "yolov2-grid:1.08,1.19,3.42,4.41,…"
        )
        raise UsageError(f"labels {labels}", problem, cure)
    geometries = {file: pictures.geometry(file) for file in pictures.files}
    points = isinstance(judge, KeypointJudge)
    if labels.is_dir():
        yolo = read_yolo(labels, {file: one.picture for file, one in geometries.items()}, points=points)
        found, remarks = dict(yolo.objects), yolo.remarks
        _check_classes(found, class_count, labels)
    else:
        coco = read_coco(labels, pictures.files, points=points)
        _check_sizes(coco, geometries, labels)
        found, remarks = _numbered(coco, judge, class_count, labels), coco.remarks
    make = _points if points else _boxes
    truths = {file: make(objects, geometries[file]) for file, objects in found.items()}
    many = sum(len(objects.classes) for objects in found.values())
    odd = check_objects(truths.values(), many, str(labels))
    return Truths(truths.__getitem__, (*remarks, *odd))


def _check_sizes(coco: CocoLabels, geometries: Mapping[str, Geometry], labels: Path) -> None:
    for file, size in coco.sizes.items():
        own = geometries[file].picture
        if own != size:
            problem = f"says {size[0]}×{size[1]} of '{file}', which is {own[0]}×{own[1]} (upright)"
            raise DataError(str(labels), problem, "Give labels of these very pictures")


def _check_classes(objects: Mapping[str, Objects], class_count: int, labels: Path) -> None:
    for file, found in objects.items():
        highest = int(found.classes.max(initial=-1))
        if class_count and highest >= class_count:
            model = count(class_count, "class", "classes")
            problem = f"holds the class {highest}, the model has {model}"
            cure = "Give labels of the classes that the model was trained on"
            raise DataError(f"{labels}, {file}", problem, cure)


def _numbered(coco: CocoLabels, judge: AnyJudge, class_count: int, labels: Path) -> dict[str, Objects]:
    """Objects with the class numbers of the model: places among the categories, or their ids."""
    ids = np.array(coco.category_ids, np.int64)
    if isinstance(judge, KeypointJudge):
        return dict(coco.objects)
    listed = isinstance(judge, DetectionJudge) and judge.head.layout == "listed"
    if not listed and class_count in (0, len(ids)):
        return dict(coco.objects)
    if not listed and class_count != int(ids.max(initial=0)) + 1:
        has, model = count(len(ids), "category", "categories"), count(class_count, "class", "classes")
        problem = f"has {has}, the model {model}: labels of another model"
        raise DataError(str(labels), problem, "List all categories that the model was trained on")
    return {
        file: Objects(ids[one.classes], one.boxes, one.areas, one.crowd, one.points)
        for file, one in coco.objects.items()
    }


def _boxes(objects: Objects, geometry: Geometry) -> BoxTruth:
    """Boxes in the input; those that the preprocessing cuts away are left out."""
    boxes = geometry.boxes(objects.boxes)
    kept = _reached(boxes, objects)
    return BoxTruth(
        boxes[kept], objects.classes[kept], objects.crowd[kept], objects.areas[kept], geometry.pixel_area
    )


def _reached(boxes: Any, objects: Objects) -> Any:
    """Which objects are still there, or never had an area."""
    sides, before = boxes[:, 2:] - boxes[:, :2], objects.boxes[:, 2:] - objects.boxes[:, :2]
    return np.all(sides > 0, axis=1) | ~np.all(before > 0, axis=1)


def _points(objects: Objects, geometry: Geometry) -> PointTruth:
    boxes = geometry.boxes(objects.boxes)
    kept = _reached(boxes, objects)
    table = np.zeros((0, 1, 3)) if objects.points is None else objects.points
    table = table if len(table) == len(kept) else np.zeros((len(kept), 1, 3))
    return PointTruth(
        geometry.points(table[kept][:, :, :2]), table[kept][:, :, 2] > 0, boxes[kept],
        objects.areas[kept] / geometry.pixel_area, objects.crowd[kept],
    )  # fmt: skip


def _masks(judge: MaskJudge, labels: Path, pictures: Pictures) -> Truths:
    """Reads the map of a sample when its turn comes, and as many of them before as show that they tell."""
    for file in pictures.files:
        mask_file(labels, file)
    truth, one_score = _mask_reader(judge, labels, pictures), judge.head.threshold is not None
    remarks = check_pixels(_readable(pictures), truth, str(labels), one_score=one_score)
    return Truths(truth, remarks)


def _readable(pictures: Pictures) -> Iterator[str]:
    """Images whose size can be read; the others are told, or passed over, when their turn comes."""
    for file in pictures.files:
        try:
            pictures.geometry(file)
        except DataError:
            continue
        yield file


def _mask_reader(judge: MaskJudge, labels: Path, pictures: Pictures) -> Callable[[str], MaskTruth]:

    def truth(file: str) -> MaskTruth:
        path, geometry = mask_file(labels, file), pictures.geometry(file)
        classes = read_mask(path, geometry.picture)
        if judge.head.threshold is not None:
            classes = np.asarray(classes > 0, np.int64)
        else:
            classes = np.where(classes == VOID, LEFT_OUT, classes)
            most = judge.head.classes
            if most is not None and int(classes.max(initial=0)) >= most:
                problem = (
                    f"holds the class {int(classes.max())}, the model has {count(most, 'class', 'classes')}"
                )
                raise DataError(
                    str(path), problem, "Give labels of the classes that the model was trained on"
                )
        return MaskTruth(geometry.map(classes, LEFT_OUT))

    return truth
