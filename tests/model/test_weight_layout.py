"""Weights of all layers in one view: what multiplies what, and the way back."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from calib8.model.weight_layout import by_channel, groups_of, in_layout
from small_models import Array, normal, onnx_model, run

LAYERS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...]]] = {
    "Conv": ("Conv<group=2>(x, w)", (1, 4, 1, 1), (6, 2, 1, 1)),
    "ConvTranspose": ("ConvTranspose<group=2>(x, w)", (1, 4, 1, 1), (4, 3, 1, 1)),
    "Gemm": ("Gemm(x, w)", (1, 4), (4, 6)),
    "Gemm, transposed": ("Gemm<transB=1>(x, w)", (1, 4), (6, 4)),
    "MatMul": ("MatMul(x, w)", (1, 4), (4, 6)),
}


def layer_of(text: str, x: tuple[int, ...], w: tuple[int, ...]) -> tuple[ir.Node, Array, Array, Array]:
    """The node, its input, its weight and its output."""
    constants = {"w": normal(*w)}
    sizes = ",".join(map(str, x))
    free = ",".join("ABCD"[: len(x)])
    proto = onnx_model(f"float[{sizes}] x", f"float[{free}] y", f"y = {text}", constants)
    fed = normal(*x, seed=1)
    return next(iter(ir.from_proto(proto).graph)), fed, constants["w"], run(proto, {"x": fed})[0]


@pytest.mark.parametrize("kind", LAYERS)
def test_the_view_multiplies_what_the_layer_multiplies(kind: str) -> None:
    node, x, weight, y = layer_of(*LAYERS[kind])
    view = by_channel(node, weight)
    groups = groups_of(node)
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
    weight = normal(*shape)
    np.testing.assert_array_equal(in_layout(node, by_channel(node, weight), shape), weight)
