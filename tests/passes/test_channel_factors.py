"""What equalization did to channels is found again from the constants, and told apart from other changes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from calib8.errors import ModelError
from calib8.passes.channel_factors import ChannelFactors, channel_factors, parse_factors
from calib8.passes.function_factors import function_entries, function_exits, scale_into, scale_out_of
from calib8.passes.layer_channels import layer_channels
from calib8.passes.prepare import prepare
from calib8.scheme import target_scheme
from small_models import Array, normal, onnx_model, run

CONSTANTS = {
    "w": normal(6, 3, 3, 3),
    "b": normal(6, seed=1),
    "d": normal(6, 1, 3, 3, seed=2),
    "p": normal(4, 6, 1, 1, seed=3),
}
BODY = "c = Conv(x, w, b) t = Relu(c) e = Conv<group=6>(t, d) u = Relu(e) y = Conv(u, p)"
SAMPLE = normal(2, 3, 8, 8, seed=9)


def prepared() -> ir.Model:
    model = onnx_model("float[N,3,8,8] x", "float[N,4,4,4] y", BODY, CONSTANTS)
    return prepare(ir.from_proto(model), {"x": SAMPLE}).model


def scale(model: ir.Model, first: int, second: int, factors: Array) -> None:
    layers = [layer_channels(node) for node in model.graph if node.op_type == "Conv"]
    source, reader = layers[first], layers[second]
    assert source is not None and reader is not None
    source.scaled(outputs=factors.astype(np.float64)).write(model.graph)
    again = layer_channels(reader.node)
    assert again is not None
    again.scaled(inputs=1.0 / factors.astype(np.float64)).write(model.graph)


FIRST = np.array([1.0, 2.0, 0.01, 1.0, 300.0, 1.0], np.float32)
SECOND = np.array([3.0, 1.0, 1.0, 0.5, 1.0, 1.0], np.float32)


def test_factors_of_chains_are_found() -> None:
    before, after = prepared(), prepared()
    scale(after, 0, 1, FIRST)
    scale(after, 1, 2, SECOND)
    found = channel_factors(before, after)
    assert found.factors.keys() == {"c", "t", "e", "u"} and not found.others
    for names, factors in ((("c", "t"), FIRST), (("e", "u"), SECOND)):
        for name in names:
            assert np.allclose(found.factors[name], factors, rtol=1e-6, atol=0)
            assert np.all(found.factors[name][factors == 1.0] == 1.0)
    outputs = [run(ir.to_proto(model), {"x": SAMPLE})[0] for model in (before, after)]
    assert np.allclose(*outputs, rtol=1e-4, atol=1e-4)


def test_factors_beside_functions_are_found() -> None:
    body = BODY.replace("t = Relu(c)", "t = HardSwish(c)")
    model = onnx_model("float[N,3,8,8] x", "float[N,4,4,4] y", body, CONSTANTS)
    before, after = (prepare(ir.from_proto(model), {"x": SAMPLE}).model for _ in range(2))
    powers = np.exp2(np.arange(6.0))
    scheme = target_scheme("onnxruntime")
    [entry], [end] = (find(after, scheme, frozenset()) for find in (function_entries, function_exits))
    scale_into(after.graph, entry, powers)
    scale_out_of(after.graph, end, powers[::-1])
    found = channel_factors(before, after)
    assert found.factors.keys() == {"c", "t"} and not found.others
    assert np.array_equal(found.factors["c"], powers) and np.array_equal(found.factors["t"], powers[::-1])
    outputs = [run(ir.to_proto(model), {"x": SAMPLE})[0] for model in (before, after)]
    assert np.array_equal(*outputs)


def test_equal_models_have_none() -> None:
    assert channel_factors(prepared(), prepared()) == ChannelFactors()


def test_a_shifted_bias_is_no_factor() -> None:
    before, after = prepared(), prepared()
    layer = next(layer_channels(node) for node in after.graph if node.op_type == "Conv")
    assert layer is not None and layer.bias is not None
    type(layer)(layer.layer, layer.weight, layer.bias + 1.0).write(after.graph)
    found = channel_factors(before, after)
    assert found.others == {"c", "t"} and not found.factors


def test_another_sign_is_no_factor() -> None:
    before, after = prepared(), prepared()
    layer = next(layer_channels(node) for node in after.graph if node.op_type == "Conv")
    assert layer is not None and layer.bias is not None
    type(layer)(layer.layer, -layer.weight, -layer.bias).write(after.graph)
    assert channel_factors(before, after).others == {"c", "t"}


def test_they_come_back_from_their_text() -> None:
    before, after = prepared(), prepared()
    scale(after, 0, 1, FIRST)
    found = channel_factors(before, after)
    again = parse_factors(ChannelFactors(found.factors, frozenset({"q"})).to_json(), "model")
    assert again.others == {"q"} and again.factors.keys() == found.factors.keys()
    assert np.allclose(again.factors["t"], FIRST, rtol=1e-5, atol=0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"paths": 1, "others": []}',
        '{"paths": [{"tensors": ["t"], "factors": [0]}], "others": []}',
        '{"paths": [{"tensors": ["t"], "factors": [[1]]}], "others": []}',
        '{"paths": [{"tensors": ["t"], "factors": [NaN]}], "others": []}',
        '{"paths": [{"tensors": ["t"], "factors": [1e300]}], "others": []}',
        f'{{"paths": [{{"tensors": ["t"], "factors": [1{"0" * 400}]}}], "others": []}}',
        '{"paths": [{"tensors": ["t"], "factors": ["1"]}], "others": []}',
        '{"paths": [{"tensors": "t", "factors": [1]}], "others": []}',
        '{"paths": [{"tensors": ["t"], "factors": [1], "axis": 99}], "others": []}',
        '{"paths": [{"tensors": ["t"], "factors": [1], "axis": "2"}], "others": []}',
        "[" * 100_000,
    ],
)
def test_broken_texts_are_refused(text: str) -> None:
    with pytest.raises(ModelError, match="broken"):
        parse_factors(text, "model.onnx")


@pytest.mark.parametrize("count", [0, 5, 1000])
def test_another_number_of_factors_is_refused(count: int) -> None:
    changes = ChannelFactors({"t": np.ones(count)})
    with pytest.raises(ModelError, match=f"'t': the metadata .* have {count} factors for it, and 6 channels"):
        changes.shaped("t", (2, 6, 4, 4))
