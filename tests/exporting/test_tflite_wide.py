"""Instructions on 16-bit codes written as TFLite: read back, they give LiteRT's bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from litert import litert_outputs
from single_op import random_codes
from wide_programs import WIDE

from calib8.errors import UnsupportedModelError
from calib8.exporting.tflite.export import to_tflite
from calib8.program import instructions as op
from calib8.program.lower_tflite.lower import lower_tflite
from calib8.program.program import Program
from calib8.program.rules import CurveRescale, TwoSidedRescale
from calib8.session import InferenceSession
from calib8.tflite.read import parse
from calib8.tflite.write import serialize

PROGRAMS = {
    name: program
    for (name, profile), program in WIDE.items()
    if profile == "tflite" and not isinstance(program.instructions[0], op.Constant)  # the result of the model
}


def has_function(program: Program) -> bool:
    rule = getattr(program.instructions[0], "rescale", None)
    return isinstance(rule, TwoSidedRescale | CurveRescale)


def gives_sums(program: Program) -> bool:
    return any(program.slots[port.slot].dtype == "int32" for port in program.outputs)


def dilates(program: Program) -> bool:
    step = program.instructions[0]
    return isinstance(step, op.MaxPool) and step.dilations != (1, 1)


def overflows(program: Program) -> bool:
    """A product whose steps are coarser than those of 16-bit codes."""
    if not isinstance(program.instructions[0], op.Mul):
        return False
    a, b, y = program.slots
    return a.scale * b.scale >= y.scale / (1 if y.is_wide else 128)


def has_no_operator(program: Program) -> bool:
    return isinstance(program.instructions[0], op.IntegerGru | op.TimeFilter | op.ReduceL2)


LACKING = (has_no_operator, has_function, gives_sums, dilates, overflows)
WRITTEN = [
    name for name, program in PROGRAMS.items()
    if "of uint8" not in name and not any(lacks(program) for lacks in LACKING)
]  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_calib8_reads_what_litert_runs(name: str) -> None:
    model = serialize(to_tflite(PROGRAMS[name]).graph)
    program, graph = lower_tflite(parse(model)), parse(model)
    rng = np.random.default_rng(len(name))
    for _ in range(3):
        tensors = [graph.tensors[place] for place in graph.inputs]
        fed = [
            rng.normal(0, 500, tensor.shape).astype(np.float32)
            if tensor.dtype == "float32"
            else random_codes(rng, tensor.shape, tensor.dtype)
            for tensor in tensors
        ]
        wanted = litert_outputs(model, fed)
        for runtime in ("reference", "calib8"):
            named = {port.name: array for port, array in zip(program.inputs, fed, strict=True)}
            for got, want in zip(
                InferenceSession(program, runtime=runtime).run(None, named), wanted, strict=True
            ):
                np.testing.assert_array_equal(got, want, err_msg=runtime)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in WRITTEN])
def test_what_tflite_has_not_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedModelError, match=r"no form in TFLite|nothing quantizes"):
        to_tflite(PROGRAMS[name])


@pytest.mark.parametrize("low", [-32768, 0, 77])
def test_limits_of_16_bits_are_kept(low: int) -> None:
    """A fused Relu, or operators behind it."""
    program = PROGRAMS["Conv, 16 to 16"]
    slots = tuple(replace(slot, zero_point=0) if slot.is_wide else slot for slot in program.slots)
    step = replace(program.instructions[0], low=low, high=30000)
    export = to_tflite(replace(program, slots=slots, instructions=(step,)))
    model = serialize(export.graph)
    rng = np.random.default_rng(0)
    fed = [random_codes(rng, export.graph.tensors[place].shape, "int16") for place in export.graph.inputs]
    [found] = litert_outputs(model, fed)
    assert found.min() >= low and found.max() <= 30000
    read = lower_tflite(parse(model))
    [own] = InferenceSession(read, runtime="calib8").run(None, {read.inputs[0].name: fed[0]})
    np.testing.assert_array_equal(own, found)
