"""When calib8's engine computes a layer and the function behind it at once, from the sums to codes.

DQ, DQ, DQ → Conv → Q                     the sums are rounded to codes
DQ, DQ, DQ → Conv → Sigmoid, Mul → Q      the function of the sums is
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from calib8.analysis.rules import Finding
from calib8.analysis.rules.onnxruntime import mixed_types, reads_codes
from calib8.ops.questions import is_matrix_product, quantizes
from calib8.passes.functions import fused_layers, tensor_functions
from calib8.quantization.qdq import label, nodes
from calib8.scheme import TARGETS, WEIGHTED_OPS


def types_combine(model: ir.Model) -> Iterator[Finding]:
    """8-bit activations around an op have one type; 16-bit ones may stand beside them."""
    return mixed_types(model, (ir.DataType.INT16,))


def sums_become_codes(model: ir.Model) -> Iterator[Finding]:
    """The sums of a layer on codes go to one QuantizeLinear, as they are or through functions of them.

    Gemm and MatMul may also give floats.
    """
    behind = fused_layers(tensor_functions(model, with_activations=True), TARGETS["calib8"])
    for node in nodes(model):
        if node.op_type not in WEIGHTED_OPS or not reads_codes(node):
            continue
        value = behind[node].result if node in behind else node.outputs[0]
        readers = [use.node for use in value.uses()]
        quantizers = [reader for reader in readers if quantizes(reader)]
        others = len(readers) + value.is_graph_output() - len(quantizers)
        if not quantizers and is_matrix_product(node):
            continue
        if len(quantizers) != 1 or others:
            yield (
                label(node),
                f"'{value.name}' goes to {len(quantizers)} QuantizeLinear, {others} others",
                "Quantize it once, and let all of them read the codes",
            )
