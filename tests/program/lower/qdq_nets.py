"""Small quantized graphs written line by line, and the comparison of their programs with ONNX Runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import onnxruntime

from calib8.model.load import load_model
from calib8.program.lower import lower
from calib8.program.program import Program
from calib8.program.reference.executor import run_program
from calib8.program.rules import Profile
from exact_sums import exact
from small_models import onnx_model, run

Array = npt.NDArray[Any]


class Net:
    """Collects nodes and constants; every method returns the name of what it adds."""

    def __init__(self, seed: int = 0) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, Array] = {}
        self.rng = np.random.default_rng(seed)

    def op(self, expression: str, outputs: int = 1) -> str:
        """A node such as ``Relu (x)``; several outputs are called name_0, name_1 …"""
        name = f"t{len(self.lines)}"
        names = name if outputs == 1 else ", ".join(f"{name}_{place}" for place in range(outputs))
        self.lines.append(f"{names} = {expression}")
        return name

    def constant(self, array: npt.ArrayLike, dtype: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array, dtype)
        return name

    def quantize(self, x: str, scale: float, zero_point: int = 0, dtype: Any = np.uint8) -> str:
        return self.op(f"QuantizeLinear ({x}, {self.constant(scale)}, {self.constant(zero_point, dtype)})")

    def dequantize(
        self,
        codes: str,
        scale: npt.ArrayLike,
        zero_point: npt.ArrayLike = 0,
        dtype: Any = np.uint8,
        axis: int = 0,
    ) -> str:
        attribute = f"<axis = {axis}>" if np.ndim(scale) else ""
        points = np.broadcast_to(zero_point, np.shape(scale))
        return self.op(
            f"DequantizeLinear {attribute} ({codes}, {self.constant(scale)}, {self.constant(points, dtype)})"
        )

    def coded(self, x: str, scale: float, zero_point: int = 0, dtype: Any = np.uint8) -> str:
        """Q and DQ."""
        return self.dequantize(self.quantize(x, scale, zero_point, dtype), scale, zero_point, dtype)

    def weight(self, *shape: int, axis: int | None = 0, dtype: Any = np.int8, zero_point: int = 0) -> str:
        """Random codes behind a DequantizeLinear, with one scale per index of ``axis``."""
        info = np.iinfo(dtype)
        codes = self.rng.integers(max(info.min, -127), info.max, shape, endpoint=True)
        scale = self.rng.uniform(0.004, 0.012, () if axis is None else shape[axis])
        return self.dequantize(self.constant(codes, dtype), scale, zero_point, dtype, axis or 0)

    def bias(self, channels: int, weight: str, input_scale: float, limit: int = 2000) -> str:
        """int32 codes with the scale input scale × weight scale."""
        line = next(line for line in self.lines if line.startswith(f"{weight} ="))
        scale = np.float32(input_scale) * self.constants[line.split(", ")[1]]
        codes = self.rng.integers(-limit, limit, channels)
        return self.dequantize(self.constant(codes, np.int32), scale, 0, np.int32)

    def proto(self, inputs: str, *outputs: str, opset: int = 17) -> onnx.ModelProto:
        """``inputs`` as ``float[1,3,8,8] x``; outputs as ``uint8 t3`` or just ``t3`` for float."""
        typed = ", ".join(name if " " in name else f"float {name}" for name in outputs)
        model = onnx_model(inputs, typed, "\n".join(self.lines), self.constants, opset)
        for output in model.graph.output:
            output.type.tensor_type.ClearField("shape")  # the text form states a scalar
        return model


def runtime_outputs(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """What ONNX Runtime gives with its fused integer kernels."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), exact(options), providers=["CPUExecutionProvider"]
    )
    outputs: list[Array] = session.run(None, dict(feeds))
    return outputs


def lowered(
    proto: onnx.ModelProto, profile: Profile = "onnx", *, integer_only: bool = False, **shapes: Any
) -> Program:
    return lower(load_model(proto), profile=profile, shapes=shapes or None, integer_only=integer_only)


def steps(program: Program) -> list[str]:
    """Types of the instructions in order."""
    return [type(step).__name__ for step in program.instructions]


def counted(program: Program) -> Counter[str]:
    return Counter(steps(program))


def random_feeds(program: Program, seed: int = 0, spread: float = 2.0) -> dict[str, Array]:
    """Normal floats, or all codes of 8-bit inputs."""
    rng = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for port in program.inputs:
        slot = program.slots[port.slot]
        if slot.is_codes:
            info = np.iinfo(slot.dtype)
            feeds[port.name] = rng.integers(info.min, info.max, slot.shape, endpoint=True).astype(slot.dtype)
        else:
            feeds[port.name] = rng.normal(0.0, spread, slot.shape).astype(slot.dtype)
    return feeds


def assert_equal(
    proto: onnx.ModelProto, profile: Profile = "onnx", *, within: float = 0.0, **shapes: Any
) -> Program:
    """No Float instruction, and what ONNX Runtime gives with values at most ``within`` apart."""
    program = lowered(proto, profile, **shapes)
    assert "Float" not in steps(program)
    assert_same_outputs(program, proto, within=within)
    return program


def assert_same_outputs(
    program: Program, proto: onnx.ModelProto, *, within: float = 0.0, fused: bool = True
) -> None:
    """``fused``: compared with ONNX Runtime's integer kernels, else with its float ones between Q and DQ."""
    for seed in range(3):
        feeds = random_feeds(program, seed)
        expected = runtime_outputs(proto, feeds) if fused else run(proto, feeds)
        got = run_program(program, feeds)
        for left, right in zip(expected, got, strict=True):
            assert left.shape == right.shape and left.dtype == right.dtype
            distance = np.abs(left.astype(np.float64) - right.astype(np.float64))
            assert np.max(distance, initial=0.0) <= within * 1.001


def slot_named(program: Program, name: str) -> int:
    return next(number for number, slot in enumerate(program.slots) if slot.name == name)


def float_nodes(model: onnx.ModelProto | ir.Model, profile: Profile = "onnx") -> dict[str, str]:
    """Node of a Float instruction → why."""
    program = lower(load_model(model) if isinstance(model, onnx.ModelProto) else model, profile=profile)
    return {
        name: reason
        for step in program.float_instructions
        for name, reason in zip(step.nodes, step.reasons, strict=True)
    }
