"""A broken model is accused of what is wrong with it, first and by name; a sound one of nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import calib8
from broken_nets import dead_norm, detector, normalized, one_loud_channel, plain, samples, uneven_factors
from calib8.analysis.diagnose import Diagnosis, diagnose
from calib8.errors import Calib8Error, ModelError, UsageError
from calib8.repair.batch_norm_statistics import batch_norm_drift


def quantized(proto: onnx.ModelProto, data: Any, *repairs: str, **options: Any) -> onnx.ModelProto:
    found = calib8.quantize(proto, data, method="mse", repair=repairs or ("none",), threads=1, **options)
    return ir.to_proto(found.model)


def diagnosed(
    proto: onnx.ModelProto, *repairs: str, mean: float = 0.0, target: str = "onnxruntime"
) -> Diagnosis:
    data = samples(mean=mean)
    return diagnose(proto, quantized(proto, data, *repairs, target=target), data, threads=1)


def test_a_sound_model_is_accused_of_nothing() -> None:
    found = diagnosed(plain())
    assert found.sqnr_db > 30.0 and found.fallback == ""
    assert {finding.reason.cause for finding in found.findings} <= {"codes"}
    assert all(finding.gain_db < 6.0 for finding in found.findings)


def test_layers_come_with_all_their_figures_worst_damage_first() -> None:
    found = diagnosed(plain())
    damage = [loss.damage.both for loss in found.layers]
    assert damage == sorted(damage) and len(found.layers) == len(found.comparison.tensors)
    rows = {loss.row.node: loss for loss in found.layers}
    assert {"first", "second", "third", "scores"} <= set(rows)
    for name in ("first", "second", "third"):
        one = rows[name]
        assert one.damage.weights is not None and one.damage.codes is not None
        assert one.damage.both <= min(one.damage.weights, one.damage.codes) + 1.0
        assert one.macs is not None and 0.0 < one.macs < 1.0
        assert one.row.saturated is not None and one.row.vanished is not None
    assert sum(rows[name].macs or 0.0 for name in ("first", "second", "third", "scores")) == pytest.approx(1)


def test_findings_of_one_kind_come_worst_damage_first() -> None:
    found = diagnosed(one_loud_channel())
    rows = {loss.row.tensor: place for place, loss in enumerate(found.layers)}
    for codes in (True, False):
        places = [rows[one.tensor] for one in found.findings if (one.reason.cause == "codes") is codes]
        assert places == sorted(places)


def test_one_channel_a_thousand_times_as_large_is_found() -> None:
    found = diagnosed(one_loud_channel())
    first = found.findings[0]
    assert (first.node, first.reason.cause) == ("second", "scale")
    assert "channel 5 reaches" in first.reason.text and found.sqnr_db < 5.0 and first.gain_db > 20.0
    assert ("cle", "bias") in first.reason.repairs


def test_branches_of_a_detector_are_found_although_the_boxes_hide_the_scores() -> None:
    """A target that wants one scale around a Concat; others leave the last one without codes."""
    found = diagnosed(detector(), target="openvino")
    first = found.findings[0]
    assert (first.node, first.reason.cause) == ("detections", "branches")
    assert "'boxes_out' reaches 640" in first.reason.text and "'scores_out'" in first.reason.text
    assert first.floats[0] == "detections" and first.gain_db > 10.0
    others = [one.reason.cause for one in found.findings[1:]]
    assert others == ["clipped"]  # the one scale again, at the scores: no other cause
    assert found.comparison.outputs.sqnr_db > found.sqnr_db + 10.0  # all outputs together tell nothing


def test_a_dead_normalization_is_found() -> None:
    found = diagnosed(dead_norm())
    first = found.findings[0]
    assert first.reason.cause == "batch normalization" and first.gain_db > 5.0
    assert (first.tensor, first.floats) == ("relu1_out", ("first", "second"))
    assert "BatchNormalization dead: channel 5" in first.reason.text
    assert first.reason.repairs[0] == ("constant-channels", "bias")


def test_data_unlike_those_of_the_training_are_found_in_the_first_normalization() -> None:
    found = diagnosed(normalized(), mean=3.0)
    first = found.findings[0]
    assert (first.node, first.reason.cause) == (None, "statistics")
    assert "first_norm" in first.reason.text and "standard deviations off" in first.reason.text
    assert all(one.reason.cause != "statistics" for one in diagnosed(normalized()).findings)


def test_an_input_whose_codes_do_not_fit_the_data_comes_first() -> None:
    proto = plain()
    int8 = quantized(proto, samples())
    for data in (samples(mean=6.0), samples(scale=0.02)):
        first = diagnose(proto, int8, data, threads=1).findings[0]
        assert (first.node, first.tensor, first.reason.cause) == (None, "x", "input")
        assert "calibrated with other preprocessing" in first.reason.text


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("net", "repairs"),
    [
        (one_loud_channel, ("cle", "bias")),
        (one_loud_channel, ("cle", "eq", "bias")),
        (plain, ("cle", "round", "bias-sequential")),
    ],
)
def test_a_repaired_model_is_accused_of_nothing(net: Any, repairs: tuple[str, ...]) -> None:
    found = diagnosed(net(), *repairs)
    assert found.sqnr_db > 30.0
    assert {finding.reason.cause for finding in found.findings} <= {"codes"}
    assert all(loss.damage.both > 30.0 for loss in found.layers)


def test_the_order_of_the_samples_changes_nothing() -> None:
    proto, data = plain(), samples(20)
    int8 = quantized(proto, data)
    left, right = diagnose(proto, int8, data, threads=1), diagnose(proto, int8, data[::-1], threads=2)
    assert [loss.damage for loss in left.layers] == [loss.damage for loss in right.layers]
    assert left.findings == right.findings and left.advice == right.advice
    assert left.sqnr_db == right.sqnr_db


def test_another_model_is_refused() -> None:
    proto, data = plain(), samples()
    other = plain()
    rng = np.random.default_rng(5)
    for tensor in other.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        values = rng.normal(0, 0.5, array.shape).astype(np.float32)
        tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    with pytest.raises(ModelError, match="its weights are not those of"):
        diagnose(proto, quantized(other, data), data, threads=1)
    with pytest.raises(Calib8Error, match="the float model that it was made from"):
        diagnose(detector(), quantized(proto, data), data, threads=1)
    with pytest.raises(UsageError, match="float model"):
        diagnose(proto, proto, data, threads=1)


def test_bad_data_are_refused() -> None:
    proto, data = plain(), samples()
    int8 = quantized(proto, data)
    with pytest.raises(Calib8Error, match="x"):
        diagnose(proto, int8, samples(size=8), threads=1)
    with pytest.raises(Calib8Error):
        diagnose(proto, int8, [], threads=1)
    with pytest.raises(UsageError, match="threads=0"):
        diagnose(proto, int8, data, threads=0)


def test_a_product_with_factors_of_different_size_is_found() -> None:
    first = diagnosed(uneven_factors()).findings[0]
    assert (first.node, first.reason.cause) == ("strided", "branches")
    assert "entries of 1 … 64" in first.reason.text and first.floats == ("strided", "last")


def test_multiply_accumulates_are_counted_for_the_sizes_of_the_images() -> None:
    proto = plain()
    free = plain()
    for axis, size in zip(free.graph.input[0].type.tensor_type.shape.dim, ("N", "C", "H", "W"), strict=True):
        axis.dim_param = size
    del free.graph.value_info[:]
    shares = []
    for one in (proto, free):
        layers = diagnose(one, quantized(one, samples()), samples(), threads=1).layers
        shares.append({loss.row.node: loss.macs for loss in layers if loss.row.node is not None})
    assert shares[0] == shares[1] and None not in shares[0].values()


def test_a_normalization_behind_several_layers_tells_nothing_of_the_images() -> None:
    proto = dead_norm()
    name = next(node for node in proto.graph.node if node.op_type == "BatchNormalization").input[3]
    tensor = next(one for one in proto.graph.initializer if one.name == name)
    means = onnx.numpy_helper.to_array(tensor) + np.float32([9, 9, 9, 9, 9, 0, 9, 9])
    tensor.CopyFrom(onnx.numpy_helper.from_array(means, name))
    assert batch_norm_drift(ir.from_proto(proto), samples(), threads=1)[0].suspicious
    data = samples()
    found = diagnose(proto, quantized(proto, data), data, threads=1)
    assert found.findings[0].reason.cause == "batch normalization"
    assert "statistics" not in {one.reason.cause for one in found.findings}
