"""A Tengine model as plain values: tensors, nodes and their options, as the file names them.

real = scale[c] · (code − zero_point[c])         c runs along axis 0, with one scale it is the same everywhere
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

CONST: Final = "Const"
"""Op of the node that gives a constant; every constant has one."""

INPUT: Final = "InputOp"
"""Op of the node that gives an input of the model."""

Option = int | float | bool | str | tuple[int, ...] | tuple[float, ...]
"""Value of an option: a number, a text, or a list of numbers."""

Role = Literal["var", "const", "input", "dep"]
"""What a tensor is: computed, constant, an input, or there for the order of execution alone."""

NCHW: Final = 0
NHWC: Final = 1


@dataclass(frozen=True, eq=False)
class Quantization:
    """What the codes of a tensor mean.

    Attributes:
        scales: float32 [1], or [size of axis 0]. The tool gives constants that are no weights a scale of 0.
        zero_points: int32, as many.
    """

    scales: npt.NDArray[np.float32]
    zero_points: npt.NDArray[np.int32]

    def of_rows(self, rows: int) -> npt.NDArray[np.float32] | None:
        """A scale per index of axis 0, [rows]; None where there is another number of scales.

        A single row may have its scale twice: Tengine's kernels read a list of scales, which its loader makes
        of two and more.
        """
        if rows == 1 and self.scales.size == 2 and self.scales[0] == self.scales[1]:
            return self.scales[:1]
        return self.scales if self.scales.size == rows else None


@dataclass(frozen=True, eq=False)
class Tensor:
    """One tensor of a Tengine model.

    Attributes:
        name: of the file, empty in a file without names.
        shape: sizes; empty where the file leaves them out.
        dtype: type of the elements by its NumPy name.
        role: what it is.
        data: the elements of a constant; None for other tensors, and in files without weights, which are
            made to measure times.
        quantization: None for plain numbers.
        layout: of this tensor, ``NCHW`` or ``NHWC``; a note, which moves nothing.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    role: Role = "var"
    data: npt.NDArray[Any] | None = None
    quantization: Quantization | None = None
    layout: int = NCHW

    @property
    def elements(self) -> int:
        """How many it has, as far as its sizes are known."""
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class Node:
    """One node.

    Attributes:
        name: of the file, empty in a file without names.
        op: a name of ``calib8.tmfile.schema.OPERATORS``.
        inputs, outputs: tensors by their place in the graph.
        options: by the names of the schema, all that the operator has.
        dynamic_shape: the runtime finds the shape of its outputs while it runs.
    """

    name: str
    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Option] = field(default_factory=dict)
    dynamic_shape: bool = False


@dataclass(frozen=True, eq=False)
class Graph:
    """A Tengine model of one subgraph.

    Attributes:
        tensors: nodes name them by their place here.
        nodes: in the order of execution; constants and inputs have nodes too.
        inputs, outputs: of the model, by their place in ``nodes``.
        made_from: number of the format that the model was converted from; nothing depends on it.
        graph_layout: in which the numbers of options are, ``NCHW`` or ``NHWC``.
        model_layout: in which shapes and constants of four axes are.
        name: of the subgraph.
        model_name: of the model.
    """

    tensors: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    made_from: int = 0
    graph_layout: int = NCHW
    model_layout: int = NCHW
    name: str = ""
    model_name: str = ""

    def input_tensors(self) -> tuple[int, ...]:
        """What is fed, by place in ``tensors``."""
        return tuple(place for node in self.inputs for place in self.nodes[node].outputs)

    def output_tensors(self) -> tuple[int, ...]:
        """What comes out, by place in ``tensors``."""
        return tuple(place for node in self.outputs for place in self.nodes[node].outputs)


_MADE: Final = re.compile(r"(.+)/calib8_(?:axis\d|part\d|negated|largest|output)(?:_\d+)*")
"""Names with our own mark, which no exporter gives a tensor of a model."""


def made_name(name: str | None, what: str) -> str:
    """What a tensor is called that ``exporting.tmfile`` makes for another.

    Args:
        name: of the other.
        what: ``axis`` or ``part`` with a number, ``negated``, ``largest`` or ``output``.
    """
    return f"{name}/calib8_{what}"


def copy_of(name: str) -> str:
    """What the copy of a tensor is called that is an output and read."""
    return made_name(name, "output")


def made_for(name: str) -> str | None:
    """The tensor for which ``exporting.tmfile`` made one that the ONNX model does not have; None for others.

    It holds what that tensor is put together from, or the same: codes of both may have one scale.
    """
    found = _MADE.fullmatch(name)
    return None if found is None else found[1]


def sums_of(name: str | None) -> str:
    """What an ONNX model calls the sums of a layer whose function, computed with it, gives the tensor."""
    return f"{name}/sums"
