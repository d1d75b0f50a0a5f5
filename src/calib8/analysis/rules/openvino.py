"""What OpenVINO's low-precision transformations take: 8-bit codes, int8 weights, one scale around Concat.

Zero points and one scale per output channel are fine. Source: OpenVINO documentation, "Low Precision
Transformations" (quantization scheme, restrictions).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import onnx_ir as ir

from calib8.analysis.rules import Finding
from calib8.analysis.rules.codes import quantizers
from calib8.analysis.rules.layers import coded_weights
from calib8.ops.questions import joins, quantizes
from calib8.quantization.qdq import codes_behind, label, nodes

EIGHT_BITS: Final = (None, ir.DataType.INT8, ir.DataType.UINT8)


def activations_have_8_bits(model: ir.Model) -> Iterator[Finding]:
    """Activations are uint8 or int8."""
    for codes in quantizers(model):
        if quantizes(codes.node) and codes.dtype not in EIGHT_BITS:
            yield label(codes.node), f"its codes are {codes.dtype}", "Use uint8 or int8"


def weights_are_int8(model: ir.Model) -> Iterator[Finding]:
    """Weights are int8: the integer convolution takes no other type on its right."""
    for layer, codes in coded_weights(model):
        if codes.dtype not in (None, ir.DataType.INT8):
            yield (
                label(codes.node),
                f"the weight of '{layer.name}' is {codes.dtype}",
                "Code weights as int8",
            )


def concat_inputs_share_scale(model: ir.Model) -> Iterator[Finding]:
    """All inputs of a Concat have one scale and zero point, so that their codes can be joined as they are."""
    for node in nodes(model):
        if not joins(node):
            continue
        found = [codes_behind(value) for value in node.inputs]
        coded = [codes for codes in found if codes is not None]
        if not coded or len(coded) < len(found):
            continue
        other = next((codes for codes in coded if not codes.same_parameters(coded[0])), None)
        if other is not None:
            yield (
                label(node),
                f"its inputs have {coded[0]} and {other}",
                "Give all its inputs one scale and zero point",
            )
