"""Nodes without an integer form. ``verify/floats`` checks the model inside, ``reference/floats`` runs it."""

from __future__ import annotations

from dataclasses import dataclass

from calib8.program.ops.instruction import Instruction


@dataclass(frozen=True, eq=False)
class Float(Instruction):
    """Nodes without an integer form, run by ONNX Runtime.

    Attributes:
        model: bytes of an ONNX model whose inputs and outputs are named as its slots and come in their order.
        nodes: names of its nodes.
        reasons: why each of the nodes has no integer form, in their order.
    """

    model: bytes
    nodes: tuple[str, ...]
    reasons: tuple[str, ...] = ()
