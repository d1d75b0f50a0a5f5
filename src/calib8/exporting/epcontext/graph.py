"""The ONNX file of plans: a node ``EPContext`` per plan, float nodes as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import onnx
from onnx import compose, helper

from calib8.exporting.epcontext.split import FloatPart
from calib8.model.graph import CONTRIB
from calib8.tensors import TensorSpec

SOURCE: Final = "calib8"
"""By which the provider knows its nodes."""

FREE_BATCH: Final = "free batch"
"""What the attribute ``notes`` says of a plan of one sample that may be run for each of a batch."""

OPSET: Final = 17
"""Of a file without float nodes; older ones know everything that is in it, too."""

IR_VERSION: Final = 8


@dataclass(frozen=True)
class PlanPart:
    """A plan, and what it reads and writes.

    Attributes:
        name: of the node.
        content: the bytes of the plan, or the name of its file beside the model.
        inputs, outputs: in the order of the plan's ports; the first size is free where a batch is.
    """

    name: str
    content: bytes | str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


def plans_as_onnx(
    name: str,
    parts: Sequence[PlanPart | FloatPart],
    inputs: Iterable[TensorSpec],
    outputs: Iterable[TensorSpec],
    copies: Mapping[str, str],
    metadata: Mapping[str, str],
) -> onnx.ModelProto:
    """The model of some parts, in the order in which they run.

    Args:
        name: of the graph.
        parts: joined by the names of their values.
        inputs, outputs: of the model; the first size of all is free where a batch is.
        copies: output → value that is the same one.
        metadata: stored with the model.
    """
    fed, given = tuple(inputs), tuple(outputs)
    free_batch = all(spec.shape and not isinstance(spec.shape[0], int) for spec in (*fed, *given))
    graph = onnx.GraphProto(name=name)
    graph.input.extend(map(_value, fed))
    graph.output.extend(map(_value, given))
    opsets, ir_version = {"": OPSET}, IR_VERSION
    functions: dict[str, onnx.FunctionProto] = {}
    known = {spec.name for spec in (*fed, *given)}
    for number, part in enumerate(parts):
        if isinstance(part, PlanPart):
            graph.node.append(_node(part, free_batch))
            between = (spec for spec in part.outputs if spec.name not in known)
            graph.value_info.extend(map(_value, between))
            continue
        model = onnx.ModelProto.FromString(part.step.model)
        _add_float(graph, model, part, f"float{number}/")
        opsets.update({opset.domain: opset.version for opset in model.opset_import})
        functions.update({f"{one.domain}:{one.name}": one for one in model.functions})
        ir_version = max(ir_version, model.ir_version)
    graph.node.extend(helper.make_node("Identity", [value], [copy]) for copy, value in copies.items())
    opsets[CONTRIB] = 1
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    model = helper.make_model(graph, producer_name="calib8", opset_imports=imports, ir_version=ir_version)
    model.functions.extend(functions.values())
    helper.set_model_props(model, dict(metadata))
    return model


def _value(spec: TensorSpec) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(spec.name, helper.np_dtype_to_tensor_dtype(spec.dtype), spec.shape)


def _node(part: PlanPart, free_batch: bool) -> onnx.NodeProto:
    embedded = isinstance(part.content, bytes)
    return helper.make_node(
        "EPContext",
        [spec.name for spec in part.inputs],
        [spec.name for spec in part.outputs],
        name=part.name,
        domain=CONTRIB,
        main_context=1,
        embed_mode=int(embedded),
        ep_cache_context=part.content,
        source=SOURCE,
        partition_name=part.name,
        **({"notes": FREE_BATCH} if free_batch else {}),
    )


def _add_float(graph: onnx.GraphProto, model: onnx.ModelProto, part: FloatPart, prefix: str) -> None:
    """Adds the nodes of a Float instruction; values inside get names of their own, its ports those around."""
    inner = model.graph
    around = {value.name: name for value, name in zip(inner.input, part.inputs, strict=True)}
    around.update({value.name: name for value, name in zip(inner.output, part.outputs, strict=True)})
    compose.add_prefix_graph(inner, prefix, inplace=True)
    renamed = {prefix + old: new for old, new in around.items()}
    _rename(inner, renamed)
    known = {value.name for value in (*graph.input, *graph.output, *graph.value_info)}
    graph.node.extend(inner.node)
    graph.initializer.extend(inner.initializer)
    graph.sparse_initializer.extend(inner.sparse_initializer)
    typed = (value for value in (*inner.output, *inner.value_info) if value.name not in known)
    graph.value_info.extend(typed)


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Other names for values, also where graphs inside of nodes read them."""
    for value in graph.output:
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _rename(inner, names)
