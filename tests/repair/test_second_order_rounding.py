"""Second-order rounding of whole models: never worse by its own measure, better on samples it never saw."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from rounding_nets import (
    LAYERS,
    candidate_and_data,
    candidate_of,
    noise,
    pictures,
    rows_and_moments,
    rows_of,
    same_codes,
)

from calib8.autorange.check import check_model, float_outputs
from calib8.autorange.samples import choose_samples
from calib8.data.presets import preset
from calib8.pipeline import calibrate
from calib8.quantization.corrections import LayerCorrection
from calib8.repair import layer_rows as layer_rows_module
from calib8.repair.candidate import Candidate, RepairData
from calib8.repair.layer_rows import row_costs, shared_costs
from calib8.repair.second_order_rounding import damped_products, second_order_rounding
from calib8.scheme import target_scheme
from small_models import normal, onnx_model


@pytest.mark.parametrize("target", ["onnxruntime", "tensorrt", "tflite"])
def test_every_kind_of_layer_gets_codes_that_cost_its_outputs_less(target: str) -> None:
    made, data = candidate_and_data()
    made = replace(made, scheme=target_scheme(target))
    found, report = second_order_rounding(made, data)
    assert len(report.layers) == LAYERS
    shares = []
    for layer, moments in rows_and_moments(made, data):
        products = damped_products(moments)
        other = rows_of(found, layer.node)
        assert np.array_equal(other.scales, layer.scales)
        old = row_costs(layer, layer.scales, layer.codes, products, 1)
        new = row_costs(layer, layer.scales, other.codes, products, 1)
        assert np.all(new <= old)
        shares.append(np.sum(new) / np.sum(old))
    assert max(shares) < 0.9 and np.mean(shares) < 0.5


def test_the_model_is_closer_to_float_on_other_pictures() -> None:
    made, data = candidate_and_data()
    found, _ = second_order_rounding(made, data)
    assert noise(found, pictures(20, seed=77)) < 0.8


def test_several_scales_cost_no_row_more_than_one() -> None:
    made, data = candidate_and_data()
    one, _ = second_order_rounding(made, data)
    many, _ = second_order_rounding(made, data, zooms=(1.0, 0.9, 0.95, 1.05))
    less = 0
    for layer, moments in rows_and_moments(made, data):
        left, right = rows_of(one, layer.node), rows_of(many, layer.node)
        products = damped_products(moments)
        costs = [
            shared_costs(layer, row_costs(layer, rows.scales, rows.codes, products, 1))
            for rows in (left, right)
        ]
        assert np.all(costs[1] <= costs[0])
        if layer.node.op_type == "ConvTranspose":
            assert np.array_equal(right.scales[0], right.scales[1])
        ratio = right.scales / left.scales
        assert np.all(np.min(np.abs(ratio[..., None] - [1.0, 0.9, 0.95, 1.05]), axis=-1) < 1e-6)
        less += int(np.sum(costs[1] < costs[0]))
    assert less > 10


def test_threads_leave_no_trace() -> None:
    made, data = candidate_and_data()
    first, _ = second_order_rounding(made, data)
    second, _ = second_order_rounding(made, replace(data, threads=3))
    assert same_codes(first, second)


def test_a_second_time_changes_nothing() -> None:
    made, data = candidate_and_data()
    once, _ = second_order_rounding(made, data)
    twice, report = second_order_rounding(once, data)
    assert same_codes(once, twice) and report.layers == () and report.notes == ()


def test_biases_that_others_corrected_stay() -> None:
    made, data = candidate_and_data()
    name = next(node.name or "" for node in made.model.graph if node.op_type == "Gemm")
    bias = normal(7, seed=9)
    found, _ = second_order_rounding(replace(made, corrections={name: LayerCorrection(bias=bias)}), data)
    assert np.array_equal(found.correction(name).bias, bias) and found.correction(name).weight is not None


def test_weights_of_dead_inputs_are_rounded_plainly() -> None:
    body = "a = Relu(x) y = Conv(a, w)"
    model = onnx_model("float[N,3,10,10] x", "float[N,4,8,8] y", body, {"w": normal(4, 3, 3, 3)})
    signs = np.float32([1, -1, 1]).reshape(1, 3, 1, 1)
    runs = tuple({"x": np.abs(picture["x"]) * signs} for picture in pictures(8))
    made = candidate_of(model, runs)
    found, report = second_order_rounding(made, RepairData(runs))
    (layer,) = report.layers
    node = next(node for node in made.model.graph if node.name == layer)
    plain = rows_of(made, node).codes.reshape(4, 3, 9)
    codes = rows_of(found, node).codes.reshape(4, 3, 9)
    assert np.array_equal(codes[:, 1], plain[:, 1])
    assert not np.array_equal(codes[:, 0], plain[:, 0])


def test_layers_that_stay_float_are_left_alone() -> None:
    made, data = candidate_and_data()
    floats = frozenset(node.name or "" for node in made.model.graph if node.op_type == "ConvTranspose")
    found, report = second_order_rounding(replace(made, keep_float=floats), data)
    assert not floats & set(found.corrections) and len(report.layers) == LAYERS - 1


def test_without_layers_there_is_nothing_to_do() -> None:
    made, data = candidate_and_data()
    floats = frozenset(node.name or "" for node in made.model.graph)
    found, report = second_order_rounding(replace(made, keep_float=floats), data)
    assert found.corrections == {} and report.layers == () and report.notes == ()


def test_layers_too_wide_for_a_matrix_are_passed_over_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_rows_module, "MOST_INPUTS", 9)
    made, data = candidate_and_data()
    found, report = second_order_rounding(made, data)
    assert any("sums 27 inputs, more than 9: left as it was" in note for note in report.notes)
    wide = [name for name in ("a", "i") if f"'{name}'" in " ".join(report.notes)]
    assert wide == ["a", "i"] and not set(wide) & set(found.corrections) and len(report.layers) == LAYERS - 2


def test_the_corrected_model_is_valid() -> None:
    made, data = candidate_and_data()
    found, _ = second_order_rounding(made, data)
    onnx.checker.check_model(ir.to_proto(found.quantized().model), full_check=True)


@pytest.mark.slow
def test_a_real_network_gains_on_other_images(shared_data: Path) -> None:
    model = shared_data / "models/resnet20_cifar10.onnx"
    found = calibrate(
        model, shared_data / "cifar10/train1024.npz", preprocess=preset("cifar10"), samples=96, method="mse"
    )
    assert found.dataset is not None
    samples = choose_samples(found.dataset, 2)
    made = Candidate(found.prepared.model, found.table, target_scheme("onnxruntime"))
    rounded, report = second_order_rounding(made, RepairData(samples.scored))
    assert len(report.layers) == 20
    expected = float_outputs(made.model, samples.held_back, 2)
    plain, better = (
        check_model("", candidate.quantized().model, samples.held_back, expected, 2).sqnr_db
        for candidate in (made, rounded)
    )
    assert better > plain + 0.5
