"""Graphs that contradict themselves, and operators that break TFLite's constraints: errors that name them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from single_op import Net, quantized

from calib8.errors import ModelError, UnsupportedModelError
from calib8.program.lower_tflite.arity import misuse, odd_option
from calib8.program.lower_tflite.lower import lower_tflite
from calib8.tflite.check import check
from calib8.tflite.graph import Graph, Operator, Option, Quantization, Tensor
from calib8.tflite.sizes import wrong_shape

CODES = Quantization(np.array([0.5], np.float32), np.array([3]))


def chain() -> Graph:
    """x + x = a, a reshaped to y."""
    tensors = tuple(Tensor(name, (2, 3), "int8", None, CODES) for name in "xay")
    operators = (Operator("ADD", (0, 0), (1,)), Operator("RESHAPE", (1,), (2,)))
    return Graph(tensors, operators, (0,), (2,))


def with_x(**fields: Any) -> Graph:
    graph = chain()
    return replace(graph, tensors=(replace(graph.tensors[0], **fields), *graph.tensors[1:]))


def scales(values: list[float], points: list[int], axis: int = 0) -> Quantization:
    return Quantization(np.array(values, np.float32), np.array(points, np.int64), axis)


def test_a_sound_graph_passes() -> None:
    check(chain())
    check(with_x(quantization=scales([0.5, 0.25, 1], [0, 0, 0], 1)))
    check(with_x(signature=(-1, 3)))


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"shape": (2, -3)}, r"'x' has shape \[2, -3\]: a size is below 0"),
        ({"shape": (1 << 16, 1 << 15)}, "2147483648 elements"),
        ({"shape": (1,) * 33}, "33 axes"),
        ({"signature": (-1,)}, "signature"),
        ({"signature": (-2, 3)}, "signature"),
        ({"quantization": scales([0.0], [0])}, "the scale 0.0"),
        ({"quantization": scales([-1.0], [0])}, "the scale -1.0"),
        ({"quantization": scales([float("nan")], [0])}, "the scale nan"),
        ({"quantization": scales([float("inf")], [0])}, "the scale inf"),
        ({"quantization": scales([1.0], [128])}, "the zero point 128; int8 needs -128 … 127"),
        ({"quantization": scales([1.0], [0, 0])}, "1 scales and 2 zero points"),
        ({"quantization": scales([1.0] * 3, [0] * 3, 0)}, "3 scales along axis 0, whose size is 2"),
        ({"quantization": scales([1.0] * 3, [0] * 3, 2)}, "3 scales along axis 2 of shape"),
        ({"quantization": scales([1.0] * 3, [0] * 3, -1)}, "3 scales along axis -1 of shape"),
        ({"quantization": scales([1.0] * 3, [0, 5, 0], 1)}, "zero point 5; with several scales all are 0"),
        ({"data": np.zeros((2, 3), np.int8)}, "its input 0 'x' is a constant"),
    ],
)
def test_tensors(fields: dict[str, Any], what: str) -> None:
    with pytest.raises(ModelError, match=what) as caught:
        check(with_x(**fields), "net.tflite")
    assert str(caught.value).startswith("net.tflite: ")


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"inputs": (3,)}, "input 3 is none of its 3 tensors"),
        ({"outputs": (-1,)}, "output -1 is none of its 3 tensors"),
        ({"outputs": ()}, "no outputs"),
        ({"inputs": ()}, r"operator 0 \(ADD\) reads tensor 0 'x' before it is computed"),
        ({"operators": ()}, "nothing computes its output 2 'y'"),
        ({"operators": tuple(reversed(chain().operators))}, "reads tensor 1 'a' before it is computed"),
        ({"operators": chain().operators * 2}, "writes tensor 1 'a', which is written already"),
        ({"operators": (Operator("ADD", (0, 7), (2,)),)}, "reads tensor 7 of 3"),
        ({"operators": (Operator("ADD", (0, 0), (-1,)),)}, "writes tensor -1 of 3"),
        ({"operators": (Operator("ADD", (0, 0), ()),)}, "writes nothing"),
        ({"operators": (Operator("ADD", (0, 0), (0,)),)}, "writes the model's input 0 'x'"),
        ({"operators": (Operator("SPLIT", (0, 0), (2, 2)),)}, "written already"),
    ],
)
def test_operators_and_ports(fields: dict[str, Any], what: str) -> None:
    with pytest.raises(ModelError, match=what):
        check(replace(chain(), **fields))


def test_a_cycle_is_a_read_before_the_write() -> None:
    operators = (Operator("ADD", (0, 2), (1,)), Operator("RESHAPE", (1,), (2,)))
    with pytest.raises(ModelError, match="'y' before it is computed"):
        check(replace(chain(), operators=operators))


def test_constants_are_not_written() -> None:
    graph = chain()
    constant = replace(graph.tensors[1], data=np.zeros((2, 3), np.int8))
    with pytest.raises(ModelError, match="writes the constant 1 'a'"):
        check(replace(graph, tensors=(graph.tensors[0], constant, graph.tensors[2])))


def refused(graph: Graph) -> str:
    with pytest.raises(UnsupportedModelError) as caught:
        lower_tflite(graph, "net.tflite")
    message = str(caught.value)
    assert message.startswith("net.tflite: ")
    return message


WINDOW: dict[str, Option] = {
    "padding": "SAME",
    "stride_w": 1,
    "stride_h": 1,
    "dilation_w_factor": 1,
    "dilation_h_factor": 1,
    "fused_activation_function": "NONE",
}


def conv(
    dtype: str = "int8",
    weight_point: int = 0,
    bias_scale: float = 0.05,
    bias_point: int = 0,
    **options: Option,
) -> Graph:
    """x (scale 0.5) · w (scale 0.1) + b = y (scale 1)."""
    net = Net()
    x = net.codes((1, 4, 4, 2), dtype, 0.5, 0)
    w = net.constant(np.ones((3, 1, 1, 2), dtype), quantized(0.1, weight_point))
    b = net.constant(np.ones(3, np.int32), quantized(bias_scale, bias_point))
    y = net.output((1, 4, 4, 3), dtype, quantized(1.0, 0))
    return net.graph("CONV_2D", [x, w, b], [y], 3, **(WINDOW | options))


def test_sound_layers_are_lowered() -> None:
    for graph in (conv(), conv("uint8", 9, 0.06)):
        check(graph)
        assert len(lower_tflite(graph).instructions) == 1


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"weight_point": 4}, "zero point 4"),
        ({"bias_point": 4}, "has a zero point, where TFLite asks for 0"),
        ({"dtype": "uint8", "bias_scale": 0.08}, "has the scale 0.08, where TFLite asks for 0.05"),
        ({"stride_w": 65536}, "its option stride_w is 65536; the most is 65535"),
        ({"dilation_h_factor": 1 << 30}, "its option dilation_h_factor is 1073741824"),
        ({"padding": "Padding 7"}, "Padding 7"),
        ({"fused_activation_function": "TANH"}, "the activation TANH is fused into it"),
    ],
)
def test_layers(fields: dict[str, Any], what: str) -> None:
    message = refused(conv(**fields))
    assert what in message and "'y3' (CONV_2D)" in message


def unary(op: str, scale: float, point: int, dtype: str = "int8", **options: Option) -> Graph:
    """x with scale 0.5 and zero point 3, an operator, y with another scale."""
    net = Net()
    x = net.codes((1, 4, 4, 2), dtype, 0.5, 3)
    y = net.output((1, 4, 4, 2), dtype, quantized(scale, point))
    return net.graph(op, [x], [y], 2, **options)


POOL: dict[str, Option] = {
    "padding": "SAME",
    "stride_w": 1,
    "stride_h": 1,
    "filter_width": 2,
    "filter_height": 2,
    "fused_activation_function": "NONE",
}


@pytest.mark.parametrize(
    ("graph", "what"),
    [
        (unary("MAX_POOL_2D", 0.5, 3, **(POOL | {"filter_width": 0})), "filter_width is 0"),
        (unary("MAX_POOL_2D", 0.5, 3, **(POOL | {"filter_width": 1 << 20})), "filter_width is 1048576"),
        (unary("ADD", 0.25, 3), "it has 1 inputs, not 2"),
        (unary("SOFTMAX", 1 / 256, -128, beta=float("nan")), "its option beta is nan"),
        (unary("SPACE_TO_DEPTH", 0.5, 3, block_size=0), "its option block_size is 0"),
        (unary("MIRROR_PAD", 0.5, 3, mode="MirrorPadMode 9"), "it has 1 inputs, not 2"),
    ],
)
def test_numbers_and_options(graph: Graph, what: str) -> None:
    """Also of operators whose own function says more."""
    operator = graph.operators[0]
    assert what in str(misuse(graph, operator) or odd_option(operator))


def test_computing_without_a_scale() -> None:
    graph = unary("ADD", 0.5, 3)
    tensors = (replace(graph.tensors[0], quantization=None), graph.tensors[1])
    operator = replace(graph.operators[0], inputs=(0, 0))
    message = refused(replace(graph, tensors=tensors, operators=(operator,)))
    assert "'x0' holds int8 without a scale" in message


def test_inputs_that_are_left_out_and_of_another_rank() -> None:
    graph = conv()
    for inputs, what in (((0, -1, 2), "its input 1 is left out"), ((1,), "it has 1 inputs, not 2 to 3")):
        operator = replace(graph.operators[0], inputs=inputs)
        assert what in refused(replace(graph, operators=(operator,)))
    flat = replace(graph.tensors[0], shape=(4, 8))
    message = refused(replace(graph, tensors=(flat, *graph.tensors[1:])))
    assert "its input 'x0' has shape [4, 8], not 4 axes" in message


def test_tensors_that_keep_their_value() -> None:
    graph = chain()
    tensors = (graph.tensors[0], replace(graph.tensors[1], is_variable=True), graph.tensors[2])
    assert "'a' keeps its value between runs" in refused(replace(graph, tensors=tensors))


def test_outputs_that_are_constants() -> None:
    graph = chain()
    constant = Tensor("k", (2, 3), "int8", np.zeros((2, 3), np.int8), CODES)
    message = refused(replace(graph, tensors=(*graph.tensors, constant), outputs=(3,)))
    assert "its output 'k' is a constant" in message and "(outputs)" in message


@pytest.mark.parametrize(
    ("graph", "shape"),
    [
        (conv(stride_w=2), "[1, 4, 2, 3]"),
        (conv(padding="VALID", stride_h=3, stride_w=3), "[1, 2, 2, 3]"),
        (unary("MAX_POOL_2D", 0.5, 3, **(POOL | {"padding": "VALID"})), "[1, 3, 3, 2]"),
        (unary("SQUEEZE", 0.5, 3, squeeze_dims=(0,)), "[4, 4, 2]"),
        (unary("SQUEEZE", 0.5, 3, squeeze_dims=()), "[4, 4, 2]"),
    ],
)
def test_outputs_of_another_shape(graph: Graph, shape: str) -> None:
    assert f"where TFLite makes {shape}" in str(wrong_shape(graph, graph.operators[0]))


@pytest.mark.parametrize("fields", [{"stride_w": 0}, {"stride_h": -3}, {"dilation_h_factor": 0}])
def test_strides_and_dilations_below_one(fields: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match=r"stride|dilation"):
        lower_tflite(conv(**fields), "net.tflite")


def test_mixed_scales() -> None:
    graph = unary("MAX_POOL_2D", 0.5, 3, **POOL)
    bare = replace(graph.tensors[1], quantization=None)
    operator = replace(graph.operators[0], op="RESHAPE", version=1)
    message = refused(replace(graph, tensors=(graph.tensors[0], bare), operators=(operator,)))
    assert "'y1' has no scale, where other tensors of it have one" in message


def test_all_contradictions_are_listed() -> None:
    """What only the instructions of an operator show stands beside what its options show."""
    net = Net()
    x = net.codes((2, 3), "int8", 0.5, 0)
    total = net.output((3, 2), "int8", quantized(1.0, 0))
    rows = net.output((2, 4), "int8", quantized(1.0, 0))
    w = net.constant(np.ones((4, 3), np.int8), quantized(0.1, 0))
    b = net.constant(np.ones(5, np.int32), quantized(0.05, 0))
    none: dict[str, Option] = {"fused_activation_function": "NONE"}
    operators = (
        Operator("ADD", (x, x), (total,), none, 2),
        Operator("FULLY_CONNECTED", (x, w, b), (rows,), none, 4),
    )
    message = refused(Graph(tuple(net.tensors), operators, (x,), (total, rows), "net"))
    assert "2 operators cannot be run" in message
    assert "'y1' (ADD): writes" in message and "[3, 2], but computes [2, 3]" in message
    assert "'y2' (FULLY_CONNECTED): " in message and "bias" in message
    assert "Export the model without them" in message  # nothing but the input lies before them


def test_the_cure_names_what_is_computed() -> None:
    net = Net()
    x = net.codes((2, 3), "int8", 0.5, 0)
    a, y = (net.output((2, 3), "int8", quantized(1.0, 0)) for _ in range(2))
    operators = (Operator("RELU", (x,), (a,)), Operator("CUSTOM", (a, x), (y,), {}, 1, "Own"))
    message = refused(Graph(tuple(net.tensors), operators, (x,), (y,), "net"))
    assert message.endswith("(outputs): y1.")
