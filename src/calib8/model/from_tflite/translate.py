"""From a TFLite graph to an ONNX graph: all of a float model, or some operators of any."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError, UnsupportedModelError
from calib8.model.from_tflite.builder import Builder
from calib8.model.from_tflite.float_only import fold, refuse_codes
from calib8.model.from_tflite.free_sizes import has_free_batch
from calib8.model.from_tflite.operators import translation
from calib8.model.save import model_bytes
from calib8.model.states import write_states
from calib8.number_texts import count
from calib8.tflite.graph import Graph, Operator
from calib8.tflite.live import makes_constant, needed, value_inputs
from calib8.tflite.state_ports import state_ports, with_state_ports
from calib8.tflite.versions import unknown_version

IR_VERSION: Final = 8
CURE: Final = "Export the model without them"

MISFITS: Final = (ValueError, IndexError, KeyError, TypeError, ZeroDivisionError, OverflowError)
"""What shapes and options that contradict each other raise."""


@dataclass(frozen=True, eq=False)
class Problem:
    """An operator that cannot be carried out.

    Attributes:
        operator: of the graph.
        text: which it is, and why.
    """

    operator: Operator
    text: str


class UntranslatedError(Exception):
    """Operators without ONNX nodes."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Takes them, at least one."""
        self.problems = tuple(problems)
        super().__init__("; ".join(problem.text for problem in problems))


def float_model(graph: Graph, name: str) -> ir.Model:
    """The ONNX model of a float TFLite model; inputs and outputs as the file has them, NHWC.

    Constants in float16, or as integers that a DEQUANTIZE makes float, become float32. Variables become
    inputs and outputs, and states in the metadata.

    Args:
        graph: checked.
        name: of the model, for messages.

    Raises:
        UnsupportedModelError: a quantized model, free sizes other than the batch, variables that do not begin
            with zeros, or operators without ONNX nodes; all of them are listed.
    """
    graph = with_state_ports(graph)
    try:
        refuse_codes(graph, name)
        builder = Builder(graph, free_batch=has_free_batch(graph, name))
    except (NoFormError, *MISFITS) as reason:
        raise UnsupportedModelError(name, f"it has no ONNX form: {reason}", CURE) from reason
    _refuse_begun(graph, name)
    problems = translate(builder)
    if problems:
        listed = "; ".join(problem.text for problem in problems)
        raise UnsupportedModelError(
            name,
            f"{count(len(problems), 'operator')} cannot be translated: {listed}",
            CURE,
        )
    try:
        _finish(builder)
    except NoFormError as reason:
        raise UnsupportedModelError(name, f"it has no ONNX form: {reason}", CURE) from reason
    model = ir.Model(builder.onnx, ir_version=IR_VERSION, producer_name="calib8")
    write_states(model, state_ports(graph))
    return model


def _refuse_begun(graph: Graph, name: str) -> None:
    """Refuses a variable that begins with other values than 0: states of ONNX models begin with zeros."""
    begun = next((state.name for state in graph.states if np.any(state.initial)), None)
    if begun is not None:
        problem = f"the variable '{begun}' begins with other values than 0"
        raise UnsupportedModelError(name, problem, "Export the model with zeros as initial value")


def operators_as_onnx(
    graph: Graph,
    operators: Sequence[Operator],
    inputs: Mapping[int, str],
    outputs: Mapping[int, str],
) -> bytes:
    """An ONNX model of some operators of a graph, shapes fixed, every tensor in the order of the file.

    Args:
        graph: that they are of.
        operators: in the order of execution.
        inputs, outputs: tensors that are fed and come out, and what the ports are called.

    Raises:
        UntranslatedError: operators that have no nodes, all of them.
    """
    tensors = list(graph.tensors)
    for place, title in (*inputs.items(), *outputs.items()):
        tensors[place] = replace(tensors[place], name=title)
    part = replace(
        graph,
        tensors=tuple(tensors),
        operators=tuple(operators),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
    )
    try:
        builder = Builder(part, free_batch=False)
    except NoFormError as reason:
        raise UntranslatedError([Problem(operators[0], str(reason))]) from reason
    problems = translate(builder)
    if problems:
        raise UntranslatedError(problems)
    try:
        _finish(builder)
    except NoFormError as reason:
        raise UntranslatedError([Problem(operators[-1], str(reason))]) from reason
    return model_bytes(ir.Model(builder.onnx, ir_version=IR_VERSION, producer_name="calib8"))


def translate(builder: Builder) -> list[Problem]:
    """Adds the nodes of all operators that the outputs need; the operators that have none, and why."""
    reasons = [
        (operator, _untranslated(builder, operator))
        for operator in needed(builder.graph, builder.graph.outputs)
    ]
    return [Problem(operator, reason) for operator, reason in reasons if reason]


def _untranslated(builder: Builder, operator: Operator) -> str:
    """Adds the nodes of an operator, or its constant; empty, or which it is and why it has none."""
    title = operator.title
    version, add = unknown_version(operator), translation(operator)
    if makes_constant(builder.graph, operator):
        reason = _reason(builder, operator, fold)
    elif add is None:
        return f"{title}: no ONNX node is known for it"
    elif version is not None:
        reason = version
    elif all(builder.known(place) for place in value_inputs(operator)):
        reason = _reason(builder, operator, add)
    else:
        return ""
    return reason and f"'{builder.name(operator.outputs[0])}' ({title}): {reason}"


def _reason(builder: Builder, operator: Operator, add: Callable[[Builder, Operator], None]) -> str:
    """Adds what carries an operator out; empty, or why nothing does."""
    try:
        add(builder, operator)
    except NoFormError as reason:
        return str(reason)
    except MISFITS as error:
        return f"its tensors do not fit each other ({error})"
    return ""


def _finish(builder: Builder) -> None:
    """Outputs in the order of the file, under names of their own."""
    outputs: list[ir.Value] = []
    for place in builder.graph.outputs:
        value = builder.read(place, builder.filed(place))
        if builder.is_constant(place) or value.is_graph_input() or value in outputs:
            value = builder.renamed(place, value)
        outputs.append(value)
    builder.onnx.outputs.extend(outputs)
