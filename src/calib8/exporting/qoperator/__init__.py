"""The QOperator form of a QDQ model: operators that compute with codes, quantizers only where it is float.

    Q(Conv(DQ(x), DQ(w), DQ(b)))  →  QLinearConv(x, w, b)

docs/formats.md says which operator becomes what, and where the bits may differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.errors import NoFormError, UnsupportedModelError
from calib8.exporting.qoperator import functions, layers, moves
from calib8.model.graph import CONTRIB, Names
from calib8.model.infer_shapes import infer_shapes
from calib8.ops.groups import CLAMPS, FLOAT_ONLY, MOVES
from calib8.ops.questions import is_quantizer
from calib8.parameters import Text, either
from calib8.passes.free_sizes import forget_inferred_names, stated_shapes
from calib8.passes.normalize import normalize
from calib8.program.lower.canonical import (
    check_quantizers,
    codes_down,
    codes_up,
    constant_codes,
    int32_biases,
    merge_quantizers,
    no_effect,
    own_constants,
    plain_gemm,
    standard_domain,
)
from calib8.quantization.own_quantizers import CONTRIB_VERSION, restore_own_quantizers
from calib8.quantization.qdq import (
    hides_floats,
    holds_codes,
    label,
)
from calib8.quantization.qdq import nodes as all_nodes

REWRITES: Final[tuple[Callable[[ir.Model], int], ...]] = (
    standard_domain.rewrite,
    no_effect.rewrite,
    check_quantizers.rewrite,
    constant_codes.rewrite,
    plain_gemm.rewrite,
    merge_quantizers.rewrite,
    codes_down.rewrite,
    codes_up.rewrite,
    constant_codes.rewrite,
    merge_quantizers.rewrite,
    int32_biases.rewrite,
)
"""Those steps of the canonical graph that leave free axes free; shapes are inferred behind each."""

SLOW_INT8: Final = Text(
    "activations are int8, with which ONNX Runtime's convolutions take several times as long on x86 as with "
    "uint8; "
    + either("calib8.quantize(activations='uint8')", "calib8 quantize --activations uint8")
    + " makes those"
)

Fuse = Callable[[Names, ir.Node], ir.Node]
FUSE: Final[Mapping[str, Fuse]] = {
    **dict.fromkeys(sorted(MOVES - FLOAT_ONLY), moves.fuse),
    **dict.fromkeys(CLAMPS, moves.fuse_activation),
    **dict.fromkeys(functions.UNARY, functions.fuse_unary),
    **dict.fromkeys(functions.BINARY, functions.fuse_binary),
    "Concat": functions.fuse_concat,
    "Conv": layers.fuse_conv,
    "Gemm": layers.fuse_gemm,
    "MatMul": layers.fuse_matmul,
}
"""Float op → what makes it an operator on codes; ``NoFormError`` says why it stays float."""


@dataclass(frozen=True)
class Kept:
    """An op that stays float, between quantizers where its tensors are codes.

    Attributes:
        node: its name.
        op_type: its operator.
        reason: why it has no operator on codes.
    """

    node: str
    op_type: str
    reason: str


@dataclass(frozen=True)
class QOperatorReport:
    """What became of the ops of a QDQ model.

    Attributes:
        fused: operator on codes → how many ops became one, in the order of the names.
        kept: the ops that stay float, in the order of the graph.
        quantizers: QuantizeLinear and DequantizeLinear nodes that are left.
        notes: what is to be known of the result, in sentences.
    """

    fused: Mapping[str, int]
    kept: tuple[Kept, ...]
    quantizers: int
    notes: tuple[str, ...]


def to_qoperator(model: ir.Model) -> tuple[ir.Model, QOperatorReport]:
    """A QDQ model with every op on codes that ONNX or ONNX Runtime has one for.

    Names of inputs and outputs, free axes, metadata and the codes of every tensor stay. The result needs
    operator set 17 or newer, and ONNX Runtime's own operators (``com.microsoft``) where the standard has
    none: QGemm, QLinearAdd, QLinearMul, QLinearConcat, pools and functions.

    Args:
        model: QDQ, of any tool; not changed.

    Raises:
        UnsupportedModelError: a float model, one that computes on codes already, or quantizers that are none.
    """
    _check(model)
    copy = _prepared(model)
    names = Names(copy.graph)
    fused: Counter[str] = Counter()
    kept: list[Kept] = []
    for node in list(copy.graph):
        if is_quantizer(node) or node.graph is None:  # a Relu may be gone with what it follows
            continue
        is_float = any(value.dtype in (None, ir.DataType.FLOAT) for value in node.outputs)
        op_type, name = node.op_type, label(node)
        try:
            fused[_fused(names, node).op_type] += 1
        except NoFormError as reason:
            if is_float:
                kept.append(Kept(name, op_type, str(reason)))
    _finish(copy, stated_shapes(model))
    left = sum(is_quantizer(node) for node in all_nodes(copy))
    notes = (SLOW_INT8,) if _has_int8_layers(copy) else ()
    return copy, QOperatorReport(dict(sorted(fused.items())), tuple(kept), left, notes)


def _check(model: ir.Model) -> None:
    name = model.graph.name or "model"
    integer = next((node for node in all_nodes(model) if hides_floats(node)), None)
    if integer is not None:
        problem = f"computes on codes already ('{label(integer)}', {integer.op_type})"
        raise UnsupportedModelError(name, problem, "Give the model in QDQ form")
    if not holds_codes(model):
        raise UnsupportedModelError(
            name, "is a float model: no node reads or makes codes", "Quantize it first"
        )


def _prepared(model: ir.Model) -> ir.Model:
    copy = model.clone()
    own_constants(copy)
    normalize(copy)
    ir_passes.RemoveUnusedNodesPass()(copy)
    infer_shapes(copy)
    for step in REWRITES:
        if step(copy):
            ir_passes.RemoveUnusedNodesPass()(copy)
            infer_shapes(copy)
    ir_passes.TopologicalSortPass()(copy)
    return copy


def _fused(names: Names, node: ir.Node) -> ir.Node:
    fuse = None if node.domain else FUSE.get(node.op_type)
    if fuse is None:
        raise NoFormError(f"there is no {node.op_type} on codes")
    return fuse(names, node)


def _has_int8_layers(model: ir.Model) -> bool:
    layers = (node for node in model.graph if node.op_type in ("QLinearConv", "ConvInteger"))
    return any(node.inputs[0] is not None and node.inputs[0].dtype == ir.DataType.INT8 for node in layers)


def _finish(model: ir.Model, own: Mapping[str, ir.Shape | None]) -> None:
    """No leftovers, and the operator sets that the nodes are of."""
    ir_passes.RemoveUnusedNodesPass()(model)
    restore_own_quantizers(model)
    if any(node.domain == CONTRIB for node in model.graph):
        model.graph.opset_imports[CONTRIB] = CONTRIB_VERSION
    infer_shapes(model)
    forget_inferred_names(model, own)
