"""Names of an exported graph: values are called as the nodes of the traced graph, whatever exporter wrote it.

    /layer1/conv/Conv_output_0                    →     layer1_conv
    a tensor inside of what node `std` does       →     std/ReduceMean
    onnx::Conv_41                                 →     layer1_conv/constant

Parameters and buffers keep their names.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.model.graph import constant, first_free

MARK: Final = "fx::"
"""Before the names of nodes while a graph is exported: parameters may have the same names."""

BATCH: Final = "batch"
"""Name of the free axis."""


def named_as_traced(
    exported: onnx.ModelProto, outputs: Sequence[str], parameters: Collection[str], name: str
) -> onnx.ModelProto:
    """The exported model with the names of the traced graph, and its own outputs alone.

    Args:
        exported: its outputs are nodes of the traced graph, their names marked with ``MARK``.
        outputs: nodes that are outputs of the module, in order.
        parameters: names that an initializer keeps.
        name: what to call the graph.
    """
    model = ir.from_proto(exported)
    ir_passes.InlinePass()(model)
    ir_passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    _drop_traces(model)
    _drop_neutral(model, parameters)
    ours = {value.name: value for value in model.graph.outputs}
    model.graph.outputs[:] = [ours[f"{MARK}{output}"] for output in outputs]
    traced = _traced_names(model, ours)
    ir_passes.RemoveUnusedNodesPass()(model)
    ir_passes.TopologicalSortPass()(model)
    _rename(model, traced, parameters)
    _name_batch(model)
    model.graph.name = name
    return ir.to_proto(model)


def _drop_neutral(model: ir.Model, parameters: Collection[str]) -> None:
    """Takes away the factors of 1 and addends of 0 that exporters give a normalization without parameters.

    What is left of it yields the result of the traced node.
    """
    graph = model.graph
    for node in list(graph):
        source = _unchanged(node, parameters)
        if source is None:
            continue
        [result] = node.outputs
        name = result.name
        result.replace_all_uses_with(source, replace_graph_outputs=True)
        graph.remove(node, safe=True)
        source.name = name


def _unchanged(node: ir.Node, parameters: Collection[str]) -> ir.Value | None:
    """What a node behind a normalization reads and yields as it is, and alone reads; else None."""
    neutral = {"Mul": 1.0, "Add": 0.0}.get(node.op_type)
    source, factor = (*node.inputs, None, None)[:2]
    array = None if factor is None or factor.name in parameters else constant(factor)
    if neutral is None or source is None or array is None or array.ndim != 3:
        return None
    back = source.producer()
    inner = None if back is None or back.op_type != "Reshape" else back.inputs[0]
    norm = None if inner is None else inner.producer()
    if norm is None or norm.op_type != "InstanceNormalization" or not np.all(array == neutral):
        return None
    return None if source.is_graph_output() or len(source.uses()) > 1 else source


def _traced_names(model: ir.Model, ours: dict[str | None, ir.Value]) -> dict[ir.Value, str]:
    """Value → the node of the traced graph that it is; inputs as they stand."""
    names = {value: (value.name or "").removeprefix(MARK) for value in model.graph.inputs}
    names |= {value: (name or "").removeprefix(MARK) for name, value in ours.items()}
    return names


def _drop_traces(model: ir.Model) -> None:
    """Takes away what the exporter notes of the machine and the code that it ran on."""
    model.metadata_props.clear()
    model.graph.metadata_props.clear()
    model.doc_string = None
    model.graph.doc_string = None
    for node in model.graph:
        node.metadata_props.clear()
        node.doc_string = None
        for value in node.outputs:
            value.metadata_props.clear()
    for value in (*model.graph.inputs, *model.graph.initializers.values()):
        value.metadata_props.clear()
        value.doc_string = None


def _rename(model: ir.Model, traced: dict[ir.Value, str], parameters: Collection[str]) -> None:
    taken = set(traced.values())
    owners = _owners(model, traced)
    wanted: list[tuple[ir.Value, str]] = list(traced.items())
    for value in model.graph.initializers.values():
        uses = [use.node for use in value.uses()]
        base = value.name or ""
        if base not in parameters:
            base = f"{owners.get(uses[0], 'graph')}/constant" if uses else "graph/constant"
        wanted.append((value, _reserve(base, taken)))
    for node in model.graph:
        for value in node.outputs:
            if value not in traced:
                wanted.append((value, _reserve(f"{owners.get(node, 'graph')}/{node.op_type}", taken)))
    for index, (value, _) in enumerate(wanted):
        value.name = f"{MARK}{index}"
    for value, name in wanted:
        value.name = name
    for node in model.graph:
        node.name = node.outputs[0].name


def _reserve(base: str, taken: set[str]) -> str:
    name = first_free(base, taken)
    taken.add(name)
    return name


def _owners(model: ir.Model, traced: dict[ir.Value, str]) -> dict[ir.Node, str]:
    """ONNX node → the traced node that it is a part of: the next one behind it."""
    owners: dict[ir.Node, str] = {}
    for node in reversed(list(model.graph)):
        own = [traced[value] for value in node.outputs if value in traced]
        behind = [owners[use.node] for value in node.outputs for use in value.uses() if use.node in owners]
        if own or behind:
            owners[node] = (own + behind)[0]
    return owners


def free_batch(model: onnx.ModelProto, inputs: Collection[str]) -> bool:
    """Whether axis 0 of the inputs has no fixed size."""
    found = {value.name: value.type.tensor_type.shape.dim for value in model.graph.input}
    return all(found[name] and not found[name][0].HasField("dim_value") for name in inputs)


def _name_batch(model: ir.Model) -> None:
    """The free axis is called the same everywhere; sizes that are computed from it have no name."""
    symbols = {
        dim.value
        for value in model.graph.inputs
        if value.shape is not None
        for dim in value.shape
        if isinstance(dim, ir.SymbolicDim)
    }
    values = [*model.graph.inputs, *(value for node in model.graph for value in node.outputs)]
    for value in values:
        if value.shape is not None:
            value.shape = ir.Shape([_size(dim, symbols) for dim in value.shape])


def _size(dim: int | ir.SymbolicDim, symbols: Collection[str | None]) -> int | str | None:
    if isinstance(dim, int):
        return dim
    return BATCH if dim.value is not None and dim.value in symbols else None
