"""What LiteRT refuses is refused, and what it runs is run: versions, meanings of codes, sizes, ports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ai_edge_litert import interpreter as litert
from cases_moves import MOVES
from litert import RESOLVERS, litert_outputs
from single_op import Net, assert_same_bits, feeds, quantized, random_codes

from calib8.analysis.tflite_caveats import caveats
from calib8.errors import UnsupportedModelError
from calib8.model.from_tflite.operators import TRANSLATE
from calib8.model.from_tflite.translate import float_model
from calib8.program.lower_tflite.lower import lower_tflite
from calib8.program.lower_tflite.operators import LOWER
from calib8.program.lower_tflite.tables import TABLE
from calib8.session import InferenceSession
from calib8.tflite.graph import Graph, Operator, Option, Tensor
from calib8.tflite.read import parse
from calib8.tflite.versions import FIRST, LAST
from calib8.tflite.write import serialize

NONE = {"fused_activation_function": "NONE"}


def ints(*values: Any) -> npt.NDArray[np.int32]:
    return np.array(values, np.int32)


def one(
    op: str,
    shape: tuple[int, ...],
    result: tuple[int, ...],
    *constants: npt.NDArray[Any],
    version: int = 1,
    dtype: str = "int8",
    **options: Option,
) -> Graph:
    """An operator over codes of scale 0.1 and zero point 3; constants of 8 bits are such codes too."""
    net = Net()
    x = net.codes(shape, dtype, 0.1, 3)
    kinds = [quantized(0.1, 3) if data.itemsize == 1 else None for data in constants]
    places = [net.constant(data, kind) for data, kind in zip(constants, kinds, strict=True)]
    y = net.output(result, dtype, quantized(0.1, 3))
    return net.graph(op, [x, *places], [y], version, **options)


def known_to_litert(op: str, version: int) -> bool:
    """Whether a set of kernels has an operator in a version; whether it fits its tensors does not matter."""
    tensors = (Tensor("x", (1,), "float32"), Tensor("y", (1,), "float32"))
    data = serialize(Graph(tensors, (Operator(op, (0,), (1,), {}, version),), (0,), (1,), "net"))
    for resolver in RESOLVERS.values():
        try:
            litert.Interpreter(model_content=data, experimental_op_resolver_type=resolver)
        except ValueError as error:
            if "Didn't find op" in str(error):
                continue
        return True
    return False


def test_every_operator_has_versions() -> None:
    assert set(LAST) == {*LOWER, *TRANSLATE} - {TABLE}


@pytest.mark.parametrize("op", sorted(LAST))
def test_versions_are_those_of_litert(op: str) -> None:
    first, last = FIRST.get(op, 1), LAST[op]
    found = [known_to_litert(op, version) for version in (first - 1, first, last, last + 1)]
    assert found == [False, True, True, False]


def test_all_unknown_versions_are_listed() -> None:
    tensors = tuple(Tensor(name, (4,), "int8", None, quantized(0.1, 3)) for name in "xab")
    operators = (Operator("RELU", (0,), (1,), {}, 99), Operator("RELU6", (1,), (2,), {}, 0))
    graph = Graph(tensors, operators, (0,), (2,), "net")
    with pytest.raises(UnsupportedModelError, match=r"'a'.*version 99; known is 1 to 3.*'b'.*version 0;"):
        lower_tflite(graph)
    assert any("RELU 99, RELU6 0" in sentence for sentence in caveats(graph))
    plain = tuple(replace(tensor, dtype="float32", quantization=None) for tensor in tensors)
    with pytest.raises(UnsupportedModelError, match=r"'a'.*version 99; known is 1 to 3.*'b'.*version 0;"):
        float_model(replace(graph, tensors=plain), "net")


SAME = ["MIRROR_PAD", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND", "PACK", "UNPACK", "EXPAND_DIMS", "PADV2"]
"""Operators of which LiteRT asks for one scale and zero point; of the others it copies the codes."""

COPIED = [
    "RESHAPE",
    "SQUEEZE",
    "TRANSPOSE",
    "SPACE_TO_DEPTH",
    "DEPTH_TO_SPACE",
    "TILE",
    "BROADCAST_TO",
    "PAD",
]
COPIED += ["SLICE", "STRIDED_SLICE", "SPLIT", "SPLIT_V", "GATHER"]


def with_other_meaning(op: str, dtype: str, seed: int) -> Graph:
    """A random model whose first output has another scale, or another zero point."""
    graph = MOVES[op](np.random.default_rng(seed), dtype)
    place = graph.outputs[0]
    kind = graph.tensors[place].quantization
    assert kind is not None
    scale = kind.scales * np.float32(1.5) if seed % 2 else kind.scales
    point = kind.zero_points if seed % 2 else (kind.zero_points + 1) % 100
    tensors = list(graph.tensors)
    tensors[place] = replace(tensors[place], quantization=replace(kind, scales=scale, zero_points=point))
    return replace(graph, tensors=tuple(tensors))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("op", SAME)
def test_codes_of_another_meaning_are_refused(op: str, dtype: str) -> None:
    for seed in range(2):
        graph = with_other_meaning(op, dtype, seed)
        with pytest.raises(RuntimeError, match=r"params\.(scale|zero_point)"):
            litert_outputs(serialize(graph), feeds(np.random.default_rng(seed), graph))
        with pytest.raises(UnsupportedModelError, match="differ in scale or zero point, where TFLite asks"):
            lower_tflite(graph)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("op", COPIED)
def test_codes_of_another_meaning_are_copied(op: str, dtype: str) -> None:
    for seed in range(2):
        rng = np.random.default_rng(seed)
        assert_same_bits(rng, with_other_meaning(op, dtype, seed), runs=1)


WINDOW = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}


def layer(op: str, *, left_out: bool) -> Graph:
    """A convolution without bias."""
    net, ones = Net(), np.ones((3, 1, 1, 3) if op == "CONV_2D" else (1, 1, 1, 3), np.int8)
    x, w = net.codes((1, 2, 2, 3), "int8", 0.1, 3), net.constant(ones, quantized(0.1, 0))
    y = net.output((1, 2, 2, 3), "int8", quantized(0.1, 3))
    options = {"depth_multiplier": 1} if op != "CONV_2D" else {}
    return net.graph(op, [x, w, -1] if left_out else [x, w], [y], 3, **WINDOW, **NONE, **options)


MASKS = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask"), 0)
REFUSED = {
    "bias of CONV_2D": (layer("CONV_2D", left_out=False), "no bias, which TFLite asks for"),
    "bias left out": (layer("DEPTHWISE_CONV_2D", left_out=True), "no bias, which TFLite asks for"),
    "PAD of rank 6": (one("PAD", (1,) * 6, (1,) * 5 + (2,), ints(*[(0, 0)] * 5, (1, 0))), "not 0 to 5 axes"),
    "TRANSPOSE of rank 9": (one("TRANSPOSE", (1,) * 9, (1,) * 9, ints(*range(9))), "not 1 to 8 axes"),
    "SQUEEZE of rank 9": (one("SQUEEZE", (1,) * 8 + (2,), (2,), squeeze_dims=()), "not 0 to 8 axes"),
    "blocks": (
        one("SPACE_TO_BATCH_ND", (1, 2, 2, 1), (1, 2, 2, 1), ints(1), ints((0, 0))),
        r"block sizes of shape \[1\] for \[1, 2, 2, 1\], not 2",
    ),
    "sizes": (one("RESHAPE", (2, 3), (3, 2), ints(-1, -1)), r"where TFLite makes \[-1, -1\]"),
    "resize": (
        one(
            "RESIZE_BILINEAR", (1, 2, 2, 1), (1, 3, 3, 1), ints(3, 3),
            align_corners=True, half_pixel_centers=True,
        ),
        "both align_corners and half_pixel_centers",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_both_refuse(case: str) -> None:
    graph, why = REFUSED[case]
    with pytest.raises(RuntimeError):
        litert_outputs(serialize(graph), feeds(np.random.default_rng(0), graph))
    with pytest.raises(UnsupportedModelError, match=why):
        lower_tflite(parse(serialize(graph)))


def test_a_shape_that_the_constant_does_not_say() -> None:
    """LiteRT gives another shape than the file promises."""
    graph = one("RESHAPE", (2, 3), (3, 2), ints(6), new_shape=(3, 2))
    (output,) = litert_outputs(serialize(graph), feeds(np.random.default_rng(0), graph))
    assert output.shape == (6,)
    with pytest.raises(UnsupportedModelError, match=r"shape \[3, 2\], where TFLite makes \[6\]"):
        lower_tflite(graph)


@pytest.mark.parametrize(
    ("begin", "stride", "why"),
    [
        (2, -1, "picks one index with a stride of -1"),
        (7, 1, "index 7 of an axis of 7"),
        (-8, 1, "index -8 of"),
    ],
)
def test_one_index_of_a_slice(begin: int, stride: int, why: str) -> None:
    """With a negative stride LiteRT returns memory that nobody wrote."""
    constants = (ints(begin), ints(begin + 1), ints(stride))
    graph = one("STRIDED_SLICE", (7,), (), *constants, shrink_axis_mask=1, **MASKS)
    with pytest.raises(UnsupportedModelError, match=why):
        lower_tflite(graph)


RESHAPES: dict[str, Graph] = {
    "option": one("RESHAPE", (2, 3), (3, 2), new_shape=(-1, 2)),
    "constant before option": one("RESHAPE", (2, 3), (3, 2), ints(3, -1), new_shape=(6,)),
    "option beside a scalar": one("RESHAPE", (2, 3), (3, 2), np.array(6, np.int32), new_shape=(3, 2)),
    "no sizes": one("RESHAPE", (1, 1), (), ints()),
}


@pytest.mark.parametrize("case", RESHAPES)
def test_sizes_of_a_reshape(case: str) -> None:
    assert_same_bits(np.random.default_rng(0), RESHAPES[case])


@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4)])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("op", ["MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"])
def test_reductions_over_no_axes(op: str, dtype: str, shape: tuple[int, ...]) -> None:
    if (op, dtype) == ("SUM", "int8"):  # which the reference kernel misreads
        return
    for keep in (False, True):
        graph = one(op, shape, shape, ints(), dtype=dtype, keep_dims=keep)
        assert_same_bits(np.random.default_rng(0), graph)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 5), (13, 2)])
def test_nearest_pixels_with_both_options(sizes: tuple[int, int], dtype: str) -> None:
    graph = one(
        "RESIZE_NEAREST_NEIGHBOR", (1, 7, 5, 2), (1, *sizes, 2), ints(*sizes),
        dtype=dtype, align_corners=True, half_pixel_centers=True,
    )  # fmt: skip
    assert_same_bits(np.random.default_rng(0), graph)


@pytest.mark.parametrize(
    ("axis", "batches", "inner"),
    [(1, 1, (2, 2)), (2, 1, (2, 3)), (3, 2, (2, 3)), (2, 2, (2, 3, 2, 2)), (-1, 1, (2,)), (2, -1, (2, 3, 2))],
)
def test_gather_by_batch(axis: int, batches: int, inner: tuple[int, ...]) -> None:
    rng, shape = np.random.default_rng(0), (2, 3, 5, 4)
    own = inner[batches % len(inner) if batches < 0 else batches :]
    result = (*shape[: axis % 4], *own, *shape[axis % 4 + 1 :])
    indices = rng.integers(0, shape[axis], inner, dtype=np.int32)
    assert_same_bits(rng, one("GATHER", shape, result, indices, version=5, axis=axis, batch_dims=batches))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_constant_is_packed(axis: int) -> None:
    rng, shape = np.random.default_rng(axis), (2, 3)
    graph = one("PACK", shape, (*shape[:axis], 2, *shape[axis:]), random_codes(rng, shape, "int8"))
    operator = replace(graph.operators[0], options={"values_count": 2, "axis": axis}, version=2)
    for inputs in (operator.inputs, operator.inputs[::-1]):
        assert_same_bits(rng, replace(graph, operators=(replace(operator, inputs=inputs),)))


def test_an_output_that_is_listed_twice() -> None:
    graph = one("RELU", (4,), (4,))
    (y,) = graph.outputs
    graph = replace(graph, outputs=(y, y))
    assert_same_bits(np.random.default_rng(0), graph)
    session = InferenceSession(serialize(graph))
    assert [port.name for port in session.get_outputs()] == ["y1", "y1#1"]
    first, second = session.run(None, {"x0": random_codes(np.random.default_rng(0), (4,), "int8")})
    np.testing.assert_array_equal(first, second)
