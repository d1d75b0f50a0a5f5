"""Ops without an integer form, rewritten as ops that have one: same function, same names."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from calib8.passes.rewrite_leftovers import (
    batch_norm_to_conv,
    divide_to_multiply,
    mean_to_global_pool,
    pad_before_average_pool,
    sum_to_add,
)
from small_models import Array, graph, normal, ops, relative_difference, run

Pass = Callable[[ir.Model], int]


def rewritten(step: Pass, model: ir.Model, x: Array, count: int) -> ir.Model:
    expected = run(model, {"x": x})
    names = [value.name for value in model.graph.outputs]
    assert step(model) == count
    assert [value.name for value in model.graph.outputs] == names
    assert relative_difference(expected, run(model, {"x": x})) < 1e-6
    return model


@pytest.mark.parametrize("axes", [3, 4, 5])
def test_a_lone_batch_normalization_becomes_a_depthwise_convolution(axes: int) -> None:
    sizes = [4, 5, 6][: axes - 2]
    shape = ",".join(map(str, sizes))
    constants = {
        "g": normal(3),
        "b": normal(3, seed=1),
        "m": normal(3, seed=2),
        "v": np.abs(normal(3, seed=3)),
    }
    body = "r = Relu(x) n = BatchNormalization<epsilon=0.01>(r, g, b, m, v) y = Relu(n)"
    model = graph(f"float[N,3,{shape}] x", f"float[N,3,{shape}] y, float[N,3,{shape}] n", body, constants)
    rewritten(batch_norm_to_conv, model, normal(2, 3, *sizes), 1)
    assert ops(model) == {"Relu": 2, "Conv": 1}


def test_batch_normalization_of_rows_or_in_training_mode_stays() -> None:
    constants = {"g": normal(3), "b": normal(3), "m": normal(3), "v": np.abs(normal(3))}
    model = graph("float[N,3] x", "float[N,3] y", "y = BatchNormalization(x, g, b, m, v)", constants)
    rewritten(batch_norm_to_conv, model, normal(2, 3), 0)
    body = "y, p, q = BatchNormalization<training_mode=1>(x, g, b, m, v)"
    model = graph("float[N,3,4,4] x", "float[N,3,4,4] y", body, constants)
    assert batch_norm_to_conv(model) == 0


def test_division_by_constants_becomes_multiplication() -> None:
    constants = {"s": np.float32(255), "k": np.array([1, -2, 4], np.float32).reshape(3, 1, 1)}
    model = graph("float[N,3,4,4] x", "float[N,3,4,4] y", "d = Div(x, s) y = Div(d, k)", constants)
    rewritten(divide_to_multiply, model, normal(2, 3, 4, 4), 2)
    assert ops(model) == {"Mul": 2}


def test_other_divisions_stay() -> None:
    constants = {"z": np.array([1, 0], np.float32), "one": np.float32(1)}
    assert (
        divide_to_multiply(graph("float[N,2] x", "float[N,2] y", "y = Div(x, z)", {"z": constants["z"]})) == 0
    )
    assert (
        divide_to_multiply(
            graph("float[N,2] x", "float[N,2] y", "y = Div(one, x)", {"one": constants["one"]})
        )
        == 0
    )
    model = graph("int64[N] x", "int64[N] y", "y = Div(x, k)", {"k": np.array([2], np.int64)})
    assert divide_to_multiply(model) == 0


@pytest.mark.parametrize(("terms", "additions"), [(2, 1), (3, 2), (4, 3)])
def test_sums_become_additions(terms: int, additions: int) -> None:
    names = ["a", "b", "c", "d"][:terms]
    body = "a = Relu(x) b = Neg(x) c = Abs(x) d = Exp(x) y = Sum(" + ", ".join(names) + ")"
    model = graph("float[N,4] x", "float[N,4] y", body)
    rewritten(sum_to_add, model, normal(3, 4), 1)
    assert ops(model)["Sum"] == 0 and ops(model)["Add"] == additions


@pytest.mark.parametrize("axes", ["[2,3]", "[-1,-2]", "[3,2]"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_mean_over_the_image_becomes_a_global_pool(axes: str, keepdims: int) -> None:
    output = "float[N,3,1,1] y" if keepdims else "float[N,3] y"
    body = f"r = Relu(x) y = ReduceMean<axes={axes}, keepdims={keepdims}>(r)"
    model = graph("float[N,3,4,4] x", output, body)
    rewritten(mean_to_global_pool, model, normal(2, 3, 4, 4), 1)
    assert ops(model)["GlobalAveragePool"] == 1 and ops(model)["ReduceMean"] == 0


def test_the_axes_may_be_an_input() -> None:
    constants = {"a": np.array([2, 3], np.int64)}
    model = graph("float[N,3,4,4] x", "float[N,3,1,1] y", "y = ReduceMean(x, a)", constants, opset=18)
    rewritten(mean_to_global_pool, model, normal(2, 3, 4, 4), 1)
    assert ops(model) == {"GlobalAveragePool": 1}


@pytest.mark.parametrize("axes", ["[1,2,3]", "[2]", "[1]", "[0,2,3]"])
def test_other_means_stay(axes: str) -> None:
    model = graph("float[N,3,4,4] x", "float[A,B,C,D] y", f"y = ReduceMean<axes={axes}>(x)")
    assert mean_to_global_pool(model) == 0


def test_a_mean_over_everything_or_over_nothing_stays() -> None:
    assert mean_to_global_pool(graph("float[N,3,4,4] x", "float[A,B,C,D] y", "y = ReduceMean(x)")) == 0
    body = "y = ReduceMean<noop_with_empty_axes=1>(x)"
    assert mean_to_global_pool(graph("float[N,3,4,4] x", "float[A,B,C,D] y", body, opset=18)) == 0
    model = graph("float[N,4] x", "float[N,1] y", "y = ReduceMean<axes=[1]>(x)")
    assert mean_to_global_pool(model) == 0


POOL = "AveragePool<kernel_shape=[3,3], strides=[2,2], pads=[1,0,1,2], count_include_pad=1>"


@pytest.mark.parametrize("producer", ["Tanh(x)", "Concat<axis=1>(x, r)", "Clip(x, minus)", "Identity(x)"])
def test_counted_padding_of_signed_values_becomes_a_node_of_its_own(producer: str) -> None:
    body = f"r = Relu(x) s = {producer} y = {POOL}(s)"
    constants = {"minus": np.float32(-1)}
    model = graph("float[N,3,8,8] x", "float[A,B,C,D] y", body, constants)
    rewritten(pad_before_average_pool, model, normal(2, 3, 8, 8), 1)
    assert ops(model)["Pad"] == 1
    assert pad_before_average_pool(model) == 0


@pytest.mark.parametrize(
    "body",
    [
        f"r = Relu(x) y = {POOL}(r)",
        f"r = Relu(x) s = Sigmoid(x) c = Concat<axis=1>(r, s) y = {POOL}(c)",
        f"r = Clip(x, zero) m = MaxPool<kernel_shape=[2,2]>(r) y = {POOL}(m)",
        "y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(x)",
        "y = AveragePool<kernel_shape=[3,3], count_include_pad=1>(x)",
        'y = AveragePool<kernel_shape=[3,3], auto_pad="SAME_UPPER", count_include_pad=1>(x)',
        "y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1], ceil_mode=1, count_include_pad=1>(x)",
    ],
)
def test_other_average_pools_stay(body: str) -> None:
    model = graph("float[N,3,8,8] x", "float[A,B,C,D] y", body, {"zero": np.float32(0)})
    assert pad_before_average_pool(model) == 0
