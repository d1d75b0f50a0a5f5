"""Small networks as candidates for bias correction, layers in plain loops, batch normalizations unfolded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir

from calib8.model.graph import constant, input_at, model_hash, register_constant
from calib8.model.load import load_model
from calib8.model.taps import tapped_model
from calib8.passes.place import calibration_tensors
from calib8.passes.prepare import prepare
from calib8.quantization.corrections import Corrections, LayerCorrection
from calib8.repair.candidate import Candidate, RepairData
from calib8.scheme import target_scheme
from calib8.table import CalibrationTable, Range, TableEntry
from small_models import Array, normal, onnx_model, run


def pictures(count: int, *shape: int, seed: int = 40) -> tuple[dict[str, Array], ...]:
    """Runs with one input x: positive, with a gradient, so that borders differ from the middle."""
    slope = np.linspace(0.2, 1.0, shape[-1], dtype=np.float32)
    return tuple({"x": np.abs(normal(1, *shape, seed=seed + index)) * slope} for index in range(count))


def tensors_of(model: ir.Model, names: Sequence[str], feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Values of inputs and computed tensors of one run."""
    computed = [name for name in names if name not in feeds]
    return dict(feeds) | dict(zip(computed, run(tapped_model(model, computed), feeds), strict=True))


def batch_of(runs: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """All runs as one batch."""
    return {name: np.concatenate([feeds[name] for feeds in runs]) for name in runs[0]}


def candidate_of(
    proto: onnx.ModelProto,
    runs: Sequence[Mapping[str, Array]],
    target: str = "onnxruntime",
    narrowed: Mapping[str, Range] | None = None,
    keep_float: frozenset[str] = frozenset(),
) -> Candidate:
    """A candidate with smallest and largest values of the runs as ranges, or those in ``narrowed``."""
    model = prepare(load_model(proto), runs[0]).model
    names = calibration_tensors(model)
    found = tensors_of(model, names, batch_of(runs))
    entries = {}
    for name in names:
        bounds = Range(float(found[name].min()), float(found[name].max()))
        bounds = (narrowed or {}).get(name, bounds)
        entries[name] = TableEntry(bounds, "minmax", 0.0, 1, 0, bounds)
    table = CalibrationTable(model_hash(model), entries)
    return Candidate(model, table, target_scheme(target), keep_float)


def roughened(candidate: Candidate, bits: int = 4, *, but: str | None = None) -> Candidate:
    """The same with weights of few bits, all rounded down, in all layers but one."""
    corrections: dict[str, LayerCorrection] = dict(candidate.corrections)
    for node in candidate.model.graph:
        weight = constant(input_at(node, 1)) if node.op_type in ("Conv", "ConvTranspose", "Gemm") else None
        if weight is not None and node.name != but:
            corrections[node.name or ""] = rough_codes(node, weight.astype(np.float64), bits)
    result: Corrections = corrections
    return Candidate(candidate.model, candidate.table, candidate.scheme, candidate.keep_float, False, result)


def rough_codes(node: ir.Node, weight: Array, bits: int) -> LayerCorrection:
    transposed = node.attributes.get("transB") is not None
    axis = 1 if node.op_type == "ConvTranspose" or (node.op_type == "Gemm" and not transposed) else 0
    limit = 2 ** (bits - 1) - 1
    size = np.float32(np.max(np.abs(weight)) / limit)
    codes = np.clip(np.floor(weight / size), -limit, limit).astype(np.int8)  # down: all errors on one side
    return LayerCorrection(codes, np.full(weight.shape[axis], size, np.float32))


def one_layer(
    text: str, shape: tuple[int, ...], weight: tuple[int, ...], *, bias: int = 0, axes: int = 4
) -> onnx.ModelProto:
    """``y = text`` over x, w and, with so many channels, b; x of ``shape`` without its batch."""
    constants: dict[str, Array] = {"w": normal(*weight, seed=3)}
    if bias:
        constants["b"] = normal(bias, seed=4)
    sizes = ",".join(str(size) for size in shape)
    free = ",".join("ABCD"[: axes - 1])
    return onnx_model(f"float[N,{sizes}] x", f"float[N,{free}] y", f"y = {text}", constants)


def plain_conv(
    x: Array,
    weight: Array,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    group: int,
    dilations: Sequence[int],
) -> Array:
    """Conv of x [N,C,H,W] in float64, pixel by pixel."""
    top, left, bottom, right = pads
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    (outputs, inputs), kernel = weight.shape[:2], weight.shape[2:]
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    rows = (padded.shape[2] - reach[0]) // strides[0] + 1
    columns = (padded.shape[3] - reach[1]) // strides[1] + 1
    result = np.zeros((x.shape[0], outputs, rows, columns))
    for channel in range(outputs):
        first = channel // (outputs // group) * inputs
        for row in range(rows):
            for column in range(columns):
                y, z = row * strides[0], column * strides[1]
                patch = padded[
                    :,
                    first : first + inputs,
                    y : y + reach[0] : dilations[0],
                    z : z + reach[1] : dilations[1],
                ]
                result[:, channel, row, column] = np.sum(patch * weight[channel], axis=(1, 2, 3))
    return result


def plain_transposed(
    x: Array, weight: Array, *, strides: Sequence[int], pads: Sequence[int], group: int
) -> Array:
    """ConvTranspose of x [N,C,H,W] in float64: every input pixel spread over the output."""
    inputs, per_group, height, width = weight.shape
    rows = (x.shape[2] - 1) * strides[0] + height
    columns = (x.shape[3] - 1) * strides[1] + width
    result = np.zeros((x.shape[0], per_group * group, rows, columns))
    for channel in range(inputs):
        first = channel // (inputs // group) * per_group
        for row in range(x.shape[2]):
            for column in range(x.shape[3]):
                y, z = row * strides[0], column * strides[1]
                part = x[:, channel, row, column].astype(np.float64)[:, None, None, None] * weight[channel]
                result[:, first : first + per_group, y : y + height, z : z + width] += part
    top, left, bottom, right = pads
    return result[:, :, top : rows - bottom, left : columns - right]


def unfolded(model: ir.Model, runs: Sequence[Mapping[str, Array]]) -> ir.Model:
    """The same function with a batch normalization behind every Conv, as training would have left it.

    μ and σ² are those of the convolution over the runs, so that γ = σ and β = mean of what it yields.
    """
    copy = model.clone()
    layers = [node for node in copy.graph if node.op_type == "Conv"]
    names = [node.outputs[0].name or "" for node in layers]
    values = tensors_of(model, names, batch_of(runs))
    for node, name in zip(layers, names, strict=True):
        every = np.moveaxis(values[name], 1, 0).astype(np.float64)
        flat = every.reshape(len(every), -1)
        mean, deviation = flat.mean(axis=1), flat.std(axis=1) + 1e-3
        _add_batch_norm(copy.graph, node, mean, deviation)
    return copy


def _add_batch_norm(graph: ir.Graph, node: ir.Node, mean: Array, deviation: Array) -> None:
    value = node.outputs[0]
    bias = constant(input_at(node, 2))
    shift = np.zeros(mean.shape) if bias is None else bias.astype(np.float64)
    parameters = {"gamma": deviation, "beta": mean, "mean": mean - shift, "variance": deviation**2}
    inputs = [
        register_constant(graph, f"{value.name}/{key}", array.astype(np.float32))
        for key, array in parameters.items()
    ]
    norm = ir.node("BatchNormalization", [value, *inputs], {"epsilon": 0.0}, name=f"{node.name}/norm")
    result = norm.outputs[0]
    result.type, result.shape = value.type, value.shape
    value.replace_all_uses_with(result, replace_graph_outputs=True)
    norm.replace_input_with(0, value)
    result.name, value.name = value.name, f"{value.name}/raw"
    graph.insert_after(node, norm)
    node.resize_inputs(2)


def data_of(runs: Sequence[Mapping[str, Array]], threads: int = 1) -> RepairData:
    return RepairData(tuple(runs), threads)
