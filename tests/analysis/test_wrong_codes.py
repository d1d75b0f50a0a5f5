"""Codes that cannot hold what they stand for: biases that ran over, outlier weights, ranges far too wide."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

import calib8
from broken_nets import CHANNEL, dead_norm, plain, samples
from calib8.analysis.diagnose import diagnose
from calib8.analysis.findings import Finding

BIAS, WEIGHT = "c2", "c5"
"""Of 'second' and of 'third'; c2/codes, c2/codes/scale … in the int8 model."""


def quantized(proto: onnx.ModelProto, *repairs: str) -> onnx.ModelProto:
    found = calib8.quantize(proto, samples(), method="mse", repair=repairs or ("none",), threads=1)
    return ir.to_proto(found.model)


def constant(proto: onnx.ModelProto, name: str) -> Any:
    return numpy_helper.to_array(next(one for one in proto.graph.initializer if one.name == name)).copy()


def changed(proto: onnx.ModelProto, name: str, array: Any) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    tensor = next(one for one in copy.graph.initializer if one.name == name)
    tensor.CopyFrom(numpy_helper.from_array(np.asarray(array, constant(proto, name).dtype), name))
    return copy


def with_bias(code: int) -> onnx.ModelProto:
    """Channel 3 of 'second' has this code for its bias."""
    int8 = quantized(plain())
    codes = constant(int8, f"{BIAS}/codes")
    codes[3] = code
    return changed(int8, f"{BIAS}/codes", codes)


def findings(proto: onnx.ModelProto, int8: onnx.ModelProto, cause: str) -> list[Finding]:
    found = diagnose(proto, int8, samples(), threads=1).findings
    return [one for one in found if one.reason.cause == cause]


@pytest.mark.parametrize("code", [2**31 - 1, 2**30 + 2**20])
def test_a_bias_that_ran_over_is_named(code: int) -> None:
    int8 = with_bias(code)
    [finding] = findings(plain(), int8, "bias")
    scale = np.broadcast_to(constant(int8, f"{BIAS}/codes/scale"), 8)[3]
    told = f"{code * float(scale):.4g} by its int32 code and {constant(plain(), BIAS)[3]:.4g} in FP32"
    assert finding.node == "second" and finding.reason.text == f"channel 3 has the bias {told}"


def test_a_corrected_bias_is_not_accused() -> None:
    assert not findings(plain(), quantized(plain(), "cle", "bias-sequential"), "bias")


def test_a_model_whose_bias_ran_over_is_cured_by_quantizing_again() -> None:
    treated = calib8.diagnose(plain(), with_bias(-(2**31)), samples(), threads=1)
    plainly = [one for one in treated.remedies if not one.wish.repairs and not one.wish.keep_float]
    assert plainly and plainly[0].gain_db > 20.0


def outlier(largest: float, others: float = 1.0, net: onnx.ModelProto | None = None) -> onnx.ModelProto:
    """'third' reads channel 2 of 'second', which is always 0, with one weight of 'largest'."""
    net = plain() if net is None else net
    bias, weight = constant(net, BIAS), constant(net, WEIGHT)
    bias[2] = -100.0
    weight[4] *= others
    weight[4, 2], weight[4, 2, 1, 1] = 0.0, largest
    return changed(changed(net, BIAS, bias), WEIGHT, weight)


def test_a_weight_that_takes_the_codes_of_its_channel_is_named() -> None:
    proto = outlier(300.0)
    int8 = quantized(proto)
    [finding] = findings(proto, int8, "weights")
    weight = constant(proto, WEIGHT)[4]
    lost = np.mean(constant(int8, f"{WEIGHT}/codes")[4][weight != 0] == 0)
    median = np.median(np.abs(weight[weight != 0]))
    assert finding.node == "third" and lost > 0.5
    assert finding.reason.text == (
        f"channel 4 has a weight of 300, the median one is {median:.4g}: "
        f"{100 * lost:.0f} % of its weights have the code 0"
    )


def test_of_one_scale_for_a_layer_the_channel_with_the_weight_is_named() -> None:
    """The codes of all other channels are gone, the quiet ones' first."""
    proto = outlier(300.0)
    made = calib8.quantize(proto, samples(), method="mse", repair=("none",), weights="per-tensor", threads=1)
    [finding] = findings(proto, ir.to_proto(made.model), "weights")
    weight = constant(proto, WEIGHT)
    lost = np.mean(np.abs(weight[weight != 0]) < 0.5 * 300.0 / 127.0)
    median = np.median(np.abs(weight[weight != 0]))
    assert finding.node == "third" and finding.reason.text == (
        f"channel 4 has a weight of 300, the median one of the layer is {median:.4g}: "
        f"{100 * lost:.0f} % of the layer's weights have the code 0"
    )


def ruined(*layers: tuple[str, str]) -> onnx.ModelProto:
    """Every channel of these layers, by the bias before it and the weight, reads a 0 with a weight of 300."""
    proto = plain()
    for bias, weight in layers:
        silent, loud = constant(proto, bias), constant(proto, weight)
        silent[2] = -100.0
        loud[:, 2] = 0.0
        loud[:, 2, 1, 1] = 300.0
        proto = changed(changed(proto, bias, silent), weight, loud)
    return proto


def test_two_weights_of_which_neither_gains_anything_in_float_are_both_named() -> None:
    """One behind the other, each of them leaves nothing of the picture."""
    proto = ruined(("c0", "c3"), (BIAS, WEIGHT))
    found = findings(proto, quantized(proto), "weights")
    assert {one.node for one in found} == {"second", "third"}
    assert all("has a weight of 300" in one.reason.text for one in found)
    assert all(one.floats == () and one.gain_db == 0.0 for one in found)


def test_a_channel_that_was_constant_is_named_where_a_layer_behind_it_loses_more() -> None:
    """The normalization in float gains nothing then."""
    proto = dead_norm()
    shift, weight = constant(proto, "c4"), constant(proto, "c8")
    shift[2] = -100.0
    weight[:, 2] = 0.0
    weight[:, 2, 1, 1] = 30.0
    proto = changed(changed(proto, "c4", shift), "c8", weight)
    [finding] = findings(proto, quantized(proto), "batch normalization")
    assert f"channel {CHANNEL} has" in finding.reason.text and "σ² = 1e-12" in finding.reason.text
    assert finding.floats == () and finding.gain_db == 0.0


def test_the_layer_that_is_normalized_is_named_where_the_codes_before_it_do_the_harm() -> None:
    """Those of a constant, which the dead normalization enlarges with their error."""
    [finding] = findings(dead_norm(), quantized(dead_norm()), "batch normalization")
    assert finding.node == "second" and "dead: channel" in finding.reason.text
    assert set(finding.floats) == {"first", "second"}


def test_a_weight_that_does_the_outputs_no_harm_is_not_accused() -> None:
    """Nothing reads its channel, while another layer ruins all."""
    proto = outlier(300.0, net=ruined(("c0", "c3")))
    reader = constant(proto, "c6")
    reader[:, 4] = 0.0
    proto = changed(proto, "c6", reader)
    assert [one.node for one in findings(proto, quantized(proto), "weights")] == ["second"]


@pytest.mark.parametrize(("largest", "others"), [(1.5, 1.0), (0.0, 0.0)])
def test_pruned_weights_are_not_accused(largest: float, others: float) -> None:
    """Weights of 0 have the code 0 by right."""
    proto = outlier(largest, others)
    assert not findings(proto, quantized(proto), "weights")


def test_a_range_that_is_far_too_wide_is_named_and_cured_by_calibrating_again() -> None:
    """Given by no user, but in the int8 model of whoever made it."""
    int8, scale = quantized(plain()), "second_relu_out/scale"
    wide = changed(int8, scale, 50.0 * constant(int8, scale))
    treated = calib8.diagnose(plain(), wide, samples(), threads=1)
    [finding] = [one for one in treated.diagnosis.findings if one.reason.cause == "unused"]
    assert finding.node == "second" and "Calibrate again" in finding.reason.advice
    assert "of the codes are used" in finding.reason.text
    assert treated.remedies[0].gain_db > 15.0 and not treated.remedies[0].wish.keep_float


def test_room_that_16_bits_are_given_is_no_other_preprocessing() -> None:
    made = calib8.quantize(
        plain(), samples(), method="minmax", repair=("none",), target="calib8", spots=["x"], threads=1
    )
    softer = [{name: np.float32(0.5) * array for name, array in feeds.items()} for feeds in samples()]
    found = diagnose(plain(), ir.to_proto(made.model), softer, threads=1)
    assert "input" not in {finding.reason.cause for finding in found.findings}
