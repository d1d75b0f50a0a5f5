"""A TFLite model as plain values: tensors, operators and their options, as the file names them.

real = scale[c] · (code − zero_point[c])         c runs along ``axis``
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

CUSTOM: Final = "CUSTOM"
"""Operator that a runtime has by a name of its own."""

Option = int | float | bool | str | tuple[int, ...]
"""Value of an option; enumerations by the names of the schema (``SAME``, ``RELU6``, ``INT8``)."""


@dataclass(frozen=True, eq=False)
class Quantization:
    """What the codes of a tensor mean.

    Attributes:
        scales: float32 [1], or [size of ``axis``].
        zero_points: int64, as many.
        axis: that several scales run along; 0 for one scale.
    """

    scales: npt.NDArray[np.float32]
    zero_points: npt.NDArray[np.int64]
    axis: int = 0


@dataclass(frozen=True, eq=False)
class Tensor:
    """One tensor of a TFLite model.

    Attributes:
        name: of the file; not always unique.
        shape: sizes; of a size that is not known before the model runs, what the file has in its place.
        dtype: type of the elements by its NumPy name (``int8``, ``float32``, ``bool``), else in small letters
            as the schema has it (``string``, ``int4``).
        data: the elements of a constant, else None.
        quantization: None for plain numbers.
        signature: like ``shape`` with −1 where a size is free; empty if none is.
        is_variable: keeps its value between runs.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    data: npt.NDArray[Any] | None = None
    quantization: Quantization | None = None
    signature: tuple[int, ...] = ()
    is_variable: bool = False


@dataclass(frozen=True, eq=False)
class Operator:
    """One operator.

    Attributes:
        op: name of the schema (``CONV_2D``), or ``CUSTOM``.
        inputs: tensors by their place in the graph; −1 for one that is left out.
        outputs: likewise.
        options: by the schema's names; a field that the file leaves out has the schema's default.
        version: of the operator.
        custom_code: name of a custom operator, else empty.
        custom_options: bytes that a custom operator has for options.
        intermediates: tensors whose scales and zero points say how what lies between is rounded; nothing
            else reads or writes them.
    """

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Option] = field(default_factory=dict)
    version: int = 1
    custom_code: str = ""
    custom_options: bytes = b""
    intermediates: tuple[int, ...] = ()

    @property
    def title(self) -> str:
        """What messages call it: its name in the schema, of a custom operator its own."""
        return self.custom_code or self.op if self.op == CUSTOM else self.op


@dataclass(frozen=True, eq=False)
class State:
    """What lives between runs: a run begins with what the run before left.

    Attributes:
        name: of the variable.
        read: tensor that holds the value before a run; nothing writes it.
        written: tensor that holds the value after it, of the same type, shape, scale and zero point.
        initial: value before the first run, with type and shape of the tensors.
    """

    name: str
    read: int
    written: int
    initial: npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Graph:
    """A TFLite model: the subgraph that runs.

    Attributes:
        tensors: operators name them by their place here.
        operators: in the order of execution.
        inputs, outputs: of the model, by their place in ``tensors``.
        name: of the subgraph.
        description: of the file.
        metadata: by name; the bytes are the business of who put them there.
        states: its variables.
    """

    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    name: str = ""
    description: str = ""
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    states: tuple[State, ...] = ()
