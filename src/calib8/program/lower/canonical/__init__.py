"""Any quantized ONNX graph in the one form from which a program is made; it computes the same.

    QDQ, QOperator, any tool → REWRITES in order → canonical graph

What the result guarantees:

- **Shapes.** Every tensor has a concrete shape. Shape arithmetic is folded, constants are initializers.
  There is no Constant or Dropout node, and an Identity only where an output of the graph is an input, a
  constant or another output.
- **Quantizers.** All of them are of the standard domain, operator set ≥ 17. QuantizeLinear makes uint8 or
  int8 codes of float32 values with one scale, shape [], and one zero point of the type of the codes, both
  initializers and both stated. DequantizeLinear has the same parameters as the QuantizeLinear of its codes;
  only of constants it may have one scale per channel, shape [C], then with ``axis`` ≥ 0. Scales are finite
  and > 0.
- **Operators.** No op computes with codes inside but ConvInteger, MatMulInteger, DynamicQuantizeLinear and
  what has no scale: QOperator nodes and moves of codes stand as float ops between quantizers.
- **Constants.** No QuantizeLinear of a constant. The weight of a layer is constant codes right in front of
  its DequantizeLinear. Parameters (of a Clip, a Pad …) are float. Gemm has no transA, and factors only
  where they could not be folded.
- **Biases.** Of a layer with coded input and weight, int32 codes of scale fl(s_x·s_w[c]), one per channel,
  where they fit. What adds or scales per channel behind such a layer is part of it; BatchNormalization is
  Mul and Add elsewhere. A constant behind a MatMul of more than two axes stays an Add.
- **Windows.** Conv, ConvTranspose, MaxPool and AveragePool state kernel_shape, strides, dilations and pads,
  and neither auto_pad nor output_shape; ceil_mode is left only where it is no padding. Coded layers and
  pools over one axis have two.
- **Moves.** What moves values, or chooses among them, works on codes if its input is codes or all that read
  it are quantizers: DQ(s, z) → move → Q(s, z).
- **Once.** No two quantizers of one value with equal parameters, no quantizer of codes that have them.
- **Names.** Of inputs and outputs of the graph as before, of other values wherever they survive; every node
  has a name of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.passes.normalize import normalize
from calib8.program.lower.canonical import (
    batch_norm_arithmetic,
    check_quantizers,
    codes_down,
    codes_only,
    codes_up,
    constant_codes,
    explicit_windows,
    fold_affine,
    int32_biases,
    merge_quantizers,
    no_effect,
    plain_gemm,
    qoperators,
    shapes,
    standard_domain,
    two_dimensions,
)
from calib8.quantization.qdq import infer_shapes

Rewrite = Callable[[ir.Model], int]

REWRITES: Final[tuple[Rewrite, ...]] = (
    shapes.rewrite,
    no_effect.rewrite,
    qoperators.rewrite,
    shapes.rewrite,
    check_quantizers.rewrite,
    constant_codes.rewrite,
    shapes.rewrite,
    codes_only.rewrite,
    constant_codes.rewrite,
    explicit_windows.rewrite,
    plain_gemm.rewrite,
    fold_affine.rewrite,
    batch_norm_arithmetic.rewrite,
    two_dimensions.rewrite,
    merge_quantizers.rewrite,
    codes_down.rewrite,
    codes_up.rewrite,
    constant_codes.rewrite,
    merge_quantizers.rewrite,
    int32_biases.rewrite,
)
"""In order; shapes are inferred anew behind every one that changed something."""


def canonical_qdq(model: ir.Model, given: shapes.Given | None = None) -> ir.Model:
    """A copy of a quantized model in the form that this package guarantees.

    Args:
        model: QDQ or QOperator, of any tool; not changed.
        given: input name → sizes, for inputs whose shape the model leaves open. A free first axis counts
            as 1.

    Raises:
        UnsupportedModelError: a free axis without a given size, tensors whose size depends on the data,
            quantizers that are none; every place is named.
        UsageError: a given shape that does not fit its input.
    """
    copy = model.clone()
    normalize(copy)
    standard_domain.rewrite(copy)
    shapes.fix_inputs(copy, given)
    for step in REWRITES:
        if step(copy):
            ir_passes.RemoveUnusedNodesPass()(copy)
            infer_shapes(copy)
    ir_passes.TopologicalSortPass()(copy)
    shapes.refuse_open_shapes(copy)
    return copy
