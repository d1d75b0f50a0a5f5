"""Inputs, outputs and sums of a TFLite file; what is stored in it, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from example_programs import codes, plain, sums
from exported import as_given, litert_gives

from calib8.errors import UnsupportedModelError, UsageError
from calib8.exporting.tflite.export import to_tflite
from calib8.program import instructions as op
from calib8.program.program import Port, Program, Slot
from calib8.program.reference.executor import run_program
from calib8.program.rounding.linear import layer_rescale, sums_rescale, sums_rule
from calib8.program.verify import verify
from calib8.tflite.write import serialize
from small_models import onnx_model

TYPES = ("float32", "int8", "uint8")
RNG = np.random.default_rng(0)
WEIGHT = RNG.integers(-127, 128, (4, 1, 1, 3)).astype(np.int8)
BIAS = RNG.integers(-900, 900, 4, dtype=np.int32)
SCALES = RNG.uniform(0.002, 0.02, 4).astype(np.float32)
IMAGE = RNG.normal(0, 2, (1, 3, 5, 6)).astype(np.float32)
NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


def conv(inputs: int, outputs: int, x: Slot, y: Slot | None) -> op.Conv:
    rule = None if y is None else layer_rescale("tflite", x.scale, SCALES, y.scale)
    low, high = (0, 0) if y is None else (np.iinfo(y.dtype).min, np.iinfo(y.dtype).max)
    return op.Conv(
        "conv", (inputs,), (outputs,), WEIGHT, np.zeros(1, np.int32), BIAS, rule, low, high,
        (1, 1), (0, 0, 0, 0), (1, 1), 1,
    )  # fmt: skip


def checked(slots: list[Slot], steps: list[op.Instruction], ends: dict[str, int]) -> Program:
    ports = tuple(Port(name, slot) for name, slot in ends.items())
    program = Program("tflite", tuple(slots), tuple(steps), (Port("image", 0),), ports, "net")
    verify(program)
    return program


def one_layer(dtype: str) -> Program:
    """image float32 → conv → features float32, images in the model's order of axes."""
    x = codes("x", 1, 5, 6, 3, scale=0.04, zero_point=5, dtype=dtype)
    y = codes("y", 1, 5, 6, 4, scale=0.07, zero_point=9, dtype=dtype)
    slots = [plain("image", 1, 3, 5, 6), x, y, plain("features", 1, 4, 5, 6)]
    steps = [
        op.Quantize("q", (0,), (1,), NHWC, "away"),
        conv(1, 2, x, y),
        op.Dequantize("d", (2,), (3,), NCHW),
    ]
    return checked(slots, steps, {"features": 3})


def coded(array: Any, slot: Slot, dtype: str) -> Any:
    """Float values as codes of a type, which may lie 128 beside those of the slot."""
    point = slot.zero_point + (0 if slot.dtype == dtype else 128 if dtype == "uint8" else -128)
    ratio = array / np.float32(slot.scale)
    away = np.copysign(np.floor(np.abs(ratio) + 0.5), ratio)
    limits = np.iinfo(dtype)
    return np.clip(away + point, limits.min, limits.max).astype(dtype)


@pytest.mark.parametrize(("own", "inputs", "outputs"), [*product(("int8", "uint8"), TYPES, TYPES)])
def test_types_of_inputs_and_outputs(own: str, inputs: str, outputs: str) -> None:
    program = one_layer(own)
    [wanted] = run_program(program, {"image": IMAGE})
    exported = to_tflite(program, inputs=inputs, outputs=outputs)
    image, features = (
        exported.graph.tensors[place] for place in (exported.graph.inputs[0], exported.graph.outputs[0])
    )
    assert (image.name, image.shape, image.dtype) == ("image", (1, 5, 6, 3), inputs)
    assert (features.name, features.shape, features.dtype) == ("features", (1, 5, 6, 4), outputs)
    fed = IMAGE.transpose(0, 2, 3, 1)
    fed = fed if inputs == "float32" else coded(fed, program.slots[1], inputs)
    [given] = litert_gives(exported, [np.ascontiguousarray(fed)])
    if outputs == "float32":
        np.testing.assert_array_equal(as_given(given, wanted.shape), wanted)
    else:
        np.testing.assert_array_equal(given, coded(wanted.transpose(0, 2, 3, 1), program.slots[2], outputs))


def test_an_input_that_two_quantizers_read() -> None:
    x = codes("x", 1, 5, 6, 3, scale=0.04, zero_point=5, dtype="int8")
    z = codes("z", 1, 5, 6, 3, scale=0.06, zero_point=-7, dtype="int8")
    slots = [plain("image", 1, 3, 5, 6), x, z, plain("a", 1, 3, 5, 6), plain("b", 1, 3, 5, 6)]
    steps: list[op.Instruction] = [
        op.Quantize("q", (0,), (1,), NHWC, "away"),
        op.Quantize("r", (0,), (2,), NHWC, "away"),
        op.Dequantize("d", (1,), (3,), NCHW),
        op.Dequantize("e", (2,), (4,), NCHW),
    ]
    program = checked(slots, steps, {"a": 3, "b": 4})
    wanted = run_program(program, {"image": IMAGE})
    given = litert_gives(to_tflite(program), [IMAGE])
    for want, got in zip(wanted, given, strict=True):
        np.testing.assert_array_equal(as_given(got, want.shape), want)
    exported = to_tflite(program, inputs="int8", outputs="int8")
    assert exported.requantizations == 1
    assert exported.notes == ("'z': made of the codes that are fed",)
    fed = coded(IMAGE.transpose(0, 2, 3, 1), x, "int8")
    given = litert_gives(exported, [fed])
    np.testing.assert_array_equal(given[0], fed)
    assert np.abs(given[1] * 1.0 - coded(wanted[1].transpose(0, 2, 3, 1), z, "int8")).max() <= 1


def test_one_tensor_as_two_outputs() -> None:
    program = one_layer("int8")
    program = replace(program, outputs=(Port("features", 3), Port("again", 3)))
    [wanted, _] = run_program(program, {"image": IMAGE})
    for outputs in TYPES:
        exported = to_tflite(program, outputs=outputs)
        names = [exported.graph.tensors[place].name for place in exported.graph.outputs]
        assert sorted(names) == ["again", "features"]
        first, second = litert_gives(exported, [IMAGE])
        np.testing.assert_array_equal(first, second)
        if outputs == "float32":
            np.testing.assert_array_equal(as_given(first, wanted.shape), wanted)


def layer_of_sums(more: list[Slot], steps: list[op.Instruction], ends: dict[str, int]) -> Program:
    """image → codes (1) → sums (2), and what reads them from slot 3 on."""
    x = codes("x", 1, 5, 6, 3, scale=0.04, zero_point=5, dtype="int8")
    acc = sums("acc", 1, 5, 6, 4, scales=(np.float32(x.scale) * SCALES).tolist())
    slots = [plain("image", 1, 3, 5, 6), x, acc, *more]
    first: list[op.Instruction] = [op.Quantize("q", (0,), (1,), NHWC, "away"), conv(1, 2, x, None)]
    return checked(slots, [*first, *steps], ends)


def test_a_layer_without_a_quantizer_is_computed_in_float() -> None:
    program = layer_of_sums(
        [plain("features", 1, 4, 5, 6)], [op.Dequantize("d", (2,), (3,), NCHW)], {"features": 3}
    )
    exported = to_tflite(program)
    assert exported.notes == ("conv: nothing quantizes its result, so it is computed in float32",)
    [wanted] = run_program(program, {"image": IMAGE})
    for kernels in ("reference", "optimized", "xnnpack"):
        [given] = litert_gives(exported, [IMAGE], kernels)  # type: ignore[arg-type]
        np.testing.assert_allclose(as_given(given, wanted.shape), wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(UnsupportedModelError, match="nothing quantizes the output 'features'") as caught:
        to_tflite(program, outputs="int8")
    assert "target='tflite'" in str(caught.value)


def test_a_layer_that_two_quantizers_read_is_written_once_for_each() -> None:
    a = codes("a", 1, 5, 6, 4, scale=0.05, zero_point=5, dtype="int8")
    b = codes("b", 1, 5, 6, 4, scale=0.09, zero_point=-5, dtype="int8")
    scales = np.float32(0.04) * SCALES
    steps: list[op.Instruction] = [
        op.Requantize("r", (2,), (3,), sums_rescale("tflite", scales, a.scale), -128, 127),
        op.Requantize("s", (2,), (4,), sums_rescale("tflite", scales, b.scale), -55, 99),
    ]
    program = layer_of_sums([a, b], steps, {"a": 3, "b": 4})
    exported = to_tflite(program)
    assert exported.operators["CONV_2D"] == 2
    assert exported.notes == ("conv: computed once more, in the scale of 'b'",)
    stored = [tensor for tensor in exported.graph.tensors if tensor.data is not None]
    assert sum(tensor.data is not None and tensor.data.size == WEIGHT.size for tensor in stored) == 1
    for want, got in zip(
        run_program(program, {"image": IMAGE}), litert_gives(exported, [IMAGE]), strict=True
    ):
        np.testing.assert_array_equal(got, want)


def test_a_sum_with_a_layer_that_has_no_quantizer() -> None:
    """Within two steps of the one rounding that the program has."""
    b = codes("b", 1, 5, 6, 4, scale=0.05, zero_point=5, dtype="int8")
    y = codes("y", 1, 5, 6, 4, scale=0.08, zero_point=-9, dtype="int8")
    scales = np.float32(0.04) * SCALES
    steps: list[op.Instruction] = [
        op.Requantize("r", (2,), (3,), sums_rescale("tflite", scales, b.scale), -128, 127),
        op.AddSums("s", (2, 3), (4,), sums_rule("tflite", scales, b.scales, y.scale), -100, 127),
    ]
    program = layer_of_sums([b, y], steps, {"y": 4})
    exported = to_tflite(program)
    assert any(
        note.startswith("conv: its sums have no quantizer; coded with scale") for note in exported.notes
    )
    [wanted] = run_program(program, {"image": IMAGE})
    [given] = litert_gives(exported, [IMAGE])
    difference = np.abs(given.astype(int) - wanted)
    assert difference.max() <= 2 and given.min() >= -100
    assert difference.mean() < 0.8


def test_what_is_stored_in_the_file() -> None:
    program = one_layer("uint8")
    exported = to_tflite(program, preprocess=json.dumps({"mean": [1.0]}))
    assert exported.graph.metadata == {
        "calib8_preprocess": b'{"mean": [1.0]}',
        "min_runtime_version": b"1.14.0".ljust(16, b"\0"),
    }
    assert "min_runtime_version" in to_tflite(program).graph.metadata
    again = to_tflite(one_layer("uint8"), preprocess=json.dumps({"mean": [1.0]}))
    assert serialize(exported.graph) == serialize(again.graph)


def test_what_cannot_be_asked_for() -> None:
    program = one_layer("int8")
    with pytest.raises(UsageError, match="inputs='int16': is not a type of TFLite's inputs and outputs"):
        to_tflite(program, inputs="int16")
    with pytest.raises(UsageError, match="net: is a program of the profile 'single'"):
        to_tflite(replace(program, profile="single"), name="net")


def with_float_part(inputs: str, outputs: str, body: str, ends: dict[str, int], *more: Slot) -> Program:
    """image → a float part whose results lie from slot 1 on."""
    model = onnx_model(inputs, outputs, body).SerializeToString()
    part = op.Float("part", (0,), tuple(range(1, 1 + len(more))), model, ("part",))
    return checked([plain("image", 1, 3, 5, 6), *more], [part], ends)


def test_constants_of_a_float_part_in_every_form() -> None:
    body = """a = Constant<value_float=2.5>() b = Constant<value_floats=[1.0, -2.0, 0.5, 3.0, 0.0, 1.5]>()
              s = Constant<value_ints=[1]>() e = Constant<value_ints=[3]>()
              c = Constant<value=float {-0.25}>()
              m = Mul(image, a) n = Add(m, b) o = Sub(n, c) y = Slice(o, s, e, s)"""
    image, y = "float[1,3,5,6] image", "float[1,2,5,6] y"
    program = with_float_part(image, y, body, {"y": 1}, plain("y", 1, 2, 5, 6))
    [given] = litert_gives(to_tflite(program), [IMAGE])
    row = np.float32([1, -2, 0.5, 3, 0, 1.5])
    wanted = (IMAGE * np.float32(2.5) + row + np.float32(0.25))[:, 1:3]
    np.testing.assert_allclose(as_given(given, wanted.shape), wanted, rtol=1e-6, atol=1e-6)


def test_constant_outputs_are_named() -> None:
    body = "y = Relu(image) s = Constant<value_ints=[1, 3, 5, 6]>() n = Constant<value_int=90>()"
    outputs = "float[1,3,5,6] y, int64[4] s, int64 n"
    more = plain("y", 1, 3, 5, 6), plain("s", 4, dtype="int64"), plain("n", dtype="int64")
    program = with_float_part("float[1,3,5,6] image", outputs, body, {"y": 1, "s": 2, "n": 3}, *more)
    with pytest.raises(UnsupportedModelError, match=r"no form in TFLite: .*'s', 'n': an output that is"):
        to_tflite(program)
    strings = 't = Constant<value_string="no">() y = Relu(image)'
    of_text = with_float_part("float[1,3,5,6] image", "float[1,3,5,6] y", strings, {"y": 1}, more[0])
    with pytest.raises(UnsupportedModelError, match="constant 't' is of a kind that TFLite does not have"):
        to_tflite(of_text)
