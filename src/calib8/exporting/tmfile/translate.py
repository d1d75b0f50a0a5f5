"""From a float ONNX model to the Tengine model that computes the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import onnx_ir as ir

from calib8.errors import NoFormError, UnsupportedModelError
from calib8.exporting.tmfile.net import Made, Net
from calib8.exporting.tmfile.operators import SPELLED, TRANSLATE
from calib8.model.graph import label
from calib8.ops.questions import is_standard
from calib8.passes.functions import TensorFunction, function_name, tensor_functions

CURE: Final = "Leave them out of the model, or have them computed outside"

MISFITS: Final = (ValueError, IndexError, KeyError, TypeError, ZeroDivisionError, OverflowError)
"""What shapes and attributes that contradict each other raise."""

NONE: Final[Mapping[str, str]] = {}


def tengine_graph(
    model: ir.Model,
    name: str,
    names: Mapping[str, str] | None = NONE,
    coded: Collection[str] = (),
    order: Sequence[str] = (),
) -> Made:
    """The Tengine graph of a float model.

    Args:
        model: constants are initializers, all sizes are known, as ``canonical_qdq`` has it; not changed.
        name: of the model, for messages.
        names: value → what its tensor is called in place of that, see ``passes.converter_names``; None: not
            known, see ``Net``.
        coded: names of values that are rounded to codes: no function is computed together with what yields
            one of them.
        order: of the constants, by the names of initializers.

    Raises:
        UnsupportedModelError: nodes without a form in Tengine; all of them are listed.
    """  # fmt: skip
    try:
        net = Net(model.graph, names, coded, order)
    except NoFormError as reason:
        raise UnsupportedModelError(name, f"has no form in Tengine: {reason}", CURE) from reason
    spelled = _spelled(model, coded)
    problems: list[str] = []
    lost: set[ir.Value] = set()
    for node in model.graph:
        if any(value in lost for value in node.inputs):
            lost.update(node.outputs)  # what it reads has no form, and is told
        elif node not in net.done and (problem := _untranslated(net, node, spelled)):
            problems.append(problem)
            lost.update(node.outputs)
    if problems:
        many = f"{len(problems)} nodes have" if len(problems) > 1 else "1 node has"
        raise UnsupportedModelError(name, f"{many} no form in Tengine: {'; '.join(problems)}", CURE)
    try:
        return net.finish()
    except NoFormError as reason:
        raise UnsupportedModelError(name, f"has no form in Tengine: {reason}", CURE) from reason


def _spelled(model: ir.Model, coded: Collection[str]) -> dict[ir.Node, TensorFunction]:
    """Node → the function of which it is the first in the graph, where one operator computes it."""
    found = {}
    for function in tensor_functions(model):
        inner = {value.name for node in function.nodes[:-1] for value in node.outputs}
        if len(function.nodes) > 1 and function_name(function) in SPELLED and not inner & set(coded):
            found[function.nodes[0]] = function
    return found


def _untranslated(net: Net, node: ir.Node, spelled: Mapping[ir.Node, TensorFunction]) -> str:
    """Adds the operator of a node; empty, or which it is and why it has none."""
    title = f"'{label(node)}' ({node.op_type})"
    add = TRANSLATE.get(node.op_type) if is_standard(node) else None
    try:
        if node in spelled:
            function = spelled[node]
            op = SPELLED[function_name(function)]
            net.write(function.nodes[-1], op, [net.read(function.source)])
            net.done.update(function.nodes)
        elif add is None:
            return f"{title}: Tengine has no operator for it"
        else:
            add(net, node)
    except NoFormError as reason:
        return f"{title}: {reason}"
    except MISFITS as error:
        return f"{title}: its tensors do not fit each other ({error})"
    return ""
