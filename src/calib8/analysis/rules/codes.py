"""Rules on QuantizeLinear and DequantizeLinear by themselves; they hold for every target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.analysis.rules import Finding
from calib8.model.graph import constant, input_at, opset_version
from calib8.ops.questions import dequantizes, is_quantizer, quantizes
from calib8.quantization.qdq import Codes, code_type, codes_of, label, nodes, stored_type
from calib8.scheme import CODE_PRESERVING_OPS

PER_CHANNEL_OPSET: Final = 13
"""The first operator set whose quantizers have an axis."""


def quantizers(model: ir.Model) -> Iterator[Codes]:
    """Every QuantizeLinear and DequantizeLinear."""
    return (codes_of(node) for node in nodes(model) if is_quantizer(node))


def scale_is_constant(model: ir.Model) -> Iterator[Finding]:
    """Scale and zero point are initializers: integer kernels fix their multipliers at load time."""
    for codes in quantizers(model):
        if codes.scale is None or codes.zero_point is None:
            which = "scale" if codes.scale is None else "zero point"
            yield label(codes.node), f"its {which} is computed, not constant", "Use static quantization"


def scale_is_positive(model: ir.Model) -> Iterator[Finding]:
    """Scales are finite and greater than 0 (``x / scale`` otherwise gives no code)."""
    for codes in quantizers(model):
        if codes.scale is None:
            continue
        wrong = codes.scale.reshape(-1)[
            ~(np.isfinite(codes.scale.reshape(-1)) & (codes.scale.reshape(-1) > 0))
        ]
        if wrong.size:
            yield label(codes.node), f"its scale is {wrong[0]:.6g}", "Give it a finite scale greater than 0"


def zero_point_type(model: ir.Model) -> Iterator[Finding]:
    """The zero point has the type of the codes (ONNX QuantizeLinear, DequantizeLinear: type T2, T1)."""
    for codes in quantizers(model):
        point = input_at(codes.node, 2)
        kind = None if point is None else stored_type(point)
        if kind is not None and codes.dtype is not None and kind != codes.dtype:
            yield (
                label(codes.node),
                f"its zero point is {kind}, its codes are {codes.dtype}",
                "Store the zero point in the type of the codes",
            )


def channel_axis_fits(model: ir.Model) -> Iterator[Finding]:
    """A scale per channel has the length of its axis, a zero point the shape of its scale.

    The axis is 1 where none is stated (ONNX operator set 13), which is right for no Conv weight.
    """
    for codes in quantizers(model):
        problem = shape_problem(codes)
        if problem:
            yield (
                label(codes.node),
                problem,
                "State the axis of the output channels and give one scale for each",
            )


def shape_problem(codes: Codes) -> str:
    """What is wrong with the shapes of scale and zero point, empty if nothing or if they are computed."""
    if codes.scale is None or codes.zero_point is None:
        return ""
    if codes.scale.ndim > 1:
        return f"its scale has {codes.scale.ndim} axes, neither one value nor one per channel"
    if codes.zero_point.size != codes.scale.size:
        return f"it has {codes.scale.size} scales and {codes.zero_point.size} zero points"
    source = codes.node.inputs[0]
    if codes.per_tensor or source is None or source.shape is None:
        return ""
    sizes = tuple(source.shape)
    if not -len(sizes) <= codes.axis < len(sizes):
        return f"its axis {codes.axis} does not exist in a tensor of {len(sizes)} axes"
    size = sizes[codes.axis]
    if isinstance(size, int) and size != codes.scale.size:
        return f"it has {codes.scale.size} scales for axis {codes.axis} of size {size}"
    return ""


def per_channel_needs_opset_13(model: ir.Model) -> Iterator[Finding]:
    """One scale per channel needs operator set 13: older quantizers know one scale per tensor."""
    version = opset_version(model)
    if version >= PER_CHANNEL_OPSET:
        return
    for codes in quantizers(model):
        if not codes.per_tensor and codes.node.domain in ("", "ai.onnx"):
            yield (
                label(codes.node),
                f"has one scale per channel in operator set {version}",
                "Export with opset_version=13 or newer",
            )


def pairs_agree(model: ir.Model) -> Iterator[Finding]:
    """Codes are read by DequantizeLinear with the parameters of their QuantizeLinear.

    Ops that only move codes may stand in between.
    """
    for node in nodes(model):
        if quantizes(node):
            yield from _readers_agree(codes_of(node), node.outputs[0])


def _readers_agree(codes: Codes, value: ir.Value) -> Iterator[Finding]:
    for use in value.uses():
        reader = use.node
        if reader.op_type in CODE_PRESERVING_OPS:
            yield from _readers_agree(codes, reader.outputs[0])
        elif not dequantizes(reader):
            yield (
                label(reader),
                f"reads the codes of '{label(codes.node)}' as {code_type(value)}",
                "Put a DequantizeLinear in between",
            )
        elif not codes.same_parameters(codes_of(reader)):
            yield (
                label(reader),
                f"has {codes_of(reader)}, but '{label(codes.node)}' coded with {codes}",
                "Give both the same scale and zero point",
            )


def constants_are_stored_as_codes(model: ir.Model) -> Iterator[Finding]:
    """A constant is stored as integers behind DequantizeLinear, not as floats before QuantizeLinear.

    The floats would take four times the space, in the file and in memory.
    """
    for node in nodes(model):
        value = node.inputs[0] if quantizes(node) else None
        array = constant(value)
        if value is not None and array is not None:
            yield (
                label(node),
                f"quantizes the constant '{value.name}' ({array.size} floats) at run time",
                "Store its codes and keep only the DequantizeLinear",
            )
