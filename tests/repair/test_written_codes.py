"""Codes and scales that a repair chose are those in the int8 model, whatever the target asks of weights."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import onnx_ir as ir
import pytest
from rounding_nets import candidate_of as calibrated
from rounding_nets import coded_of, net, pictures

from calib8.int8_model import int8_model
from calib8.model.graph import constant
from calib8.pipeline import calibrate
from calib8.qparams import QuantSpec
from calib8.quantization.corrections import LayerCorrection
from calib8.quantization.pairs import largest_pair
from calib8.quantization.weights import quantize_weight
from calib8.repair.ada_round import ada_round
from calib8.repair.bias import correct_biases
from calib8.repair.candidate import Candidate, RepairData
from calib8.repair.eq_tengine import equalize_outputs_like_tengine
from calib8.repair.repairs import Repair
from calib8.repair.result import Repaired
from calib8.repair.second_order_rounding import second_order_rounding
from calib8.repair.weight_scales import equalize_outputs, search_weight_scales
from calib8.scheme import QuantScheme, target_scheme

ONE_SCALE = replace(target_scheme("onnxruntime"), weight_granularity="per-tensor")
SCHEMES: dict[str, QuantScheme] = {
    "scales per channel": target_scheme("onnxruntime"),
    "pairs": target_scheme("onnxruntime-avx2"),
    "ncnn": target_scheme("ncnn"),
    "tflite": target_scheme("tflite"),
    "one scale": ONE_SCALE,
    "one scale, pairs": replace(ONE_SCALE, pair_limit=128),
    "powers of two": target_scheme("onnxruntime"),
}
REPAIRS: dict[str, Repair] = {
    "scales": search_weight_scales,
    "eq": equalize_outputs,
    "eq-tengine": equalize_outputs_like_tengine,
    "round": second_order_rounding,
    "round, zooms": partial(second_order_rounding, zooms=(1.0, 0.9, 1.1)),
    "adaround": partial(ada_round, steps=40),
}


@pytest.fixture(scope="module")
def base() -> tuple[Candidate, RepairData]:
    """A layer of every kind; the weights of the first one are of one sign, those of a Gemm are small."""
    runs = pictures(4)
    made = calibrated(net(), runs)
    model = made.model.clone()
    for node in model.graph:
        if node.op_type == "Gemm":
            _scaled(node, 1e-9)  # its bias needs larger scales than the weights
        elif node.op_type == "Conv":
            _scaled(node, 1.0)
    return replace(made, model=model), RepairData(runs, 1)


def _scaled(node: ir.Node, factor: float) -> None:
    value = node.inputs[1]
    array = constant(value)
    assert value is not None and array is not None
    changed = np.abs(array) * np.float32(factor)
    value.const_value = ir.tensor(changed.astype(np.float32), name=value.name)


def in_scheme(base: tuple[Candidate, RepairData], name: str) -> tuple[Candidate, RepairData]:
    made, data = base
    return replace(made, scheme=SCHEMES[name], power_of_two=name == "powers of two"), data


def with_four_bits(scheme: QuantScheme) -> QuantScheme:
    limit = None if scheme.pair_limit is None else 8
    return replace(scheme, weights=QuantSpec(4, signed=True, symmetric=True), pair_limit=limit)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("scheme", "repair"),
    [*product(SCHEMES, ("eq", "round")), *product(("pairs", "one scale", "one scale, pairs"), REPAIRS)],
)
def test_what_was_chosen_is_what_is_written(
    base: tuple[Candidate, RepairData], scheme: str, repair: str
) -> None:
    made, data = in_scheme(base, scheme)
    if repair == "scales":  # few inputs and 8 bits leave nothing to gain
        made = replace(made, scheme=with_four_bits(made.scheme))
    found, report = REPAIRS[repair](made, data)
    assert report.layers
    assert not found.quantized().dropped
    written = {layer.name: layer for layer in coded_of(found)}
    plain = {layer.name: layer for layer in coded_of(made)}
    for name in report.layers:
        correction, layer = found.correction(name), written[name]
        assert np.array_equal(layer.codes, correction.weight)  # type: ignore[arg-type]
        assert np.array_equal(layer.scale, correction.weight_scale)  # type: ignore[arg-type]
        assert not np.array_equal(layer.weight.real, plain[name].weight.real)
        if made.scheme.pair_limit is not None:
            largest = largest_pair(layer.layer, layer.codes)
            assert largest is None or np.max(largest) <= made.scheme.pair_limit
        if made.scheme.weight_granularity == "per-tensor":
            assert len(set(layer.scale.tolist())) == 1


@pytest.mark.parametrize("repair", ["round", "adaround"])
@pytest.mark.parametrize("scheme", ["one scale", "one scale, pairs", "pairs"])
def test_codes_are_chosen_for_the_scale_that_the_target_has(
    base: tuple[Candidate, RepairData], scheme: str, repair: str
) -> None:
    made, data = in_scheme(base, scheme)
    found, report = REPAIRS[repair](made, data)
    assert len(report.layers) >= 3
    for before, after in zip(coded_of(made), coded_of(found), strict=True):
        assert np.array_equal(before.scale, after.scale)
        assert np.array_equal(before.codes, after.codes) == (after.name not in report.layers)
        error, plain = (np.linalg.norm(layer.weight_error) for layer in (after, before))
        assert error <= 4.0 * plain, "they stand for the weights"


def test_a_bias_correction_behind_them_drops_nothing(base: tuple[Candidate, RepairData]) -> None:
    for scheme in ("pairs", "one scale", "one scale, pairs"):
        made, data = in_scheme(base, scheme)
        rounded, _ = second_order_rounding(equalize_outputs(made, data)[0], data)
        found, _ = correct_biases(rounded, data)
        assert not found.quantized().dropped
        for before, after in zip(coded_of(rounded), coded_of(found), strict=True):
            assert np.array_equal(before.codes, after.codes)


def test_codes_that_do_not_fit_are_counted(base: tuple[Candidate, RepairData]) -> None:
    made, _ = in_scheme(base, "one scale")
    layer = next(layer for layer in coded_of(made) if layer.node.op_type == "Conv")
    scale = np.linspace(1.0, 2.0, layer.scale.size, dtype=np.float32) * layer.scale
    codes = quantize_weight(layer.exact, scale, 0, made.scheme.weights)
    broken = replace(made, corrections={layer.name: LayerCorrection(codes, scale)})
    assert broken.quantized().dropped == {layer.name: layer.scale.size - 1}
    found = calibrate(net(), [dict(feeds) for feeds in pictures(4)], method="minmax", threads=1)
    done = Repaired(broken, broken.table, (), "", 0)
    [note] = int8_model(made, done, found.prepared, None, {}).notes
    assert note.startswith(f"'{layer.name}': codes chosen for {layer.scale.size - 1} channels")
    fits = replace(broken, scheme=target_scheme("onnxruntime"))
    assert fits.quantized().dropped == {}
