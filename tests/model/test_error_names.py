"""Errors of a model as a whole name the file that it was read from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import calib8
from calib8.errors import ModelError, UnsupportedModelError
from calib8.remedies import diagnose
from small_models import normal, onnx_model

DATA = {"x": np.random.default_rng(0).standard_normal((4, 3, 5, 5)).astype(np.float32)}


def network() -> onnx.ModelProto:
    body = "c = Conv (x, w)   y = Conv (c, v)"
    return onnx_model(
        "float[N,3,5,5] x", "float[N,2,5,5] y", body, {"w": normal(4, 3, 1, 1), "v": normal(2, 4, 1, 1)}
    )


def named_alike() -> onnx.ModelProto:
    proto = network()
    for node in proto.graph.node:
        node.name = "same"
    return proto


def test_two_nodes_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "twice.onnx"
    onnx.save(named_alike(), path)
    table = calib8.calibrate(network(), DATA, method="minmax").table
    for attempt in (lambda: calib8.calibrate(path, DATA), lambda: calib8.quantize(path, table=table)):
        with pytest.raises(ModelError) as found:
            attempt()
        assert found.value.subject == str(path)
        assert found.value.cure == "Rename one of the two"
    with pytest.raises(ModelError) as bare:
        calib8.calibrate(named_alike(), DATA)
    assert bare.value.subject == named_alike().graph.name


def test_a_quantized_model_and_one_without_layers(tmp_path: Path) -> None:
    path = tmp_path / "float.onnx"
    calib8.quantize(network(), DATA, method="minmax", repair=("none",)).save(path)
    with pytest.raises(UnsupportedModelError, match="it is quantized already") as found:
        calib8.quantize(path, DATA)
    assert found.value.subject == str(path)
    pixels = {"images": np.zeros((16, 5, 5, 3), np.uint8)}
    table = calib8.calibrate(network(), DATA, method="minmax").table
    attempts: tuple[Callable[[], object], ...] = (  # none of them asks for a preprocessing first
        lambda: calib8.quantize(path, pixels),
        lambda: calib8.quantize(path, pixels, table=table),
        lambda: calib8.preflight(path, pixels),
        lambda: calib8.tune(path, pixels, tmp_path / "out.onnx", min_sqnr=5.0),
        lambda: diagnose(path, None, pixels),
    )
    for attempt in attempts:
        with pytest.raises(UnsupportedModelError, match="it is quantized already") as found:
            attempt()
        assert found.value.subject == str(path)
    onnx.save(onnx_model("float[N,3,5,5] x", "float[N,3,5,5] y", "y = Relu (x)", {}), path)
    with pytest.raises(UnsupportedModelError, match="has no convolution") as found:
        calib8.quantize(path, DATA)
    assert found.value.subject == str(path)
