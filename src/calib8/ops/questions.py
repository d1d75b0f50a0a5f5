"""Questions that many rooms ask about a node, by its op alone; some look at its domain as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from calib8.ops.groups import (
    CONVOLUTIONS,
    JOINED,
    MATRIX_PRODUCTS,
    MOVES,
    QUANTIZERS,
    WEIGHTED_OPS,
    WITH_BIAS,
)

if TYPE_CHECKING:
    import onnx_ir as ir

STANDARD_DOMAINS: Final = ("", "ai.onnx")


def is_standard(node: ir.Node) -> bool:
    """Whether a node is of the standard's operator set."""
    return node.domain in STANDARD_DOMAINS


def is_weighted(node: ir.Node) -> bool:
    """A Conv, ConvTranspose, Gemm or MatMul, whatever its weight is."""
    return node.op_type in WEIGHTED_OPS


def is_convolution(node: ir.Node) -> bool:
    """A Conv or ConvTranspose: channels are axis 1."""
    return node.op_type in CONVOLUTIONS


def is_matrix_product(node: ir.Node) -> bool:
    """A Gemm or MatMul: channels are the last axis."""
    return node.op_type in MATRIX_PRODUCTS


def is_transposed_convolution(node: ir.Node) -> bool:
    """A ConvTranspose: its weight has the input channels first."""
    return node.op_type == "ConvTranspose"


def adds(node: ir.Node) -> bool:
    """An Add of two tensors."""
    return node.op_type == "Add"


def subtracts(node: ir.Node) -> bool:
    """A Sub of two tensors."""
    return node.op_type == "Sub"


def multiplies(node: ir.Node) -> bool:
    """A Mul of two tensors, element by element."""
    return node.op_type == "Mul"


def divides(node: ir.Node) -> bool:
    """A Div of two tensors, element by element."""
    return node.op_type == "Div"


def rectifies(node: ir.Node) -> bool:
    """A Relu: what is negative becomes 0."""
    return node.op_type == "Relu"


def has_slopes(node: ir.Node) -> bool:
    """A PRelu: its slopes are the second input."""
    return node.op_type == "PRelu"


def is_softmax(node: ir.Node) -> bool:
    """A Softmax."""
    return node.op_type == "Softmax"


def pads(node: ir.Node) -> bool:
    """A Pad: pads and value are inputs, except in old operator sets."""
    return node.op_type == "Pad"


def crops_or_pads(node: ir.Node) -> bool:
    """A CenterCropPad: its second input is the sizes that it brings axes to."""
    return node.op_type == "CenterCropPad"


def transposes(node: ir.Node) -> bool:
    """A Transpose."""
    return node.op_type == "Transpose"


def reshapes(node: ir.Node) -> bool:
    """A Reshape, whose sizes are an input."""
    return node.op_type == "Reshape"


def scatters(node: ir.Node) -> bool:
    """A ScatterND: a copy of a tensor, with values written to the places that its second input tells."""
    return node.op_type == "ScatterND"


def splits(node: ir.Node) -> bool:
    """A Split: several results."""
    return node.op_type == "Split"


def resizes(node: ir.Node) -> bool:
    """A Resize."""
    return node.op_type == "Resize"


def joins(node: ir.Node) -> bool:
    """A Concat: its result holds what all its inputs hold."""
    return node.op_type in JOINED


def clips(node: ir.Node) -> bool:
    """A Clip, whose limits are inputs."""
    return node.op_type == "Clip"


def normalizes(node: ir.Node) -> bool:
    """A BatchNormalization: channels are shifted and scaled by what is known of them."""
    return node.op_type == "BatchNormalization"


def normalizes_rows(node: ir.Node) -> bool:
    """Rows of one or several axes are scaled, and shifted or not, by what is computed of each."""
    return node.op_type in ("LayerNormalization", "RMSNormalization") or has_length_1(node)


def has_length_1(node: ir.Node) -> bool:
    """A LpNormalization: rows of one axis, whichever it is, get the length 1."""
    return node.op_type == "LpNormalization"


def normalizes_groups(node: ir.Node) -> bool:
    """Channels, or groups of them, are shifted and scaled by what is computed of each over all places."""
    return node.op_type in ("InstanceNormalization", "GroupNormalization")


def yields_probabilities(node: ir.Node) -> bool:
    """A Softmax whose result leaves the graph, moved or not: probabilities of classes."""
    return is_softmax(node) and _leaves(node.outputs[0])


def _leaves(value: ir.Value) -> bool:
    """Whether a tensor, or nothing but what is moved of it, is an output."""
    if value.is_graph_output():
        return True
    readers = {use.node for use in value.uses()}
    return bool(readers) and all(
        reader.op_type in MOVES and is_standard(reader) and all(_leaves(one) for one in reader.outputs)
        for reader in readers
    )


def takes_bias(node: ir.Node) -> bool:
    """A layer with a place for a bias."""
    return node.op_type in WITH_BIAS


def quantizes(node: ir.Node) -> bool:
    """A QuantizeLinear: real numbers become codes."""
    return node.op_type == "QuantizeLinear"


def dequantizes(node: ir.Node) -> bool:
    """A DequantizeLinear: codes become real numbers."""
    return node.op_type == "DequantizeLinear"


def is_quantizer(node: ir.Node) -> bool:
    """A QuantizeLinear or DequantizeLinear."""
    return node.op_type in QUANTIZERS
