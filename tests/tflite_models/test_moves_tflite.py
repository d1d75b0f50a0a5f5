"""What moves codes and what picks them, bit for bit as LiteRT's reference kernels have them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from cases_moves import MOVES
from litert import litert_outputs
from single_op import CASES, Net, assert_same_bits, quantized

from calib8.errors import UnsupportedModelError
from calib8.program.lower_tflite.lower import lower_tflite
from calib8.session import InferenceSession
from calib8.tflite.graph import Graph, Option, Tensor
from calib8.tflite.write import serialize

Shape = tuple[int, ...]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("op", MOVES)
def test_move(op: str, dtype: str) -> None:
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        assert_same_bits(rng, MOVES[op](rng, dtype))


def ints(*values: int) -> npt.NDArray[np.int32]:
    return np.array(values, np.int32)


def moved(
    op: str, shape: Shape, result: Shape, *constants: npt.NDArray[Any], scale: float = 0.1, **options: Option
) -> Graph:
    """A model of one operator over int8 codes of scale 0.1 and zero point 3."""
    net = Net()
    x = net.codes(shape, "int8", 0.1, 3)
    y = net.output(result, "int8", quantized(scale, 3))
    return net.graph(op, [x, *map(net.constant, constants)], [y], **options)


def test_codes_stay_where_scales_differ() -> None:
    """TFLite moves the codes as they are."""
    rng = np.random.default_rng(0)
    assert_same_bits(rng, moved("RESHAPE", (2, 3), (3, 2), ints(3, 2), scale=0.2))
    assert_same_bits(rng, moved("TRANSPOSE", (2, 3), (3, 2), ints(1, 0), scale=0.2))
    assert_same_bits(rng, moved("RESHAPE", (2, 3), (2, 3), ints(2, 3)))


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("op", ["TRANSPOSE", "GATHER", "SLICE", "UNPACK", "SPACE_TO_DEPTH", "STRIDED_SLICE"])
def test_plain_numbers_move(op: str, dtype: str) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        graph = MOVES[op](rng, "int8")
        places = (*graph.inputs, *graph.outputs)
        plain = [
            replace(tensor, dtype=dtype, quantization=None) if place in places else tensor
            for place, tensor in enumerate(graph.tensors)
        ]
        assert_same_on(
            replace(graph, tensors=tuple(plain)), rng.integers(-999, 999, plain[graph.inputs[0]].shape)
        )


def assert_same_on(graph: Graph, values: npt.NDArray[Any]) -> None:
    """LiteRT, the reference and the native engine agree on these values of the only input."""
    model, program = serialize(graph), lower_tflite(graph)
    feed = values.astype(graph.tensors[graph.inputs[0]].dtype)
    expected = litert_outputs(model, [feed])
    for name in ("reference", "calib8"):
        outputs = InferenceSession(program, runtime=name).run(None, {program.inputs[0].name: feed})
        for got, wanted in zip(outputs, expected, strict=True):
            np.testing.assert_array_equal(got, wanted, err_msg=name)


NUMBERS = np.array(
    [0, 1.5, -1.5, 127.9, -128.9, 128, 255.9, 300, -129, 7e4, -7e4, 1e10, -1e10, np.nan, np.inf]
)


@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "int32", "int64", "float32", "bool"])
@pytest.mark.parametrize("source", ["float32", "int32", "int64"])
def test_cast_of_plain_numbers(source: str, target: str) -> None:
    if source == target:
        return
    net = Net()
    net.tensors.append(Tensor("x", NUMBERS.shape, source))
    net.inputs.append(0)
    types = {"in_data_type": source.upper(), "out_data_type": target.upper()}
    graph = net.graph("CAST", [0], [net.output(NUMBERS.shape, target)], 1, **types)
    assert_same_on(
        graph, NUMBERS if source == "float32" else np.nan_to_num(NUMBERS, posinf=0).astype(np.int64)
    )


MASKS = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
REFUSED: dict[str, tuple[Graph, str]] = {
    "reshape": (moved("RESHAPE", (2, 3), (4, 2), ints(4, 2)), r"it makes \[4, 2\] of \[2, 3\]"),
    "transpose": (moved("TRANSPOSE", (2, 3), (2, 2), ints(0, 0)), "are not a permutation of 2"),
    "transpose axis": (moved("TRANSPOSE", (2, 3), (2, 2), ints(0, 2)), "it has axis 2, where there are 2"),
    "shape": (moved("TRANSPOSE", (2, 3), (2, 3), ints(1, 0)), r"its output is int8 \[2, 3\], where it makes"),
    "slice": (moved("SLICE", (4,), (4,), ints(1), ints(4)), "it takes 4 from 1 in steps of 1 out of 4"),
    "empty slice": (moved("SLICE", (4,), (0,), ints(1), ints(0)), "it takes 0 from 1"),
    "strided": (moved("STRIDED_SLICE", (4,), (0,), ints(3), ints(1), ints(1), **MASKS), "it takes nothing"),
    "stride": (moved("STRIDED_SLICE", (4,), (4,), ints(0), ints(4), ints(0), **MASKS), "a stride of 0"),
    "offset": (
        moved("STRIDED_SLICE", (4,), (2,), ints(1), ints(2), ints(1), **MASKS | {"offset": True}),
        "its ends are counted from its begins",
    ),
    "ellipsis": (
        moved(
            "STRIDED_SLICE", (4,), (4,), ints(0, 0), ints(0, 4), ints(1, 1), **MASKS | {"ellipsis_mask": 1}
        ),
        "its ellipsis stands for no axis",
    ),
    "axes": (
        moved("STRIDED_SLICE", (4,), (4,), ints(0, 0), ints(4, 4), ints(1, 1), **MASKS),
        "it slices more axes than",
    ),
    "gather": (
        moved("GATHER", (4,), (1,), ints(4), axis=0, batch_dims=0),
        "its indices lie outside an axis of 4",
    ),
    "batches": (
        moved("GATHER", (2, 4), (2, 1), ints(0, 1), axis=0, batch_dims=1),
        r"it takes \[2\] by batch from axis 0 of \[2, 4\]",
    ),
    "packed count": (
        moved("PACK", (4,), (1, 4), values_count=3, axis=0),
        "its option values_count is 3, and it reads 1 tensors",
    ),
    "split count": (
        moved("SPLIT_V", (4,), (4,), ints(4), ints(0), num_splits=2),
        "its option num_splits is 2, and it writes 1 tensors",
    ),
    "unpack": (moved("UNPACK", (2, 4), (4,), num=2, axis=0), "it unpacks 2 into 1 tensors"),
    "pack": (moved("PACK", (4,), (2, 4), values_count=1, axis=0), "it packs 1 tensors into 2"),
    "blocks": (moved("SPACE_TO_DEPTH", (1, 3, 4, 1), (1, 1, 2, 4), block_size=2), "do not divide 3×4 pixels"),
    "no block": (moved("SPACE_TO_DEPTH", (1, 2, 2, 1), (1, 2, 2, 1), block_size=0), "its block_size is 0"),
    "channels": (
        moved("DEPTH_TO_SPACE", (1, 2, 2, 3), (1, 4, 4, 1), block_size=2),
        "do not divide 3 channels",
    ),
    "batch": (
        moved("BATCH_TO_SPACE_ND", (3, 2, 2, 1), (1, 4, 4, 1), ints(2, 2), np.zeros((2, 2), np.int32)),
        r"it has blocks of \[2, 2\] for \[3, 2, 2, 1\]",
    ),
    "pad": (moved("PAD", (4,), (3,), np.array([[-1, 0]], np.int32)), r"it pads by \[-1\]"),
    "tile": (moved("TILE", (4,), (4,), ints(0)), "it repeats an axis of 4 0 times"),
    "tile without end": (
        moved("TILE", (4,), (4,), ints(1 << 30)),
        "axis of 4294967296; the most of a model",
    ),
    "mirror": (
        moved("MIRROR_PAD", (4,), (8,), np.array([[4, 0]], np.int32), mode="REFLECT"),
        "it mirrors 4 and 0 of an axis of 4",
    ),
    "floats as indices": (
        moved("TRANSPOSE", (2, 3), (3, 2), np.ones(2, np.float32)),
        "holds float32, where integers are needed",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    graph, problem = REFUSED[case]
    with pytest.raises(UnsupportedModelError, match=problem):
        lower_tflite(graph)
