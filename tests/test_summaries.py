"""What a quantization says of itself is what lies in its file and what the engine runs."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import calib8
from calib8.analysis.inspect import inspect_model
from calib8.outcomes import Quantization
from calib8.program.instructions import Float
from small_models import normal, onnx_model
from small_nets import NETS

SPATIAL = onnx_model(
    "float[1,3,6,6,6] x", "float[1,4,2,2,2] y", "c = Conv(x, w) r = Relu(c) y = Conv(r, v)",
    {"w": normal(8, 3, 3, 3, 3, seed=1), "v": normal(4, 8, 3, 3, 3, seed=2)},
)  # fmt: skip
GROUPED = onnx_model(
    "float[1,4,4,4,4] x", "float[1,4,9,9,9] y", "y = ConvTranspose<group=2, strides=[2,2,2]>(x, w)",
    {"w": normal(4, 2, 3, 3, 3, seed=1)},
)  # fmt: skip
BETWEEN_CODES = onnx_model(
    "float[1,4,8,8] x", "float[1,4] y",
    """c = Conv(x, w) e = Erf(c) d = Conv(e, w) s = ReduceSum<keepdims=0>(d, axes) y = MatMul(s, m)""",
    {"w": normal(4, 4, 1, 1, seed=1), "m": normal(4, 4, seed=2), "axes": np.array([2, 3], np.int64)},
)  # fmt: skip
IN_FLOAT = onnx_model(
    "float[1,4,8,8] x", "float[1,4,8,8] y",
    "c = Conv(x, w) l = LpNormalization<axis=1>(c) e = Erf(l) y = Conv(e, w)",
    {"w": normal(4, 4, 1, 1, seed=1)},
)  # fmt: skip
NETWORKS = {name: make() for name, make in NETS.items()} | {
    "three spatial axes": SPATIAL, "between codes": BETWEEN_CODES, "in float": IN_FLOAT
}  # fmt: skip


def quantized(proto: onnx.ModelProto, target: str) -> Quantization:
    rng = np.random.default_rng(0)
    value = proto.graph.input[0]
    shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
    data = [{value.name: rng.normal(size=shape).astype(np.float32)} for _ in range(4)]
    return calib8.quantize(proto, data, target=target, method="minmax", effort="fast")


def counted(text: str, words: str) -> Counter[str]:
    """Op → how many of it the summary calls so."""
    found: Counter[str] = Counter()
    for number, op in re.findall(rf"(\d+) {words}[^\n;]*? \((\w+)\)", text):
        found[op] += int(number)
    return found


def engine_floats(result: Quantization, names: frozenset[str]) -> Counter[str]:
    """Op → how many nodes of the placement lie in the sub-models that ONNX Runtime runs."""
    parts = [step.model for step in result.lower().instructions if isinstance(step, Float)]
    nodes = [node for part in parts for node in onnx.ModelProto.FromString(part).graph.node]
    return Counter(node.op_type for node in nodes if node.name in names)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("target", ["onnxruntime", "tflite", "tensorrt"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_summary_is_that_of_file_and_engine(name: str, target: str) -> None:
    result = quantized(NETWORKS[name], target)
    text, decisions = result.summary(), result.placement.decisions
    floats = engine_floats(result, frozenset(one.node for one in decisions))
    said = counted(text, "float because") + counted(text, "float in calib8's engine because")
    assert said == floats
    left = Counter(one.op_type for one in decisions if not one.quantized)
    integers = counted(text, "without codes of its own")
    assert integers == left - counted(text, "float because")
    for op, (done, total) in layers_of(ir.to_proto(result.model)).items():
        assert f"{done} of {total} {op} quantized" in text


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", NETWORKS)
def test_inspect_says_the_same_of_the_file(name: str, tmp_path: Path) -> None:
    result = quantized(NETWORKS[name], "onnxruntime")
    result.save(tmp_path / "q.onnx")
    parts = [step.model for step in result.lower().instructions if isinstance(step, Float)]
    floats = {node.name for part in parts for node in onnx.ModelProto.FromString(part).graph.node}
    layers = inspect_model(tmp_path / "q.onnx").layers
    assert layers and {one.name for one in layers if one.engine} == {one.name for one in layers} & floats
    assert all(one.engine is not None for one in layers)
    nameless = onnx.load(tmp_path / "q.onnx")
    for node in nameless.graph.node:
        node.name = ""
    onnx.save(nameless, tmp_path / "n.onnx")
    assert [one.engine for one in inspect_model(tmp_path / "n.onnx").layers] == [one.engine for one in layers]
    coded = result.placement.quantized_nodes()
    told = {layer.engine for layer in layers if layer.engine and layer.name in coded}
    assert all(f"float in calib8's engine because {why}" in result.summary() for why in told)


def layers_of(proto: onnx.ModelProto) -> dict[str, tuple[int, int]]:
    """Op → layers whose input and weight are dequantized codes, and all layers."""
    makers = {output: node.op_type for node in proto.graph.node for output in node.output}
    found: dict[str, tuple[int, int]] = {}
    for node in proto.graph.node:
        if node.op_type in ("Conv", "Gemm", "MatMul"):
            coded = all(makers.get(name) == "DequantizeLinear" for name in node.input[:2])
            done, total = found.get(node.op_type, (0, 0))
            found[node.op_type] = done + coded, total + 1
    return found


def test_both_sides_are_told() -> None:
    with pytest.raises(calib8.UnsupportedModelError, match="it has groups, and its frames overlap"):
        quantized(GROUPED, "onnxruntime")
    text = quantized(BETWEEN_CODES, "onnxruntime").summary()
    assert "1 of 2 other ops quantized; 1 without codes of its own" in text
    assert "1 without codes of its own, integers in calib8's engine (ReduceSum)" in text
    assert "float" not in text


def test_of_free_sizes_the_file_is_told() -> None:
    proto = onnx_model("float[1,4,H,W] x", "float[1,4,H,W] y", "y = Conv(x, w)", {"w": normal(4, 4, 1, 1)})
    data = [{"x": normal(1, 4, 8, 8)}]
    result = calib8.quantize(proto, data, method="minmax", effort="fast")
    assert result.summary() == result.placement.summary()
