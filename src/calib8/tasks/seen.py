"""Float outputs as the graph has them: sizes, parts, and what each part went through last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from calib8.model.graph import constant
from calib8.passes.normalize import normalize
from calib8.passes.simplify import fold_constants
from calib8.quantization.qdq import float_origin, readable_copy
from calib8.tasks.branches import Piece, Sureness
from calib8.tasks.characters import Rows, layer_in_front, rows_of
from calib8.tasks.composition import Compositions, Part, Size, shape_of
from calib8.tasks.grid import Grid
from calib8.tasks.kinds import Kind
from calib8.tasks.natures import Nature, Natures

FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE, ir.DataType.BFLOAT16)


@dataclass(frozen=True)
class SeenPart:
    """A part of an output, or all of it.

    Attributes:
        piece: where it is.
        size: entries of the axis, 0 where it is all of the output.
        nature: what it went through last.
        sigmoid: the last Sigmoid in front of it.
        softmax: entries of the Softmax that it ends in, None where it ends in another op.
        layer: op of the last layer with weights in front of it.
    """

    piece: Piece
    size: int
    nature: Nature
    sigmoid: ir.Node | None
    softmax: Size
    layer: str


@dataclass(frozen=True)
class Seen:
    """One float output.

    Attributes:
        name: of the output.
        index: among the float outputs.
        sizes: numbers, names of free sizes, None where unknown; empty: not even their number is known.
        parts: side by side along an axis, or one that is all of it.
        whole: the output as one part.
        rows: what a layer makes of every step of a sequence, along the last axis; None: it is no such thing.
        head: the layer whose sums it is, moved at most; None: something else lies between.
    """

    name: str
    index: int
    sizes: tuple[Size, ...]
    parts: tuple[SeenPart, ...]
    whole: SeenPart
    rows: Rows | None = None
    head: ir.Node | None = None

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.sizes)

    @property
    def shown(self) -> str:
        """Such as ``scores [1, 4420, 2]``."""
        sizes = ", ".join("?" if size is None or len(str(size)) > 12 else str(size) for size in self.sizes)
        return f"{self.name} [{sizes}]" if self.sizes else f"{self.name} [unknown]"


@dataclass(frozen=True)
class Found:
    """What a piece was found to be; the fields are those of ``calib8.tasks.branches.Branch``.

    Attributes:
        grid: the raw grid that it is a part of.
    """

    piece: Piece
    kind: Kind
    sureness: Sureness
    why: str
    chosen: bool = False
    grid: Grid | None = None


def analysable(model: ir.Model) -> ir.Model:
    """A copy in the form that ``seen_outputs`` takes: constants folded, shapes inferred."""
    copy = readable_copy(model)
    for rewrite in PLAIN:
        rewrite(copy)
    return copy


PLAIN: tuple[Callable[[ir.Model], int], ...] = (normalize, fold_constants)


def seen_outputs(model: ir.Model) -> tuple[Seen, ...]:
    """The float outputs of a graph, in its order.

    Args:
        model: float or QDQ, constants as initializers, shapes inferred as far as they can be.
    """
    found = Compositions(model)
    natures = Natures(found)
    floats = [value for value in model.graph.outputs if is_float(value)]
    return tuple(_seen(value, index, found, natures) for index, value in enumerate(floats))


def is_float(value: ir.Value) -> bool:
    """Whether an output holds real numbers; what has no type does."""
    return value.dtype is None or value.dtype in FLOATS


def _seen(value: ir.Value, index: int, found: Compositions, natures: Natures) -> Seen:
    name, sizes = value.name or "", shape_of(value)
    if not sizes:
        sizes = shape_of(float_origin(value))
    composition = found.of(value)
    all_of_it = _part(Piece(name, index), Part(0, value), natures)
    if composition is None or constant(value) is not None:
        head = layer_in_front(value, found)[0]
        return Seen(name, index, sizes, (all_of_it,), all_of_it, rows_of(value, found), head)
    parts, first = [], 0
    for part in composition.parts:
        piece = Piece(name, index, composition.axis, first, first + part.size)
        parts.append(_part(piece, part, natures))
        first += part.size
    return Seen(name, index, sizes, tuple(parts), all_of_it)


def _part(piece: Piece, part: Part, natures: Natures) -> SeenPart:
    layer = natures.layer(part)
    return SeenPart(
        piece, part.size, natures.of(part), natures.sigmoid(part), natures.softmax_over(part),
        "" if layer is None else layer.op_type,
    )  # fmt: skip
