"""Sizes that onnx does not infer: known all the same, so that the quantized model runs in the engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx_ir.passes.common import ShapeInferencePass

import calib8
from calib8.model.infer_shapes import infer_shapes
from calib8.model.load import load_model
from calib8.model.save import model_bytes
from small_models import normal, onnx_model

UNPOOL = (
    "p, i = MaxPool<kernel_shape=[2,2], strides=[2,2]>(a) b = MaxUnpool<kernel_shape=[2,2], strides=[2,2]>"
)
CASES: dict[str, tuple[int, str, dict[str, Any]]] = {
    "GroupNormalization": (21, "b = GroupNormalization<num_groups=2>(a, s, s)", {"s": normal(4)}),
    "MeanVarianceNormalization": (17, "b = MeanVarianceNormalization(a)", {}),
    "MaxUnpool with sizes": (17, f"{UNPOOL}(p, i, o)", {"o": np.array([1, 4, 8, 8])}),
    "MaxUnpool without": (17, f"{UNPOOL}(p, i)", {}),
    "Compress on an axis": (17, "b = Compress<axis=-1>(a, k)", {"k": np.array([True, False] * 4)}),
    "Compress of all": (17, "t = Compress(a, k) b = Add(a, t)", {"k": np.array([False, True] + [False] * 6)}),
    "of the runtime": (17, "b = com.microsoft.QuickGelu(a)", {}),
    "of the runtime, other sizes": (
        17,
        "b = com.microsoft.FusedConv<strides=[2,2], activation='Relu'>(a, u)".replace("'", '"'),
        {"u": normal(4, 4, 3, 3)},
    ),
}


def net(opset: int, inputs: str, body: str, constants: dict[str, Any]) -> onnx.ModelProto:
    """A convolution, a node of any domain, another convolution."""
    domains = f'["" : {opset}, "com.microsoft" : 1]'
    before, behind = "a = Conv<pads=[1,1,1,1]>(x, w)", "y = Conv<pads=[1,1,1,1]>(b, w)"
    text = f"<ir_version: 8, opset_import: {domains}> net ({inputs}) => (float[N,C,H,W] y)"
    proto = onnx.parser.parse_model(f"{text} {{ {before} {body} {behind} }}")
    for name, array in constants.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return proto


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("case", "batch"),
    [
        (case, batch)
        for case in CASES
        for batch in ("1", "N")
        if (case, batch) != ("MaxUnpool with sizes", "N")
    ],
)
def test_the_engine_runs_them_and_all_layers_are_quantized(case: str, batch: str) -> None:
    opset, body, constants = CASES[case]
    proto = net(opset, f"float[{batch},4,8,8] x", body, {"w": normal(4, 4, 3, 3), **constants})
    data = [{"x": normal(1, 4, 8, 8, seed=seed)} for seed in range(3)]
    result = calib8.quantize(proto, data, effort="fast")
    assert [d.node for d in result.placement.decisions if d.op_type == "Conv" and not d.quantized] == []
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected = onnxruntime.InferenceSession(model_bytes(result.model), options).run(None, data[0])
    found = calib8.InferenceSession(result.lower()).run(None, data[0])
    assert np.array_equal(expected[0], found[0])


def test_sizes_that_the_data_decide_stay_unknown() -> None:
    model = load_model(onnx_model("float[3,4] x", "int64[2,n] y", "y = NonZero(x)"))
    infer_shapes(model)
    shape = model.graph.outputs[0].shape
    assert shape is not None and not isinstance(shape[1], int)


def test_what_nobody_infers_keeps_what_is_stated() -> None:
    value = ir.Value(name="y", shape=ir.Shape([3]), type=ir.TensorType(ir.DataType.FLOAT))
    source = ir.Value(name="x", shape=ir.Shape([3]), type=ir.TensorType(ir.DataType.FLOAT))
    node = ir.Node("com.microsoft", "NoSuchOp", [source], outputs=[value])
    graph = ir.Graph([source], [value], nodes=[node], opset_imports={"": 17, "com.microsoft": 1})
    infer_shapes(ir.Model(graph, ir_version=10))
    assert value.shape == ir.Shape([3])


def test_quantizers_of_the_runtime_s_domain_end_no_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    """As codes of 16 bits have them below operator set 21: one pass sees through all of them."""
    passes = list[int]()
    call = ShapeInferencePass.call

    def counted(self: ShapeInferencePass, model: ir.Model) -> Any:
        passes.append(1)
        return call(self, model)

    monkeypatch.setattr(ShapeInferencePass, "call", counted)
    pairs = 12
    body = " ".join(
        f"q{at} = com.microsoft.QuantizeLinear({f'd{at - 1}' if at else 'x'}, s, z) "
        f"d{at} = com.microsoft.DequantizeLinear(q{at}, s, z)"
        for at in range(pairs)
    )
    text = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> net (float[2,3,8,8] x) => '
    proto = onnx.parser.parse_model(f"{text} (float[A,B,C,D] d{pairs - 1}) {{ {body} }}")
    for name, array in (("s", np.float32(0.5)), ("z", np.int16(3))):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    model = ir.from_proto(proto)
    infer_shapes(model)
    assert len(passes) == 1
    values = [node.outputs[0] for node in model.graph]
    assert {tuple(value.shape or ()) for value in values} == {(2, 3, 8, 8)}
    assert [value.dtype for value in values] == [ir.DataType.INT16, ir.DataType.FLOAT] * pairs
    assert {node.domain for node in model.graph} == {"com.microsoft"}
