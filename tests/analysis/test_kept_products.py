"""Products of attention that a model keeps in float, when it is diagnosed."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import calib8
from calib8.analysis.basis import basis_of
from calib8.passes.place import place, takes_codes
from calib8.remedies import diagnose
from calib8.scheme import target_scheme
from small_nets import Net

PRODUCTS = ("queries", "values")


def attention() -> onnx.ModelProto:
    """softmax(Q·Kᵀ)·V of twelve tokens between two layers; the products take codes, but have no weights."""
    net = Net(shape=("N", 12, 8))
    query, key, value = (net.op("MatMul", "x", net.weight(8, 8), name=name) for name in "qkv")
    product = net.op("MatMul", query, net.op("Transpose", key, perm=[0, 2, 1], name="turned"), name="queries")
    mixed = net.op("MatMul", net.op("Softmax", product, axis=-1), value, name="values")
    return net.model(net.op("MatMul", mixed, net.weight(8, 4), name="last"))


def samples() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(3)
    return [{"x": rng.standard_normal((1, 12, 8)).astype(np.float32)} for _ in range(16)]


def quantized(keep_float: tuple[str, ...]) -> onnx.ModelProto:
    made = calib8.quantize(
        attention(), samples(), target="calib8", method="minmax", repair=("none",), keep_float=keep_float
    )
    return ir.to_proto(made.model)


def test_products_take_codes_though_they_are_not_quantized() -> None:
    model, scheme = ir.from_proto(onnx.shape_inference.infer_shapes(attention())), target_scheme("calib8")
    assert set(PRODUCTS).isdisjoint(place(model, scheme).quantized_nodes())
    assert set(PRODUCTS) < takes_codes(model, scheme)
    assert not takes_codes(model, target_scheme("onnxruntime")) & set(PRODUCTS)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kept", [(), PRODUCTS])
def test_every_remedy_has_the_products_as_the_model_has_them(kept: tuple[str, ...]) -> None:
    """Its table has no ranges for what products in float read; a remedy that gave them codes was an error."""
    fp32, int8 = attention(), quantized(kept)
    assert set(basis_of(fp32, int8).keep_float) == set(kept)
    found = diagnose(fp32, int8, samples(), threads=1)
    assert found.tried > 0
    assert set(found.basis.keep_float) == set(kept)
    for remedy in found.remedies:
        assert set(PRODUCTS) & set(found.words(remedy).get("keep_float", ())) == set(kept)
