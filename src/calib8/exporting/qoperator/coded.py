"""What an operator on codes reads and writes: codes behind a DequantizeLinear, codes before a QuantizeLinear.

    Q(clamp(v, low, high)) = clamp(Q(v), Q(low), Q(high))

Quantizing is monotone, so a Relu or Clip in front of a quantizer becomes limits of the codes. Where these are
the ends of the type the operator's own saturation is the clamp; else a Clip of codes stands behind it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.graph import CONTRIB, Names
from calib8.program.lower.canonical.codings import BYTE_TYPES, Coding, coding_of, source_coding
from calib8.program.lower.canonical.edits import Attributes, new_node, replace, set_type
from calib8.program.lower.readers import Tail, clipped, tail_of
from calib8.qparams import QuantSpec, quantize
from calib8.quantization.qdq import dequantizer

NOT_CODED: Final = "an input is not in 8-bit codes of one scale"
NOT_QUANTIZED: Final = "its result is not read as codes alone"
SEVERAL: Final = "its result is read as codes of several scales"
WIDE: Final = "its result is read as 16-bit codes"
MIXED_TYPES: Final = "no operator takes these types of codes together"


@dataclass(frozen=True)
class Operand:
    """An input in codes.

    Attributes:
        codes: the uint8 or int8 value.
        coding: scale, zero point and type.
    """

    codes: ir.Value
    coding: Coding

    @property
    def triple(self) -> list[ir.Value | None]:
        """Codes, scale and zero point, as most operators list them."""
        return [self.codes, *self.coding.parameters]


@dataclass(frozen=True)
class Result:
    """Where the codes of a result go.

    Attributes:
        tail: the Relu and Clip behind the result, and their value.
        quantizer: the only reader of that value.
        coding: of the quantizer.
        low, high: the codes between which Relu and Clip keep it; the ends of the type where there is none.
    """

    tail: Tail
    quantizer: ir.Node
    coding: Coding
    low: int
    high: int

    @property
    def saturates(self) -> bool:
        """The ends of the type are the limits."""
        return (self.low, self.high) == (self.coding.lowest, self.coding.lowest + 255)

    def unlimited(self) -> Result:
        """The same for an operator that keeps the limits itself."""
        return dataclasses.replace(self, low=self.coding.lowest, high=self.coding.lowest + 255)


def operand(value: ir.Value | None) -> Operand:
    """The 8-bit codes with one scale that ``value`` stands for.

    Raises:
        NoFormError: it stands for none.
    """
    node, coding = dequantizer(value), source_coding(value)
    if node is None or coding is None or coding.dtype not in BYTE_TYPES or node.inputs[0] is None:
        raise NoFormError(NOT_CODED)
    return Operand(node.inputs[0], coding)


def result_of(value: ir.Value, bounds: tuple[float, float] = (-math.inf, math.inf)) -> Result:
    """The quantizer that a float value goes to through Relu and Clip.

    Args:
        value: a result, unlimited or between ``bounds``.
        bounds: real limits that hold before those of the activations behind.

    Raises:
        NoFormError: there is no such quantizer, or several.
    """
    tail = tail_of(value)
    if not tail.only_codes:
        raise NoFormError(NOT_QUANTIZED)
    quantizers = [use.node for use in tail.value.uses()]
    coding = coding_of(quantizers[0])
    if len(quantizers) > 1 or coding is None:
        raise NoFormError(SEVERAL)
    if coding.dtype not in BYTE_TYPES:
        raise NoFormError(WIDE)
    spec = QuantSpec(signed=coding.dtype == ir.DataType.INT8)
    limits = np.array([clipped(bound, *_limits(tail)) for bound in bounds], np.float32)
    low, high = quantize(limits, coding.scale, coding.zero_point, spec).tolist()
    return Result(tail, quantizers[0], coding, low, high)


def _limits(tail: Tail) -> tuple[float, float]:
    return -math.inf if tail.low is None else tail.low, math.inf if tail.high is None else tail.high


def put_before(
    names: Names,
    node: ir.Node,
    op_type: str,
    inputs: Sequence[ir.Value | None],
    result: str,
    attributes: Attributes | None = None,
    *,
    domain: str = "",
) -> ir.Node:
    """An operator before ``node``, which is to go and hands over its name; ``result`` names its output."""
    operator = new_node(names, op_type, inputs, name=op_type, result=result, attributes=attributes)
    operator.name, node.name = node.name, operator.name
    operator.domain = domain
    names.graph.insert_before(node, operator)
    return operator


def emit(
    names: Names,
    node: ir.Node,
    op_type: str,
    inputs: Sequence[ir.Value | None],
    result: Result,
    attributes: Attributes | None = None,
    *,
    domain: str = CONTRIB,
) -> ir.Node:
    """The operator in place of ``node``, its activations and the quantizer, whose name the codes keep."""
    codes = result.quantizer.outputs[0]
    operator = put_before(names, node, op_type, inputs, f"{codes.name}/codes", attributes, domain=domain)
    set_type(operator.outputs[0], codes.dtype)
    operator.outputs[0].shape = codes.shape
    last = operator if result.saturates else _clipped(names, node, operator, result)
    replace(names.graph, codes, last.outputs[0])
    for gone in (*reversed(result.tail.activations), node):
        names.graph.remove(gone, safe=True)
    return operator


def copy_attributes(node: ir.Node, operator: ir.Node) -> None:
    """All attributes of a float op, which its operator on codes has too."""
    for attribute in node.attributes.values():
        operator.attributes[attribute.name] = attribute


def emit_float(names: Names, node: ir.Node, last: ir.Node) -> None:
    """The float result of ``last`` in place of the result of ``node``."""
    set_type(last.outputs[0], ir.DataType.FLOAT)
    last.outputs[0].shape = node.outputs[0].shape
    replace(names.graph, node.outputs[0], last.outputs[0])


def _clipped(names: Names, node: ir.Node, operator: ir.Node, result: Result) -> ir.Node:
    """``Clip(codes, Q(low), Q(high))`` behind the operator."""
    limits = [
        names.constant(f"{operator.name}/{name}", np.array(limit, result.coding.dtype.numpy()))
        for name, limit in (("low", result.low), ("high", result.high))
    ]
    value = operator.outputs[0]
    clip = new_node(
        names,
        "Clip",
        [value, *limits],
        name=f"{operator.name}/Clip",
        result=f"{value.name}/clipped",
        like=value,
    )
    names.graph.insert_before(node, clip)
    return clip
