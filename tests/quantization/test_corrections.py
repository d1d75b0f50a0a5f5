"""Corrections take the place of plain rounding, layer by layer, and of nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper
from quantized_models import initializers

from calib8.errors import ModelError
from calib8.model.layer import Layer
from calib8.passes.prepare import prepare
from calib8.quantization.corrections import LayerCorrection
from calib8.quantization.quantize import quantize_graph
from calib8.repair.candidate import Candidate
from calib8.scheme import target_scheme
from calib8.table import CalibrationTable, Range, TableEntry
from small_models import Array, normal, onnx_model, run

LAYERS = {
    "conv": ("float[N,3,8,8] x", "float[N,4,6,6] y", "y = Conv(x, w, b)", (4, 3, 3, 3)),
    "grouped": ("float[N,4,8,8] x", "float[N,8,6,6] y", "y = Conv<group=2>(x, w, b)", (8, 2, 3, 3)),
    "transposed": ("float[N,4,8,8] x", "float[N,6,9,9] y", "y = ConvTranspose(x, w, b)", (4, 6, 2, 2)),
    "gemm": ("float[N,6] x", "float[N,4] y", "y = Gemm(x, w, b)", (6, 4)),
    "gemm, transposed": ("float[N,6] x", "float[N,4] y", "y = Gemm<transB=1>(x, w, b)", (4, 6)),
}


def candidate(kind: str, *, bias: bool = True, target: str = "onnxruntime") -> tuple[Candidate, str, Array]:
    inputs, outputs, text, shape = LAYERS[kind]
    constants: dict[str, Array] = {"w": normal(*shape)}
    if bias:
        channels = int(outputs.split(",")[1].split("]")[0])
        constants["b"] = normal(channels, seed=3)
    else:
        text = text.replace(", b", "")
    model = onnx_model(inputs, outputs, text, constants)
    sizes = [2 if size == "N" else int(size) for size in inputs.split("[")[1].split("]")[0].split(",")]
    sample = normal(*sizes, seed=5)
    prepared = prepare(ir.from_proto(model), {"x": sample}).model
    result = run(model, {"x": sample})[0]
    entries = {
        name: TableEntry(span, "minmax", 0.0, 1, 0, span)
        for name, span in {
            "x": Range(float(sample.min()), float(sample.max())),
            "y": Range(float(result.min()) * 2, float(result.max()) * 2),
        }.items()
    }
    layer = next(node for node in prepared.graph if node.op_type in text)
    made = Candidate(prepared, CalibrationTable("", entries), target_scheme(target))
    return made, layer.name or "", sample


def weight_codes(model: ir.Model) -> Array:
    return next(array for array in initializers(model).values() if array.dtype == np.int8 and array.ndim > 1)


@pytest.mark.parametrize("kind", LAYERS)
def test_given_codes_and_scales_are_those_of_the_graph(kind: str) -> None:
    made, layer, _ = candidate(kind)
    plain = weight_codes(made.quantized().model)
    node = next(node for node in made.model.graph if node.name == layer)
    axis = Layer(node).output_axis(plain.ndim)
    codes = np.roll(plain, 1, axis=axis)
    scale = np.linspace(0.01, 0.02, plain.shape[axis], dtype=np.float32)
    changed = replace(made, corrections={layer: LayerCorrection(codes, scale)}).quantized()
    assert np.array_equal(weight_codes(changed.model), codes)
    scales = [array for array in initializers(changed.model).values() if array.dtype == np.float32]
    assert any(np.array_equal(array, scale) for array in scales)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("target", ["onnxruntime", "tensorrt"])
@pytest.mark.parametrize("kind", LAYERS)
def test_a_given_bias_moves_the_outputs_by_as_much(kind: str, target: str, bias: bool) -> None:
    made, layer, sample = candidate(kind, bias=bias, target=target)
    plain = made.quantized()
    before = run(ir.to_proto(plain.model), {"x": sample})[0]
    node = next(node for node in made.model.graph if node.name == layer)
    own = np.zeros(before.shape[1], np.float32)
    if bias:
        own = numpy_helper.to_array(ir.to_proto(node.inputs[2].const_value)).reshape(-1)  # type: ignore[union-attr, arg-type]
    shift = np.linspace(-0.5, 0.5, before.shape[1], dtype=np.float32)
    changed = replace(made, corrections={layer: LayerCorrection(bias=own + shift)}).quantized()
    onnx.checker.check_model(ir.to_proto(changed.model))
    moved = run(ir.to_proto(changed.model), {"x": sample})[0] - before
    step = plain.qparams["y"].scale if "y" in plain.qparams else 0.02
    wanted = shift.reshape(1, -1, *[1] * (moved.ndim - 2))
    assert np.max(np.abs(moved - wanted)) <= step * 1.01


def test_a_channel_whose_bias_needs_a_larger_scale_is_rounded_plainly() -> None:
    made, layer, _ = candidate("conv")
    codes = np.full((4, 3, 3, 3), 7, np.int8)
    scale = np.full(4, 1e-3, np.float32)
    bias = np.array([1e9, 1.0, 1.0, 1.0], np.float32)
    changed = replace(made, corrections={layer: LayerCorrection(codes, scale, bias)}).quantized()
    found = weight_codes(changed.model)
    assert np.array_equal(found[1:], codes[1:])
    assert not np.any(found[0])  # the scale that holds the bias leaves nothing of the weights


def test_layers_that_stay_float_take_no_correction() -> None:
    made, layer, sample = candidate("conv")
    correction = {layer: LayerCorrection(bias=np.full(4, 100.0, np.float32))}
    kept = quantize_graph(made.model, made.table, made.scheme, frozenset({layer}), corrections=correction)
    plain = quantize_graph(made.model, made.table, made.scheme, frozenset({layer}))
    outputs = [run(ir.to_proto(found.model), {"x": sample})[0] for found in (kept, plain)]
    assert np.array_equal(*outputs)


@pytest.mark.parametrize(
    ("correction", "problem"),
    [
        (LayerCorrection(np.zeros((4, 3, 3), np.int8), np.ones(4, np.float32)), r"weights \[4, 3, 3, 3\]"),
        (LayerCorrection(np.zeros((4, 3, 3, 3), np.int8), np.ones(3, np.float32)), "takes 4 scales"),
        (LayerCorrection(bias=np.zeros(3, np.float32)), "4 channels, its correction 3"),
    ],
)
def test_corrections_of_another_shape_are_refused(correction: LayerCorrection, problem: str) -> None:
    made, layer, _ = candidate("conv")
    with pytest.raises(ModelError, match=f"layer '{layer}': .*{problem}"):
        replace(made, corrections={layer: correction}).quantized()


def test_corrections_of_other_layers_are_refused() -> None:
    made, _, _ = candidate("conv")
    with pytest.raises(ModelError, match="layer 'nobody': has a correction"):
        replace(made, corrections={"nobody": LayerCorrection()}).quantized()


def test_codes_without_scales_are_refused() -> None:
    with pytest.raises(ValueError, match="come together"):
        LayerCorrection(weight=np.zeros((4, 3, 3, 3), np.int8))
