"""A move of dequantized codes yields codes, whoever reads its result.

DQ(s, z) → Reshape → float readers   →   DQ(s, z) → Reshape → Q(s, z) → DQ(s, z) → float readers
"""

from __future__ import annotations

import onnx_ir as ir

from calib8.model.graph import Names
from calib8.ops.questions import quantizes
from calib8.program.lower.canonical.codings import Coding, coding_of, reader_codings, source_coding
from calib8.program.lower.canonical.edits import insert_behind, quantize_nodes
from calib8.program.lower.canonical.movers import activation_bounds, data_inputs, stays_on_grid


def rewrite(model: ir.Model) -> int:
    """Puts Q/DQ behind a move all of whose inputs are codes of one scale; exact, since Q(DQ(q)) = q.

    The same behind a Relu or Clip on codes that no quantizer reads. Readers that are quantizers of these
    very codes read the move as before. An output of the graph keeps its name, the value before it gets
    ``/float`` added.

    Returns:
        Values that became codes.
    """
    names = Names(model.graph)
    rewritten = 0
    for node in list(model.graph):
        coding = _coding(node)
        if coding is not None:
            rewritten += sum(_code(names, value, coding) for value in node.outputs)
    return rewritten


def _coding(node: ir.Node) -> Coding | None:
    """The coding of all data of a node, None where there are several, or where its result leaves the grid."""
    places = data_inputs(node)
    if not places and activation_bounds(node) is not None and not _is_quantized(node.outputs[0]):
        places = [0]
    codings = {source_coding(node.inputs[place]) for place in places}
    coding = codings.pop() if len(codings) == 1 else None
    return coding if coding is not None and stays_on_grid(node, coding) else None


def _is_quantized(value: ir.Value) -> bool:
    return any(coding is not None for coding in reader_codings(value))


def _code(names: Names, value: ir.Value, coding: Coding) -> bool:
    """Q/DQ behind a value for all its readers but the quantizers that give the same codes."""
    others = [reader for reader in reader_codings(value) if reader != coding]
    if not others:
        return False
    uses = [use for use in value.uses() if not _codes_alike(use.node, use.idx, coding)]
    first, second = quantize_nodes(names, value, coding, value.name or "")
    insert_behind(names.graph, value, [first, second])
    result = second.outputs[0]
    for use in uses:
        use.node.replace_input_with(use.idx, result)
    if value.is_graph_output():
        value.name, result.name = names.value(f"{value.name}/float"), value.name
        for index, output in enumerate(names.graph.outputs):
            if output is value:
                names.graph.outputs[index] = result
    return True


def _codes_alike(node: ir.Node, place: int, coding: Coding) -> bool:
    return quantizes(node) and place == 0 and coding_of(node) == coding
