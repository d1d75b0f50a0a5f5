"""Cross-layer equalization: the worked examples, the function kept for any chain, what it passes over."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calib8.passes.equalize_layers import LARGEST_FACTOR, equalize_layers, equalizing_factors
from calib8.passes.layer_channels import LayerChannels, layer_channels
from small_models import Array, graph, normal, relative_difference, run

W1 = np.array([[4, -2], [0.1, 0.05], [1, 0.5]], np.float32)
W2 = np.array([[0.01, 3, 0.5], [-0.02, 1, -0.4]], np.float32)

PAIR = "a = Gemm<transB=1>(x, w1, b1) r = Relu(a) y = Gemm<transB=1>(r, w2)"


def layers_of(model: ir.Model) -> list[LayerChannels]:
    found = (layer_channels(node) for node in model.graph)
    return [layer for layer in found if layer is not None]


def pair(text: str = PAIR) -> ir.Model:
    constants = {"w1": W1, "b1": np.array([0.5, -0.1, 2], np.float32), "w2": W2}
    return graph("float[4,2] x", "float y", text, constants)


def test_the_worked_pair() -> None:
    model, sample = pair(), {"x": normal(4, 2)}
    before = run(model, sample)
    found = equalize_layers(model)
    np.testing.assert_allclose(found.factors["a"], [14.142136, 0.182574, 1.414214], atol=1e-6)
    np.testing.assert_array_equal(found.factors["a"], found.factors["r"])
    first, second = layers_of(model)
    for magnitudes in (first.output_magnitudes(), second.input_magnitudes()):
        np.testing.assert_allclose(magnitudes, [0.282843, 0.547723, 0.707107], atol=1e-6)
    assert relative_difference(before, run(model, sample)) < 1e-6
    assert (found.chains, found.dead, found.clipped) == ((("a", "y"),), {}, ())


def test_the_worked_triple() -> None:
    ranges = [np.array(r) for r in ([4, 0.1, 1], [0.2, 3, 1], [0.02, 3, 0.5])]
    factors, alive = equalizing_factors(ranges)
    np.testing.assert_allclose(factors[0], [15.874, 0.10357, 1.25992], rtol=1e-4)
    np.testing.assert_allclose(factors[1], [12.5992, 0.32183, 1.58740], rtol=1e-4)
    assert alive.all()


def test_a_triple_gets_one_range_at_once() -> None:
    constants = {
        "w1": np.array([4, 0.1, 1], np.float32).reshape(3, 1, 1, 1),
        "d": np.array([0.2, 3, 1], np.float32).reshape(3, 1, 1, 1),
        "w3": np.array([0.02, 3, 0.5], np.float32).reshape(1, 3, 1, 1),
    }
    body = "a = Conv(x, w1) r = Relu(a) c = Conv<group=3>(r, d) s = Relu(c) y = Conv(s, w3)"
    model = graph("float[1,1,4,4] x", "float y", body, constants)
    found = equalize_layers(model)
    wanted = np.cbrt([4 * 0.2 * 0.02, 0.1 * 3 * 3, 0.5])
    first, middle, last = layers_of(model)
    for ranges in (first.output_magnitudes(), middle.input_magnitudes(), last.input_magnitudes()):
        np.testing.assert_allclose(ranges, wanted, rtol=1e-6)
    assert found.chains == (("a", "c", "y"),)
    assert found.sweeps <= 2


CHAINS: dict[str, tuple[str, str, dict[str, tuple[int, ...]]]] = {
    "relu": ("1,3,9,9", "a = Conv(x, A) r = Relu(a) y = Conv(r, B)", {"A": (8, 3, 3, 3), "B": (4, 8, 3, 3)}),
    "identity": (
        "1,3,9,9",
        "a = Conv(x, A, p) y = Conv(a, B)",
        {"A": (8, 3, 3, 3), "p": (8,), "B": (4, 8, 1, 1)},
    ),
    "leaky": (
        "1,3,9,9",
        "a = Conv(x, A) r = LeakyRelu(a) y = Conv(r, B)",
        {"A": (8, 3, 3, 3), "B": (4, 8, 1, 1)},
    ),
    "prelu": (
        "1,3,9,9",
        "a = Conv(x, A, p) r = PRelu(a, s) y = Conv(r, B)",
        {"A": (8, 3, 3, 3), "p": (8,), "s": (8, 1, 1), "B": (4, 8, 1, 1)},
    ),
    "depthwise": (
        "1,3,9,9",
        """a = Conv(x, A, p) r = Relu(a) c = Conv<group=8, pads=[1,1,1,1]>(r, D, q) s = Relu(c)
           e = Conv<group=8>(s, E) y = Conv(e, B, o)""",
        {
            "A": (8, 3, 3, 3),
            "p": (8,),
            "D": (8, 1, 3, 3),
            "q": (8,),
            "E": (8, 1, 3, 3),
            "B": (4, 8, 1, 1),
            "o": (4,),
        },
    ),
    "depth multiplier": (
        "1,3,9,9",
        "a = Conv(x, A) r = Relu(a) c = Conv<group=4>(r, D) s = Relu(c) y = Conv(s, B)",
        {"A": (4, 3, 3, 3), "D": (8, 1, 3, 3), "B": (2, 8, 1, 1)},
    ),
    "groups": (
        "1,4,9,9",
        "a = Conv<group=2>(x, A, p) r = Relu(a) c = Conv<group=4>(r, D) s = Relu(c) y = Conv<group=2>(s, B)",
        {"A": (8, 2, 3, 3), "p": (8,), "D": (12, 2, 3, 3), "B": (4, 6, 1, 1)},
    ),
    "transposed": (
        "1,3,5,5",
        "a = ConvTranspose(x, A, p) r = Relu(a) c = ConvTranspose<group=2>(r, D) y = Conv(c, B)",
        {"A": (3, 8, 2, 2), "p": (8,), "D": (8, 3, 3, 3), "B": (4, 6, 1, 1)},
    ),
    "gemm": (
        "3,6",
        "a = Gemm(x, A, p) r = Relu(a) c = MatMul(r, D) s = LeakyRelu(c) y = Gemm<transB=1>(s, B)",
        {"A": (6, 8), "p": (8,), "D": (8, 5), "B": (4, 5)},
    ),
    "pools": (
        "1,3,12,12",
        """a = Conv(x, A, p) r = Relu(a) m = MaxPool<kernel_shape=[2,2]>(r)
           c = Conv(m, D) s = Relu(c) g = GlobalAveragePool(s) f = Flatten(g) y = Gemm(f, B)""",
        {"A": (8, 3, 3, 3), "p": (8,), "D": (6, 8, 3, 3), "B": (6, 4)},
    ),
}
"""Sizes of the input, graph, shapes of the constants: every pair of layers in them can be equalized."""


def net(kind: str, seed: int, dead: int = 1, decades: float = 2.0) -> tuple[ir.Model, dict[str, Array]]:
    """A chain whose channels differ by factors of up to 10,000; about ``dead`` of five are zero."""
    sizes, body, shapes = CHAINS[kind]
    random = np.random.default_rng(seed)
    constants: dict[str, Array] = {}
    for name, shape in shapes.items():
        array = random.standard_normal(shape).astype(np.float32)
        if len(shape) > 1 and name.isupper():
            spread = 10.0 ** random.uniform(-decades, decades, (shape[0], *[1] * (len(shape) - 1)))
            array = (array * spread * (random.integers(0, 5, spread.shape) >= dead)).astype(np.float32)
        constants[name] = array
    model = graph(f"float[{sizes}] x", "float y", body, constants)
    return model, {"x": random.standard_normal([int(size) for size in sizes.split(",")]).astype(np.float32)}


@settings(max_examples=25)
@given(kind=st.sampled_from(sorted(CHAINS)), seed=st.integers(0, 2**16))
def test_the_function_stays(kind: str, seed: int) -> None:
    model, sample = net(kind, seed)
    before = run(model, sample)
    found = equalize_layers(model)
    assert found.chains, "there was something to equalize"
    assert relative_difference(before, run(model, sample)) < 1e-4
    for total in found.factors.values():
        assert np.all((total >= 1 / LARGEST_FACTOR) & (total <= LARGEST_FACTOR))


@pytest.mark.parametrize("apart", [1e-8, 1e8])
def test_no_channel_is_scaled_by_more_than_a_thousand(apart: float) -> None:
    """Ranges of 1e±8 beside 1 would become equal with a factor of 1e±4."""
    rows = np.array([[apart, -apart], [1, 0.5]], np.float32)
    constants = {"w1": rows, "w2": np.ones((2, 2), np.float32)}
    body = "a = Gemm<transB=1>(x, w1) r = Relu(a) y = Gemm<transB=1>(r, w2)"
    model = graph("float[4,2] x", "float y", body, constants)
    found = equalize_layers(model)
    np.testing.assert_allclose(found.factors["a"], [1e-3 if apart < 1 else 1e3, 1.0], rtol=1e-6)


@pytest.mark.parametrize("kind", CHAINS)
def test_every_pair_ends_with_equal_ranges(kind: str) -> None:
    model, _ = net(kind, seed=5, dead=0, decades=1.0)
    equalize_layers(model)
    layers = layers_of(model)
    assert len(layers) >= 2
    for first, second in pairwise(layers):
        left, right = first.output_magnitudes(), second.input_magnitudes()
        np.testing.assert_allclose(left, right, rtol=0.05)


def test_a_channel_of_zeros_keeps_its_bias() -> None:
    constants = {"w1": W1.copy(), "b1": np.array([0.5, 3.0, 2], np.float32), "w2": W2}
    constants["w1"][1] = 0
    model, sample = graph("float[4,2] x", "float y", PAIR, constants), {"x": normal(4, 2)}
    before = run(model, sample)
    found = equalize_layers(model)
    assert found.factors["a"][1] == 1.0
    assert found.dead == {"a": 1}
    assert relative_difference(before, run(model, sample)) < 1e-6


@pytest.mark.parametrize(
    ("why", "text", "clipped"),
    [
        ("a limit", PAIR.replace("Relu(a)", "Clip(a, zero, six)"), ("a",)),
        ("two readers", PAIR + " z = Sigmoid(r)", ()),
        ("a sum", PAIR.replace("Relu(a)", "Add(a, a)"), ()),
        ("another function", PAIR.replace("Relu(a)", "Sigmoid(a)"), ()),
        ("a lower limit", PAIR.replace("Relu(a)", "Clip(a, six)"), ()),
    ],
)
def test_what_is_passed_over(why: str, text: str, clipped: tuple[str, ...]) -> None:
    constants = {"w1": W1, "b1": normal(3), "w2": W2, "zero": np.float32(0), "six": np.float32(6)}
    outputs = "float y, float z" if " z = " in text else "float y"
    model = graph(
        "float[4,2] x", outputs, text, {k: np.asarray(v) for k, v in constants.items() if k in text}
    )
    found = equalize_layers(model)
    assert (found.chains, found.clipped) == ((), clipped), why
    np.testing.assert_array_equal(layers_of(model)[0].weight[0, :, :, 0], W1)


def test_a_tensor_to_be_kept_is_passed_over() -> None:
    assert equalize_layers(pair(), kept={"r"}).chains == ()
    assert equalize_layers(pair(), kept={"x"}).chains == (("a", "y"),)


def test_an_output_of_the_graph_is_not_scaled() -> None:
    model = graph("float[4,2] x", "float a, float y", PAIR, {"w1": W1, "b1": normal(3), "w2": W2})
    assert equalize_layers(model).chains == ()


def test_channels_of_sequences_are_the_last_axis() -> None:
    constants = {"w1": W1.T, "w2": W2.T}
    model = graph("float[2,5,2] x", "float y", "a = MatMul(x, w1) r = Relu(a) y = MatMul(r, w2)", constants)
    sample = {"x": normal(2, 5, 2)}
    before = run(model, sample)
    assert equalize_layers(model).chains == (("a", "y"),)
    assert relative_difference(before, run(model, sample)) < 1e-6


def test_a_flattened_image_is_no_vector_of_channels() -> None:
    constants = {"w1": normal(4, 3, 1, 1), "w2": normal(16, 2)}
    body = "a = Conv(x, w1) r = Relu(a) f = Flatten(r) y = Gemm(f, w2)"
    assert equalize_layers(graph("float[1,3,2,2] x", "float y", body, constants)).chains == ()
