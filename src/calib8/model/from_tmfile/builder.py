"""The ONNX graph of a Tengine model while it grows: one value per tensor, under the tensor's name.

Shapes are those that the file states: Tengine's writer stores what it inferred.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.graph import Names
from calib8.tmfile.graph import Graph, Node, Tensor

OPSET: Final = 17

Attribute = int | float | str | Sequence[int] | Sequence[float]


class Builder:
    """Values so far, by tensor."""

    def __init__(self, graph: Graph, name: str) -> None:
        """Starts with the inputs of ``graph``, whose axes are in the order NCHW; a file may have no name."""
        self.graph = graph
        self.onnx = ir.Graph([], [], nodes=[], opset_imports={"": OPSET}, name=graph.name or name)
        self.names = Names(self.onnx)
        self.values: dict[int, ir.Value] = {}
        outputs = dict.fromkeys((*graph.input_tensors(), *graph.output_tensors(), *range(len(graph.tensors))))
        self._titles = {place: self.names.value(self._title(place)) for place in outputs}
        for place in graph.input_tensors():
            value = self._value(place, self._titles[place])
            self.onnx.inputs.append(value)
            self.values[place] = value

    def _title(self, place: int) -> str:
        return self.graph.tensors[place].name or f"tensor_{place}"

    def tensor(self, place: int) -> Tensor:
        """A tensor of the graph."""
        return self.graph.tensors[place]

    def name(self, place: int) -> str:
        """What the ONNX graph calls a tensor."""
        return self._titles[place]

    def shape(self, place: int) -> tuple[int, ...]:
        """Sizes of a tensor.

        Raises:
            NoFormError: the file does not state them.
        """
        tensor = self.tensor(place)
        if not tensor.shape and tensor.role != "const":
            raise NoFormError(f"the file does not state the shape of '{self.name(place)}'")
        return tensor.shape

    def image(self, place: int) -> tuple[int, int, int, int]:
        """Sizes of a tensor of four axes.

        Raises:
            NoFormError: it has not four, or the file does not state them.
        """
        shape = self.shape(place)
        if len(shape) != 4:
            raise NoFormError(f"'{self.name(place)}' has {len(shape)} axes, not 4")
        return shape[0], shape[1], shape[2], shape[3]

    def constant(self, place: int) -> npt.NDArray[Any]:
        """The elements of a constant, float16 made wider.

        Raises:
            NoFormError: the tensor is computed, or the file holds no weights.
        """
        tensor = self.tensor(place)
        if tensor.role != "const":
            raise NoFormError(f"'{self.name(place)}' is computed, where a constant is needed")
        if tensor.data is None:
            raise NoFormError(f"the file holds no values of '{self.name(place)}'")
        return tensor.data.astype(np.float32) if tensor.dtype == "float16" else tensor.data

    def read(self, place: int) -> ir.Value:
        """The value of a tensor."""
        if place not in self.values:
            self.values[place] = self.fixed(place, self.constant(place))
        return self.values[place]

    def fixed(self, place: int, array: npt.NDArray[Any]) -> ir.Value:
        """An initializer named after a constant of the file."""
        title = self.name(place)
        if title in self.onnx.initializers:
            return self.names.constant(title, array)
        tensor = ir.tensor(np.ascontiguousarray(array).reshape(array.shape), name=title)
        value = ir.Value(
            name=title, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor
        )
        self.onnx.register_initializer(value)
        return value

    def numbers(self, base: str, values: Any, dtype: str = "int64") -> ir.Value:
        """An initializer of further numbers."""
        return self.names.constant(base, np.asarray(values, dtype))

    def emit(
        self, base: str, op: str, inputs: Sequence[ir.Value | None], **attributes: Attribute
    ) -> ir.Value:
        """A node on the way, and what it computes."""
        value = ir.Value(name=self.names.value(base))
        self.onnx.append(self._node(op, inputs, [value], attributes, base))
        return value

    def write(self, node: Node, op: str, inputs: Sequence[ir.Value | None], **attributes: Attribute) -> None:
        """The node that computes all outputs of a node of the file, under its name."""
        values = [self._value(place, self.name(place)) for place in node.outputs]
        self.onnx.append(self._node(op, inputs, values, attributes, node.name or self.name(node.outputs[0])))
        self.values.update(zip(node.outputs, values, strict=True))

    def reshaped(self, node: Node, value: ir.Value) -> None:
        """A value in the shape that the file states for the only output of a node."""
        place = node.outputs[0]
        shape = self.numbers(f"{self.name(place)}/shape", self.shape(place))
        self.write(node, "Reshape", [value, shape])

    def _value(self, place: int, name: str) -> ir.Value:
        tensor = self.tensor(place)
        shape = ir.Shape(tensor.shape) if tensor.shape else None
        return ir.Value(name=name, shape=shape, type=ir.TensorType(ir.DataType.FLOAT))

    def _node(
        self,
        op: str,
        inputs: Sequence[ir.Value | None],
        outputs: Sequence[ir.Value],
        attributes: dict[str, Attribute],
        title: str,
    ) -> ir.Node:
        return ir.node(op, inputs, attributes=attributes, outputs=outputs, name=self.names.node(title))
