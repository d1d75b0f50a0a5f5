"""Networks over volumes as TFLite files: int8 over images, with LiteRT's codes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from exported import assert_exported_exactly
from qdq_nets import Net

import calib8
from calib8.model.load import load_model
from calib8.program.lower import lower
from calib8.program.reference.executor import run_program
from small_models import onnx_model, run

RNG = np.random.default_rng(7)
WINDOW = "kernel_shape = [3, 3, 3], pads = [1, 1, 1, 1, 1, 1]"
NET = f"""
    a = Conv <{WINDOW}, strides = [1, 2, 2]> (x, w0)
    b = BatchNormalization (a, gamma, beta, mean, variance)
    c = Relu (b)
    d = Conv <{WINDOW}, group = 8> (c, w1)
    e = Add (c, d)
    f = MaxPool <kernel_shape = [2, 2, 2], strides = [2, 2, 2]> (e)
    h = GlobalAveragePool (f)
    flat = Flatten (h)
    y = Gemm <transB = 1> (flat, w2)
"""
SAMPLES = np.cumsum(RNG.normal(size=(40, 3, 4, 10, 10)), axis=3).astype(np.float32)


def network() -> bytes:
    """Two layers over three axes, the second depthwise and with channels of very different size."""
    constants = {
        "w0": RNG.normal(0, 0.2, (8, 3, 3, 3, 3)).astype(np.float32),
        "gamma": np.geomspace(0.2, 5, 8).astype(np.float32),
        "beta": RNG.normal(0, 0.3, 8).astype(np.float32),
        "mean": RNG.normal(0, 0.3, 8).astype(np.float32),
        "variance": RNG.uniform(0.5, 2, 8).astype(np.float32),
        "w1": RNG.normal(0, 0.2, (8, 1, 3, 3, 3)).astype(np.float32),
        "w2": RNG.normal(0, 0.4, (5, 8)).astype(np.float32),
    }
    return onnx_model("float[n,3,4,10,10] x", "float[n,5] y", NET, constants).SerializeToString()


def assert_near(int8: calib8.Quantization, float_model: Path) -> None:
    """What the integer program gives is the float model's answer but for the rounding."""
    program = lower(int8.model, shapes={"x": (1, 3, 4, 10, 10)}, integer_only=True)
    for sample in SAMPLES[:4]:
        [expected] = run(onnx.load(float_model), {"x": sample[None]})
        [got] = run_program(program, {"x": sample[None]})
        noise = np.square(expected - got).mean() / np.square(expected).mean()
        assert noise < 10**-2.5


@pytest.mark.parametrize("repairs", [["none"], ["cle", "bias"]])
def test_a_network_is_quantized_from_end_to_end(tmp_path: Path, repairs: list[str]) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(network())
    int8 = calib8.quantize(path, SAMPLES, target="calib8", repair=repairs)
    assert_near(int8, path)


def test_a_file_has_litert_s_codes() -> None:
    net = Net()
    x = net.coded("x", 0.05, 3, np.int8)
    weight, depthwise = net.weight(8, 3, 3, 3, 3), net.weight(8, 1, 3, 3, 3)
    a = net.coded(net.op(f"Relu ({net.op(f'Conv <{WINDOW}> ({x}, {weight})')})"), 1.0, -128, np.int8)
    b = net.coded(net.op(f"Conv <{WINDOW}, group = 8> ({a}, {depthwise})"), 0.6, 4, np.int8)
    c = net.coded(net.op(f"MaxPool <kernel_shape = [2, 2, 2], strides = [2, 2, 2]> ({b})"), 0.6, 4, np.int8)
    pool = net.op(f"AveragePool <kernel_shape = [2, 1, 2]> ({c})")
    proto = net.proto("float[1,3,4,6,6] x", net.coded(pool, 0.6, 4, np.int8))
    program = lower(load_model(proto), profile="tflite", integer_only=True)
    assert_exported_exactly(program, RNG)
