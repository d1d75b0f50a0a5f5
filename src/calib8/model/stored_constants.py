"""Constants that a model holds itself: as many values as their shape says, which no checker looks at in full.

onnx's checker refuses too few bytes of ``raw_data``; too many pass it, and NumPy far from here refuses them.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from calib8.errors import ModelError
from calib8.tensors import shape_text


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
