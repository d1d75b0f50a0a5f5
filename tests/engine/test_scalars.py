"""Programs whose tensors have no axis: the reference gives scalars back, and the engine the same."""

from __future__ import annotations

import numpy as np
import pytest
from example_programs import codes, plain, rescale, single, sums

from bits import assert_native_gives, assert_same_bits
from calib8.engine.compile import compile_program
from calib8.engine.floats import FloatSessions
from calib8.engine.run import Engine
from calib8.program import instructions as op
from calib8.program.program import Program
from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES, Profile
from calib8.program.verify import verify
from small_models import onnx_model

SCALAR = np.array(0.5, np.float32)


@pytest.mark.parametrize("profile", PROFILES)
def test_instructions_on_scalars(profile: Profile) -> None:
    x, y = codes("x"), codes("y")
    for program in (
        single(op.Requantize, [sums("x")], y, profile, rescale=rescale(profile), low=0, high=255),
        single(op.Transpose, [x], y, profile, axes=()),
        single(op.Reshape, [x], codes("y", 1, 1), profile),
        single(op.Reshape, [codes("x", 1, 1)], y, profile),
        single(op.ArgMax, [codes("x", 7)], plain("y", dtype="int64"), profile, axis=0, last=False),
        single(op.ArgMin, [codes("x", 7)], plain("y", dtype="int64"), profile, axis=0, last=True),
    ):
        verify(program)
        assert_same_bits(program)


def float_of_a_scalar() -> Program:
    model = onnx_model("float x", "float y", "y = Exp(x)").SerializeToString()
    fields = {"model": model, "nodes": ("exp",), "reasons": ("not quantized",)}
    return single(op.Float, [plain("x")], plain("y"), "onnx", **fields)


def test_what_stays_float_takes_scalars() -> None:
    program = float_of_a_scalar()
    wanted = run_program(program, {"x": SCALAR})
    assert wanted[0].shape == ()
    np.testing.assert_allclose(wanted[0], np.exp(0.5), rtol=1e-6)
    assert_native_gives(program, {"x": SCALAR}, wanted)
    engine = Engine(compile_program(program), float_runner=FloatSessions(1))
    np.testing.assert_array_equal(engine.run({"x": SCALAR})[0], wanted[0])
