"""What an int8 model contains is counted from its graph: layers, wide tensors, nodes in float."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

import calib8
from calib8.quantization.qdq import readable_copy
from calib8.run_report.contents import contents_of
from calib8.run_report.network import network_of
from calib8.run_report.told import Figure
from small_models import normal, onnx_model

BODY = "h = Conv(x, w) r = Relu(h) y = Conv(r, v)"


def contents(keep_last: bool = False) -> Figure:
    weights = {"w": normal(4, 3, 1, 1, seed=1), "v": normal(2, 4, 1, 1, seed=2)}
    net = onnx_model("float[1,3,4,4] x", "float[1,2,4,4] y", BODY, weights)
    data = np.random.default_rng(0).normal(size=(20, 3, 4, 4)).astype(np.float32)
    made = calib8.quantize(net, data, repair=["none"])
    if keep_last:
        last = made.placement.decisions[-1].node
        made = calib8.quantize(net, data, repair=["none"], keep_float=[last])
    return contents_of(network_of(readable_copy(made.model)))


def test_all_in_int8() -> None:
    told = contents()
    assert told.value == "2 layers with int8 weights, no tensor of 16 bits, nothing stays float"
    assert told.note == ""


def test_a_layer_that_stays_float_is_named() -> None:
    net = contents(keep_last=True)
    assert net.value.startswith("1 layer with int8 weights, no tensor of 16 bits, 1 node stays float")
    assert net.note.startswith("in float: Conv ")


def test_a_float_model_has_nothing_in_codes() -> None:
    weights = {"w": normal(4, 3, 1, 1, seed=1), "v": normal(2, 4, 1, 1, seed=2)}
    net = onnx_model("float[1,3,4,4] x", "float[1,2,4,4] y", BODY, weights)
    told = contents_of(network_of(readable_copy(ir.from_proto(net))))
    assert told.value == "no layer with weights in codes, no tensor of 16 bits, 3 nodes stay float"
