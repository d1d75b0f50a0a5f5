"""Float instructions: the ONNX model inside is readable, and its ports are the slots."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped, unused-ignore]

from calib8.program import instructions as op
from calib8.program.ops.step import Step
from calib8.program.program import Slot


def check_float(step: Step, instruction: op.Float) -> None:
    """Refuses bytes that are no ONNX model and ports whose names, order or types are not those of the slots.

    Raises:
        ModelError: names the instruction and the port.
    """
    if not instruction.nodes:
        raise step.error("has no nodes", "Name the nodes that it stands for")
    if instruction.reasons and len(instruction.reasons) != len(instruction.nodes):
        counts = f"{len(instruction.nodes)} nodes and {len(instruction.reasons)} reasons"
        raise step.error(f"has {counts}", "Give one reason per node, or none")
    try:
        graph = onnx.ModelProto.FromString(instruction.model).graph
    except DecodeError:
        raise step.error(
            f"holds {len(instruction.model)} bytes that are no ONNX model", "Export it again"
        ) from None
    constants = {tensor.name for tensor in graph.initializer}
    _check_ports(step, "inputs", [port for port in graph.input if port.name not in constants], step.inputs)
    _check_ports(step, "outputs", list(graph.output), step.outputs)


def _check_ports(step: Step, what: str, ports: Iterable[onnx.ValueInfoProto], slots: Iterable[Slot]) -> None:
    ports, slots = list(ports), list(slots)
    names, wanted = [port.name for port in ports], [slot.name for slot in slots]
    if names != wanted:
        raise step.error(f"has a model with {what} {names}", f"They must be the slots: {wanted}")
    for port, slot in zip(ports, slots, strict=True):
        dtype = str(onnx.helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type))
        if dtype != slot.dtype:
            raise step.error(
                f'has a model that takes "{slot.name}" as {dtype}', f"The slot holds {slot.dtype}"
            )
