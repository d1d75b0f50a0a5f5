"""A QDQ model taken apart: the float graph without quantizers, and the codes that it had.

v → Q(s, 0) → DQ → readers      becomes      v → readers      and      v: s
codes → DQ → layer                           floats → layer            floats: codes
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.coded_array import CodedArray
from calib8.errors import UnsupportedModelError
from calib8.model.graph import Names, constant, label
from calib8.ops.groups import JOINING
from calib8.ops.questions import dequantizes, is_quantizer, quantizes
from calib8.parameters import parameter
from calib8.quantization.qdq import Codes, codes_of, constant_codes_of

CODES_NAME: Final = "/codes"
"""Ending of the name under which a constant in codes is stored."""

FLOAT_NAME: Final = "/float"
"""Ending of the name that an output of the model has before its quantizers."""


@dataclass(frozen=True, eq=False)
class Uncoded:
    """A model without quantizers.

    Attributes:
        model: the float graph, constants as floats that their codes stand for.
        scales: value → scale of its int8 codes, whose zero point is 0.
        constants: initializer → its codes.
    """

    model: ir.Model
    scales: Mapping[str, float]
    constants: Mapping[str, CodedArray]


def uncoded(canonical: ir.Model, name: str) -> Uncoded:
    """Takes the quantizers out of a model.

    Args:
        canonical: what ``canonical_qdq`` gave; changed in place.
        name: of the model, for messages.

    Raises:
        UnsupportedModelError: codes that an int8 tmfile does not have; all of them are listed.
    """
    return _Taken(canonical, name).run()


class _Taken:
    """Quantizers on their way out."""

    def __init__(self, model: ir.Model, name: str) -> None:
        self.model, self.name = model, name
        self.names = Names(model.graph)
        self.scales: dict[ir.Value, Codes] = {}
        self.constants: dict[str, CodedArray] = {}
        self.problems: list[str] = []

    def run(self) -> Uncoded:
        """The model and its codes."""
        for node in [node for node in self.model.graph if dequantizes(node)]:
            self.dequantizer(node)
        ir_passes.RemoveUnusedNodesPass()(self.model)
        left = [node for node in self.model.graph if is_quantizer(node)]
        self.problems += [f"'{label(node)}' is a quantizer without its counterpart" for node in left]
        if self.problems:
            listed = "; ".join(dict.fromkeys(self.problems))
            cure = f"Quantize the float model with {parameter('target', 'tengine')}"
            raise UnsupportedModelError(self.name, f"has codes that no int8 tmfile has: {listed}", cure)
        scales = {value.name or "": float(np.float32(_scale(codes))) for value, codes in self.scales.items()}
        return Uncoded(self.model, scales, self.constants)

    def dequantizer(self, node: ir.Node) -> None:
        """Takes one out, with the quantizer before it."""
        source = node.inputs[0]
        producer = None if source is None else source.producer()
        if constant(source) is not None:
            self.constant(node, source)
        elif producer is not None and quantizes(producer) and producer.inputs[0] is not None:
            self.activation(node, producer.inputs[0], codes_of(producer))
        else:
            self.problems.append(f"'{label(node)}' reads codes that no QuantizeLinear made")

    def activation(self, node: ir.Node, value: ir.Value, codes: Codes) -> None:
        """Lets the readers read what was rounded."""
        reason = _misfit(codes)
        known = self.scales.setdefault(value, codes)
        if reason is None and not known.same_parameters(codes) and not _rescaled_by_reader(node, codes):
            reason = f"has two scales ({known} and {codes})"
        if reason is not None:
            self.problems.append(f"'{value.name}' {reason}")
        self.replace(node.outputs[0], value)

    def constant(self, node: ir.Node, source: ir.Value | None) -> None:
        """Puts floats in place of a constant in codes."""
        codes = constant_codes_of(node)
        if codes is None or np.any(codes.zero_point):
            self.problems.append(f"'{label(node)}' reads a constant whose codes are not symmetric")
            return
        base = (source.name or "" if source is not None else "").removesuffix(CODES_NAME)
        floats = self.names.constant(base, codes.floats)
        self.constants[floats.name or ""] = codes
        self.replace(node.outputs[0], floats)

    def replace(self, old: ir.Value, new: ir.Value) -> None:
        """All that reads one value reads the other."""
        for use in tuple(old.uses()):
            use.node.replace_input_with(use.idx, new)
        outputs = self.model.graph.outputs
        for number, value in enumerate(outputs):
            if value is old:
                title, old.name = old.name, self.names.value(f"{old.name}/coded")
                outputs[number] = new
                if (new.name or "") == f"{title}{FLOAT_NAME}":
                    new.name = title


def _rescaled_by_reader(node: ir.Node, codes: Codes) -> bool:
    """Whether all that read a dequantizer round to its codes what they choose: Tengine does that by itself.

    Q is monotone: Q(max(a, b)) = max(Q(a), Q(b)).
    """
    readers = [use.node for use in node.outputs[0].uses()]
    return bool(readers) and all(
        reader.op_type in JOINING
        and any(
            quantizes(use.node) and codes_of(use.node).same_parameters(codes)
            for use in reader.outputs[0].uses()
        )
        for reader in readers
    )


def _scale(codes: Codes) -> float:
    assert codes.scale is not None
    return float(codes.scale.reshape(-1)[0])


def _misfit(codes: Codes) -> str | None:
    """Why an activation in these codes has no int8 form in Tengine, None where it has one."""
    if codes.scale is None or codes.zero_point is None or codes.scale.size != 1:
        return "has no scale that is constant and the only one"
    if codes.dtype != ir.DataType.INT8:
        kind = "unknown" if codes.dtype is None else codes.dtype.name.lower()
        return f"has codes of type {kind}, not int8"
    if codes.zero_point.any():
        return f"has the zero point {codes.zero_point.reshape(-1)[0]}, not 0"
    return None
