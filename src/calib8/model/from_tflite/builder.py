"""The ONNX graph of a TFLite model while it grows: how each tensor lies, and nodes that read and write it.

    file   NHWC ── Conv wants NCHW ──► one Transpose, kept ──► NCHW … NCHW ── output ──► Transpose ── NHWC

A tensor lies in the order in which its operator computes it. A Transpose is put where another order is read,
once for all readers, and never behind another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.from_tflite.orders import (
    Order,
    Sizes,
    arranged,
    as_filed,
    permutation,
    same_memory,
)
from calib8.model.graph import Names
from calib8.tflite.graph import Graph, Operator, Tensor

OPSET: Final = 17
MAX_INDICES: Final = 1 << 24
"""Of all axes that are mirrored by indices."""
BATCH: Final = "batch"
"""Name of the free size."""

Attribute = int | float | str | Sequence[int] | Sequence[float] | Sequence[str]


class Builder:
    """Values so far, by tensor and order."""

    def __init__(self, graph: Graph, *, free_batch: bool) -> None:
        """Starts with the inputs of ``graph``; ``free_batch`` says whether sizes of −1 stay open."""
        self.graph = graph
        self.free_batch = free_batch
        self.onnx = ir.Graph([], [], nodes=[], opset_imports={"": OPSET}, name=graph.name or "tflite")
        self.names = Names(self.onnx)
        self.listed = 0
        self.arrays: dict[int, npt.NDArray[Any]] = {}
        self.forms: dict[int, dict[Order, ir.Value]] = {}
        used = {place for each in graph.operators for place in (*each.inputs, *each.outputs) if place >= 0}
        places = dict.fromkeys((*graph.inputs, *graph.outputs, *sorted(used)))
        self._name = {place: self.names.value(self._title(place)) for place in places}
        for place in graph.inputs:
            value = self._value(place, self.filed(place), self._name[place])
            self.onnx.inputs.append(value)
            self.forms[place] = {self.filed(place): value}

    def _title(self, place: int) -> str:
        return self.graph.tensors[place].name or f"tensor_{place}"

    def tensor(self, place: int) -> Tensor:
        """A tensor of the graph."""
        return self.graph.tensors[place]

    def name(self, place: int) -> str:
        """What the ONNX graph calls a tensor."""
        return self._name[place]

    def rename(self, place: int, source: int) -> None:
        """A tensor gets the name of the constant that it stands for."""
        self._name[place] = self._name[source]

    def filed(self, place: int) -> Order:
        """The order of the file for a tensor."""
        return as_filed(len(self.tensor(place).shape))

    def sizes(self, place: int) -> Sizes:
        """Sizes of a tensor, None where the batch is free."""
        tensor = self.tensor(place)
        if not (self.free_batch and tensor.signature):
            return tensor.shape
        pairs = zip(tensor.shape, tensor.signature, strict=True)
        return tuple(None if free < 0 else size for size, free in pairs)

    def check_axes(self, place: int, computed: int) -> None:
        """Holds the axes that an operator computes against those that the file gives its tensor.

        Raises:
            NoFormError: their numbers differ.
        """
        rank = len(self.tensor(place).shape)
        if computed != rank:
            raise NoFormError(
                f"'{self.name(place)}' has {rank} axes in the file, and {computed} are computed"
            )

    def size(self, place: int, axis: int) -> int:
        """Size of an axis that is not the batch."""
        size = self.sizes(place)[axis]
        if size is None:
            raise NoFormError(f"it needs to know the batch of '{self.name(place)}'")
        return size

    def list_indices(self, count: int) -> None:
        """Counts the indices of an axis, before they are made: a small file may ask for any number.

        Raises:
            NoFormError: the model would list more than ``MAX_INDICES`` of them.
        """
        self.listed += count
        if self.listed > MAX_INDICES:
            raise NoFormError(f"it makes an axis of {count}; the most of a model are {MAX_INDICES}")

    def is_constant(self, place: int) -> bool:
        """A tensor whose elements are known."""
        return place in self.arrays or self.tensor(place).data is not None

    def known(self, place: int) -> bool:
        """A tensor that nodes can read."""
        return place in self.forms or self.is_constant(place)

    def constant(self, place: int) -> npt.NDArray[Any]:
        """The elements of a constant, in the order of the file.

        Raises:
            NoFormError: the tensor is computed.
        """
        if place in self.arrays:
            return self.arrays[place]
        data = self.tensor(place).data
        if data is None:
            raise NoFormError(f"'{self.name(place)}' is computed, where a constant is needed")
        return data

    def integers(self, place: int) -> list[int]:
        """The elements of a constant of integers."""
        return [int(value) for value in self.constant(place).reshape(-1)]

    def order(self, place: int) -> Order:
        """How a tensor lies where it is computed; constants lie as filed."""
        return next(iter(self.forms[place])) if place in self.forms else self.filed(place)

    def read(self, place: int, order: Order | None = None) -> ir.Value:
        """The value of a tensor in an order; None: as it lies.

        Raises:
            NoFormError: nothing computes it: the file states outputs that its operators do not have.
        """
        if order is None:
            order = self.order(place)
        found = self.forms.get(place, {}).get(order)
        if found is None:
            if self.is_constant(place):
                found = self.fixed(self.constant(place).transpose(order), place)
            elif place not in self.forms:
                raise NoFormError(f"nothing computes '{self.name(place)}'")
            else:
                found = self._reordered(place, order)
            self.forms.setdefault(place, {})[order] = found
        return found

    def _reordered(self, place: int, order: Order) -> ir.Value:
        have, source = next(iter(self.forms[place].items()))
        sizes = self.sizes(place)
        filed = order == self.filed(place)
        free = filed and source.name != self.name(place)
        title = self.name(place) if free else self.names.value(short(f"{self.name(place)}/transposed"))
        target = self._value(place, order, title)
        if same_memory(sizes, have, order):
            shape = self.numbers(f"{title}/shape", target_shape(arranged(sizes, order)))
            return self._append("Reshape", [source, shape], target, {})
        return self._append("Transpose", [source], target, {"perm": permutation(have, order)})

    def fixed(self, array: npt.NDArray[Any], place: int) -> ir.Value:
        """An initializer named after a constant of the file."""
        title = self.name(place)
        if title in self.onnx.initializers:
            return self.names.constant(title, array)
        value = _initializer(title, array)
        self.onnx.register_initializer(value)
        return value

    def numbers(self, base: str, values: Any, dtype: str = "int64") -> ir.Value:
        """An initializer of further numbers."""
        return self.names.constant(short(base), np.asarray(values, dtype))

    def emit(
        self, base: str, op: str, inputs: Sequence[ir.Value | None], **attributes: Attribute
    ) -> ir.Value:
        """A node on the way, and what it computes."""
        return self._append(op, inputs, ir.Value(name=self.names.value(short(base))), attributes)

    def emit_several(
        self, base: str, op: str, inputs: Sequence[ir.Value], count: int, **attributes: Attribute
    ) -> list[ir.Value]:
        """A node of several outputs on the way, and what it computes."""
        values = [ir.Value(name=self.names.value(short(base))) for _ in range(count)]
        self.onnx.append(self._node(op, inputs, values, attributes))
        return values

    def write(
        self,
        place: int,
        order: Order,
        op: str,
        inputs: Sequence[ir.Value | None],
        **attributes: Attribute,
    ) -> None:
        """The node that computes a tensor, which then lies in an order."""
        self.write_many([place], order, op, inputs, **attributes)

    def renamed(self, place: int, value: ir.Value) -> ir.Value:
        """A value once more, as an output of its own."""
        copy = self._value(place, self.filed(place), self.names.value(self.name(place)))
        return self._append("Identity", [value], copy, {})

    def write_activated(
        self,
        operator: Operator,
        order: Order,
        op: str,
        inputs: Sequence[ir.Value | None],
        **attributes: Attribute,
    ) -> None:
        """``write`` of the only output of an operator, its fused activation behind it.

        Raises:
            NoFormError: an activation that ONNX does not have.
        """
        place = operator.outputs[0]
        activation = str(operator.options.get("fused_activation_function", "NONE"))
        if activation == "NONE":
            self.write(place, order, op, inputs, **attributes)
            return
        if activation not in ACTIVATIONS:
            raise NoFormError(f"the activation {activation} is fused into it")
        name = self.name(place)
        linear = ir.Value(name=self.names.value(short(f"{name}/linear")))
        self.onnx.append(self._node(op, inputs, [linear], attributes, name))
        self.activate(place, order, activation, linear, f"{name}/{activation.lower()}")

    def activate(
        self, place: int, order: Order, activation: str, value: ir.Value, node: str | None = None
    ) -> None:
        """A tensor that is an activation function (of ``ACTIVATIONS``) of a value, by a node of some name."""
        op, bounds = ACTIVATIONS[activation]
        limits = [self.numbers(f"{self.name(place)}/limit", bound, "float32") for bound in bounds]
        result = self._value(place, order, self._inner_name(place, order))
        self.onnx.append(self._node(op, [value, *limits], [result], {}, node))
        self.forms[place] = {order: result}

    def write_many(
        self,
        places: Sequence[int],
        order: Order,
        op: str,
        inputs: Sequence[ir.Value | None],
        **attributes: Attribute,
    ) -> None:
        """The node that computes several tensors, all of one order."""
        values = [self._value(place, order, self._inner_name(place, order)) for place in places]
        self.onnx.append(self._node(op, inputs, values, attributes))
        for place, value in zip(places, values, strict=True):
            self.forms[place] = {order: value}

    def _inner_name(self, place: int, order: Order) -> str:
        """The tensor's own, unless it leaves the model in another order."""
        if place in self.graph.outputs and order != self.filed(place):
            return self.names.value(short(f"{self.name(place)}/inner"))
        return self.name(place)

    def _value(self, place: int, order: Order, name: str) -> ir.Value:
        self.check_axes(place, len(order))
        dims = [BATCH if size is None and axis == 0 else size for axis, size in enumerate(self.sizes(place))]
        return ir.Value(
            name=name,
            shape=ir.Shape(arranged(dims, order)),
            type=ir.TensorType(onnx_type(self.tensor(place))),
        )

    def _append(
        self, op: str, inputs: Sequence[ir.Value | None], output: ir.Value, attributes: dict[str, Attribute]
    ) -> ir.Value:
        self.onnx.append(self._node(op, inputs, [output], attributes))
        return output

    def _node(
        self,
        op: str,
        inputs: Sequence[Any],
        outputs: Sequence[ir.Value],
        attributes: dict[str, Attribute],
        title: str | None = None,
    ) -> ir.Node:
        name = self.names.node(short(title or outputs[0].name or op))
        return ir.node(op, inputs, attributes=attributes, outputs=outputs, name=name)


ACTIVATIONS: Final[dict[str, tuple[str, tuple[float, ...]]]] = {
    "RELU": ("Relu", ()),
    "RELU6": ("Clip", (0.0, 6.0)),
    "RELU_N1_TO_1": ("Clip", (-1.0, 1.0)),
    "RELU_0_TO_1": ("Clip", (0.0, 1.0)),
    "TANH": ("Tanh", ()),
}
"""Activation → ONNX op and its limits."""


def short(name: str) -> str:
    """The last of the names that converters join with semicolons: that of the layer itself."""
    return name.rsplit(";", 1)[-1]


def target_shape(sizes: Sequence[int | None]) -> list[int]:
    """Sizes as a Reshape takes them: −1 for the free one."""
    return [-1 if size is None else size for size in sizes]


def onnx_type(tensor: Tensor) -> ir.DataType:
    """Type of the elements.

    Raises:
        NoFormError: one that ONNX or NumPy lacks.
    """
    try:
        return ir.DataType.from_numpy(np.dtype(tensor.dtype))
    except TypeError as error:
        raise NoFormError(f"'{tensor.name}' holds {tensor.dtype}") from error


def _initializer(name: str, array: npt.NDArray[Any]) -> ir.Value:
    tensor = ir.tensor(np.ascontiguousarray(array).reshape(array.shape), name=name)
    return ir.Value(
        name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor
    )
