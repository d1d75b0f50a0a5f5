"""Zero points, shifts of codes and fractions that somebody changed in a plan: refused when it is opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from generated import to_float

from bits import with_fields
from calib8 import InferenceSession, ModelError, _core
from calib8.engine.compile import compile_program
from calib8.engine.emitter import aligned_bytes
from calib8.engine.plan import Plan
from calib8.profiles import Profile
from calib8.program import instructions as op
from calib8.program.program import Program
from calib8.program.rounding.resize import linear_axis
from program.example_programs import EXAMPLES, codes, single

ZERO, SHIFT, FAR = "a zero point that is no code", "a shift of codes", 1 << 62


def resized(profile: Profile) -> Program:
    """A Resize to twice the size."""
    x, y = codes("x", 1, 4, 5, 3), codes("y", 1, 8, 10, 3)
    along, across = (linear_axis(profile, size, 2 * size, 2.0, "half_pixel") for size in (4, 5))
    return single(op.ResizeLinear, [x], y, profile, rows=along, columns=across)


@pytest.mark.parametrize(
    ("name", "opcode", "changes", "told"),
    [
        ("Mul", "mul", {"lhs_zero": -1}, ZERO),
        ("Mul", "mul", {"rhs_zero": FAR}, ZERO),
        ("Mul", "mul", {"zero_point": 256}, ZERO),
        ("Mul", "mul", {"output_shift": 1}, SHIFT),
        ("MatMul", "mat_mul", {"lhs_zero": FAR}, ZERO),
        ("MatMul", "mat_mul", {"rhs_zero": -1}, ZERO),
        ("AddSums", "add_sums", {"zero_point": FAR}, ZERO),
        ("AveragePool", "average_pool", {"input_zero": FAR}, ZERO),
        ("AveragePool", "average_pool", {"output_shift": -128}, SHIFT),
        ("Softmax", "softmax", {"zero_point": 256}, ZERO),
        ("Quantize", "quantize", {"zero_point": -129}, ZERO),
        ("Dequantize", "dequantize", {"zero_point": -(1 << 63)}, ZERO),
    ],
)
def test_zero_points_out_of_range_are_refused(
    name: str, opcode: str, changes: Mapping[str, int], told: str
) -> None:
    with pytest.raises(ModelError, match=told):
        InferenceSession(with_fields(compile_program(EXAMPLES[name, "onnx"]), opcode, changes))


def test_channels_whose_product_overflows_are_refused() -> None:
    """A signed product beyond 64 bits is undefined in C++."""
    plan = compile_program(EXAMPLES["DepthwiseConv", "onnx"])
    for changes in ({"input.channels": (1 << 63) - 1, "multiplier": 2}, {"input.channels": -1}):
        with pytest.raises(ModelError, match="absurd channels"):
            InferenceSession(with_fields(plan, "depthwise", changes))


@pytest.mark.parametrize("opcode", ["resize_linear", "resize_to_float"])
@pytest.mark.parametrize(
    ("changes", "told"),
    [({"output_zero": 256}, ZERO), ({"input_zero": -FAR}, ZERO), ({"input_shift": 64}, SHIFT)],
)
def test_zero_points_of_resizes_are_refused(opcode: str, changes: Mapping[str, int], told: str) -> None:
    program = resized("onnx")
    plan = compile_program(program if opcode == "resize_linear" else to_float(program))
    with pytest.raises(ModelError, match=told):
        InferenceSession(with_fields(plan, opcode, changes))


def with_fraction(plan: Plan, opcode: str, value: np.float32 | np.int32) -> Plan:
    """The plan whose first row lies elsewhere between its neighbours."""
    row = next(row for row in plan.rows if row.opcode == opcode)
    at = int(row.fields[_core.engine.schemas()[opcode].index("row_fraction")])
    constants = aligned_bytes(plan.constants.size - 64)
    constants[:] = plan.constants
    constants[at : at + 4] = np.array([value]).view(np.uint8)
    return replace(plan, constants=constants)


@pytest.mark.parametrize(
    ("profile", "value"),
    [
        ("onnx", np.float32("nan")),
        ("onnx", np.float32(-0.25)),
        ("onnx", np.float32(1.5)),
        ("single", np.int32(-1)),
        ("single", np.int32(1025)),
        ("single", np.int32(-553648128)),
    ],
)
def test_fractions_out_of_range_are_refused(profile: Profile, value: np.float32 | np.int32) -> None:
    plan = compile_program(resized(profile))
    InferenceSession(plan)
    with pytest.raises(ModelError, match="a fraction out of range"):
        InferenceSession(with_fraction(plan, "resize_linear", value))
