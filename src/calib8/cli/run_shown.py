"""What ``calib8 run`` shows of a sample: its best classes, its objects, or figures of the outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from calib8.cli.documents import finite
from calib8.cli.render import plain_table, shape_text

if TYPE_CHECKING:
    from calib8.analysis.found_objects import Finder, FoundObject
    from calib8.data.batches import Batch
    from calib8.model.runtime import Session
    from calib8.tasks.judges.interface import Array

BEST: Final = 5
"""Classes shown where nothing else is asked for."""


@dataclass(frozen=True)
class Classes:
    """The best classes of one image, best first, with their scores as the model gives them.

    Attributes:
        names: of the classes; None where one is not known.
    """

    image: str
    classes: tuple[int, ...]
    scores: tuple[float, ...]
    names: tuple[str | None, ...]


@dataclass(frozen=True)
class Objects:
    """The objects of one image, best first.

    Attributes:
        in_picture: boxes are in pixels of the picture, not of the model's input.
    """

    image: str
    objects: tuple[FoundObject, ...]
    in_picture: bool


@dataclass(frozen=True)
class Output:
    """Figures of one output of a model on one batch, over its finite values (NaN where there are none)."""

    image: str
    output: str
    shape: tuple[int, ...]
    minimum: float
    mean: float
    maximum: float


Shown = Classes | Objects | Output


def as_classes(batch: Batch, output: Array, top: int | None, names: Mapping[int, str]) -> list[Classes]:
    """One entry per image; none if the output is not a row of scores for each."""
    from calib8.analysis.evaluate import best_classes, class_scores

    scores = class_scores(output)
    if scores is None or len(scores) != len(batch.names):
        return []
    each = zip(batch.names, scores, best_classes(scores, top or BEST), strict=True)
    return [_best(image, row, tuple(map(int, best)), names) for image, row, best in each]


def _best(image: str, row: Array, classes: tuple[int, ...], names: Mapping[int, str]) -> Classes:
    scores = tuple(float(row[number]) for number in classes)
    return Classes(image, classes, scores, tuple(map(names.get, classes)))


def as_objects(finder: Finder, batch: Batch, outputs: Sequence[Array]) -> list[Objects]:
    """One entry per image.

    Raises:
        UsageError, DataError: see ``Finder.found``.
    """
    each = zip(batch.names, finder.found(batch, outputs), strict=True)
    return [Objects(image, objects, finder.pictures is not None) for image, objects in each]


def as_figures(session: Session, batch: Batch, outputs: Sequence[Array]) -> list[Output]:
    """One entry per output."""
    names = ", ".join(batch.names)
    return [_output(names, spec.name, array) for spec, array in zip(session.outputs, outputs, strict=True)]


def _output(image: str, name: str, array: Array) -> Output:
    import numpy as np

    values = array.astype(np.float64).reshape(-1) if array.dtype.kind in "biuf" else np.empty(0)
    values = values[np.isfinite(values)]
    low, mean, high = (values.min(), values.mean(), values.max()) if values.size else (np.nan,) * 3
    return Output(image, name, array.shape, float(low), float(mean), float(high))


def shown_table(results: Sequence[Shown]) -> Table:
    """All samples in one table."""
    first = results[0]
    if isinstance(first, Classes):
        table = plain_table("image", "class: score, best first")
    elif isinstance(first, Objects):
        where = "picture" if first.in_picture else "model's input"
        table = plain_table("image", "class", "score", f"box in pixels of the {where} (x1, y1, x2, y2)")
    else:
        table = plain_table("image", "output", "shape", "min", "mean", "max")
    for result in results:
        for row in _rows(result):
            table.add_row(*row)
    return table


def _rows(result: Shown) -> list[tuple[str, ...]]:
    if isinstance(result, Classes):
        pairs = zip(result.classes, result.names, result.scores, strict=True)
        return [(result.image, "  ".join(f"{_called(one, name)}: {score:.4g}" for one, name, score in pairs))]
    if isinstance(result, Objects):
        rows = [
            (_called(one.number, one.name), f"{one.score:.2f}", _corners(one.box)) for one in result.objects
        ]
        return [(result.image, *row) for row in rows or [("none found", "", "")]]
    figures = (f"{value:.4g}" for value in (result.minimum, result.mean, result.maximum))
    return [(result.image, result.output, shape_text(result.shape), *figures)]


def _called(number: int, name: str | None) -> str:
    return str(number) if name is None else f"{number} {name}"


def _corners(box: Sequence[float]) -> str:
    return ", ".join(f"{end:.0f}" for end in box)


def shown_document(result: Shown) -> dict[str, Any]:
    """A sample for machines."""
    if isinstance(result, Classes):
        scores = [finite(score) for score in result.scores]
        document = {"image": result.image, "classes": list(result.classes), "scores": scores}
        return document | ({"names": list(result.names)} if any(result.names) else {})
    if isinstance(result, Objects):
        objects = [
            {"class": one.number, "name": one.name, "score": one.score, "box": list(one.box)}
            for one in result.objects
        ]
        return {"image": result.image, "objects": objects, "in_picture": result.in_picture}
    return {
        "image": result.image,
        "output": result.output,
        "shape": list(result.shape),
        "minimum": finite(result.minimum),
        "mean": finite(result.mean),
        "maximum": finite(result.maximum),
    }
