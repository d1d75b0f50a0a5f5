"""Layers in one view: what multiplies what, where it stands, and the way back."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from calib8.model.layer import Layer, layer_of
from small_models import Array, normal, onnx_model, run

LAYERS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...]]] = {
    "Conv": ("Conv<group=2>(x, w)", (1, 4, 1, 1), (6, 2, 1, 1)),
    "ConvTranspose": ("ConvTranspose<group=2>(x, w)", (1, 4, 1, 1), (4, 3, 1, 1)),
    "Gemm": ("Gemm(x, w)", (1, 4), (4, 6)),
    "Gemm, transposed": ("Gemm<transB=1>(x, w)", (1, 4), (6, 4)),
    "MatMul": ("MatMul(x, w)", (1, 4), (4, 6)),
}


def layer_and_run(text: str, x: tuple[int, ...], w: tuple[int, ...]) -> tuple[Layer, Array, Array, Array]:
    """The layer, its input, its weight and its output."""
    constants = {"w": normal(*w)}
    sizes = ",".join(map(str, x))
    free = ",".join("ABCD"[: len(x)])
    proto = onnx_model(f"float[{sizes}] x", f"float[{free}] y", f"y = {text}", constants)
    fed = normal(*x, seed=1)
    return Layer(next(iter(ir.from_proto(proto).graph))), fed, constants["w"], run(proto, {"x": fed})[0]


@pytest.mark.parametrize("kind", LAYERS)
def test_the_view_multiplies_what_the_layer_multiplies(kind: str) -> None:
    layer, x, weight, y = layer_and_run(*LAYERS[kind])
    view, groups = layer.by_channel(weight), layer.groups
    assert view.shape == (groups, 6 // groups, 4 // groups, 1)
    found = np.einsum("goi,gi->go", view[..., 0], x.reshape(groups, -1))
    np.testing.assert_allclose(found.reshape(-1), y.reshape(-1), rtol=1e-5)


@pytest.mark.parametrize(
    ("node", "shape"),
    [
        (ir.node("Conv", [None, None], {"group": 3}), (6, 2, 3, 5)),
        (ir.node("ConvTranspose", [None, None], {"group": 2}), (4, 3, 3, 5)),
        (ir.node("ConvTranspose", [None, None]), (4, 3, 7)),
        (ir.node("Gemm", [None, None], {"transB": 1}), (5, 3)),
        (ir.node("Gemm", [None, None]), (5, 3)),
        (ir.node("MatMul", [None, None]), (2, 5, 3)),
    ],
)
def test_the_way_back(node: ir.Node, shape: tuple[int, ...]) -> None:
    weight, layer = normal(*shape), Layer(node)
    np.testing.assert_array_equal(layer.in_layout(layer.by_channel(weight), shape), weight)


@pytest.mark.parametrize("kind", LAYERS)
def test_channels_are_where_the_layer_has_them(kind: str) -> None:
    layer, x, weight, y = layer_and_run(*LAYERS[kind])
    axis = layer.output_axis(weight.ndim)
    assert layer.channels(weight.shape) == y.shape[layer.channel_axis(y.ndim)] == 6
    assert weight.shape[axis] * layer.sharing == 6 and x.shape[layer.channel_axis(x.ndim)] == 4
    dead = weight.copy()
    dead[(slice(None),) * axis + (1,)] = 0.0
    silent = np.flatnonzero(~layer.by_channel(dead).any(axis=(2, 3)).reshape(-1))
    assert silent.tolist() == [1 + group * 6 // layer.sharing for group in range(layer.sharing)]


@pytest.mark.parametrize(
    ("node", "axis"),
    [
        (ir.node("Conv", [None, None]), 0),
        (ir.node("ConvTranspose", [None, None]), 1),
        (ir.node("Gemm", [None, None]), 1),
        (ir.node("Gemm", [None, None], {"transB": 1}), 0),
        (ir.node("MatMul", [None, None]), 1),
    ],
)
def test_output_channels_are_where_onnx_puts_them(node: ir.Node, axis: int) -> None:
    assert Layer(node).output_axis(2) == axis


def test_the_weight_of_a_stack_of_products_has_its_channels_last() -> None:
    layer = Layer(ir.node("MatMul", [None, None]))
    assert (layer.output_axis(3), layer.channels((2, 5, 3))) == (2, 3)
    assert layer.fits(2) and not layer.fits(3)


def test_factors_and_transposed_inputs_are_those_of_a_gemm() -> None:
    given = {"alpha": 2.0, "beta": 0.5, "transA": 1, "transB": 1, "group": 3}
    gemm, product = (Layer(ir.node(op, [None, None], given)) for op in ("Gemm", "MatMul"))
    assert (gemm.factors, gemm.turned, gemm.plain, gemm.groups) == ((2.0, 0.5), True, False, 1)
    assert (product.factors, product.turned, product.plain) == ((1.0, 1.0), False, True)
    assert Layer(ir.node("Gemm", [None, None])).plain


def test_a_product_of_matrices_has_no_place_for_a_bias() -> None:
    values = [ir.Value(name=name) for name in "xwb"]
    kinds = {op: Layer(ir.node(op, values)) for op in ("Conv", "ConvTranspose", "Gemm", "MatMul")}
    assert [kind for kind, layer in kinds.items() if layer.bias is None] == ["MatMul"]
    assert all(layer.input is values[0] and layer.weight is values[1] for layer in kinds.values())


@pytest.mark.parametrize(
    ("attributes", "pads"),
    [
        ({}, False),
        ({"pads": [0, 0, 0, 0]}, False),
        ({"pads": [0, 0, 0, 1]}, True),
        ({"auto_pad": "VALID"}, False),
        ({"auto_pad": "SAME_UPPER"}, True),
    ],
)
def test_padding_of_a_convolution(attributes: dict[str, object], pads: bool) -> None:
    assert Layer(ir.node("Conv", [None, None], attributes)).pads == pads  # type: ignore[arg-type]
    assert not Layer(ir.node("Gemm", [None, None], attributes)).pads  # type: ignore[arg-type]


def test_other_nodes_are_not_layers() -> None:
    assert layer_of(ir.node("Relu", [None])) is None and layer_of(None) is None
    with pytest.raises(ValueError, match="a Relu is not a layer"):
        Layer(ir.node("Relu", [None]))
