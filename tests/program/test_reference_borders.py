"""Borders between floats and codes, and the executor that connects instructions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from plain_loops import codes, plain, program_of, run_one, sums

from calib8.errors import DataError, ModelError
from calib8.model import runtime
from calib8.program import instructions
from calib8.program.instructions import TRAITS, Dequantize, Float, Lookup, Maximum, Quantize
from calib8.program.program import Port, Program
from calib8.program.reference import floats
from calib8.program.reference.executor import run_program
from calib8.qparams import INT8, UINT8
from calib8.qparams import quantize as reference_quantize

Array = npt.NDArray[Any]


def quantized(
    values: list[float], scale: float = 1.0, zero_point: int = 0, rounding: str = "even"
) -> list[int]:
    step = Quantize("q", (0,), (1,), (0,), rounding)  # type: ignore[arg-type]
    slots = [plain("x", (len(values),)), codes("y", (len(values),), "int8", scale, zero_point)]
    return run_one(step, slots, np.array(values, np.float32)).tolist()


def test_worked_examples() -> None:
    values = [2.5, 3.5, 200.0, -200.0, math.inf, -math.inf, math.nan, 3e9, -3e9]
    assert quantized(values) == [2, 4, 127, -128, 127, -128, -128, 127, -128]
    assert quantized(values, rounding="away") == [3, 4, 127, -128, 127, -128, -128, 127, -128]
    assert quantized([-2.5, -0.5, 0.49999997], rounding="away") == [-3, -1, 0]
    assert quantized([1e38], scale=1e-10) == [127]


def test_the_zero_point_is_added_after_rounding() -> None:
    assert quantized([2.5, 3.5], zero_point=1) == [3, 5]


def test_a_quotient_is_not_a_product_with_the_inverse() -> None:
    value, scale = np.float32(-12.15), np.float32(0.1)
    assert np.rint(value * (np.float32(1) / scale)) == -122
    assert quantized([float(value)], float(scale)) == [-121]


@given(
    st.lists(st.floats(width=32), min_size=1, max_size=20),
    st.floats(2.0**-10, 2.0**10, width=32),
    st.integers(-128, 127),
)
def test_quantize_is_quantize_linear(values: list[float], scale: float, zero_point: int) -> None:
    expected = reference_quantize(np.array(values, np.float32), scale, zero_point, INT8)
    assert quantized(values, scale, zero_point) == expected.tolist()


def test_the_layout_changes_at_the_border() -> None:
    rng = np.random.default_rng(0)
    image = rng.normal(0, 50, (2, 3, 4, 5)).astype(np.float32)
    inside = codes("inside", (2, 4, 5, 3), "uint8", 0.5, 100)
    nhwc = run_one(Quantize("q", (0,), (1,), (0, 2, 3, 1), "even"), [plain("x", image.shape), inside], image)
    np.testing.assert_array_equal(nhwc, reference_quantize(image, 0.5, 100, UINT8).transpose(0, 2, 3, 1))
    back = run_one(Dequantize("dq", (0,), (1,), (0, 3, 1, 2)), [inside, plain("y", image.shape)], nhwc)
    np.testing.assert_array_equal(
        back, ((nhwc.astype(np.float32) - 100) * np.float32(0.5)).transpose(0, 3, 1, 2)
    )


def test_sums_become_floats_per_channel() -> None:
    rng = np.random.default_rng(1)
    slot = sums("x", (1, 2, 2, 3), (0.001, 0.2, 3.0))
    acc = rng.integers(-(1 << 31), 1 << 31, slot.shape).astype(np.int32)
    acc[0, 0, 0, 0] = 16777217  # no float32; the nearest is 16777216
    result = run_one(Dequantize("dq", (0,), (1,), (0, 3, 1, 2)), [slot, plain("y", (1, 3, 2, 2))], acc)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, (acc.astype(np.float32) * slot.scales).transpose(0, 3, 1, 2))
    assert result[0, 0, 0, 0] == np.float32(16777216) * np.float32(0.001)


def float_model(*nodes: onnx.NodeProto, inputs: str, outputs: str) -> bytes:
    graph = helper.make_graph(
        list(nodes),
        "floats",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in outputs],
    )
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def test_float_instructions_run_in_onnx_runtime_once_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    model = float_model(
        helper.make_node("Sub", ["a", "b"], ["c"]),
        helper.make_node("Mul", ["a", "b"], ["d"]),
        inputs="ab",
        outputs="cd",
    )
    step = Float("floats", (0, 1), (2, 3), model, ("sub", "mul"))
    program = Program(
        "onnx",
        tuple(plain(name, (3,)) for name in "abcd"),
        (step,),
        (Port("a", 0), Port("b", 1)),
        (Port("d", 3), Port("c", 2)),
    )
    opened = []

    def count(model: Any, **options: Any) -> runtime.Session:
        opened.append(model)
        return runtime.open_session(model, **options)

    monkeypatch.setattr(floats, "open_session", count)
    a, b = np.float32([1, 2, 3]), np.float32([4, 5, 6])
    for _ in range(2):
        product, difference = run_program(program, {"a": a, "b": b})
        assert difference.tolist() == [-3, -3, -3] and product.tolist() == [4, 10, 18]
    assert len(opened) == 1


def chain() -> Program:
    """Two tables in a row, then the larger of first and last."""
    table = np.arange(256, dtype=np.uint8)[::-1].copy()
    steps = [
        Lookup("first", (0,), (1,), table, "Flip"),
        Lookup("second", (1,), (2,), table, "Flip"),
        Maximum("larger", (0, 2), (3,)),
    ]
    return program_of(steps, [codes(name, (4,)) for name in ("x", "one", "two", "y")], 1, 3)


def test_the_executor_knows_every_instruction() -> None:
    kinds = {
        kind
        for kind in vars(instructions).values()
        if isinstance(kind, type) and issubclass(kind, instructions.Instruction)
    }
    assert kinds - {instructions.Instruction, instructions.Weighted, Float} == set(TRAITS)


def test_every_written_slot_is_shown_in_order() -> None:
    seen: list[tuple[int, list[int]]] = []
    x = np.uint8([0, 1, 2, 200])
    outputs = run_program(chain(), {"x": x}, lambda slot, array: seen.append((slot, array.tolist())))
    assert seen == [(1, [255, 254, 253, 55]), (2, x.tolist()), (3, x.tolist())]
    assert outputs[0].tolist() == x.tolist()


def test_outputs_do_not_share_memory_with_inputs() -> None:
    program = Program("onnx", (codes("x", (2,)),), (), (Port("x", 0),), (Port("y", 0),))
    x = np.uint8([1, 2])
    outputs = run_program(program, {"x": x})
    assert outputs[0].tolist() == [1, 2] and not np.shares_memory(outputs[0], x)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({}, r"input 'x': nothing is fed to it\. The program takes x: uint8 4\.$"),
        (
            {"x": np.zeros(4, np.uint8), "z": 1},
            r"input 'z': the program has no such input\. It takes x: uint8 4\.$",
        ),
        ({"x": np.zeros((2, 3), np.uint8)}, r"input 'x': got uint8 2×3\. It takes uint8 4\.$"),
        ({"x": np.zeros(4, np.int8)}, r"input 'x': got int8 4\. It takes uint8 4\.$"),
        ({"x": [0, 1, 2, 3]}, r"input 'x': got int64 4\. It takes uint8 4\.$"),
    ],
)
def test_feeds_that_do_not_fit(feeds: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        run_program(chain(), feeds)


def test_a_result_that_does_not_fit_its_slot_is_no_silent_answer() -> None:
    table = np.arange(256, dtype=np.uint8)
    program = program_of(
        [Lookup("table", (0,), (1,), table, "Identity")], [codes("x", (4,)), codes("y", (3,))], 1, 1
    )
    with pytest.raises(ModelError, match="Lookup 'table': wrote uint8 4 into slot 'y', which is uint8 3"):
        run_program(program, {"x": np.zeros(4, np.uint8)})
