"""Lowering of what only moves values: exact, with as few copies as the layout allows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qdq_nets import Net, assert_equal, assert_same_outputs, counted, float_nodes, lowered, steps

from calib8.errors import DataError
from calib8.model.load import load_model
from calib8.program.instructions import Concat, Pad, Slice
from calib8.program.lower.lower import lower
from calib8.program.reference.executor import run_program
from small_nets import clean

IMAGE = "float[2,12,4,6] x"


def moved(text: str, inputs: str = IMAGE) -> list[str]:
    """Instructions between Quantize and Dequantize of one node on codes; they give ONNX Runtime's bits."""
    net = Net()
    constants = {
        "pads": net.constant([0, 1, 2, 0, 0, 0, 1, 3], np.int64),
        "crop": net.constant([0, 0, -1, 1, 0, -2, 0, -2], np.int64),
        "widths": net.constant([0, 1, 2, 3, 0, 2, 1, 4], np.int64),
        "fill": net.constant(np.float32(0.05) * np.float32(-20)),
        "indices": net.constant([[3, 0, -1], [7, 7, 2]], np.int64),
        "one": net.constant(5, np.int64),
        "starts": net.constant([-2, 1], np.int64),
        "ends": net.constant([-(2**62), 1000], np.int64),
        "axes": net.constant([2, 1], np.int64),
        "strides": net.constant([-1, 3], np.int64),
        "repeats": net.constant([1, 2, 1, 3], np.int64),
        "wide": net.constant([3, 1, 12, 1, 6], np.int64),
        "shape": net.constant([2, 3, 4, 24], np.int64),
    }
    x = net.coded("x", 0.05, 120)
    program = assert_equal(net.proto(inputs, net.op(text.format(x, **constants))))
    assert steps(program)[0] == "Quantize" and steps(program)[-1] == "Dequantize"
    return steps(program)[1:-1]


def test_a_transpose_costs_nothing() -> None:
    assert moved("Transpose <perm = [0, 3, 1, 2]> ({0})") == []


def test_a_flattened_image_is_put_in_order_as_it_is_quantized() -> None:
    assert moved("Flatten ({0})") == ["Reshape"]


def test_slices_walk_forwards_and_backwards() -> None:
    assert moved("Slice ({0}, {starts}, {ends}, {axes}, {strides})") == ["Slice"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Pad ({0}, {pads})", ["Pad"]),
        ("Pad ({0}, {pads}, {fill})", ["Pad"]),
        ("Pad ({0}, {crop})", ["Gather", "Gather", "Gather", "Pad"]),
        ('Pad <mode = "reflect"> ({0}, {widths})', ["Gather"] * 3),
        ('Pad <mode = "edge"> ({0}, {widths})', ["Gather"] * 3),
        ("Gather <axis = 1> ({0}, {one})", ["Gather", "Reshape"]),
        ("Gather <axis = 1> ({0}, {indices})", ["Gather", "Reshape"]),
        ("Tile ({0}, {repeats})", ["Gather", "Gather"]),
        ("Reshape ({0}, {shape})", ["Reshape"]),
        ("DepthToSpace <blocksize = 2> ({0})", ["Reshape", "Transpose", "Reshape"]),
        ('DepthToSpace <blocksize = 2, mode = "CRD"> ({0})', ["Reshape", "Transpose", "Reshape"]),
        ("SpaceToDepth <blocksize = 2> ({0})", ["Reshape", "Transpose", "Reshape"]),
    ],
)
def test_moves(text: str, expected: list[str]) -> None:
    assert moved(text) == expected


def test_expand_repeats_axes_of_size_one() -> None:
    assert moved("Expand ({0}, {wide})", "float[3,1,12,1,1] x") == ["Gather"]
    assert moved("Expand ({0}, {wide})", "float[12,1,1] x").count("Gather") == 2


def test_split_is_a_slice_per_output() -> None:
    net = Net()
    parts = net.op(
        f"Split <axis = 1> ({net.coded('x', 0.05, 120)}, {net.constant([5, 7], np.int64)})", outputs=2
    )
    program = assert_equal(net.proto(IMAGE, f"{parts}_0", f"{parts}_1"))
    assert counted(program) == {"Quantize": 1, "Slice": 2, "Dequantize": 2}
    starts = [step.starts for step in program.instructions if isinstance(step, Slice)]
    assert starts == [(0, 0, 0, 0), (0, 0, 0, 5)]


def test_a_channel_shuffle_is_one_transpose() -> None:
    net = Net()
    wide, shape = net.constant([2, 3, 4, 4, 6], np.int64), net.constant([2, 12, 4, 6], np.int64)
    split = net.op(f"Reshape ({net.coded('x', 0.05, 120)}, {wide})")
    shuffled = net.op(f"Reshape ({net.op(f'Transpose <perm = [0, 2, 1, 3, 4]> ({split})')}, {shape})")
    conv = net.op(f"Conv ({shuffled}, {net.weight(5, 12, 1, 1)})")
    program = assert_equal(net.proto(IMAGE, net.coded(conv, 0.05, 110)))
    assert steps(program) == ["Quantize", "Reshape", "Transpose", "Reshape", "Conv", "Dequantize"]


def test_pooled_channels_are_flattened_without_a_copy_of_order() -> None:
    net = Net()
    pooled = net.coded(net.op(f"GlobalAveragePool ({net.coded('x', 0.05, 120)})"), 0.02, 120)
    logits = net.op(f"Gemm ({net.op(f'Flatten ({pooled})')}, {net.weight(12, 5, axis=1)})")
    proto = net.proto(IMAGE, logits)
    program = lowered(proto)
    assert_same_outputs(program, proto, within=1e-5, fused=False)
    assert steps(program) == ["Quantize", "Mean", "Reshape", "FullyConnected", "Dequantize"]


def test_concat_brings_its_inputs_to_the_scale_of_its_quantizer() -> None:
    net = Net()
    x = net.coded("x", 0.05, 120)
    pooled = net.op(f"MaxPool <kernel_shape = [1, 1]> ({x})")
    sigmoid = net.coded(net.op(f"Sigmoid ({x})"), 1 / 256)
    program = assert_equal(
        net.proto(IMAGE, net.coded(net.op(f"Concat <axis = 1> ({pooled}, {sigmoid}, {x})"), 0.04, 100)),
        within=0.04,
    )
    assert counted(program)["Lookup"] == 4 and counted(program)["Concat"] == 1
    (step,) = (step for step in program.instructions if isinstance(step, Concat))
    assert step.axis == 3


def test_moves_without_integer_form_say_why() -> None:
    net = Net()
    padded = net.op(
        f"Pad ({net.coded('x', 0.05, 120)}, {net.constant([0, 0, 1, 1] * 2, np.int64)}, {net.constant(0.02)})"
    )
    proto = net.proto(IMAGE, padded)
    assert list(float_nodes(proto).values()) == ["its padding 0.02 is not a multiple of the scale"]
    assert_same_outputs(lowered(proto), proto)

    net = Net()
    joined = net.op(f"Concat <axis = 1> ({net.coded('x', 0.05, 120)}, {net.coded('y', 0.03, 120)})")
    proto = net.proto(f"{IMAGE}, float[2,1,4,6] y", joined)
    assert list(float_nodes(proto).values()) == ["its inputs have different scales"]
    assert_same_outputs(lowered(proto), proto)


def test_padding_is_the_zero_point() -> None:
    net = Net()
    padded = net.op(f"Pad ({net.coded('x', 0.05, 120)}, {net.constant([0, 0, 1, 2] * 2, np.int64)})")
    program = lowered(net.proto(IMAGE, padded))
    (step,) = (step for step in program.instructions if isinstance(step, Pad))
    assert (step.before, step.value) == ((0, 1, 2, 0), 120)


@st.composite
def chains(draw: st.DrawFn) -> list[tuple[str, tuple[int, ...]]]:
    """Reshapes and transposes one after the other, starting from an image."""
    shape: tuple[int, ...] = (2, 12, 4, 6)
    chain: list[tuple[str, tuple[int, ...]]] = []
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.booleans()):
            axes = tuple(draw(st.permutations(range(len(shape)))))
            shape = tuple(shape[axis] for axis in axes)
            chain.append(("Transpose", axes))
        else:
            left, sizes = math.prod(shape), []
            while left > 1 and len(sizes) < 5:
                sizes.append(draw(st.sampled_from([size for size in range(1, left + 1) if left % size == 0])))
                left //= sizes[-1]
            shape = (*sizes, left)
            chain.append(("Reshape", shape))
    return chain


@settings(max_examples=40)
@given(chains())
def test_chains_of_reshapes_and_transposes(chain: list[tuple[str, tuple[int, ...]]]) -> None:
    net = Net()
    value = net.op(f"MaxPool <kernel_shape = [1, 1]> ({net.coded('x', 0.05, 120)})")
    for op, numbers in chain:
        if op == "Transpose":
            value = net.op(f"Transpose <perm = [{', '.join(map(str, numbers))}]> ({value})")
        else:
            value = net.op(f"Reshape ({value}, {net.constant(numbers, np.int64)})")
    assert_equal(net.proto(IMAGE, value))


def test_a_reshape_to_sizes_of_another_batch_is_told() -> None:
    """The file says 1×4×64: no form for two images, and ONNX Runtime, which gets it then, has none either."""
    proto = clean("matmul", "calib8")
    assert not lower(load_model(proto), shapes={"x": (1, 4, 8, 8)}).float_instructions
    program = lower(load_model(proto), shapes={"x": (2, 4, 8, 8)})
    assert any("2×4×8×8 cannot become 1×4×64" in why for why in program.float_reasons.values())
    with pytest.raises(DataError, match="reshape"):
        run_program(program, {"x": np.zeros((2, 4, 8, 8), np.float32)})
