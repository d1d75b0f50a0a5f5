"""From a float Tengine model to the ONNX model that computes the same."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import onnx_ir as ir

from calib8.errors import NoFormError, UnsupportedModelError
from calib8.model.from_tmfile.builder import Builder
from calib8.model.from_tmfile.operators import TRANSLATE
from calib8.number_texts import count
from calib8.parameters import parameter, with_both
from calib8.tmfile.graph import CONST, INPUT, Graph, Node
from calib8.tmfile.kinds import kind
from calib8.tmfile.nchw import as_nchw
from calib8.tmfile.sizes import states_sizes
from calib8.tmfile.uses import USES

IR_VERSION: Final = 8

CURE: Final = "Give the ONNX model that it was converted from"

MISFITS: Final = (ValueError, IndexError, KeyError, TypeError, ZeroDivisionError, OverflowError)
"""What shapes and options that contradict each other raise."""


def float_model(graph: Graph, name: str) -> ir.Model:
    """The ONNX model of a float Tengine model: NCHW, with the sizes and names of the file.

    A model in the order NHWC gets its axes in the order that Tengine gives them when it loads it.

    Args:
        graph: checked.
        name: of the model, for messages.

    Raises:
        UnsupportedModelError: a model in codes or in float16, without weights, or with operators that have no
            ONNX nodes; all of them are listed.
    """
    found = kind(graph)
    if found != "float":
        held = "codes" if found == "quantized" else "float16"
        cure = f"Give the float model; {with_both(USES[found])}"
        raise UnsupportedModelError(name, f"it is a {found} Tengine model, its tensors hold {held}", cure)
    try:
        turned = as_nchw(graph)
        _refuse_unknown_sizes(turned, name)
        builder = Builder(turned, Path(name).name)
    except NoFormError as reason:
        raise UnsupportedModelError(name, f"it has no ONNX form: {reason}", CURE) from reason
    problems = [problem for node in builder.graph.nodes if (problem := _untranslated(builder, node))]
    if problems:
        listed = "; ".join(problems)
        raise UnsupportedModelError(
            name, f"{count(len(problems), 'operator')} cannot be translated: {listed}", CURE
        )
    try:
        _finish(builder)
    except NoFormError as reason:  # an output that no operator computes
        raise UnsupportedModelError(name, f"it has no ONNX form: {reason}", CURE) from reason
    return ir.Model(builder.onnx, ir_version=IR_VERSION, producer_name="calib8")


def _refuse_unknown_sizes(graph: Graph, name: str) -> None:
    """Refuses a file that leaves the sizes of its inputs to the run."""
    if states_sizes(graph):
        return
    titles = [graph.tensors[place].name or f"tensor_{place}" for place in graph.input_tensors()]
    problem = f"states no sizes of its input '{titles[0]}', as for a model with a free batch"
    cure = f"Export it to a tmfile with {parameter('shapes')} of its inputs, and use that"
    raise UnsupportedModelError(name, problem, cure)


def _untranslated(builder: Builder, node: Node) -> str:
    """Adds the nodes of an operator; empty, or which it is and why it has none."""
    if node.op in (CONST, INPUT):
        return ""
    title = f"'{builder.name(node.outputs[0])}' ({node.op})"
    if any(place not in builder.values and builder.tensor(place).role != "const" for place in node.inputs):
        return ""  # what it reads has no nodes, and is told
    add = TRANSLATE.get(node.op)
    if add is None:
        return f"{title}: no ONNX node is known for it"
    try:
        add(builder, node)
    except NoFormError as reason:
        return f"{title}: {reason}"
    except MISFITS as error:
        return f"{title}: its tensors do not fit each other ({error})"
    return ""


def _finish(builder: Builder) -> None:
    """Outputs in the order of the file; what is an input or a constant too gets a name of its own."""
    outputs: list[ir.Value] = []
    for place in builder.graph.output_tensors():
        value = builder.read(place)
        if value.is_graph_input() or value.is_initializer() or value in outputs:
            value = builder.emit(f"{builder.name(place)}/output", "Identity", [value])
            value.shape, value.type = builder.values[place].shape, builder.values[place].type
        outputs.append(value)
    builder.onnx.outputs.extend(outputs)
