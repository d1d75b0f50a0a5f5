"""The targets as data: what each takes, and the options that contradict it."""

from __future__ import annotations

import dataclasses

import pytest

from calib8.errors import UsageError
from calib8.ops.groups import CODE_PRESERVING_OPS, QUANTIZABLE_OPS
from calib8.qparams import INT8, INT8_SYMMETRIC, UINT8
from calib8.scheme import ACTIVATION_TYPES, TARGETS, QuantScheme, activation_type, target_scheme


def test_every_target_is_found_by_its_name() -> None:
    assert set(TARGETS) == {
        *("onnxruntime", "onnxruntime-avx2", "calib8"),
        *("openvino", "tflite", "tensorrt", "tengine", "ncnn"),
    }
    for name, scheme in TARGETS.items():
        assert target_scheme(name) is scheme
        assert scheme.name == name
        assert scheme.weights == INT8_SYMMETRIC
        assert scheme.activations in ACTIVATION_TYPES.values()


@pytest.mark.parametrize("name", ["tensorrt", "tengine", "ncnn"])
def test_symmetric_targets_take_symmetric_codes_only(name: str) -> None:
    scheme = target_scheme(name)
    assert scheme.activations == INT8_SYMMETRIC
    assert scheme.with_activations("int8-symmetric") == scheme
    for other in ("uint8", "int8"):
        with pytest.raises(UsageError, match=name):
            scheme.with_activations(other)


def test_tflite_takes_signed_codes_only() -> None:
    assert target_scheme("tflite").activations == INT8
    assert target_scheme("tflite").with_activations("int8").activations == INT8
    with pytest.raises(UsageError, match="tflite"):
        target_scheme("tflite").with_activations("uint8")


def test_onnx_runtime_takes_all_and_nothing_else_changes() -> None:
    scheme = target_scheme("onnxruntime")
    assert scheme.activations == UINT8
    for name, spec in ACTIVATION_TYPES.items():
        assert scheme.with_activations(name) == dataclasses.replace(scheme, activations=spec)


def test_every_target_takes_both_granularities_of_weights() -> None:
    for scheme in TARGETS.values():
        assert scheme.with_weights("per-channel") == scheme
        coarse = scheme.with_weights("per-tensor")
        assert coarse == dataclasses.replace(scheme, weight_granularity="per-tensor")


def test_unknown_names_are_usage_errors_that_list_the_known_ones() -> None:
    with pytest.raises(UsageError, match="onnxruntime"):
        target_scheme("onnx")
    with pytest.raises(UsageError, match="uint8"):
        activation_type("uint4")
    with pytest.raises(UsageError, match="uint8"):
        QuantScheme("mine").with_activations("uint4")
    with pytest.raises(UsageError, match="weights='per-row': unknown granularity"):
        QuantScheme("mine").with_weights("per-row")


def test_ops_that_keep_codes_are_quantizable() -> None:
    assert CODE_PRESERVING_OPS <= QUANTIZABLE_OPS
    assert "AveragePool" not in CODE_PRESERVING_OPS
