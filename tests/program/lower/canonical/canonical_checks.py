"""Quantized models as text, and what must hold for the canonical form of every model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper, parser

from calib8.model.graph import constant
from calib8.program.lower.canonical import canonical_qdq
from calib8.program.lower.canonical.codings import CODE_TYPES, source_coding
from calib8.program.lower.canonical.qoperators import FORMS
from calib8.quantization.qdq import QUANTIZERS, codes_of
from small_models import Array, proto_of, run

WINDOWS = ("Conv", "ConvTranspose", "MaxPool", "AveragePool")


class Net:
    """Lines of a graph in ONNX's text form and the constants that they name."""

    def __init__(self, opset: int = 17, seed: int = 0) -> None:
        self.opset = opset
        self.lines: list[str] = []
        self.constants: dict[str, Array] = {}
        self.rng = np.random.default_rng(seed)

    def constant(self, array: object, dtype: type = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array, dtype)
        return name

    def op(self, text: str, outputs: int = 1, name: str = "") -> str:
        """Adds ``op(inputs)``; the name of its output (of the first of several, as ``t3_0, t3_1``)."""
        stem = f"t{len(self.lines)}"
        results = [stem] if outputs == 1 else [f"{stem}_{k}" for k in range(outputs)]
        self.lines.append(f"[{name or stem}] {', '.join(results)} = {text}")
        return ", ".join(results)

    def q(self, value: str, scale: float = 0.05, zero_point: int = 120, dtype: type = np.uint8) -> str:
        parameters = f"{self.constant(scale)}, {self.constant(zero_point, dtype)}"
        return self.op(f"QuantizeLinear ({value}, {parameters})")

    def dq(self, codes: str, scale: float = 0.05, zero_point: int = 120, dtype: type = np.uint8) -> str:
        parameters = f"{self.constant(scale)}, {self.constant(zero_point, dtype)}"
        return self.op(f"DequantizeLinear ({codes}, {parameters})")

    def coded(self, value: str, scale: float = 0.05, zero_point: int = 120, dtype: type = np.uint8) -> str:
        return self.dq(self.q(value, scale, zero_point, dtype), scale, zero_point, dtype)

    def codes(self, *shape: int, low: int = -127) -> Array:
        return self.rng.integers(low, 128, shape).astype(np.int8)

    def weight(self, *shape: int, axis: int | None = None, codes: Array | None = None) -> str:
        """int8 codes behind a DequantizeLinear, one scale, or one per entry of ``axis``."""
        stored = self.constant(self.codes(*shape) if codes is None else codes, np.int8)
        if axis is None:
            return self.op(f"DequantizeLinear ({stored}, {self.constant(0.01)}, {self.constant(0, np.int8)})")
        scale = self.constant(self.rng.uniform(0.005, 0.02, shape[axis]))
        points = self.constant(np.zeros(shape[axis]), np.int8)
        return self.op(f"DequantizeLinear <axis = {axis}> ({stored}, {scale}, {points})")

    def model(self, inputs: str, *outputs: str, types: Sequence[str] = ()) -> onnx.ModelProto:
        kinds = types or ["float"] * len(outputs)
        results = ", ".join(f"{kind} {name}" for kind, name in zip(kinds, outputs, strict=True))
        opsets = f'"" : {self.opset}, "com.microsoft" : 1'
        text = f"<ir_version: 8, opset_import: [{opsets}]> net ({inputs}) => ({results}) "
        proto = parser.parse_model(text + "{ " + "\n".join(self.lines) + " }")
        for output in proto.graph.output:  # the text form cannot leave the rank open
            output.type.tensor_type.ClearField("shape")
        tensors = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        proto.graph.initializer.extend(tensors)
        return proto


def made_up(model: ir.Model, seed: int = 5) -> dict[str, Array]:
    """Inputs of a canonical model."""
    rng = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for value in model.graph.inputs:
        assert value.shape is not None and value.dtype is not None
        shape, dtype = value.shape.numpy(), np.dtype(value.dtype.numpy())
        integers = np.issubdtype(dtype, np.integer)
        values = rng.integers(0, 100, shape) if integers else 3 * rng.standard_normal(shape)
        feeds[value.name or ""] = np.asarray(values).astype(dtype)
    return feeds


def canonical(
    source: onnx.ModelProto | ir.Model,
    *,
    within: float = 0.0,
    shapes: Mapping[str, Sequence[int]] | None = None,
    feeds: Mapping[str, Array] | None = None,
    meaning: onnx.ModelProto | None = None,
) -> ir.Model:
    """The canonical form, which keeps its guarantees and computes the same as ``source`` in ONNX Runtime.

    ``meaning`` computes it instead where ONNX Runtime cannot run ``source``.
    """
    original = proto_of(source)
    untouched = original.SerializeToString(deterministic=True)
    model = source if isinstance(source, ir.Model) else ir.from_proto(source)
    result = canonical_qdq(model, shapes)
    assert proto_of(source).SerializeToString(deterministic=True) == untouched
    check_guarantees(result, original)
    fed = made_up(result) if feeds is None else feeds
    for expected, actual in zip(run(meaning or original, fed), run(result, fed), strict=True):
        assert expected.dtype == actual.dtype and expected.shape == actual.shape
        np.testing.assert_allclose(
            actual.astype(np.float64), expected.astype(np.float64), rtol=0, atol=within
        )
    return result


def check_guarantees(model: ir.Model, original: onnx.ModelProto) -> None:
    """Every sentence of the package's docstring that holds for any model."""
    onnx.checker.check_model(ir.to_proto(model))
    assert [value.name for value in model.graph.outputs] == [value.name for value in original.graph.output]
    fed = {entry.name for entry in original.graph.initializer}
    names = [entry.name for entry in original.graph.input if entry.name not in fed]
    assert [value.name for value in model.graph.inputs] == names
    assert model.opset_imports[""] >= 17
    nodes = list(model.graph)
    repeated = [name for name, count in Counter(node.name for node in nodes).items() if count > 1]
    assert not repeated
    for node in nodes:
        assert node.op_type not in ("Constant", "Dropout", "BatchNormalization") and node.op_type not in FORMS
        for value in node.outputs:
            if value.uses() or value.is_graph_output():
                assert value.shape is not None and all(isinstance(size, int) for size in value.shape), value
        if node.op_type in QUANTIZERS:
            _check_quantizer(node)
        if node.op_type in WINDOWS:
            assert {"kernel_shape", "strides", "pads"} <= set(node.attributes)
            assert {"auto_pad", "output_shape", "ceil_mode"}.isdisjoint(node.attributes)
    _check_once(nodes)


def _check_quantizer(node: ir.Node) -> None:
    codes = codes_of(node)
    assert node.domain == "" and codes.scale is not None and codes.zero_point is not None
    if node.op_type == "QuantizeLinear":
        assert constant(node.inputs[0]) is None
    if codes.dtype in CODE_TYPES and codes.scale.ndim < 2:
        assert len(node.inputs) == 3 and codes.zero_point.shape == codes.scale.shape
        assert set(node.attributes) == ({"axis"} if codes.scale.ndim else set())
        assert not codes.scale.ndim or codes.axis >= 0


def _check_once(nodes: Sequence[ir.Node]) -> None:
    """No duplicates, and nothing quantized that has these very codes."""
    seen = set()
    for node in nodes:
        codes = codes_of(node) if node.op_type in QUANTIZERS else None
        if codes is None or codes.scale is None or codes.zero_point is None:
            continue
        if any(value.is_graph_output() for value in node.outputs):
            continue
        key = (node.inputs[0], node.op_type, codes.scale.tobytes(), codes.zero_point.tobytes(), codes.dtype)
        assert (*key, codes.axis) not in seen, f"{node.name} is there twice"
        seen.add((*key, codes.axis))
        before = source_coding(node.inputs[0]) if node.op_type == "QuantizeLinear" else None
        if before is not None and codes.scale.ndim == 0:
            same = before.scale == codes.scale and before.zero_point == codes.zero_point
            assert not (same and before.dtype == codes.dtype), f"{node.name} changes nothing"


def node_of(model: ir.Model, op_type: str) -> ir.Node:
    (node,) = [node for node in model.graph if node.op_type == op_type]
    return node


def op_types(model: ir.Model) -> list[str]:
    """Ops in order, quantizers left out."""
    return [node.op_type for node in model.graph if node.op_type not in QUANTIZERS]


def path(model: ir.Model) -> list[str]:
    """Ops in order with Q and DQ for quantizers of computed values; those of constants left out."""
    short = {"QuantizeLinear": "Q", "DequantizeLinear": "DQ"}
    kept = [
        node for node in model.graph if node.op_type != "DequantizeLinear" or constant(node.inputs[0]) is None
    ]
    return [short.get(node.op_type, node.op_type) for node in kept]


def contrib(
    op_type: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: object
) -> onnx.NodeProto:
    """A node of ONNX Runtime's own domain."""
    return helper.make_node(op_type, inputs, outputs, name=outputs[0], domain="com.microsoft", **attributes)
