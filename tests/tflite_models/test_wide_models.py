"""TFLite files with 16-bit activations: whole networks, large sums, and what is refused with which words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from single_op import Net, assert_same_bits, quantized, random_scale

from calib8 import _core
from calib8.engine.compile import compile_program
from calib8.engine.run import Engine
from calib8.errors import UnsupportedModelError
from calib8.program.instructions import Add, Mul
from calib8.program.lower_tflite.lower import lower_tflite
from calib8.session import InferenceSession
from calib8.tflite.graph import Graph, Operator, Option, Quantization
from calib8.tflite.read import parse
from calib8.tflite.write import serialize

CONV: dict[str, Option] = {
    "padding": "SAME", "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1,
    "fused_activation_function": "RELU",
}  # fmt: skip
VERSIONS = {"RESHAPE": 1}


class WideNet(Net):
    """A network of several operators on int16."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self.rng, self.operators = rng, list[Operator]()

    def run(self, op: str, inputs: list[int], shape: tuple[int, ...], scale: float, **options: Option) -> int:
        y = self.output(shape, "int16", quantized(scale, 0))
        self.operators.append(Operator(op, tuple(inputs), (y,), options, VERSIONS.get(op, 3)))
        return y

    def layer(self, op: str, x: int, outputs: int, scale: float, **options: Option) -> int:
        *sizes, depth = self.tensors[x].shape
        shapes = {
            "CONV_2D": (outputs, 3, 3, depth), "DEPTHWISE_CONV_2D": (1, 3, 3, outputs),
            "FULLY_CONNECTED": (outputs, depth),
        }  # fmt: skip
        w = self.rng.integers(-127, 128, shapes[op]).astype(np.int8)
        axis = 3 if op.startswith("DEPTH") else 0
        scales = np.array([random_scale(self.rng, 1e-3, 1e-2) for _ in range(outputs)], np.float32)
        weight = self.constant(w, Quantization(scales, np.zeros(outputs, np.int64), axis))
        x_kind = self.tensors[x].quantization
        assert x_kind is not None
        steps = Quantization(x_kind.scales * scales, np.zeros(outputs, np.int64), 0)
        bias = self.constant(self.rng.integers(-(1 << 20), 1 << 20, outputs), steps)
        return self.run(op, [x, weight, bias], (*sizes, outputs), scale, **options)

    def model(self, outputs: list[int]) -> Graph:
        return Graph(tuple(self.tensors), tuple(self.operators), tuple(self.inputs), tuple(outputs), "net")


def small_network(rng: np.random.Generator) -> Graph:
    """Two layers around a residual addition, a gate, a pool, a concatenation, and scores."""
    net = WideNet(rng)
    x = net.codes((1, 8, 8, 4), "int16", 1 / 16384, 0)
    a = net.layer("CONV_2D", x, 8, 2e-4, **CONV)
    b = net.layer("DEPTHWISE_CONV_2D", a, 8, 3e-4, **CONV, depth_multiplier=1)
    c = net.run("ADD", [a, b], (1, 8, 8, 8), 4e-4, fused_activation_function="RELU", pot_scale_int16=False)
    s = net.run("LOGISTIC", [c], (1, 8, 8, 8), 2.0**-15)
    g = net.run("MUL", [c, s], (1, 8, 8, 8), 4e-4, fused_activation_function="NONE")
    p = net.run(
        "MAX_POOL_2D", [g], (1, 4, 4, 8), 4e-4,
        padding="VALID", stride_h=2, stride_w=2, filter_height=2, filter_width=2,
        fused_activation_function="NONE",
    )  # fmt: skip
    k = net.run("CONCATENATION", [p, p], (1, 4, 4, 16), 4e-4, axis=3, fused_activation_function="NONE")
    r = net.run(
        "RESHAPE", [k, net.constant(np.array([1, 256], np.int32))], (1, 256), 4e-4, new_shape=(1, 256)
    )
    y = net.layer("FULLY_CONNECTED", r, 10, 2e-3, keep_num_dims=False, fused_activation_function="NONE")
    return net.model([y])


def test_whole_networks() -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        graph = small_network(rng)
        assert_same_bits(rng, graph)
        assert lower_tflite(parse(serialize(graph))).float_reasons == {}


def test_sums_beyond_int32() -> None:
    """3·3·600 weights: more than 2^31 where all codes are large."""
    rng = np.random.default_rng(0)
    net = WideNet(rng)
    x = net.codes((1, 3, 3, 600), "int16", 1e-4, 0)
    y = net.layer("CONV_2D", x, 3, 0.05, **CONV | {"fused_activation_function": "NONE"})
    graph = net.model([y])
    weight = graph.tensors[graph.operators[0].inputs[1]]
    assert weight.data is not None
    signs = np.sign(weight.data[0]).reshape(3, 3, 600)
    codes = np.where(signs >= 0, 32767, -32768).astype(np.int16)[None]
    assert abs(int((codes.astype(np.int64) * weight.data[0]).sum())) > 1 << 31
    assert_same_bits(rng, graph, runs=1, inputs=[codes])
    assert_same_bits(rng, graph)


def _layer(op: str, bias: np.ndarray, depth: int = 4, weight: int | None = None) -> Graph:
    net = WideNet(np.random.default_rng(0))
    x = net.codes((1, 3, 3, depth) if op == "CONV_2D" else (2, depth), "int16", 1e-4, 0)
    options = CONV if op == "CONV_2D" else {"keep_num_dims": False, "fused_activation_function": "NONE"}
    net.layer(op, x, 2, 1e-3, **options)
    graph = net.model([len(net.tensors) - 1])
    operator = graph.operators[0]
    tensors = list(graph.tensors)
    tensors[operator.inputs[2]] = replace(tensors[operator.inputs[2]], data=bias, dtype=bias.dtype.name)
    if weight is not None:
        old = tensors[operator.inputs[1]]
        tensors[operator.inputs[1]] = replace(old, data=np.full(old.shape, weight, np.int8))
    return replace(graph, tensors=tuple(tensors))


def _one(
    op: str, zero_point: int = 0, target: str = "int16", scale: float = 1e-3, **options: Option
) -> Graph:
    net = Net()
    x = net.codes((1, 4, 4, 2), "int16", 1e-3, zero_point)
    y = net.output((1, 4, 4, 2), target, quantized(scale, 0))
    return net.graph(op, [x], [y], 2, **options)


REFUSED: dict[str, tuple[Graph, str]] = {
    "an operator without a form": (
        _one("SOFTMAX", scale=2.0**-15, beta=1.0),
        "'y1' (SOFTMAX): 'x0' has 16-bit codes, for which the operator has no integer form",
    ),
    "a zero point": (_one("RELU", 3), "its int16 'x0' has the zero point 3, where TFLite asks for 0"),
    "another output of a curve": (
        _one("LOGISTIC"), "its output is int16 of scale 0.001, where TFLite writes int16 of 1/32768"
    ),
    "an int32 bias": (
        _layer("CONV_2D", np.zeros(2, np.int32)), "its bias is int32, where 16-bit codes need int64"
    ),
    "a bias beyond int32": (
        _layer("CONV_2D", np.array([0, 1 << 33])), "its bias reaches 8589934592, beyond int32"
    ),
    "sums of a dense layer beyond int32": (
        _layer("FULLY_CONNECTED", np.zeros(2, np.int64), 600, 127),
        "its sums of 16-bit codes may reach 2496921600, beyond int32",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    graph, words = REFUSED[name]
    with pytest.raises(UnsupportedModelError) as caught:
        lower_tflite(parse(serialize(graph)))
    assert words in str(caught.value)


def test_the_engine_has_steps_for_all_of_it() -> None:
    """Sums and products that are rounded twice too."""
    program = lower_tflite(parse(serialize(small_network(np.random.default_rng(0)))))
    plan, kinds = compile_program(program), {type(step) for step in program.instructions}
    assert {Add, Mul} <= kinds and not plan.floats
    assert {"wide_add", "wide_mul"} <= {row.opcode for row in plan.rows}
    assert InferenceSession(program).get_inputs()[0].type == "tensor(int16)"


def test_a_plan_whose_sums_would_leave_int32_is_refused() -> None:
    program = lower_tflite(parse(serialize(small_network(np.random.default_rng(0)))))
    plan = compile_program(program)
    place = next(number for number, row in enumerate(plan.rows) if row.opcode == "wide_add")
    fields = plan.rows[place].fields.copy()
    names = _core.engine.schemas()["wide_add"]
    fields[names.index("sum.left_shift")] += 1
    rows = [*plan.rows[:place], plan.rows[place]._replace(fields=fields), *plan.rows[place + 1 :]]
    with pytest.raises(ValueError, match="beyond int32"):
        Engine(replace(plan, rows=tuple(rows)))
