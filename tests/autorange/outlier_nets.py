"""Networks and data on which it is known what range serves the readers of a tensor."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx_ir as ir

from calib8.calibration.source import first_sample
from calib8.data.opening import open_dataset
from calib8.data.samples import Dataset
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.passes.prepare import PreparedModel, prepare
from calib8.qparams import UINT8, QParams, dequantize, quantize
from small_models import Array, normal, onnx_model, run

CHANNELS = 8


def outlier_net(weight_of_outliers: float) -> onnx.ModelProto:
    """Two 1×1 convolutions; channel 0 of the input is 100 times as large as the others and the first layer
    multiplies it by ``weight_of_outliers``."""
    first = normal(CHANNELS, CHANNELS, 1, 1)
    first[:, 0] = weight_of_outliers * normal(CHANNELS, 1, 1, seed=5)
    constants = {"w": first, "u": normal(4, CHANNELS, 1, 1, seed=1)}
    body = "c = Conv(x, w) r = Relu(c) d = Conv(r, u) y = GlobalAveragePool(d)"
    return onnx_model(f"float[N,{CHANNELS},6,6] x", "float[N,4,1,1] y", body, constants)


def outlier_samples(count: int) -> list[dict[str, Array]]:
    samples = []
    for seed in range(count):
        values = normal(1, CHANNELS, 6, 6, seed=100 + seed)
        values[:, 0] *= 100
        samples.append({"x": values})
    return samples


def opened(proto: onnx.ModelProto, samples: object) -> tuple[PreparedModel, Dataset]:
    model = load_model(proto)
    dataset = open_dataset(samples, graph_inputs(model), None)  # type: ignore[arg-type]
    return prepare(model, first_sample(dataset)), dataset


def coded(values: Array, q: QParams) -> Array:
    return dequantize(quantize(values, q.scale, q.zero_point, UINT8), q.scale, q.zero_point)  # type: ignore[arg-type]


def activations(model: ir.Model, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Every tensor of a float graph for one run."""
    copy = model.clone()
    copy.graph.outputs.clear()
    copy.graph.outputs.extend(value for node in copy.graph for value in node.outputs)
    names = [value.name or "" for value in copy.graph.outputs]
    return {**feeds, **dict(zip(names, run(copy, feeds), strict=True))}
