"""What a program stores and computes: multiplications, bytes of weights, bytes of activations at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import onnx
import onnx_ir as ir

from calib8.model import work
from calib8.model.graph import int_attribute
from calib8.model.infer_shapes import infer_shapes
from calib8.ops.groups import CODED_CELLS, CONTROL_FLOW, RECURRENT
from calib8.ops.questions import is_transposed_convolution, is_weighted
from calib8.program import instructions as op
from calib8.program.instructions import TRAITS, Instruction
from calib8.program.program import Program, Slot

UNCOUNTED_OPS: Final = CONTROL_FLOW | {"Einsum"}
"""Ops of Float instructions that multiply, or hold graphs that may, and are not counted."""


def macs(program: Program, instruction: Instruction) -> int | None:
    """Multiply-accumulates of one run, 0 for what has none; None for Float whose sizes are unknown."""
    if isinstance(instruction, op.Float):
        return _float_macs(program, instruction)
    if not instruction.inputs:
        return 0
    source, result = program.slots[instruction.inputs[0]], program.slots[instruction.outputs[0]]
    return TRAITS[type(instruction)].macs(instruction, source, result)


def _elements(slot: Slot) -> int:
    return math.prod(slot.shape)


def _float_macs(program: Program, instruction: op.Float) -> int | None:
    """Counted from shapes inferred inside the sub-model."""
    model = ir.from_proto(onnx.ModelProto.FromString(instruction.model))
    for value, number in zip(model.graph.inputs, instruction.inputs, strict=False):
        value.shape = ir.Shape(program.slots[number].shape)
    infer_shapes(model)
    counts = [_node_macs(node) for node in model.graph]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _node_macs(node: ir.Node) -> int | None:
    if node.op_type in UNCOUNTED_OPS:
        return None
    if node.op_type in RECURRENT | CODED_CELLS:
        return work.macs(node)
    if not is_weighted(node):
        return 0
    source, weight, result = (_sizes(value) for value in (*node.inputs[:2], node.outputs[0]))
    if source is None or weight is None or result is None:
        return None
    if is_transposed_convolution(node):
        return math.prod(source) * math.prod(weight[1:])
    if node.op_type == "Conv":
        return math.prod(result) * math.prod(weight[1:])
    depth = source[0] if node.op_type == "Gemm" and int_attribute(node, "transA", 0) else source[-1]
    return math.prod(result) * depth


def _sizes(value: ir.Value | None) -> tuple[int, ...] | None:
    if value is None or value.shape is None:
        return None
    sizes = tuple(size for size in value.shape if isinstance(size, int))
    return sizes if len(sizes) == len(value.shape) else None


def weight_bytes(program: Program) -> int:
    """Bytes of all weights and biases of integer layers."""
    layers = (step for step in program.instructions if isinstance(step, op.Weighted | op.TimeFilter))
    recurrent = op.Recurrent | op.IntegerLstm | op.IntegerGru
    cells = (step for step in program.instructions if isinstance(step, recurrent))
    of_layers = sum(layer.weight.nbytes + layer.bias.nbytes for layer in layers)
    return of_layers + sum(cell.weight.nbytes + cell.recurrent.nbytes + cell.bias.nbytes for cell in cells)


def slot_bytes(slot: Slot) -> int:
    """Bytes of a tensor."""
    return _elements(slot) * np.dtype(slot.dtype).itemsize


def peak_bytes(program: Program) -> int:
    """Most bytes of tensors alive at a time.

    A tensor lives from the instruction that writes it (inputs: from the start) to the last that reads it
    (outputs: to the end); while an instruction runs, what it reads and what it writes are both alive.
    """
    return max(_live_bytes(program), default=sum(slot_bytes(slot) for slot in program.slots))


def _live_bytes(program: Program) -> Iterator[int]:
    last = _last_use(program)
    alive = {port.slot for port in program.inputs}
    sizes: Sequence[int] = [slot_bytes(slot) for slot in program.slots]
    for number, instruction in enumerate(program.instructions):
        alive.update(instruction.outputs)
        yield sum(sizes[slot] for slot in alive)
        alive = {slot for slot in alive if last.get(slot, -1) > number}


def _last_use(program: Program) -> dict[int, int]:
    """Slot → number of the last instruction that reads it, one beyond the last for outputs."""
    last: dict[int, int] = {}
    for number, instruction in enumerate(program.instructions):
        last.update(dict.fromkeys(instruction.inputs, number))
    last.update({port.slot: len(program.instructions) for port in program.outputs})
    return last
