"""Small questions asked of an onnx_ir graph: constants, attributes, consumers, identity."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.model.batch_axes import batch_axis_of_layers
from calib8.ops.groups import RECURRENT
from calib8.tensors import TensorSpec

CONTRIB: Final = "com.microsoft"
"""Domain of ONNX Runtime's own operators."""


def constant(value: ir.Value | None) -> npt.NDArray[np.generic] | None:
    """The array behind an initializer, or None where the value is computed or fed."""
    if value is None or value.const_value is None or value.is_graph_input():
        return None
    return np.asarray(value.const_value.numpy())


def scalar_constant(value: ir.Value | None) -> float | None:
    """The number behind a one-element initializer, else None."""
    array = constant(value)
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


def label(node: ir.Node) -> str:
    """The node's name, or op and output where it has none."""
    return node.name or f"{node.op_type} of '{node.outputs[0].name}'"


class Names:
    """New names for a graph, numbered where they are taken; values and nodes have names of their own.

    What it gave out counts as taken at once, so that one object serves many additions; names that others
    add to the graph meanwhile are not seen.
    """

    def __init__(self, graph: ir.Graph) -> None:
        """Reads the names that ``graph`` has."""
        self.graph = graph
        self._values = set(graph.initializers) | {value.name or "" for value in graph.inputs}
        self._values |= {value.name or "" for node in graph for value in node.outputs}
        self._nodes = {node.name or "" for node in graph}
        self._value_numbers: dict[str, int] = {}
        self._node_numbers: dict[str, int] = {}

    def value(self, base: str) -> str:
        """A name for a new input, initializer or node output."""
        return _numbered(base, self._values, self._value_numbers)

    def node(self, base: str) -> str:
        """A name for a new node."""
        return _numbered(base, self._nodes, self._node_numbers)

    def constant(self, base: str, array: npt.NDArray[np.generic]) -> ir.Value:
        """A new initializer of the graph."""
        return register_constant(self.graph, self.value(base), array)


def _numbered(base: str, taken: set[str], numbers: dict[str, int]) -> str:
    """What ``first_free`` gives, then taken; ``numbers`` has the last number of each base."""
    number = numbers.get(base, 0)
    while (name := f"{base}_{number}" if number else base) in taken:
        number += 1
    numbers[base] = number
    taken.add(name)
    return name


def register_constant(graph: ir.Graph, name: str, array: npt.NDArray[np.generic]) -> ir.Value:
    """A new initializer under a name that is known to be free."""
    tensor = ir.Tensor(np.ascontiguousarray(array).reshape(array.shape), name=name)
    value = ir.Value(
        name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor
    )
    graph.register_initializer(value)
    return value


def add_constant(graph: ir.Graph, base: str, array: npt.NDArray[np.generic]) -> ir.Value:
    """A new initializer called ``base``, numbered where the graph has a value of that name already."""
    return Names(graph).constant(base, array)


def unique_name(graph: ir.Graph, base: str) -> str:
    """``base``, numbered where an input, initializer or node output has it already."""
    return Names(graph).value(base)


def unique_node_name(graph: ir.Graph, base: str) -> str:
    """``base``, numbered where a node has it already."""
    return Names(graph).node(base)


def first_free(base: str, taken: Collection[str]) -> str:
    """``base`` or the first of ``base_1``, ``base_2`` … that is not taken."""
    name, count = base, 1
    while name in taken:
        name, count = f"{base}_{count}", count + 1
    return name


def input_at(node: ir.Node, index: int) -> ir.Value | None:
    """Input ``index`` of a node, None where it is omitted or beyond the list."""
    return node.inputs[index] if index < len(node.inputs) else None


def int_attribute(node: ir.Node, name: str, default: int) -> int:
    """An integer attribute or its default."""
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_int()


def ints_attribute(node: ir.Node, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    """An attribute of integers or its default."""
    attribute = node.attributes.get(name)
    return default if attribute is None else tuple(attribute.as_ints())


def float_attribute(node: ir.Node, name: str, default: float) -> float:
    """A float attribute or its default."""
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_float()


def reduced_axes(node: ir.Node, axes: int) -> set[int]:
    """Axes of a ReduceMean as non-negative numbers: an attribute up to operator set 17, an input after it."""
    listed = constant(input_at(node, 1))
    chosen = (
        ints_attribute(node, "axes", ())
        if listed is None
        else tuple(int(axis) for axis in listed.reshape(-1))
    )
    return {axis % axes for axis in chosen}


def sole_consumer(value: ir.Value) -> ir.Node | None:
    """The only node that reads a value, None if there are several reads or it is a graph output."""
    uses = list(value.uses())
    return uses[0].node if len(uses) == 1 and not value.is_graph_output() else None


def activation_inputs(node: ir.Node) -> Iterator[ir.Value]:
    """The float32 inputs of a node that are computed or fed, without constants."""
    for value in node.inputs:
        if value is not None and is_activation(value):
            yield value


def is_activation(value: ir.Value) -> bool:
    """A float32 tensor that changes from run to run."""
    return constant(value) is None and value.dtype == ir.DataType.FLOAT


def rank(value: ir.Value | None) -> int | None:
    """Number of axes, None where unknown."""
    return None if value is None or value.shape is None else value.shape.rank()


def tensor_spec(value: ir.Value) -> TensorSpec:
    """Name, dtype and shape of a graph input or output; float32 where no type is stated."""
    dtype = ir.DataType.FLOAT if value.dtype is None else value.dtype
    shape = None if value.shape is None else tuple(_size(dim) for dim in value.shape)
    return TensorSpec(value.name or "", np.dtype(dtype.numpy()), shape)


def _size(dim: int | ir.SymbolicDim) -> int | str | None:
    if isinstance(dim, int):
        return dim if dim >= 0 else None
    return dim.value


def size_name(size: int | ir.SymbolicDim) -> str:
    """Name of a free size; empty for a number, without a name or for one like ``?`` that says nothing."""
    name = (size.value or "") if isinstance(size, ir.SymbolicDim) else ""
    return name if any(letter.isalnum() for letter in name) else ""


def known_sizes(shape: ir.Shape | None) -> ir.Shape | None:
    """The shape without names: free sizes are unknown."""
    return shape and ir.Shape([size if isinstance(size, int) and size >= 0 else None for size in shape])


def graph_inputs(model: ir.Model) -> tuple[TensorSpec, ...]:
    """Inputs that must be fed (initializers that are also listed as inputs are not)."""
    fed = (value for value in model.graph.inputs if value.name not in model.graph.initializers)
    if not any(node.op_type in RECURRENT for node in model.graph):
        return tuple(tensor_spec(value) for value in fed)
    return tuple(replace(tensor_spec(value), counted=batch_axis_of_layers(value)) for value in fed)


def graph_outputs(model: ir.Model) -> tuple[TensorSpec, ...]:
    """Outputs in order."""
    return tuple(tensor_spec(value) for value in model.graph.outputs)


def opset_version(model: ir.Model) -> int:
    """Version of the standard operator set."""
    return model.opset_imports.get("", 0)


def model_hash(model: ir.Model) -> str:
    """SHA-256 over operator sets, nodes, attributes, names and constants; not over metadata or shapes.

    Two prepared graphs with equal hashes compute the same function under the same tensor names.
    """
    digest = hashlib.sha256()

    def add(*parts: object) -> None:
        for part in parts:
            digest.update(repr(part).encode())
            digest.update(b"\0")

    add(sorted(model.opset_imports.items()))
    add([value.name for value in model.graph.inputs], [value.name for value in model.graph.outputs])
    for node in model.graph:
        add(node.domain, node.op_type)
        add([value and value.name for value in node.inputs], [value.name for value in node.outputs])
        for name in sorted(node.attributes):
            add(name, _attribute_identity(node.attributes[name]))
    for name in sorted(model.graph.initializers):
        tensor = model.graph.initializers[name].const_value
        if tensor is not None:
            add(name, str(tensor.dtype), tuple(tensor.shape.numpy()))
            digest.update(tensor.tobytes())
    return digest.hexdigest()


def _attribute_identity(attribute: ir.Attr) -> object:
    if attribute.type == ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        return str(tensor.dtype), tuple(tensor.shape.numpy()), tensor.tobytes()
    value = attribute.value
    return tuple(value) if isinstance(value, list) else value


def put_in_place(graph: ir.Graph, old: ir.Node, new: ir.Node) -> None:
    """``new`` stands where ``old`` stood and yields its value under its name."""
    kept, gone = new.outputs[0], old.outputs[0]
    name = gone.name
    kept.shape, kept.type = gone.shape, gone.type
    graph.insert_before(old, new)
    gone.replace_all_uses_with(kept, replace_graph_outputs=True)
    graph.remove(old, safe=True)
    kept.name = name
