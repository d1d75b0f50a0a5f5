"""What a raw grid is: boxes, objectness and scores of each anchor in each cell, as a last layer leaves them.

numbers of an anchor    x y w h, objectness, C classes: 5 + C

yolov2-grid    x = (σ(tx) + column)·s    w = exp(tw)·a·s      a in cells; classes by Softmax
yolov3-grid    x = (σ(tx) + column)·s    w = exp(tw)·a        a in pixels; classes by Sigmoid; YOLOv4 too
yolov5-grid    x = (2σ(tx) − ½ + column)·s    w = (2σ(tw))²·a    the same; YOLOv7 too

s: stride, pixels of the input per cell; a: anchor, as the configuration file of the network has it. Which
form it is, and the anchors, no graph tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

Form: TypeAlias = Literal["yolov2-grid", "yolov3-grid", "yolov5-grid"]
FORMS: Final[tuple[Form, ...]] = get_args(Form)

EXCLUSIVE: Final[Form] = "yolov2-grid"
"""The form whose classes exclude each other: Softmax reads them."""

Sides: TypeAlias = tuple[tuple[float, float], ...]
"""Width and height of each anchor of an output."""

ANCHORS: Final[Mapping[Form, int]] = {"yolov2-grid": 5, "yolov3-grid": 3, "yolov5-grid": 3}
"""Anchors per cell of an output, where the user gives none."""

ORDERS: Final = ("NCHW", "NHWC", "NAHWK", "NHWAK", "NAKHW")
"""Axes of an output: batch, rows, columns, anchors, numbers of an anchor; C: anchors times numbers."""

BOX: Final = 4
LEAST: Final = 5
"""Numbers of an anchor without classes."""

STRIDES: Final = (8, 16, 32, 64)


@dataclass(frozen=True)
class Grid:
    """One output.

    Attributes:
        output: its name.
        form: how it is decoded.
        order: of its axes, one of ``ORDERS``.
        anchors: in each cell.
        numbers: of each anchor.
        sides: of the anchors, in cells or pixels as the form says; None: not known.
    """

    output: str
    form: Form
    order: str
    anchors: int
    numbers: int
    sides: Sides | None = None

    @property
    def axis(self) -> int:
        """That of the channels, or of the numbers of an anchor."""
        return self.order.index("C" if "C" in self.order else "K")

    @property
    def starts(self) -> tuple[int, ...]:
        """Entries of that axis where an anchor begins."""
        return tuple(range(0, self.anchors * self.numbers, self.numbers)) if "C" in self.order else (0,)

    @property
    def planes(self) -> tuple[int, ...]:
        """Axes without that of the batch: anchors and numbers first, then rows and columns."""
        wanted = "CHW" if "C" in self.order else "AKHW"
        return tuple(self.order.index(letter) - 1 for letter in wanted)


def order_of(
    sizes: Sequence[int | str | None], picture: Sequence[int | str | None], anchors: int
) -> str | None:
    """The order in which an output is a grid of so many anchors; None where there is none.

    Args:
        sizes: of the output; free or unknown ones are no numbers.
        picture: rows and columns of the input; empty where it is not known.
        anchors: in each cell.
    """
    for order in (one for one in ORDERS if len(one) == len(sizes)):
        size = dict(zip(order, sizes, strict=True))
        channels = size.get("C", 0)
        if "C" not in order:
            numbers = size["K"]
            channels = anchors * numbers if isinstance(numbers, int) and size["A"] == anchors else None
        whole = isinstance(channels, int) and channels % anchors == 0 and channels // anchors >= LEAST
        if whole and _of_cells(size["H"], size["W"], picture):
            return order
    return None


def _of_cells(rows: int | str | None, columns: int | str | None, picture: Sequence[int | str | None]) -> bool:
    """Whether so many rows and columns are cells of a known stride; where one is free they may be."""
    known = [size for size in (rows, columns, *picture) if isinstance(size, int)]
    if len(known) < 4:
        return True
    return any((known[0] * stride, known[1] * stride) == (known[2], known[3]) for stride in STRIDES)
