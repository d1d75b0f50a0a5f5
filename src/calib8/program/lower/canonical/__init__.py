"""Any quantized ONNX graph in the one form from which a program is made; it computes the same.

    QDQ, QOperator, any tool → REWRITES in order → canonical graph

What the result guarantees:

- **Shapes.** Every tensor has a concrete shape. Shape arithmetic is folded, constants are initializers.
  There is no Dropout node, no Constant but an output of the graph, and an Identity only where an output of
  the graph is an input, a constant or another output.
- **Quantizers.** All are of the standard domain, operator set ≥ 17, with constant float32 scales, finite and
  > 0. Those of 8-bit and int16 codes (and int32 ones of constants) state scale and zero point as initializers
  of shape [], or [C] and then ``axis`` ≥ 0; the zero point has the type of the codes; int16 stands for uint16
  too. Left as the model has them:
  other types of codes, scales per block, scales per channel of activations (but for depthwise layers, which
  read codes of one scale), and codes that a DequantizeLinear reads with other parameters than they were
  made with.
- **Operators.** No op computes with codes inside but ConvInteger, MatMulInteger, DynamicQuantizeLinear and
  what has no scale: QOperator nodes and moves of codes stand as float ops between quantizers.
- **Constants.** No QuantizeLinear of a constant, outputs aside. The weight of a layer is constant codes right
  in front of its DequantizeLinear. Parameters (of a Clip, a Pad …) are float. Gemm has no transA, and factors
  only where they could not be folded.
- **Biases.** Of a layer with coded input and weight, int32 codes of scale fl(s_x·s_w[c]), one per channel,
  where they fit. What adds or scales per channel behind such a layer is part of it; BatchNormalization is
  Mul and Add elsewhere. A constant behind a MatMul of more than two axes stays an Add.
- **Windows.** Conv, ConvTranspose, MaxPool and AveragePool state kernel_shape, strides and pads (and
  dilations where they have them), and neither auto_pad nor output_shape; nor ceil_mode, unless it means
  more padding than runtimes allow. Coded layers and pools over one axis of space have two.
- **Moves.** What moves values, or chooses among them, works on codes if its input is codes or all that read
  it are quantizers: DQ(s, z) → move → Q(s, z).
- **Once.** No two quantizers of one value with equal parameters (but outputs, which keep their names), no
  quantizer of codes that have them.
- **Names.** Of inputs and outputs of the graph as before, of other values wherever they survive; every node
  has a name of its own.

``spec`` checks a result against this list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.model.graph import Names, constant
from calib8.model.infer_shapes import infer_shapes
from calib8.passes.branches import reads_outside, undecided
from calib8.passes.normalize import normalize
from calib8.program.lower.canonical import (
    batch_norm_arithmetic,
    channel_scales,
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
    unsigned_codes,
)
from calib8.program.lower.canonical.shapes import Given, fix_inputs, refuse_open_shapes
from calib8.program.lower.canonical.spec import check_canonical

Rewrite = Callable[[ir.Model], int]

REWRITES: Final[tuple[Rewrite, ...]] = (
    explicit_windows.rewrite,
    shapes.rewrite,
    no_effect.rewrite,
    qoperators.rewrite,
    explicit_windows.rewrite,
    shapes.rewrite,
    unsigned_codes.rewrite,
    check_quantizers.rewrite,
    constant_codes.rewrite,
    shapes.rewrite,
    codes_only.rewrite,
    constant_codes.rewrite,
    explicit_windows.rewrite,
    plain_gemm.rewrite,
    merge_quantizers.rewrite,
    channel_scales.rewrite,
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


def canonical_qdq(model: ir.Model, shapes: Given | None = None) -> ir.Model:
    """A copy of a quantized model in the form that this package guarantees.

    Args:
        model: QDQ or QOperator, of any tool; not changed.
        shapes: input name → sizes, for inputs whose shape the model leaves open. A free first axis counts
            as 1.

    Raises:
        UnsupportedModelError: a free axis without a given size, tensors whose size depends on the data,
            quantizers that are none; every place is named. Branches that inputs decide, with their names.
        UsageError: a given shape that does not fit its input.
    """
    copy = model.clone()
    own_constants(copy)
    normalize(copy)
    standard_domain.rewrite(copy)
    fix_inputs(copy, shapes)
    infer_shapes(copy)
    for step in REWRITES:
        if step(copy):
            ir_passes.RemoveUnusedNodesPass()(copy)
            infer_shapes(copy)
    ir_passes.TopologicalSortPass()(copy)
    if reads_outside(copy):
        raise undecided(copy, model)
    _yield_constants(copy)
    refuse_open_shapes(copy)
    check_canonical(copy)
    return copy


def _yield_constants(model: ir.Model) -> None:
    """An output that is an initializer becomes the result of an Identity of it."""
    names = Names(model.graph)
    for index, value in enumerate(model.graph.outputs):
        array = constant(value)
        if value.producer() is not None or array is None:
            continue
        stored = names.constant(f"{value.name}/constant", array)
        node = ir.node("Identity", [stored], name=names.node(f"{value.name}/Identity"))
        result = node.outputs[0]
        result.type, result.shape = value.type, value.shape
        for use in tuple(value.uses()):
            use.node.replace_input_with(use.idx, stored)
        model.graph.outputs[index] = result
        model.graph.initializers.pop(value.name or "")
        result.name = value.name
        model.graph.append(node)


def own_constants(model: ir.Model) -> None:
    """A clone shares the tensors of Constant nodes with its original; lifting them would rename those."""
    for node in model.graph:
        stored = node.attributes.get("value") if node.op_type == "Constant" else None
        if stored is not None:
            tensor = stored.as_tensor()
            own = ir.tensor(tensor.numpy(), dtype=tensor.dtype, name=tensor.name)
            node.attributes["value"] = ir.AttrTensor("value", own)
