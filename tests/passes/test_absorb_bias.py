"""High biases move on: the worked example, the function kept, what cannot take them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from calib8.passes.absorb_bias import absorb_high_biases, high_bias
from calib8.passes.layer_channels import layer_channels
from small_models import Array, graph, normal, relative_difference, run


def test_the_worked_example() -> None:
    amount = high_bias(np.array([2, 0.1, 5]), np.array([0.5, 1, -1]))
    np.testing.assert_allclose(amount, [0.5, 0, 2])


NETS: dict[str, tuple[str, str, dict[str, tuple[int, ...]]]] = {
    "pointwise": (
        "2,3,6,6",
        "a = Conv(x, A, p) r = Relu(a) y = Conv(r, B, q)",
        {"A": (4, 3, 3, 3), "B": (5, 4, 1, 1)},
    ),
    "no bias": (
        "2,3,6,6",
        "a = Conv(x, A, p) r = Relu(a) y = Conv(r, B)",
        {"A": (4, 3, 3, 3), "B": (5, 4, 3, 3)},
    ),
    "groups": (
        "2,3,6,6",
        "a = Conv(x, A, p) r = Relu(a) y = Conv<group=2>(r, B)",
        {"A": (4, 3, 3, 3), "B": (6, 2, 3, 3)},
    ),
    "depthwise": (
        "2,3,6,6",
        "a = Conv(x, A, p) r = Relu(a) y = Conv<group=4>(r, B)",
        {"A": (4, 3, 1, 1), "B": (4, 1, 3, 3)},
    ),
    "pool": (
        "2,3,6,6",
        "a = Conv(x, A, p) r = Relu(a) g = GlobalAveragePool(r) f = Flatten(g) y = Gemm<transB=1>(f, B)",
        {"A": (4, 3, 3, 3), "B": (5, 4)},
    ),
}


def net(kind: str, text: str | None = None) -> tuple[ir.Model, dict[str, Array], dict[str, Array]]:
    """A network, a sample, and the smallest value of every channel of ``a`` if it is positive."""
    sizes, body, shapes = NETS[kind]
    body = text or body
    constants = {name: normal(*shape, seed=index) for index, (name, shape) in enumerate(shapes.items())}
    constants["p"] = np.array([25, -1, 40, 30], np.float32)
    if ", q)" in body:
        constants["q"] = normal(5, seed=7)
    sample = {"x": normal(*[int(size) for size in sizes.split(",")], seed=9)}
    model = graph(f"float[{sizes}] x", "float y", body, constants)
    tapped = graph(f"float[{sizes}] x", "float a", "a = Conv(x, A, p)", {k: constants[k] for k in ("A", "p")})
    least = run(tapped, sample)[0].min(axis=(0, 2, 3)).astype(np.float64)
    return model, sample, {"a": np.maximum(0.0, least)}


@pytest.mark.parametrize("kind", NETS)
def test_the_function_stays_where_nothing_is_below(kind: str) -> None:
    model, sample, amounts = net(kind)
    assert np.count_nonzero(amounts["a"]) >= 2
    before, bias = run(model, sample), layer_channels(next(iter(model.graph)))
    found = absorb_high_biases(model, amounts)
    after = layer_channels(next(iter(model.graph)))
    assert bias is not None and after is not None and bias.bias is not None and after.bias is not None
    np.testing.assert_allclose(bias.bias - after.bias, amounts["a"], rtol=1e-5)
    assert len(found.layers) == 2 and {"a", "r"} <= found.tensors and not found.padded
    assert relative_difference(before, run(model, sample)) < 1e-5


@pytest.mark.parametrize(
    ("text", "padded"),
    [
        ("a = Conv(x, A, p) r = Relu(a) y = Conv<pads=[1,1,1,1]>(r, B)", ("y",)),
        ('a = Conv(x, A, p) r = Relu(a) y = Conv<auto_pad="SAME_UPPER">(r, B)', ("y",)),
        ("a = Conv(x, A, p) r = LeakyRelu(a) y = Conv(r, B)", ()),
        ("a = Conv(x, A, p) y = Conv(a, B)", ()),
        ("a = Conv(x, A, p) r = Relu(a) m = AveragePool<kernel_shape=[2,2]>(r) y = Conv(m, B)", ()),
    ],
)
def test_what_is_passed_over(text: str, padded: tuple[str, ...]) -> None:
    model, sample, amounts = net("no bias", text)
    before = run(model, sample)
    found = absorb_high_biases(model, amounts)
    assert (found.layers, found.tensors, found.padded) == (frozenset(), frozenset(), padded)
    np.testing.assert_array_equal(run(model, sample)[0], before[0])


def test_nothing_to_absorb() -> None:
    model, _, amounts = net("pointwise")
    assert not absorb_high_biases(model, {"a": np.zeros_like(amounts["a"])}).layers
    assert not absorb_high_biases(model, {"other": amounts["a"]}).layers
