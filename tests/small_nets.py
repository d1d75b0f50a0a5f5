"""Small float networks, one per building block, and their int8 form for any target."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper, numpy_helper

from calib8.model.graph import graph_inputs, model_hash
from calib8.model.load import load_model
from calib8.model.made_up import made_up_input
from calib8.model.runtime import open_session
from calib8.model.taps import tapped_model
from calib8.passes.place import calibration_tensors, place
from calib8.passes.prepare import prepare
from calib8.passes.resolve_ranges import resolve_ranges
from calib8.quantization.insert import insert_quantizers
from calib8.scheme import QuantScheme, target_scheme
from calib8.table import CalibrationTable, Range, TableEntry

IMAGE: Final = (1, 4, 8, 8)


class Net:
    """Collects nodes and constants; every method returns the name of the tensor it adds."""

    def __init__(self, opset: int = 17, shape: tuple[int | str, ...] = ("N", *IMAGE[1:])) -> None:
        self.opset, self.shape = opset, shape
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.rng = np.random.default_rng(7)

    def const(self, array: Any, dtype: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def weight(self, *shape: int) -> str:
        return self.const(self.rng.normal(0, 0.5, shape))

    def op(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        name = name or f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [f"{name}_out"], name=name, **attributes))
        return f"{name}_out"

    def conv(
        self, x: str, inp: int, out: int, kernel: int = 3, name: str = "", group: int = 1, bias: bool = True
    ) -> str:
        tail = [self.weight(out)] if bias else []
        weight = self.weight(out, inp // group, kernel, kernel)
        return self.op("Conv", x, weight, *tail, name=name, pads=[kernel // 2] * 4, group=group)

    def batch_norm(self, x: str, channels: int, variance: Any = None, name: str = "") -> str:
        spread = self.rng.uniform(0.5, 2.0, channels) if variance is None else variance
        parts = [np.ones(channels), np.zeros(channels) + 0.1, np.zeros(channels) + 0.2, spread]
        return self.op("BatchNormalization", x, *(self.const(part) for part in parts), name=name)

    def clip(self, x: str, low: float, high: float, name: str = "") -> str:
        return self.op("Clip", x, self.const(low), self.const(high), name=name)

    def model(self, *outputs: str) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "small",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            self.constants,
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        proto = onnx.shape_inference.infer_shapes(proto)
        onnx.checker.check_model(proto)
        return proto


def conv_chain() -> onnx.ModelProto:
    """Batch norm, Relu, Relu6 and a depthwise layer."""
    net = Net()
    y = net.op("Relu", net.batch_norm(net.conv("x", 4, 8, bias=False, name="first"), 8))
    y = net.clip(net.conv(y, 8, 8, group=8, name="depthwise"), 0.0, 6.0)
    return net.model(net.conv(y, 8, 4, 1, name="last"))


def residual() -> onnx.ModelProto:
    """Additions with and without Relu behind, of an identity, of a second layer, of two activations."""
    net = Net()
    start = net.op("Relu", net.conv("x", 4, 4, name="stem"))
    a = net.op("Add", net.conv(start, 4, 4, name="a"), start, name="plain_add")
    b = net.op("Relu", net.op("Add", a, net.conv(a, 4, 4, name="b"), name="relu_add"))
    c = net.op(
        "Relu", net.op("Add", net.conv(b, 4, 4, 1, name="short"), net.conv(b, 4, 4, name="long"), name="two")
    )
    d = net.op("Add", net.op("Relu", net.conv(c, 4, 4, name="d")), c, name="activated_add")
    return net.model(net.conv(d, 4, 2, name="last"))


def concat() -> onnx.ModelProto:
    """Concats of similar ranges, of very different ranges, and with a sigmoid among them."""
    net = Net()
    a = net.op("Relu", net.conv("x", 4, 4, name="a"))
    b = net.op("Relu", net.conv("x", 4, 4, name="b"))
    similar = net.op("Concat", a, b, axis=1, name="similar")
    large = net.conv(net.op("Mul", a, net.const(50.0)), 4, 4, name="large")
    different = net.op("Concat", large, b, axis=1, name="different")
    gate = net.op("Sigmoid", net.conv("x", 4, 4, name="gate"))
    gated = net.op("Concat", gate, b, axis=1, name="gated")
    parts = [net.conv(y, 8, 4, name=f"end{index}") for index, y in enumerate((similar, different, gated))]
    return net.model(net.op("Concat", *parts, axis=1, name="ends"))


def classifier() -> onnx.ModelProto:
    """Pools, Flatten, Gemm, Softmax."""
    net = Net()
    y = net.op(
        "MaxPool", net.op("Relu", net.conv("x", 4, 8, name="first")), kernel_shape=[2, 2], strides=[2, 2]
    )
    y = net.op(
        "AveragePool", net.op("Relu", net.conv(y, 8, 8)), kernel_shape=[2, 2], strides=[2, 2], name="average"
    )
    y = net.op("GlobalAveragePool", net.op("Relu", net.conv(y, 8, 8)), name="global")
    y = net.op("Gemm", net.op("Flatten", y), net.weight(5, 8), net.weight(5), transB=1, name="scores")
    return net.model(net.op("Softmax", y, axis=1, name="softmax"))


def squeeze_excite() -> onnx.ModelProto:
    """Hard-swish and a squeeze-and-excitation block."""
    net = Net()
    y = net.op("HardSwish", net.conv("x", 4, 8, name="first"))
    gate = net.op("Relu", net.conv(net.op("GlobalAveragePool", y), 8, 4, 1))
    gate = net.op("HardSigmoid", net.conv(gate, 4, 8, 1), alpha=0.2, beta=0.5)
    y = net.op("HardSwish", net.conv(net.op("Mul", y, gate, name="excite"), 8, 8))
    return net.model(net.conv(y, 8, 4, name="last"))


def heads() -> onnx.ModelProto:
    """Sigmoid, Tanh and plain outputs of one trunk."""
    net = Net()
    y = net.op("Relu", net.conv("x", 4, 8))
    return net.model(
        net.op("Sigmoid", net.conv(y, 8, 2, name="a"), name="sigmoid"),
        net.op("Tanh", net.conv(y, 8, 2, name="b"), name="tanh"),
        net.conv(y, 8, 2, name="c"),
    )


def upsample() -> onnx.ModelProto:
    """Resize, Pad and a transposed convolution with groups."""
    net = Net()
    y = net.op("Relu", net.conv("x", 4, 8))
    y = net.op("Resize", y, "", net.const([1, 1, 2, 2]), mode="nearest", name="resize")
    y = net.op("Pad", y, net.const([0, 0, 1, 1, 0, 0, 1, 1], np.int64), net.const(0.5), name="pad")
    y = net.op("Relu", net.conv(y, 8, 8, name="middle"))
    y = net.op("ConvTranspose", y, net.weight(8, 3, 2, 2), net.weight(6), strides=[2, 2], group=2, name="up")
    return net.model(net.conv(net.op("Relu", y), 6, 2, name="last"))


def matmul() -> onnx.ModelProto:
    """Reshape, Transpose, MatMul with a bias behind it, a LeakyRelu and a Gemm without transB."""
    net = Net()
    y = net.op("LeakyRelu", net.conv("x", 4, 4), alpha=0.1)
    y = net.op(
        "Transpose", net.op("Reshape", y, net.const([1, 4, 64], np.int64)), perm=[0, 2, 1], name="transpose"
    )
    y = net.op(
        "Relu",
        net.op("Add", net.op("MatMul", y, net.weight(4, 6), name="matmul"), net.weight(6), name="bias"),
    )
    y = net.op("Reshape", y, net.const([1, 384], np.int64), name="flat")
    return net.model(net.op("Gemm", y, net.weight(384, 3), net.weight(3), name="gemm"))


def normalized() -> onnx.ModelProto:
    """A block like those of ConvNeXt: a LayerNormalization over channels between transposes, a residual."""
    net = Net()
    start = net.op("Relu", net.conv("x", 4, 8, name="stem"))
    y = net.op("Transpose", net.conv(start, 8, 8, group=8, name="depthwise"), perm=[0, 2, 3, 1], name="rows")
    y = net.op("LayerNormalization", y, net.weight(8), net.weight(8), epsilon=1e-6, name="norm")
    y = net.op("Add", net.op("MatMul", y, net.weight(8, 16), name="wide"), net.weight(16), name="wide_bias")
    y = net.op("Relu", y)
    y = net.op("Add", net.op("MatMul", y, net.weight(16, 8), name="narrow"), net.weight(8), name="bias")
    y = net.op("Add", start, net.op("Transpose", y, perm=[0, 3, 1, 2], name="image"), name="residual")
    return net.model(net.conv(y, 8, 2, name="last"))


NETS: Final[dict[str, Callable[[], onnx.ModelProto]]] = {
    builder.__name__: builder
    for builder in (
        *(conv_chain, residual, concat, classifier, squeeze_excite, heads, upsample, matmul),
        normalized,
    )
}


def quantized(proto: onnx.ModelProto, scheme: QuantScheme) -> onnx.ModelProto:
    """The int8 form of a float model, with the ranges seen on eight random images."""
    model, table = _calibrated(proto, samples=8)
    return _written(model, table, scheme)


def int8_forms(
    proto: onnx.ModelProto, targets: tuple[str, ...], samples: int = 8
) -> dict[str, onnx.ModelProto]:
    """The int8 forms of a float model for several targets from one table."""
    model, table = _calibrated(proto, samples)
    return {target: _written(model, table, target_scheme(target)) for target in targets}


def _calibrated(proto: onnx.ModelProto, samples: int) -> tuple[ir.Model, CalibrationTable]:
    """The prepared model and the smallest and largest values seen on random inputs."""
    original = load_model(proto)
    [spec] = graph_inputs(original)
    shape = made_up_input(spec).shape
    feeds = [np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32) for seed in range(samples)]
    model = prepare(original, {spec.name: feeds[0]}).model
    tensors = calibration_tensors(model)
    inner = [name for name in tensors if name != spec.name]
    session = open_session(tapped_model(model, inner))
    seen: dict[str, list[Any]] = {name: [] for name in tensors}
    for feed in feeds:
        values = dict(zip(inner, session.run({spec.name: feed}), strict=True)) | {spec.name: feed}
        for name in tensors:
            seen[name].append(values[name])
    entries = {name: _entry(np.stack(arrays)) for name, arrays in seen.items()}
    return model, CalibrationTable(model_hash(model), entries)


def _written(model: ir.Model, table: CalibrationTable, scheme: QuantScheme) -> onnx.ModelProto:
    placement = place(model, scheme)
    ranges = resolve_ranges(model, placement, table, scheme)
    return ir.to_proto(insert_quantizers(model, placement, ranges, scheme).model)


def _entry(values: np.ndarray[Any, np.dtype[np.float32]]) -> TableEntry:
    span = Range(float(values.min()), float(values.max()))
    return TableEntry(span, "minmax", 0.0, values.size, int(np.sum(values == 0)), span)


@functools.cache
def _cached(name: str, target: str) -> bytes:
    return quantized(NETS[name](), target_scheme(target)).SerializeToString()


def clean(name: str, target: str) -> onnx.ModelProto:
    """A fresh copy of a network of ``NETS`` in the int8 form of a target."""
    return onnx.ModelProto.FromString(_cached(name, target))
