"""Models with weights or activations of 4 and 16 bits, as ONNX Runtime's own quantizer writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import calib8
from calib8.model.load import load_model
from calib8.program.instructions import Float
from calib8.program.lower.lower import lower
from calib8.program.reference.executor import run_program
from small_models import normal, run
from small_nets import Net

SAMPLES = [{"x": normal(1, 4, 8, 8, seed=seed)} for seed in range(4)]


class Feeds(CalibrationDataReader):  # type: ignore[misc, unused-ignore]
    def __init__(self) -> None:
        self.left: Iterator[dict[str, Any]] = iter(SAMPLES)

    def get_next(self) -> dict[str, Any] | None:
        return next(self.left, None)


def net(opset: int) -> onnx.ModelProto:
    """Every layer that the quantizer gives 4 bits: dense and depthwise convolutions, Gemm, MatMul."""
    net = Net(opset=opset, shape=(1, 4, 8, 8))
    tensor = net.op("Relu", net.conv("x", 4, 8))
    tensor = net.op("Relu", net.conv(tensor, 8, 8, group=8))
    tensor = net.op("ConvTranspose", tensor, net.weight(8, 8, 2, 2), strides=[2, 2])
    tensor = net.op("Flatten", net.op("GlobalAveragePool", tensor))
    tensor = net.op("Gemm", tensor, net.weight(6, 8), net.weight(6), transB=1)
    return net.model(net.op("Add", net.op("MatMul", tensor, net.weight(6, 5)), net.weight(5)))


def quantized(folder: Path, opset: int, weights: str, activations: str, *, per_channel: bool) -> Path:
    onnx.save(net(opset), folder / "float.onnx")
    quantize_static(
        folder / "float.onnx", folder / "coded.onnx", Feeds(), quant_format=QuantFormat.QDQ,
        weight_type=QuantType[weights], activation_type=QuantType[activations], per_channel=per_channel,
    )  # fmt: skip
    return folder / "coded.onnx"


FOUR = [("QInt4", "QUInt8"), ("QUInt4", "QInt8")]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("opset", [13, 17, 20, 21])
@pytest.mark.parametrize(("weights", "activations"), FOUR)
def test_four_bits_are_what_the_graph_as_it_stands_says(
    opset: int, weights: str, activations: str, tmp_path: Path
) -> None:
    path = quantized(tmp_path, opset, weights, activations, per_channel=opset == 17)
    coded = onnx.load(path)
    own = {node.domain for node in coded.graph.node} - {""}
    assert own == ({"com.microsoft"} if opset < 21 else set())
    session = calib8.InferenceSession(path)
    for feeds in SAMPLES:
        assert np.array_equal(run(coded, feeds)[0], session.run(None, feeds)[0])


@pytest.mark.parametrize(("weights", "activations"), [("QInt8", "QUInt16"), ("QInt16", "QInt16")])
def test_sixteen_bits_are_within_a_step(weights: str, activations: str, tmp_path: Path) -> None:
    path = quantized(tmp_path, 17, weights, activations, per_channel=False)
    coded = onnx.load(path)
    scales = [onnx.numpy_helper.to_array(t) for t in coded.graph.initializer if t.name == "add9_out_scale"]
    session = calib8.InferenceSession(path)
    for feeds in SAMPLES:
        assert np.abs(run(coded, feeds)[0] - session.run(None, feeds)[0]).max() < 1.01 * scales[0]


def test_the_program_and_its_reference_too(tmp_path: Path) -> None:
    path = quantized(tmp_path, 13, *FOUR[0], per_channel=True)
    program = lower(load_model(path))
    assert [step.name for step in program.instructions if isinstance(step, Float)]
    for feeds in SAMPLES:
        assert np.array_equal(run_program(program, feeds)[0], run(onnx.load(path), feeds)[0])
