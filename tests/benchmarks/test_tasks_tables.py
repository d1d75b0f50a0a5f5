"""The page of detectors: the share of float only where it is known, times only where nothing else ran."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import calib8
from small_nets import Net
from tasks import float_share
from tasks_tables import network

ROWS: list[dict[str, Any]] = [
    {
        "row": "calib8-balanced",
        "recall": 0.984,
        "sqnr_db": {"boxes": 49.3},
        "ms": 5.04,
        "float_share": 0.0125,
    },
    {"row": "nncf", "recall": 0.807, "sqnr_db": {"boxes": 32.2}, "ms": 6.0, "float_share": None},
    {"row": "modelopt", "failure": "no message"},
]


def test_the_share_of_float_is_told_where_it_is_known() -> None:
    lines = network("A net", ROWS)
    assert "|  | recall | MACs in float | dB |" in lines
    assert "| **calib8, its defaults**, in ONNX Runtime | 98.4 | 1.2 | boxes 49.3 |" in lines
    assert "| NNCF | 80.7 | – | boxes 32.2 |" in lines
    old = [{key: value for key, value in row.items() if key != "float_share"} for row in ROWS]
    assert "|  | recall | dB |" in network("A net", old)


def test_times_are_told_where_nothing_else_ran() -> None:
    alone = [row | {"alone": True} for row in ROWS]
    assert "| NNCF | 80.7 | – | 6.0 | boxes 32.2 |" in network("A net", alone)
    assert not any("6.0" in line for line in network("A net", [alone[0], *ROWS[1:]])), "one was not alone"


def test_layers_kept_in_float_count_with_their_products(tmp_path: Path) -> None:
    net = Net(shape=(1, 4, 8, 8))
    proto = net.model(net.conv(net.conv("x", 4, 4, name="first"), 4, 12, name="second"))
    data = [{"x": np.ones((1, 4, 8, 8), np.float32)}]
    calib8.quantize(proto, data, effort="fast", keep_float=["second"]).save(tmp_path / "int8.onnx")
    for runtime in ("onnxruntime", "calib8"):
        assert float_share(tmp_path / "int8.onnx", runtime, None) == pytest.approx(0.75)
    open_sizes = onnx.load(tmp_path / "int8.onnx")
    del open_sizes.graph.value_info[:]
    for place, axis in enumerate(open_sizes.graph.input[0].type.tensor_type.shape.dim):
        if place != 1:
            axis.dim_param = f"side{place}"
    open_sizes.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(open_sizes, tmp_path / "open.onnx")
    assert float_share(tmp_path / "open.onnx", "onnxruntime", (8, 8)) == pytest.approx(0.75)
