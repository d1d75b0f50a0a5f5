"""Layers of a report: every node in one of them, with what is known of it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import calib8
from calib8.run_report.layers import Known, inside
from small_nets import classifier, concat, conv_chain, heads, residual

NETS = {
    "classifier": classifier,
    "concat": concat,
    "conv_chain": conv_chain,
    "heads": heads,
    "residual": residual,
}


def made(name: str, **words: object) -> tuple[calib8.Quantization, np.ndarray, object]:
    proto = NETS[name]()
    size = [6, *(d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim[1:])]
    data = np.random.default_rng(0).normal(size=size).astype(np.float32)
    return calib8.quantize(proto, data, repair=("none",), method="mse", **words), data, proto


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", NETS)
def test_every_node_is_in_one_layer_with_its_figures(name: str, tmp_path) -> None:
    result, data, proto = made(name)
    result.save(tmp_path / "int8.onnx")
    onnx.save(proto, tmp_path / "fp32.onnx")
    comparison = calib8.compare(tmp_path / "fp32.onnx", tmp_path / "int8.onnx", data)
    reasons = {one.node: one.reason for one in result.placement.decisions if one.reason}
    assert result.calibration is not None
    told = inside(
        result.model, Known(None, reasons, comparison, None, result.calibration.statistics, result.table)
    )
    listed = [node for row in told.layers for node in (row.name, *row.parts)]
    assert sorted(listed) == sorted(node.name for node in told.network)
    for node in told.network:
        assert node.layer is not None
        row = told.layers[node.layer]
        assert node.name in (row.name, *row.parts)
    by_name = {row.name: row for row in told.layers}
    assert {row.node or row.tensor for row in comparison.tensors} <= set(by_name)
    for compared in comparison.tensors:
        row = by_name[compared.node or compared.tensor]
        assert (row.local_db, row.cumulative_db) == (compared.local.sqnr_db, compared.cumulative.sqnr_db)
        assert told.tensors[row.tensors[0]].name == compared.tensor or compared.dtype is None
    figures = [row.local_db for row in told.layers if row.local_db is not None]
    assert figures == sorted(figures) and all(row.local_db is None for row in told.layers[len(figures) :])


def test_reasons_weights_and_tensors_are_told() -> None:
    result, _, proto = made("residual")
    names = [node.name for node in proto.graph.node if node.op_type == "Conv"]
    result, _, _ = made("residual", keep_float=names[:1])
    decided = {one.node: one.quantized for one in result.placement.decisions}
    reasons = {one.node: one.reason for one in result.placement.decisions if one.reason}
    assert result.calibration is not None
    known = Known(decided, reasons, statistics=result.calibration.statistics, table=result.table)
    rows = {row.name: row for row in inside(result.model, known).layers}
    assert rows[names[0]].precision == "float" and "the user keeps it in float" in rows[names[0]].why
    assert rows[names[1]].precision == "int8" and rows[names[1]].why == ""
    assert rows[names[0]].weights is not None and rows[names[1]].weights is not None
    assert rows[names[1]].local_db is None and rows[names[1]].tensors
    shown = inside(result.model, known).tensors
    assert {tensor.name for tensor in shown} >= set(result.table.entries)
    assert all(tensor.histogram is not None for tensor in shown if tensor.name in result.table.entries)


def test_sixteen_bits_are_told_with_the_tensors_that_have_them() -> None:
    plain, _, _ = made("residual", target="calib8")
    spot = next(name for name in plain.qparams if name in plain.table.entries and name != "x")
    result, _, _ = made("residual", target="calib8", spots=(spot,))
    told = inside(result.model, Known({one.node: one.quantized for one in result.placement.decisions}))
    wide = [row for row in told.layers if row.precision == "16 bit"]
    assert wide and all(spot in row.why for row in wide)
    assert next(tensor for tensor in told.tensors if tensor.name == spot).code.startswith(("int16", "uint16"))
