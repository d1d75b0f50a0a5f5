"""A small network with a layer of every kind, as a candidate for other roundings, and what they cost it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir

from calib8.model.layer import Layer
from calib8.model.runtime import Arrays
from calib8.pipeline import calibrate
from calib8.repair.candidate import Candidate, RepairData
from calib8.repair.coded_layers import CodedLayer, coded_layers
from calib8.repair.layer_rows import LayerRows, layer_rows, rounded_layers
from calib8.repair.moments import Moments
from calib8.repair.windows import from_rows
from calib8.scheme import target_scheme
from small_models import normal, onnx_model, run

BODY = """
a = Conv<pads=[1,1,1,1]>(x, w, b)
c = Relu(a)
d = Conv<pads=[1,1,1,1], group=8>(c, v, bv)
e = Relu(d)
f = Conv<group=2>(e, g)
h = Relu(f)
i = ConvTranspose<strides=[2,2], group=2>(h, t, bt)
j = GlobalAveragePool(i)
k = Flatten(j)
l = Gemm<transB=1>(k, m, n)
y = MatMul(l, o)
"""
LAYERS = 6


def net() -> onnx.ModelProto:
    constants = {
        "w": normal(8, 3, 3, 3), "b": normal(8), "v": normal(8, 1, 3, 3), "bv": normal(8),
        "g": normal(6, 4, 1, 1), "t": normal(6, 4, 2, 2), "bt": normal(8), "m": normal(7, 8), "n": normal(7),
        "o": normal(7, 5),
    }  # fmt: skip
    return onnx_model("float[N,3,10,10] x", "float[N,5] y", BODY, constants)


def pictures(count: int, seed: int = 0) -> tuple[Arrays, ...]:
    """Smooth pictures whose channels go together, brighter or darker as a whole: inputs as nets see them."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        coarse = rng.standard_normal((1, 1, 5, 5)).repeat(2, axis=2).repeat(2, axis=3)
        tint = 1 + 0.3 * rng.standard_normal((1, 3, 1, 1))
        fine = 0.1 * rng.standard_normal((1, 3, 10, 10))
        found.append({"x": (coarse * tint + fine + 1).astype(np.float32)})
    return tuple(found)


def candidate_of(model: onnx.ModelProto, runs: tuple[Arrays, ...]) -> Candidate:
    found = calibrate(model, [dict(feeds) for feeds in runs], method="minmax", threads=1)
    return Candidate(found.prepared.model, found.table, target_scheme("onnxruntime"))


def candidate_and_data() -> tuple[Candidate, RepairData]:
    runs = pictures(12)
    return candidate_of(net(), runs), RepairData(runs, 1)


def coded_of(candidate: Candidate) -> tuple[CodedLayer, ...]:
    return coded_layers(candidate, candidate.quantized())


def rows_of(candidate: Candidate, node: ir.Node) -> LayerRows:
    """A layer as the int8 graph of the candidate has it."""
    found = next(layer for layer in coded_of(candidate) if layer.name == node.name)
    return layer_rows(found, candidate.scheme)


def rows_and_moments(candidate: Candidate, data: RepairData) -> Iterator[tuple[LayerRows, Moments]]:
    return rounded_layers(candidate, candidate.quantized(), coded_of(candidate), data)


def with_coded_weights(candidate: Candidate) -> ir.Model:
    """The float model with the values of the candidate's codes as weights."""
    model = candidate.model.clone()
    for coded in coded_of(candidate):
        node, layer, value = coded.node, layer_rows(coded, candidate.scheme), coded.node.inputs[1]
        assert value is not None and value.const_value is not None and value.name
        rows = (layer.scales[..., None] * layer.codes).astype(np.float32)
        weight = from_rows(Layer(node), rows, value.const_value.shape.numpy())
        model.graph.initializers[value.name].const_value = ir.tensor(np.ascontiguousarray(weight))
    return model


def noise(candidate: Candidate, runs: tuple[Arrays, ...]) -> float:
    """Squared error that coded weights alone bring to the outputs, over that without corrections."""

    def error(one: Candidate) -> float:
        model = with_coded_weights(one)
        pairs = ((run(candidate.model, feeds)[0], run(model, feeds)[0]) for feeds in runs)
        return sum(float(np.sum((left - right) ** 2)) for left, right in pairs)

    return error(candidate) / error(replace(candidate, corrections={}))


def same_codes(left: Candidate, right: Candidate) -> bool:
    """Whether two candidates hold the same corrections, bit by bit."""

    def data(candidate: Candidate) -> Mapping[str, tuple[bytes | None, ...]]:
        return {
            name: tuple(
                None if array is None else array.tobytes()
                for array in (one.weight, one.weight_scale, one.bias)
            )
            for name, one in candidate.corrections.items()
        }

    return data(left) == data(right)
