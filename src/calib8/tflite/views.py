"""Operators that pick, split or turn elements, as views of an array: their shapes cost no memory.

Indices are constants; what is picked lies where it lay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.tflite.graph import Graph, Operator

Array = npt.NDArray[Any]


class UnknownSizesError(Exception):
    """The sizes of a result are not known before the model runs; the text says why."""


def constant(graph: Graph, operator: Operator, place: int) -> list[int]:
    """The whole numbers of a constant input.

    Raises:
        UnknownSizesError: it is computed from more than sizes.
    """
    tensor = graph.tensors[operator.inputs[place]]
    if tensor.data is None:
        raise UnknownSizesError(f"it needs the numbers of '{tensor.name}', which are computed")
    return [int(value) for value in tensor.data.reshape(-1)]


def number(operator: Operator, name: str, default: int = 0) -> int:
    """An option that is a whole number."""
    return int(operator.options.get(name, default))  # type: ignore[arg-type]


def _slice(graph: Graph, operator: Operator, x: Array) -> list[Array]:
    begins, counts = constant(graph, operator, 1), constant(graph, operator, 2)
    ends = [
        size if count == -1 else begin + count
        for begin, count, size in zip(begins, counts, x.shape, strict=True)
    ]
    for begin, end, size in zip(begins, ends, x.shape, strict=True):
        if not 0 <= begin <= end <= size:
            raise ValueError(f"it takes {begin} to {end} of {size}")
    return [x[tuple(slice(begin, end) for begin, end in zip(begins, ends, strict=True))]]


def _strided_slice(graph: Graph, operator: Operator, x: Array) -> list[Array]:
    """NumPy's indexing, with the masks of the options."""
    if operator.options.get("offset"):
        raise UnknownSizesError("its ends are counted from its begins")
    entries = zip(*(constant(graph, operator, place) for place in (1, 2, 3)), strict=True)
    masks = {name: number(operator, f"{name}_mask") for name in MASKS}
    picked: list[Any] = []
    for place, entry in enumerate(entries):
        picked.append(_index(entry, {name for name, mask in masks.items() if mask >> place & 1}))
    return [np.asarray(x[tuple(picked)])]


MASKS: Final = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")


def _index(entry: tuple[int, ...], masks: set[str]) -> Any:
    """What stands for an entry (begin, end, stride) in the brackets of NumPy."""
    begin, end, stride = entry
    if "ellipsis" in masks:
        return Ellipsis
    if "new_axis" in masks:
        return np.newaxis
    if "shrink_axis" in masks:
        return (0 if stride > 0 else -1) if "begin" in masks else begin
    return slice(None if "begin" in masks else begin, None if "end" in masks else end, stride)


def _transpose(graph: Graph, operator: Operator, x: Array) -> list[Array]:
    return [x.transpose(constant(graph, operator, 1))]


def _split(graph: Graph, operator: Operator, x: Array) -> list[Array]:
    [axis], count = constant(graph, operator, 0), len(operator.outputs)
    if x.shape[axis] % count:
        raise ValueError(f"it splits {x.shape[axis]} into {count} parts")
    return _parts(x, axis, [x.shape[axis] // count] * count)


def _split_v(graph: Graph, operator: Operator, x: Array) -> list[Array]:
    sizes, [axis] = constant(graph, operator, 1), constant(graph, operator, 2)
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = x.shape[axis] - sum(sizes) - 1
    if sum(sizes) != x.shape[axis] or min(sizes) < 0:
        raise ValueError(f"it splits {x.shape[axis]} into {sizes}")
    return _parts(x, axis, sizes)


def _parts(x: Array, axis: int, sizes: Sequence[int]) -> list[Array]:
    line, first, parts = np.moveaxis(x, axis, 0), 0, []
    for size in sizes:
        parts.append(np.moveaxis(line[first : first + size], 0, axis))
        first += size
    return parts


def _unpack(graph: Graph, operator: Operator, x: Array) -> list[Array]:
    line = np.moveaxis(x, number(operator, "axis"), 0)
    if len(line) != len(operator.outputs):
        raise ValueError(f"it unpacks {len(line)} into {len(operator.outputs)} tensors")
    return [np.asarray(line[place]) for place in range(len(line))]


VIEWS: Final[Mapping[str, tuple[int, Callable[[Graph, Operator, Array], list[Array]]]]] = {
    "SLICE": (0, _slice),
    "STRIDED_SLICE": (0, _strided_slice),
    "TRANSPOSE": (0, _transpose),
    "SPLIT": (1, _split),
    "SPLIT_V": (0, _split_v),
    "UNPACK": (0, _unpack),
}
"""Operator → which input it views, and the views that are its outputs."""
