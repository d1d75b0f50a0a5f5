"""Int8 tmfiles as programs: Tengine's own outputs, a formula per operator, and what is refused."""

from __future__ import annotations

import contextlib
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from bits import assert_same_bits, random_feeds
from calib8.errors import Calib8Error, ModelError, UnsupportedModelError
from calib8.program import instructions as op
from calib8.program.lower_tmfile.lower import lower_tmfile
from calib8.program.lower_tmfile.operators import LOWER
from calib8.program.program import Program
from calib8.program.reference.executor import run_program
from calib8.tmfile.graph import Graph, Quantization
from calib8.tmfile.read import read_tmfile
from coded_nets import (
    INTERP,
    OPERATORS,
    CodedNet,
    convolution,
    image_of,
    one,
    pair,
    pool,
    scaled,
    with_tensor,
)  # fmt: skip
from tmfile_nets import classifier, coded

STORED = [
    (f"mnist_int8_{method}", "mnist_in_int8", f"mnist_out_int8_{method}")
    for method in ("minmax", "kl", "aciq")
]
STORED += [
    ("mnist_int8_minmax", f"mnist_in_int8_r{number}", f"mnist_out_int8_minmax_r{number}")
    for number in range(1, 9)
]
STORED += [
    (f"nets/net_{net}_int8_{method}", f"nets/net_{net}_in_{number}", f"nets/net_{net}_out_{method}_{number}")
    for net, methods in (("a", (0, 2)), ("c", (0, 1, 2)))
    for method in methods
    for number in range(2)
]
"""Model, input and output of Tengine's own runtime."""


def run(program: Program, *arrays: npt.NDArray[np.int8]) -> list[npt.NDArray[np.int8]]:
    feeds = dict(zip((port.name for port in program.inputs), arrays, strict=True))
    return run_program(program, feeds)


@pytest.mark.parametrize(("model", "fed", "given"), STORED)
def test_codes_are_those_of_the_runtime(shared_data: Path, model: str, fed: str, given: str) -> None:
    folder = shared_data / "tengine"
    program = lower_tmfile(read_tmfile(folder / f"{model}.tmfile"), model)
    slots = [program.slots[port.slot] for port in (*program.inputs, *program.outputs)]
    arrays = [
        np.fromfile(folder / f"{name}.bin", np.int8).reshape(slot.shape)
        for name, slot in zip((fed, given), slots, strict=True)
    ]
    (found,) = run(program, arrays[0])
    np.testing.assert_array_equal(found, arrays[1])


@pytest.mark.parametrize("name", OPERATORS)
def test_the_engine_has_the_bits_of_the_reference(name: str) -> None:
    rng = np.random.default_rng(len(name))
    program = lower_tmfile(OPERATORS[name](rng))
    feeds = {port.name: image_of(rng, program.slots[port.slot].shape) for port in program.inputs}
    assert_same_bits(program, feeds)


def test_every_operator_has_a_case() -> None:
    tried = {node.op for make in OPERATORS.values() for node in make(np.random.default_rng(0)).nodes}
    assert tried >= LOWER.keys()


def test_the_two_kernels_of_layers_multiply_in_another_order() -> None:
    """float32 products of the fast kernels, of one product of the scales where there are groups."""
    for name, fast in (
        ("Convolution 3x3", True), ("Convolution 1x1", True), ("Convolution depthwise", True),
        ("Convolution groups", False), ("Convolution depthwise uneven", False),
        ("Convolution depthwise 5x5", False), ("Convolution depthwise of two", False),
        ("Convolution two filters each", False),
    ):  # fmt: skip
        program = lower_tmfile(OPERATORS[name](np.random.default_rng(1)))
        [rescale] = [step for step in program.instructions if isinstance(step, op.RealRescale)]
        assert (rescale.input != 1.0) == fast, name


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("Convolution 3x3", 0, 127),
        ("Convolution 1x1", -127, 127),
        ("Convolution unit", 0, "six"),
        ("Convolution groups", 0, "six"),
        ("Convolution groups unit", "-one", "one"),
    ],
)
def test_activations_are_those_of_the_kernel(name: str, low: int | str, high: int | str) -> None:
    program = lower_tmfile(OPERATORS[name](np.random.default_rng(1)))
    [rescale] = [step for step in program.instructions if isinstance(step, op.RealRescale)]
    scale = program.slots[rescale.outputs[0]].scale
    known = {"one": min(round(1 / scale), 127), "six": min(round(6 / scale), 127)}
    known["-one"] = -known["one"]
    assert [rescale.low, rescale.high] == [known.get(str(end), end) for end in (low, high)]


def test_a_convolution_is_its_sums_times_scales() -> None:
    """By the definition, pixel by pixel."""
    rng = np.random.default_rng(5)
    graph = convolution(rng, (5, 4), 3, 4, stride_h=2, stride_w=2)
    program, image = lower_tmfile(graph), image_of(rng, (1, 3, 5, 4))
    (found,) = run(program, image)
    constants = {tensor.name: tensor for tensor in graph.tensors}
    x, w, y = constants["x"], constants["w"], graph.tensors[-1]
    bias = constants["b"].data if "b" in constants else np.zeros(4, np.int32)
    padded = np.pad(image[0].astype(int), ((0, 0), (1, 1), (1, 1)))
    for channel, row, column in np.ndindex(found.shape[1:]):
        window = padded[:, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
        acc = np.float32(int((window * w.data[channel]).sum()) + int(bias[channel]))
        real = max(acc * x.quantization.scales[0] * w.quantization.scales[channel], np.float32(0))
        ratio = float(real / y.quantization.scales[0])
        assert found[0, channel, row, column] == min(int(ratio + 0.5), 127)


@pytest.mark.parametrize("kind", [0, 2, 4, 6])
def test_an_eltwise_joins_real_numbers(kind: int) -> None:
    rng = np.random.default_rng(kind)
    shape = (1, 6, 5, 4)
    program = lower_tmfile(pair(kind, shape, shape))
    a, b = image_of(rng, shape), image_of(rng, shape)
    (found,) = run(program, a, b)
    left, right = a.astype(np.float32) * np.float32(0.023), b.astype(np.float32) * np.float32(0.041)
    real = {0: left * right, 2: left + right, 4: left - right, 6: np.maximum(left, right)}[kind]
    ratio = (real / np.float32(0.03)).astype(np.float64)
    wanted = np.clip(np.sign(ratio) * np.floor(np.abs(ratio) + 0.5), -127, 127)
    np.testing.assert_array_equal(found, wanted)


def test_a_longer_right_side_is_what_is_subtracted_from() -> None:
    """Tengine exchanges the sides, and with them the sign."""
    rng = np.random.default_rng(8)
    one_each, all_of_them = (1, 6, 1, 1), (1, 6, 5, 4)
    a, b = image_of(rng, one_each), image_of(rng, all_of_them)
    (found,) = run(lower_tmfile(pair(4, one_each, all_of_them)), a, b)
    turned = CodedNet()
    y, x = turned.codes("y", all_of_them, 0.041), turned.codes("x", one_each, 0.023)
    turned.node("Eltwise", [y, x], all_of_them, 0.03, type=4, caffe_flavor=0)
    (wanted,) = run(lower_tmfile(turned.graph()), b, a)
    np.testing.assert_array_equal(found, wanted)


ORDER = {"order0": 0, "order1": 3, "order2": 1, "order3": 2}

MOVES = {
    "Reshape": lambda x: x.reshape(1, 120),
    "Flatten to another scale": lambda x: x.reshape(1, 120),
    "Dropout": lambda x: x,
    "Permute": lambda x: x.transpose(0, 2, 3, 1),
    "ShuffleChannel": lambda x: x.reshape(1, 2, 3, 5, 4).swapaxes(1, 2).reshape(1, 6, 5, 4),
    "DepthToSpace": lambda x: x.reshape(1, 3, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 3, 4, 6),
    "Split of channels": lambda x: x[:, 3:],
}


@pytest.mark.parametrize("name", MOVES)
def test_moves_copy_codes_whatever_the_scales(name: str) -> None:
    rng = np.random.default_rng(6)
    program = lower_tmfile(OPERATORS[name](rng))
    image = image_of(rng, program.slots[program.inputs[0].slot].shape)
    np.testing.assert_array_equal(run(program, image)[-1], MOVES[name](image))


def test_the_lowest_code_of_an_input_is_no_code_of_a_result() -> None:
    image = np.full((1, 5, 9, 7), -128, np.int8)
    largest = lower_tmfile(OPERATORS["Pooling max"](np.random.default_rng(0)))
    assert set(run(largest, image)[0].ravel().tolist()) == {-127}
    joined = lower_tmfile(OPERATORS["Concat"](np.random.default_rng(0)))
    arrays = [np.full(joined.slots[port.slot].shape, -128, np.int8) for port in joined.inputs]
    assert run(joined, *arrays)[0].min() >= -127


@pytest.mark.parametrize("name", ["Concat with a constant", "Concat with zeros"])
def test_concat_rescales_constants_as_it_does_tensors(name: str) -> None:
    graph = OPERATORS[name](np.random.default_rng(5))
    stored = next(tensor.data for tensor in graph.tensors if tensor.name == "first")
    image = np.random.default_rng(6).integers(-127, 128, (1, 3, 4, 5)).astype(np.int8)
    found = run(lower_tmfile(graph), image)[0]
    assert stored is not None and found.shape == (1, 7, 4, 5)
    steps = np.rint(stored.astype(np.float64) * (0.05 / 0.021))
    expected = np.where(steps < -127, 127, np.minimum(steps, 127))
    np.testing.assert_array_equal(found[:, :2], expected)
    np.testing.assert_array_equal(found[:, 2:5], np.rint(image * (0.02 / 0.021)))
    assert (steps < -127).any() and not found[:, 5:].any()


def spoiled(graph: Graph, name: str, scale: float = 0.1, point: int = 0) -> Graph:
    tensor = next(tensor for tensor in graph.tensors if tensor.name == name)
    found = scaled(tensor.quantization, scale)
    return with_tensor(
        graph, name, quantization=replace(found, zero_points=found.zero_points + np.int32(point))
    )


def refused(graph: Graph, kind: type[Calib8Error], *words: str) -> None:
    with pytest.raises(kind) as caught:
        lower_tmfile(graph, "net.tmfile")
    told = str(caught.value)
    assert told.startswith("net.tmfile: ") and "\n" not in told
    for word in words:
        assert word in told


def test_scales_of_0_and_other_zero_points_are_refused_and_named() -> None:
    net = coded(classifier())
    refused(
        spoiled(net, "conv", 0.0),
        ModelError,
        "1 of its 4 tensors have the scale 0: 'conv'",
        "table of scales",
    )
    refused(spoiled(net, "pooled", point=3), ModelError, "'pooled'", "a zero point other than 0")
    without = with_tensor(net, "image", quantization=None)
    refused(without, ModelError, "have no scale: 'image'")
    several = with_tensor(
        net, "conv", quantization=Quantization(np.ones(4, np.float32), np.zeros(4, np.int32))
    )
    refused(several, ModelError, "several scales")


def test_codes_of_other_types_are_refused() -> None:
    net = coded(classifier())
    tensors = [replace(one, dtype="uint8" if one.dtype == "int8" else one.dtype) for one in net.tensors]
    refused(replace(net, tensors=tuple(tensors)), UnsupportedModelError, "uint8", "adds up in float32")
    refused(classifier(), UnsupportedModelError, "float numbers", "Quantize it first")
    refused(
        with_tensor(net, "scores", dtype="float32"), UnsupportedModelError, "float32 beside int8: 'scores'"
    )


def test_all_operators_without_an_int8_form_are_listed() -> None:
    net = CodedNet()
    x = net.codes("x", (1, 6, 5, 4), 0.02)
    a = net.node("HardSwish", [x], (1, 6, 5, 4), 0.02, alpha=1.0, beta=3.0)
    b = net.node("ReLU6", [x], (1, 6, 5, 4), 0.02)
    net.node("Eltwise", [a, b], (1, 6, 5, 4), 0.02, type=2, caffe_flavor=0)
    refused(
        net.graph(), UnsupportedModelError,
        "2 operators without an int8 form", "(HardSwish): Tengine's runtime has no int8 kernel", "(ReLU6)",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (one("Interp", (1, 6, 5, 4), (1, 6, 7, 8), **(INTERP | {"type": 2})), "its type 2 interpolates"),
        (pair(10, (1, 6, 5, 4), (1, 6, 5, 4)), "its type 10 has no integer form"),
        (pair(2, (1, 6, 5, 4), (1, 1, 5, 4)), "it joins [1, 6, 5, 4] and [1, 1, 5, 4]"),
        (pair(2, (2, 6), (2, 6)), "its input has 2 axes"),
        (one("Permute", (1, 6, 5, 4), (1, 4, 6, 5), flag=0, **ORDER), "its order is [0, 3, 1, 2]"),
        (one("Softmax", (2, 3), None, 0.01, axis=2), "it has axis 2"),
        (one("DepthToSpace", (1, 6, 5, 4), None, 0.01, block_size=2), "its blocks are 2×2"),
    ],
)  # fmt: skip
def test_forms_that_tengine_does_not_compute_are_refused(graph: Graph, words: str) -> None:
    refused(graph, UnsupportedModelError, words)


def test_sums_beyond_int32_name_the_file_and_the_node() -> None:
    """Found where the steps are judged together: their error names the model as all others do."""
    rng = np.random.default_rng(3)
    words = 'instruction 1 (AveragePool "Pooling1"): sums of 9000000 codes reach 2295000000, beyond int32'
    refused(pool(rng, (3000, 3000), alg=1, **{"global": 1}), ModelError, words, "quantize the model again")
    lower_tmfile(pool(rng, (2900, 2900), alg=1, **{"global": 1}))  # 255 · 2900² < 2³¹


def test_weights_need_a_scale_per_channel_and_no_zero_point() -> None:
    graph = convolution(np.random.default_rng(1))
    single = with_tensor(graph, "w", quantization=Quantization(np.ones(1, np.float32), np.zeros(1, np.int32)))
    refused(single, UnsupportedModelError, "1 scales for 10 output channels")
    refused(spoiled(graph, "w", point=1), UnsupportedModelError, "zero point 1, which Tengine leaves out")
    refused(with_tensor(graph, "w", quantization=None), UnsupportedModelError, "have no scales")
    refused(with_tensor(graph, "w", data=None), UnsupportedModelError, "holds no values of 'w'")
    tiny = spoiled(graph, graph.tensors[-1].name, 1e-30)
    refused(tiny, UnsupportedModelError, "beyond int32")


def test_few_pixels_of_a_huge_image_take_little_memory() -> None:
    """Rows and columns are listed where they are picked, not all that there are."""
    graph = one(
        "Interp", (1, 1, 4, 2**26), (1, 1, 4, 8), **INTERP | {"width_scale": 0.0, "height_scale": 0.0}
    )
    tracemalloc.start()
    try:
        refused_or_not(graph)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 26


def refused_or_not(graph: Graph) -> None:
    with contextlib.suppress(Calib8Error):
        lower_tmfile(graph)


def test_random_feeds_reach_many_codes() -> None:
    """So that equal bits mean something."""
    for name, make in OPERATORS.items():
        if "Convolution" in name or "Eltwise" in name:
            program = lower_tmfile(make(np.random.default_rng(len(name))))
            (found,) = run_program(program, random_feeds(program, np.random.default_rng(1)))
            assert np.unique(found).size > 15, name
