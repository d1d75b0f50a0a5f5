"""Folding of BatchNormalization and arithmetic per channel: the worked example, every layout and refusal."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
import pytest

from calib8.passes.fold_affine import fold_affine, fold_gemm_factors
from small_models import Array, graph, normal, ops, relative_difference, run

TOLERANCE = 1e-5
IMAGE = normal(2, 6, 9, 9, seed=50)


def norm(channels: int, seed: int = 10) -> dict[str, Array]:
    """γ, β, μ, σ² of a BatchNormalization."""
    gamma, beta, mean = (normal(channels, seed=seed + k) for k in range(3))
    return {"g": gamma, "be": beta, "m": mean, "v": normal(channels, seed=seed + 3) ** 2 + np.float32(0.1)}


def folded(model: ir.Model, feeds: Mapping[str, Array], count: int) -> ir.Model:
    """The model after the pass, proved to compute the same under the same output names."""
    expected = run(model, feeds)
    names = [value.name for value in model.graph.outputs]
    assert fold_affine(model) == count
    assert [value.name for value in model.graph.outputs] == names
    assert relative_difference(expected, run(model, feeds)) < TOLERANCE
    return model


def array(model: ir.Model, op_type: str, index: int) -> Array:
    node = next(node for node in model.graph if node.op_type == op_type)
    value = node.inputs[index]
    assert value is not None and value.const_value is not None
    return value.const_value.numpy()


def test_the_worked_example() -> None:
    constants = {
        "w": np.array([[1, -2], [0.5, 0.25]], np.float32).reshape(2, 2, 1, 1),
        "b": np.array([0.1, -0.2], np.float32),
        "g": np.array([2, 0.5], np.float32),
        "be": np.array([0.3, -0.1], np.float32),
        "m": np.array([0.4, -0.6], np.float32),
        "v": np.array([0.25, 4], np.float32),
    }
    body = "c = Conv(x, w, b) y = BatchNormalization<epsilon=0.001>(c, g, be, m, v)"
    model = graph("float[N,2,4,4] x", "float[N,2,4,4] y", body, constants)
    folded(model, {"x": normal(1, 2, 4, 4)}, 1)
    weight = array(model, "Conv", 1).reshape(2, 2)
    np.testing.assert_allclose(weight, [[3.992024, -7.984048], [0.124984, 0.062492]], atol=1e-6)
    np.testing.assert_allclose(array(model, "Conv", 2), [-0.897607, -0.000012], atol=1e-6)


CONVOLUTIONS = {
    "plain": ("Conv<pads=[1,1,1,1]>(x, w, b)", {"w": normal(8, 6, 3, 3), "b": normal(8)}),
    "no bias": ("Conv<strides=[2,2]>(x, w)", {"w": normal(8, 6, 3, 3)}),
    "grouped": ("Conv<group=2>(x, w, b)", {"w": normal(8, 3, 3, 3), "b": normal(8)}),
    "depthwise": ("Conv<group=6>(x, w)", {"w": normal(12, 1, 3, 3)}),
    "one channel": ("Conv(x, w)", {"w": normal(1, 6, 3, 3)}),
    "transposed": ("ConvTranspose<strides=[2,2]>(x, w, b)", {"w": normal(6, 8, 2, 2), "b": normal(8)}),
    "transposed, no bias": ("ConvTranspose(x, w)", {"w": normal(6, 8, 3, 3)}),
    "transposed, grouped": ("ConvTranspose<group=3>(x, w)", {"w": normal(6, 4, 3, 3)}),
}


def channels_of(name: str) -> int:
    layer, constants = CONVOLUTIONS[name]
    shape = constants["w"].shape
    if "ConvTranspose" in layer:
        return shape[1] * (3 if "group=3" in layer else 1)
    return shape[0]


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_batch_normalization_folds_into_a_convolution(name: str) -> None:
    layer, constants = CONVOLUTIONS[name]
    body = f"c = {layer} y = BatchNormalization(c, g, be, m, v)"
    model = graph("float[N,6,9,9] x", "float[N,C,H,W] y", body, {**constants, **norm(channels_of(name))})
    folded(model, {"x": IMAGE}, 1)
    assert sum(ops(model).values()) == 1


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize(
    "arithmetic", ["Mul(c, k)", "Mul(k, c)", "Add(c, k)", "Add(k, c)", "Sub(c, k)", "Sub(k, c)", "Div(c, k)"]
)
def test_arithmetic_per_channel_folds_into_a_convolution(name: str, arithmetic: str) -> None:
    layer, constants = CONVOLUTIONS[name]
    k = normal(channels_of(name), 1, 1, seed=3) + np.float32(2)
    model = graph(
        "float[N,6,9,9] x", "float[N,C,H,W] y", f"c = {layer} y = {arithmetic}", {**constants, "k": k}
    )
    folded(model, {"x": IMAGE}, 1)
    assert sum(ops(model).values()) == 1


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1), (1, 1, 1, 1), (1, 8, 1, 1)])
def test_scalars_and_full_shapes_fold(shape: tuple[int, ...]) -> None:
    constants = {"w": normal(8, 6, 3, 3), "k": normal(*shape, seed=4).reshape(shape) + np.float32(1)}
    model = graph("float[N,6,9,9] x", "float[N,C,H,W] y", "c = Conv(x, w) y = Mul(c, k)", constants)
    folded(model, {"x": IMAGE}, 1)


def test_a_bias_that_is_taken_away_again_is_gone() -> None:
    constants = {"w": normal(8, 6, 3, 3), "b": normal(8), "k": normal(8).reshape(8, 1, 1)}
    model = graph("float[N,6,9,9] x", "float[N,C,H,W] y", "c = Conv(x, w, b) y = Sub(c, k)", constants)
    folded(model, {"x": IMAGE}, 1)
    np.testing.assert_array_equal(array(model, "Conv", 2), np.zeros(8, np.float32))


def test_a_chain_folds_as_a_whole_and_the_last_name_stays() -> None:
    body = """c = Conv(x, w) a = BatchNormalization(c, g, be, m, v) b = Mul(a, k) d = Add(b, k)
              e = BatchNormalization(d, g, be, m, v) y = Relu(e)"""
    constants = {"w": normal(8, 6, 3, 3), "k": normal(8, 1, 1), **norm(8)}
    model = graph("float[N,6,9,9] x", "float[N,C,H,W] y, float[N,C,H,W] e", body, constants)
    folded(model, {"x": IMAGE}, 4)
    assert [node.outputs[0].name for node in model.graph] == ["e", "y"]


@pytest.mark.parametrize("shape", [(1, 1, 9, 1), (1, 1, 1, 7), (7, 7), (7,), (2, 1, 1, 1)])
def test_constants_along_other_axes_are_left_alone(shape: tuple[int, ...]) -> None:
    constants = {"w": normal(7, 6, 1, 1), "k": normal(*shape)}
    inputs = "float[2,6,9,7] x" if shape != (7, 7) else "float[2,6,7,7] x"
    model = graph(inputs, "float[N,C,H,W] y", "c = Conv(x, w) y = Mul(c, k)", constants)
    assert fold_affine(model) == 0


@pytest.mark.parametrize("op", ["Mul", "Add"])
def test_a_constant_that_adds_channels_or_axes_is_left_alone(op: str) -> None:
    for shape in ((1, 5, 1, 1), (5, 1, 1), (1, 1, 1, 1, 1), (3, 1, 1, 1, 1)):
        constants = {"w": normal(1, 6, 3, 3), "k": normal(*shape)}
        outputs = "float[A,B,C,D] y" if len(shape) < 5 else "float[A,B,C,D,E] y"
        model = graph("float[2,6,9,9] x", outputs, f"c = Conv(x, w) y = {op}(c, k)", constants)
        assert fold_affine(model) == 0


def test_division_of_a_constant_and_by_zero_are_left_alone() -> None:
    for body, k in (("y = Div(k, c)", [1.0, 2.0]), ("y = Div(c, k)", [1.0, 0.0])):
        constants = {"w": normal(2, 6, 3, 3), "k": np.array(k, np.float32).reshape(2, 1, 1)}
        model = graph("float[N,6,9,9] x", "float[N,C,H,W] y", f"c = Conv(x, w) {body}", constants)
        assert fold_affine(model) == 0


@pytest.mark.parametrize(
    "outputs", ["float[N,C,H,W] y, float[N,C,H,W] r", "float[N,C,H,W] y, float[N,C,H,W] c"]
)
def test_a_layer_that_somebody_else_reads_is_left_alone(outputs: str) -> None:
    body = "c = Conv(x, w) y = BatchNormalization(c, g, be, m, v) r = Relu(c)"
    model = graph("float[N,6,9,9] x", outputs, body, {"w": normal(8, 6, 3, 3), **norm(8)})
    before = run(model, {"x": IMAGE})
    if "float[N,C,H,W] c" in outputs:
        relu = next(node for node in model.graph if node.op_type == "Relu")
        model.graph.remove(relu, safe=True)  # only the graph's output is the other reader
    assert fold_affine(model) == 0
    assert relative_difference(before, run(model, {"x": IMAGE})) == 0.0


def test_a_sum_of_two_layers_is_left_alone() -> None:
    constants = {"w": normal(8, 6, 3, 3), "u": normal(8, 6, 3, 3, seed=1)}
    model = graph(
        "float[N,6,9,9] x", "float[N,C,H,W] y", "a = Conv(x, w) b = Conv(x, u) y = Add(a, b)", constants
    )
    assert fold_affine(model) == 0


def test_computed_weights_and_computed_parameters_are_left_alone() -> None:
    body = "c = Conv(x, w) y = BatchNormalization(c, g, be, m, v)"
    model = graph("float[N,6,9,9] x, float[8,6,3,3] w", "float[N,C,H,W] y", body, norm(8))
    assert fold_affine(model) == 0
    constants = {"w": normal(8, 6, 3, 3), **norm(8)}
    del constants["be"]
    model = graph("float[N,6,9,9] x, float[8] be", "float[N,C,H,W] y", body, constants)
    assert fold_affine(model) == 0


def test_training_mode_is_left_alone() -> None:
    body = "c = Conv(x, w) y, p, q = BatchNormalization<training_mode=1>(c, g, be, m, v)"
    model = graph("float[N,6,9,9] x", "float[N,C,H,W] y", body, {"w": normal(8, 6, 3, 3), **norm(8)})
    assert fold_affine(model) == 0


def test_shared_weights_and_biases_stay_as_they_are_for_the_other_layer() -> None:
    constants = {"w": normal(6, 6, 3, 3), "b": normal(6), **norm(6)}
    body = """a = Conv<pads=[1,1,1,1]>(x, w, b) n = BatchNormalization(a, g, be, m, v)
              y = Conv<pads=[1,1,1,1]>(n, w, b)"""
    model = graph("float[N,6,9,9] x", "float[N,C,H,W] y", body, constants)
    folded(model, {"x": IMAGE}, 1)
    assert {"w", "b"} <= set(model.graph.initializers) and len(model.graph.initializers) >= 4


def test_weights_that_are_also_an_output_stay_as_they_are() -> None:
    constants = {"w": normal(8, 6, 3, 3), **norm(8)}
    body = "c = Conv(x, w) y = BatchNormalization(c, g, be, m, v)"
    model = graph("float[N,6,9,9] x", "float[N,C,H,W] y, float[8,6,3,3] w", body, constants)
    folded(model, {"x": IMAGE}, 1)
    np.testing.assert_array_equal(run(model, {"x": IMAGE})[1], constants["w"])


def test_unshared_constants_keep_their_names() -> None:
    constants = {"w": normal(8, 6, 3, 3), "b": normal(8), **norm(8)}
    body = "c = Conv(x, w, b) y = BatchNormalization(c, g, be, m, v)"
    model = folded(graph("float[N,6,9,9] x", "float[N,C,H,W] y", body, constants), {"x": IMAGE}, 1)
    [node] = list(model.graph)
    assert [value.name for value in node.inputs if value is not None] == ["x", "w", "b"]


ROWS = normal(5, 6, seed=60)
GEMMS = {
    "plain": ("Gemm(x, w, b)", {"w": normal(6, 4), "b": normal(4)}),
    "transposed": ("Gemm<transB=1>(x, w, b)", {"w": normal(4, 6), "b": normal(4)}),
    "scaled": ("Gemm<alpha=0.5, beta=2.0>(x, w, b)", {"w": normal(6, 4), "b": normal(4)}),
    "scaled, transposed": ("Gemm<alpha=-1.5, transB=1>(x, w)", {"w": normal(4, 6)}),
    "scalar bias": ("Gemm(x, w, b)", {"w": normal(6, 4), "b": np.float32(0.7)}),
    "one bias": ("Gemm(x, w, b)", {"w": normal(6, 4), "b": normal(1)}),
    "row bias": ("Gemm<beta=0.5>(x, w, b)", {"w": normal(6, 4), "b": normal(1, 4)}),
    "no bias": ("Gemm(x, w)", {"w": normal(6, 4)}),
    "matmul": ("MatMul(x, w)", {"w": normal(6, 4)}),
}


@pytest.mark.parametrize("name", GEMMS)
@pytest.mark.parametrize("arithmetic", ["Mul(c, k)", "Add(c, k)", "Sub(k, c)", "Div(c, k)", "BN"])
def test_matrix_products_take_the_arithmetic(name: str, arithmetic: str) -> None:
    layer, constants = GEMMS[name]
    step = "BatchNormalization(c, g, be, m, v)" if arithmetic == "BN" else arithmetic
    k = {} if arithmetic == "BN" else {"k": normal(4, seed=3) + np.float32(2)}
    extra = norm(4) if arithmetic == "BN" else k
    model = graph("float[N,6] x", "float[N,4] y", f"c = {layer} y = {step}", {**constants, **extra})
    folded(model, {"x": ROWS}, 1)
    assert sum(ops(model).values()) == 1


def test_a_matmul_takes_a_shift_by_becoming_a_gemm() -> None:
    constants = {"w": normal(6, 4), "k": normal(4)}
    model = graph("float[N,6] x", "float[N,4] y", "c = MatMul(x, w) y = Add(c, k)", constants)
    assert ops(folded(model, {"x": ROWS}, 1)) == {"Gemm": 1}
    model = graph("float[N,6] x", "float[N,4] y", "c = MatMul(x, w) y = Mul(c, k)", constants)
    assert ops(folded(model, {"x": ROWS}, 1)) == {"MatMul": 1}


def test_a_matmul_of_three_axes_takes_a_factor_but_no_shift() -> None:
    constants = {"w": normal(6, 4), "k": normal(4)}
    feeds = {"x": normal(2, 5, 6)}
    model = graph("float[N,5,6] x", "float[N,5,4] y", "c = MatMul(x, w) y = Add(c, k)", constants)
    assert fold_affine(model) == 0
    model = graph("float[N,5,6] x", "float[N,5,4] y", "c = MatMul(x, w) y = Mul(c, k)", constants)
    assert ops(folded(model, feeds, 1)) == {"MatMul": 1}


@pytest.mark.parametrize("arithmetic", ["Add(c, k)", "Sub(c, k)", "Sub(k, c)", "BN"])
def test_a_shift_of_a_few_channels_is_a_shift(arithmetic: str) -> None:
    """A MatMul of two axes takes it as the bias of a Gemm; of three axes there is no Gemm."""
    k = np.array([1, 0, 2, 0], np.float32)
    affine = {**norm(4), "be": k, "m": np.zeros(4, np.float32)} if arithmetic == "BN" else {"k": k}
    step = "BatchNormalization(c, g, be, m, v)" if arithmetic == "BN" else arithmetic
    constants = {"w": normal(6, 4), **affine}
    model = graph("float[N,6] x", "float[N,4] y", f"c = MatMul(x, w) y = {step}", constants)
    assert ops(folded(model, {"x": ROWS}, 1)) == {"Gemm": 1}
    if arithmetic != "BN":  # whose channels are axis 1
        model = graph("float[N,5,6] x", "float[N,5,4] y", f"c = MatMul(x, w) y = {step}", constants)
        assert ops(folded(model, {"x": normal(2, 5, 6)}, 0))["MatMul"] == 1


def test_a_matmul_with_a_vector_is_left_alone() -> None:
    constants = {"w": normal(6), "k": normal(6, seed=2)}
    model = graph("float[6,6] x", "float[6] y", "c = MatMul(x, w) y = Mul(c, k)", constants)
    before = run(model, {"x": normal(6, 6)})
    fold_affine(model)
    assert relative_difference(before, run(model, {"x": normal(6, 6)})) < TOLERANCE


def test_a_bias_matrix_is_left_alone() -> None:
    constants = {"w": normal(6, 4), "b": normal(5, 4), "k": normal(4)}
    model = graph("float[5,6] x", "float[5,4] y", "c = Gemm(x, w, b) y = Mul(c, k)", constants)
    assert fold_affine(model) == 0


def test_a_constant_along_the_rows_is_left_alone() -> None:
    constants = {"w": normal(6, 4), "k": normal(4, 1)}
    model = graph("float[4,6] x", "float[4,4] y", "c = Gemm(x, w) y = Mul(c, k)", constants)
    assert fold_affine(model) == 0


def test_half_precision_is_left_alone() -> None:
    constants = {"w": normal(4, 6, 1, 1).astype(np.float16), "k": np.float16(2)}
    model = graph("float16[N,6,3,3] x", "float16[N,4,3,3] y", "c = Conv(x, w) y = Mul(c, k)", constants)
    assert fold_affine(model) == 0


@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize(
    "bias", [np.float32(0.3), normal(1), normal(4), normal(1, 1), normal(1, 4)], ids=lambda b: str(b.shape)
)
def test_factors_of_a_gemm_go_into_its_constants(bias: Array, trans_b: int) -> None:
    weight = normal(4, 6) if trans_b else normal(6, 4)
    body = f"y = Gemm<alpha=0.5, beta=2.0, transB={trans_b}>(x, w, b)"
    model = graph("float[N,6] x", "float[N,4] y", body, {"w": weight, "b": bias})
    feeds = {"x": normal(3, 6, seed=7)}
    expected = run(model, feeds)
    assert fold_gemm_factors(model) == 1
    [node] = model.graph
    assert {"alpha", "beta"}.isdisjoint(node.attributes) and array(model, "Gemm", 2).shape == (4,)
    assert relative_difference(expected, run(model, feeds)) < TOLERANCE
    assert fold_gemm_factors(model) == 0


def test_a_single_number_as_bias_becomes_a_vector() -> None:
    constants = {"w": normal(6, 4), "b": np.float32(0.3)}
    model = graph("float[N,6] x", "float[N,4] y", "y = Gemm(x, w, b)", constants)
    assert fold_gemm_factors(model) == 1
    np.testing.assert_array_equal(array(model, "Gemm", 2), np.full(4, 0.3, np.float32))


def test_factors_of_a_gemm_with_a_bias_matrix_stay() -> None:
    constants = {"w": normal(6, 4), "b": normal(5, 4)}
    model = graph("float[5,6] x", "float[5,4] y", "y = Gemm<alpha=0.5>(x, w, b)", constants)
    assert fold_gemm_factors(model) == 0
    assert next(iter(model.graph)).attributes["alpha"].as_float() == 0.5
