"""Functions of one tensor, bit for bit as LiteRT's reference kernels have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from cases_moves import FUNCTIONS, INT8_ONLY
from single_op import CASES, Net, assert_same_bits, quantized, random_codes

from calib8.errors import UnsupportedModelError
from calib8.program.lower_tflite.lower import lower_tflite
from calib8.tflite.graph import Graph, Option, Quantization

Codes = tuple[tuple[int, ...], str, float, int]
Constant = tuple[npt.NDArray[Any], Quantization | None]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        (op, dtype)
        for op in FUNCTIONS
        for dtype in ("int8", "uint8")
        if dtype == "int8" or op not in INT8_ONLY
    ],
)
def test_function(op: str, dtype: str) -> None:
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        assert_same_bits(rng, FUNCTIONS[op](rng, dtype))


def one(op: str, x: Codes, y: Codes, *constants: Constant, **options: Option) -> Graph:
    """A model of one operator; x and y are (shape, type, scale, zero point)."""
    net = Net()
    source = net.codes(*x)
    shape, dtype, scale, zero_point = y
    target = net.output(shape, dtype, quantized(scale, zero_point))
    inputs = [source, *(net.constant(data, quantization) for data, quantization in constants)]
    return net.graph(op, inputs, [target], **options)


@pytest.mark.parametrize(
    ("op", "input_scale", "zero_point", "output"),
    [
        ("LOGISTIC", 0.02001924999058247, -6, (1 / 256, -128)),
        ("TANH", 0.019808555021882057, 90, (1 / 128, 0)),
        ("TANH", 0.09466908127069473, -72, (1 / 128, 0)),
        ("EXP", 0.04096708819270134, 83, (0.09260756522417068, -96)),
        ("EXP", 0.004813222214579582, 1, (0.006853781174868345, -106)),
    ],
)
def test_ties_of_float32(op: str, input_scale: float, zero_point: int, output: tuple[float, int]) -> None:
    """LiteRT's tables come of float32, for which what lies 1e-6 below a tie is one."""
    codes = np.arange(-128, 128).astype(np.int8)[None]
    graph = one(op, (codes.shape, "int8", input_scale, zero_point), (codes.shape, "int8", *output))
    assert_same_bits(np.random.default_rng(0), graph, runs=1, inputs=[codes])


@pytest.mark.parametrize("shape", [(3, 1, 1), (1, 5, 1), (3, 5, 1), (3, 1, 4), (5, 4), (1,), (2, 3, 5, 4)])
def test_prelu_slopes_along_any_axes(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    slopes = random_codes(rng, shape, "int8"), quantized(0.01, 3)
    whole = (2, 3, 5, 4)
    assert_same_bits(rng, one("PRELU", (whole, "int8", 0.05, 4), (whole, "int8", 0.04, -6), slopes))


SMALL = (1, 4)
REFUSED: dict[str, tuple[Graph, str]] = {
    "softmax scale": (
        one("SOFTMAX", (SMALL, "int8", 0.1, 0), (SMALL, "int8", 1 / 128, -128), beta=1.0),
        "scale 0.0078125 and zero point -128, where TFLite writes 1/256 and -128",
    ),
    "softmax beta": (
        one("SOFTMAX", (SMALL, "int8", 0.1, 0), (SMALL, "int8", 1 / 256, -128), beta=-1.0),
        "its beta is -1.0",
    ),
    "softmax types": (
        one("SOFTMAX", (SMALL, "uint8", 0.1, 0), (SMALL, "int8", 1 / 256, -128), beta=1.0),
        "its input uint8 .* its output int8",
    ),
    "tanh zero point": (
        one("TANH", (SMALL, "uint8", 0.1, 0), (SMALL, "uint8", 1 / 128, 0)),
        "where TFLite writes 1/128 and 128",
    ),
    "hard swish": (
        one("HARD_SWISH", (SMALL, "int8", 1.0, 0), (SMALL, "int8", 1e-3, 0)),
        "too far apart for its 16 bits",
    ),
    "log": (one("LOG", (SMALL, "int8", 1.0, 0), (SMALL, "int8", 1.0, 0)), "have no logarithm"),
    "leaky": (
        one("LEAKY_RELU", (SMALL, "int8", 1.0, 0), (SMALL, "int8", 1e-3, 0), alpha=float("nan")),
        "its alpha is nan",
    ),
    "prelu slopes": (
        one(
            "PRELU", (SMALL, "int8", 1.0, 0), (SMALL, "int8", 1.0, 0), (np.zeros(3, np.int8), quantized(1, 0))
        ),
        r"its slopes are \[1, 3\]",
    ),
    "prelu without scale": (
        one("PRELU", (SMALL, "int8", 1.0, 0), (SMALL, "int8", 1.0, 0), (np.zeros(4, np.int8), None)),
        "its slopes have no scale",
    ),
    "prelu of floats": (
        one("PRELU", (SMALL, "int8", 1.0, 0), (SMALL, "int8", 1.0, 0), (np.zeros(4, np.float32), None)),
        "its slopes are float32",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    graph, problem = REFUSED[case]
    with pytest.raises(UnsupportedModelError, match=problem):
        lower_tflite(graph)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("scales", [(3.5e-5, 0.43), (1e-3, 5.0), (0.05, 3000.0), (1e-6, 50.0), (1e-8, 1.0)])
def test_hard_swish_of_scales_far_apart(scales: tuple[float, float], dtype: str) -> None:
    """Shifts of 16 bits and more, where LiteRT's 16-bit mask makes ±1 of what rounds to 0."""
    x, y = (float(np.float32(scale)) for scale in scales)
    graph = one("HARD_SWISH", ((1, 300), dtype, x, 3), ((1, 300), dtype, y, 5))
    assert_same_bits(np.random.default_rng(0), graph)
