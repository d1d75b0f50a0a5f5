"""Float operators of quantized models as parts for ONNX Runtime; dynamic-range models; chosen outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from litert import litert_outputs
from single_op import quantized, random_codes

from calib8.errors import UnsupportedModelError, UsageError
from calib8.program.instructions import Dequantize, Float, Quantize
from calib8.program.lower_tflite.lower import lower_tflite
from calib8.session import InferenceSession
from calib8.tflite.graph import Graph, Operator, Option, Quantization, Tensor
from calib8.tflite.read import parse
from calib8.tflite.write import serialize

CODES = quantized(0.05, -3)


@dataclass
class Chain:
    """A model while it is put together, tensor by tensor."""

    tensors: list[Tensor] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)

    def add(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str = "float32",
        quantization: Quantization | None = None,
        data: npt.NDArray[Any] | None = None,
    ) -> int:
        self.tensors.append(Tensor(name, tuple(shape), dtype, data, quantization))
        return len(self.tensors) - 1

    def op(self, op: str, inputs: Sequence[int], output: int, custom: str = "", **options: Option) -> int:
        self.operators.append(Operator(op, tuple(inputs), (output,), options, 1, custom))
        return output

    def graph(self, inputs: Sequence[int], outputs: Sequence[int]) -> Graph:
        return Graph(tuple(self.tensors), tuple(self.operators), tuple(inputs), tuple(outputs), "net")


def float_head() -> Graph:
    """Codes, a float scale and Softmax, codes once more beside a float output."""
    net = Chain()
    x = net.add("x", (1, 4, 4, 6), "int8", CODES)
    real = net.op("DEQUANTIZE", [x], net.add("real", (1, 4, 4, 6)))
    factor = net.add("factor", (6,), data=np.linspace(0.5, 2, 6, dtype=np.float32))
    scaled = net.op("MUL", [real, factor], net.add("scaled", (1, 4, 4, 6)), fused_activation_function="RELU6")
    shares = net.op("SOFTMAX", [scaled], net.add("shares", (1, 4, 4, 6)), beta=1.0)
    shape = net.add("shape", (2,), "int32", data=np.array([16, 6], np.int32))
    rows = net.op("RESHAPE", [shares, shape], net.add("rows", (16, 6)), new_shape=(16, 6))
    codes = net.op("QUANTIZE", [rows], net.add("codes", (16, 6), "int8", quantized(1 / 256, -128)))
    return net.graph([x], [codes, scaled])


def two_branches() -> Graph:
    """Twice from floats to codes, and what both make is added and made float again."""
    net = Chain()
    x = net.add("x", (1, 8), "int8", CODES)
    real = net.op("DEQUANTIZE", [x], net.add("real", (1, 8)))
    sides = []
    for op, scale in (("EXP", 2.5), ("ABS", 0.03)):
        curve = net.op(op, [real], net.add(op, (1, 8)))
        sides.append(
            net.op("QUANTIZE", [curve], net.add(f"{op} codes", (1, 8), "int8", quantized(scale, -128)))
        )
    total = net.op("ADD", sides, net.add("total", (1, 8), "int8", quantized(2.6, -128)))
    again = net.op("DEQUANTIZE", [total], net.add("again", (1, 8)))
    root = net.op("SQRT", [again], net.add("root", (1, 8)))
    return net.graph([x], [root])


@pytest.mark.parametrize("runtime", ["reference", "calib8"])
@pytest.mark.parametrize("build", [float_head, two_branches])
def test_float_parts_give_what_litert_gives(build: Any, runtime: str) -> None:
    graph = build()
    rng = np.random.default_rng(0)
    model = serialize(graph)
    session = InferenceSession(lower_tflite(parse(model)), runtime=runtime)
    for _ in range(20):
        x = random_codes(rng, graph.tensors[0].shape, "int8")
        for got, wanted in zip(session.run(None, {"x": x}), litert_outputs(model, [x]), strict=True):
            if wanted.dtype == np.int8:  # float sums may round the other way, by one code at most
                assert np.abs(got.astype(int) - wanted).max() <= 1
                assert np.mean(got != wanted) < 0.01
            else:
                np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_float_operators_share_one_instruction() -> None:
    program = lower_tflite(float_head())
    assert [type(step) for step in program.instructions] == [Dequantize, Float, Quantize]
    [part] = program.float_instructions
    assert part.nodes == ("scaled", "shares", "rows")
    assert len(part.reasons) == 3


def test_the_order_that_needs_the_fewest_float_instructions() -> None:
    program = lower_tflite(two_branches())
    assert [step.nodes for step in program.float_instructions] == [("EXP", "ABS"), ("root",)]


def test_integer_only_lists_the_float_operators() -> None:
    with pytest.raises(UnsupportedModelError, match=r"3 operators .*'scaled' \(MUL\).*'shares' \(SOFTMAX\)"):
        lower_tflite(float_head(), integer_only=True)


def with_custom_tail() -> Graph:
    net = Chain()
    x = net.add("x", (1, 8), "int8", CODES)
    real = net.op("DEQUANTIZE", [x], net.add("real", (1, 8)))
    boxes = net.op("EXP", [real], net.add("boxes", (1, 8)))
    found = net.op("CUSTOM", [boxes, real], net.add("found", (1, 4)), custom="TFLite_Detection_PostProcess")
    last = net.op("ABS", [found], net.add("last", (1, 4)))
    return net.graph([x], [last])


def test_a_custom_tail_is_named_with_what_lies_before_it() -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        lower_tflite(with_custom_tail(), "m.tflite")
    text = str(caught.value)
    assert "m.tflite: 1 operators cannot be run: 'found' (TFLite_Detection_PostProcess)" in text
    assert "as outputs (outputs): boxes, real" in text


def test_outputs_before_a_custom_tail() -> None:
    program = lower_tflite(with_custom_tail(), outputs=["boxes", "real"])
    assert [port.name for port in program.outputs] == ["boxes", "real"]
    x = np.arange(8, dtype=np.int8)[None]
    boxes, real = InferenceSession(program).run(None, {"x": x})
    np.testing.assert_array_equal(real, (x.astype(np.float32) + 3) * np.float32(0.05))
    np.testing.assert_allclose(boxes, np.exp(real), rtol=1e-6)


@pytest.mark.parametrize("names", [[], ["boxs"], ["real", "real"]])
def test_outputs_that_are_none(names: list[str]) -> None:
    with pytest.raises(UsageError):
        lower_tflite(with_custom_tail(), outputs=names)


def test_a_name_that_is_nearly_right_is_suggested() -> None:
    with pytest.raises(UsageError, match="Did you mean 'boxes'"):
        lower_tflite(with_custom_tail(), outputs=["boxs"])


def test_constants_in_codes_belong_to_the_float_part() -> None:
    net = Chain()
    x = net.add("x", (1, 8), "int8", CODES)
    weight = net.add("w", (3, 8), "float16", data=np.linspace(-1, 1, 24).reshape(3, 8).astype(np.float16))
    wide = net.op("DEQUANTIZE", [weight], net.add("wide", (3, 8)))
    real = net.op("DEQUANTIZE", [x], net.add("real", (1, 8)))
    y = net.op("FULLY_CONNECTED", [real, wide, -1], net.add("y", (1, 3)))
    graph = net.graph([x], [y])
    codes = random_codes(np.random.default_rng(1), (1, 8), "int8")
    [got] = InferenceSession(lower_tflite(graph)).run(None, {"x": codes})
    np.testing.assert_allclose(got, litert_outputs(serialize(graph), [codes])[0], rtol=1e-5, atol=1e-5)


def test_tensors_of_one_name_stay_apart() -> None:
    graph = two_branches()
    ends = (*graph.inputs, *graph.outputs)
    tensors = [
        tensor if place in ends else replace(tensor, name="t") for place, tensor in enumerate(graph.tensors)
    ]
    program = lower_tflite(replace(graph, tensors=tuple(tensors)))
    for part in program.float_instructions:
        names = [program.slots[number].name for number in (*part.inputs, *part.outputs)]
        assert len(set(names)) == len(names)


def test_a_dynamic_range_model_is_refused() -> None:
    net = Chain()
    x = net.add("x", (1, 8))
    weight = net.add("w", (3, 8), "int8", quantized(0.1, 0), data=np.ones((3, 8), np.int8))
    y = net.op("FULLY_CONNECTED", [x, weight, -1], net.add("y", (1, 3)))
    with pytest.raises(
        UnsupportedModelError, match=r"dynamic-range model: 'y' \(FULLY_CONNECTED\) has float"
    ):
        lower_tflite(net.graph([x], [y]))
