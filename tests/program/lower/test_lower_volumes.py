"""Lowering of convolutions, pools and Resize over three axes: ONNX Runtime's codes, and what stays float."""

from __future__ import annotations

import numpy as np
import pytest
from qdq_nets import (
    Net,
    assert_equal,
    float_nodes,
    lowered,
    random_feeds,
    runtime_outputs,
    steps,
)
from volume_nets import KINDS

from calib8.program.instructions import Conv, DepthwiseConv
from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES, Profile
from small_models import run

CASES = {"convolution": 40, "transposed": 25, "max_pool": 25, "average_pool": 25}
SEEDS = [
    *(pytest.param(kind, range(count), id=kind) for kind, count in CASES.items()),
    *(pytest.param(kind, range(count, 220), id=f"more-{kind}", marks=pytest.mark.slow)
      for kind, count in CASES.items()),
]  # fmt: skip
GROUPED = "it has groups, and its frames overlap"


@pytest.mark.parametrize(("kind", "seeds"), SEEDS)
def test_random_layers_give_the_codes_of_onnxruntime(kind: str, seeds: range) -> None:
    """Of its float kernel where padding counts in a mean that rounds up: its int8 one divides otherwise."""
    in_integers = 0
    for seed in seeds:
        proto = KINDS[kind](seed)
        program = lowered(proto)
        if "Float" in steps(program):
            assert GROUPED in float_nodes(proto).values()
            continue
        in_integers += 1
        feeds = random_feeds(program, seed)
        [got] = run_program(program, feeds)
        text = str(proto.graph.node)
        counts = [a.i for node in proto.graph.node for a in node.attribute if a.name.startswith("c") and a.i]
        if kind == "average_pool" and len(counts) == 2:
            [expected] = run(proto, feeds)
            assert np.abs(expected - got).max() <= 0.0311, (seed, text)
        else:
            [expected] = runtime_outputs(proto, feeds)
            assert np.array_equal(expected, got), (seed, text)
    assert in_integers >= 0.8 * len(seeds)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("profile", ["tflite", "single"])
@pytest.mark.parametrize("kind", CASES)
def test_the_other_profiles_are_within_a_code_of_floats(kind: str, profile: Profile) -> None:
    for seed in range(12):
        proto = KINDS[kind](seed)
        program = lowered(proto, profile)
        if "Float" in steps(program):
            continue
        feeds = random_feeds(program, seed)
        [expected], [got] = run(proto, feeds), run_program(program, feeds)
        width = program.slots[program.instructions[-1].inputs[0]].scale
        apart = np.abs(expected.astype(np.float64) - got)
        most = 2.01 * width + (0.05 if kind == "average_pool" and profile == "tflite" else 0.0)
        assert apart.max() <= most, (seed, kind)


def conv(attributes: str, *shape: int, channels: int = 4) -> Net:
    net = Net()
    weight = net.weight(*shape)
    result = net.op(f"Conv <{attributes}> ({net.coded('x', 0.05, 120)}, {weight})")
    net.coded(result, 2.0, 128)
    return net


@pytest.mark.parametrize("profile", PROFILES)
def test_one_frame_needs_no_move(profile: Profile) -> None:
    net = conv("kernel_shape = [1, 3, 3], pads = [0, 1, 1, 0, 1, 1]", 5, 4, 1, 3, 3)
    program = lowered(net.proto("float[1,4,6,7,5] x", f"t{len(net.lines) - 1}"), profile)
    assert steps(program) == ["Quantize", "Reshape", "Conv", "Reshape", "Dequantize"]


def test_frames_are_joined_row_by_row() -> None:
    net = conv("kernel_shape = [3, 3, 3], strides = [2, 2, 1], pads = [1, 1, 1, 1, 1, 1]", 5, 4, 3, 3, 3)
    program = assert_equal(net.proto("float[1,4,6,7,5] x", f"t{len(net.lines) - 1}"))
    (layer,) = (step for step in program.instructions if isinstance(step, Conv))
    assert layer.weight.shape == (5, 9, 3, 4) and layer.strides == (6, 1) and layer.pads == (3, 1, 3, 1)
    assert program.slots[layer.inputs[0]].shape == (3, 21, 5, 4)


def test_one_filter_per_channel_stays_depthwise() -> None:
    net = conv("kernel_shape = [3, 3, 3], group = 4", 4, 1, 3, 3, 3)
    program = assert_equal(net.proto("float[2,4,6,7,5] x", f"t{len(net.lines) - 1}"))
    (layer,) = (step for step in program.instructions if isinstance(step, DepthwiseConv))
    assert layer.weight.shape == (9, 3, 4)


def test_layers_of_one_tensor_share_its_padded_frames() -> None:
    net = Net()
    x = net.coded("x", 0.05, 120)
    window = "kernel_shape = [3, 1, 1], pads = [1, 0, 0, 1, 0, 0]"
    ends = [net.coded(net.op(f"Conv <{window}> ({x}, {net.weight(5, 4, 3, 1, 1)})"), 2.0, 128) for _ in "ab"]
    program = assert_equal(net.proto("float[1,4,6,7,5] x", *ends))
    assert steps(program).count("Pad") == steps(program).count("Gather") == 1


def test_a_mean_over_all_of_a_volume() -> None:
    net = Net()
    layer = net.op(f"Conv ({net.coded('x', 0.05, 120)}, {net.weight(5, 4, 1, 1, 1)})")
    net.lines[-1] = net.lines[-1].replace("Conv (", "Conv <kernel_shape = [1, 1, 1]> (")
    pooled = net.op(f"GlobalAveragePool ({net.coded(layer, 1.0, 128)})")
    program = assert_equal(net.proto("float[2,4,3,4,5] x", net.coded(pooled, 0.5, 128)))
    assert "Transpose" not in steps(program)


@pytest.mark.parametrize("scale", [2, 3])
def test_nearest_resize_repeats_frames_rows_and_columns(scale: int) -> None:
    net = Net()
    scales = net.constant([1.0, 1.0, scale, 2.0, 1.5])
    attributes = 'mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"'
    result = net.op(f"Resize <{attributes}> ({net.coded('x', 0.05, 120)}, , {scales})")
    program = assert_equal(net.proto("float[2,3,4,5,6] x", net.coded(result, 0.05, 120)))
    assert steps(program).count("ResizeNearest") == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("AveragePool <kernel_shape = [2, 2, 2], dilations = [2, 1, 1]> ({0})", "its window is dilated"),
        ("ConvTranspose <kernel_shape = [3, 3, 3], group = 2> ({0}, {weight})", GROUPED),
        (
            'Resize <mode = "linear"> ({0}, , {scales})',
            "it interpolates along other axes than rows and columns",
        ),
    ],
)
def test_what_stays_float_says_why(text: str, reason: str) -> None:
    net = Net()
    weight = net.weight(4, 2, 3, 3, 3, axis=None)
    scales = net.constant([1.0, 1.0, 2.0, 2.0, 2.0])
    result = net.op(text.format(net.coded("x", 0.05, 120), weight=weight, scales=scales))
    proto = net.proto("float[1,4,5,6,7] x", net.coded(result, 0.3, 128), opset=19)
    assert list(float_nodes(proto).values()) == [reason]
