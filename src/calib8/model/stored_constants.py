"""Constants that a model holds itself: as many values as their shape says, which no checker looks at in full.

onnx's checker refuses too few bytes of ``raw_data``; too many pass it, and NumPy far from here refuses them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import onnx
import onnx_ir as ir

from calib8.errors import ModelError, UnsupportedModelError
from calib8.ops.groups import WEIGHTED_OPS
from calib8.tensors import shape_text

MOST_NODES: Final = 100_000
"""Of a model whose functions are written out."""


def check_constants(model: ir.Model, subject: str) -> None:
    """Looks at initializers and attributes of all graphs; what lies in other files is not read.

    Raises:
        ModelError: a constant holds more or less than its shape says.
    """
    for tensor in _constants(model):
        if not isinstance(tensor, ir.serde.TensorProtoTensor):
            continue
        shape = shape_text(tensor.shape.numpy()) or "scalar"
        what = f"constant '{tensor.name}' of {tensor.dtype.name} {shape}"
        if not tensor.raw.HasField("raw_data"):
            try:
                tensor.numpy()
            except (ValueError, TypeError, OverflowError) as error:
                raise _broken(subject, f"{what} cannot be read ({error})") from error
        elif (found := len(tensor.raw.raw_data)) != tensor.nbytes:
            raise _broken(subject, f"{what} takes {tensor.nbytes} bytes and has {found}")


def check_weights(model: ir.Model, subject: str) -> None:
    """Looks at the weights of layers; a layer without channels ends ONNX Runtime, once it has codes.

    Raises:
        ModelError: an axis of a weight has the size 0.
    """
    for node in _nodes(model):
        weight = node.inputs[1] if node.op_type in WEIGHTED_OPS and len(node.inputs) > 1 else None
        array = None if weight is None else ir.convenience.get_const_tensor(weight)
        if weight is not None and array is not None and 0 in array.shape.numpy():
            problem = (
                f"the weight '{weight.name}' of '{node.name}' ({node.op_type}) has the shape "
                f"{shape_text(array.shape.numpy())}, so there is nothing to compute"
            )
            raise _broken(subject, problem)


def check_functions(model: ir.Model, subject: str) -> None:
    """Counts the nodes that the functions of a model become where they are called: they may call each other.

    Raises:
        UnsupportedModelError: there are more than ``MOST_NODES``.
    """
    sizes: dict[ir.OperatorIdentifier, int] = {}

    def size(nodes: Iterable[ir.Node], callers: tuple[ir.OperatorIdentifier, ...] = ()) -> int:
        keys = (node.op_identifier() for node in nodes)
        return sum(of(key, callers) if key in model.functions else 1 for key in keys)

    def of(key: ir.OperatorIdentifier, callers: tuple[ir.OperatorIdentifier, ...]) -> int:
        if key not in sizes and key not in callers:  # one that calls itself is refused by the checker
            nodes = ir.traversal.RecursiveGraphIterator(model.functions[key])
            sizes[key] = size(nodes, (*callers, key))
        return sizes.get(key, 1)

    try:
        total = size(ir.traversal.RecursiveGraphIterator(model.graph)) if model.functions else 0
    except RecursionError:
        total = MOST_NODES + 1
    if total > MOST_NODES:
        problem = f"its functions make more than {MOST_NODES:,} nodes, or call each other without an end"
        raise UnsupportedModelError(subject, problem, "Export it without functions")


def check_initializers(model: onnx.ModelProto, subject: str) -> None:
    """Looks at what an ``onnx_ir.Model`` does not tell any more: names given twice, places that are none.

    Raises:
        ModelError: two initializers of a graph have one name, so that runtimes compute with different ones;
            external data begin at or have a number of bytes that is none.
        UnsupportedModelError: a constant is sparse.
    """
    for graph in _graphs(model.graph):
        if graph.sparse_initializer:
            problem = f"holds the sparse constant '{graph.sparse_initializer[0].values.name}'"
            raise UnsupportedModelError(subject, problem, "Export it as a dense one")
        tensors = graph.initializer
        seen = Counter(tensor.name for tensor in tensors if tensor.name)
        twice = sorted(name for name, times in seen.items() if times > 1)
        if twice:
            raise _broken(subject, f"has {seen[twice[0]]} initializers of the name '{twice[0]}'")
        for tensor in tensors:
            for entry in tensor.external_data:
                if entry.key in ("offset", "length") and not entry.value.isdecimal():
                    problem = f"the external data of '{tensor.name}' have the {entry.key} '{entry.value}'"
                    raise _broken(subject, problem)


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph and those inside its nodes."""
    waiting = [graph]
    while waiting:
        yield (one := waiting.pop())
        for node in one.node:
            for attribute in node.attribute:
                waiting += [attribute.g, *attribute.graphs] if attribute.HasField("g") else attribute.graphs


def has_external_data(model: ir.Model) -> bool:
    """Other files hold constants of it, be they initializers or attributes of nodes."""
    return any(isinstance(tensor, ir.ExternalTensor) for tensor in _constants(model))


def check_names(model: ir.Model, subject: str) -> None:
    """Protobuf gives the bytes of a name that is no UTF-8, which nothing here can work with.

    Raises:
        ModelError: a node, or a tensor that it yields, is called so.
    """
    for node in _nodes(model):
        for name in (node.name, node.op_type, node.domain, *(value.name for value in node.outputs)):
            if isinstance(name, bytes):
                raise _broken(subject, f"the name {name!r} is not text")


def _constants(model: ir.Model) -> Iterator[object]:
    for graph in model.graphs():
        for value in graph.initializers.values():
            yield value.const_value
    for node in _nodes(model):
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref():
                yield attribute.value
            elif attribute.type == ir.AttributeType.TENSORS and not attribute.is_ref():
                yield from attribute.value


def _nodes(model: ir.Model) -> Iterator[ir.Node]:
    yield from ir.traversal.RecursiveGraphIterator(model.graph)
    for function in model.functions.values():
        yield from ir.traversal.RecursiveGraphIterator(function)


def _broken(subject: str, problem: str) -> ModelError:
    return ModelError(subject, problem, "Export or download the model again")
