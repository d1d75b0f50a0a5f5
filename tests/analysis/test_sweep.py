"""One sweep says of every part what a session of its own says; where it cannot, that is told."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from compared import images
from dissected import dissected

import calib8
from calib8.analysis.damage import code_part, damages, number_of_parts, weight_part
from calib8.dissection import sweep
from calib8.dissection.dissect import Dissection
from calib8.dissection.sweep import part_energies
from calib8.dissection.sweep_graph import Part
from calib8.errors import DataError
from small_nets import NETS, Net, clean


def parts_of(found: Dissection, taps: tuple) -> list[Part]:
    pairs = [(weight_part(found, tap), code_part(found, tap)) for tap in taps]
    return list(dict.fromkeys(part for pair in pairs for part in pair if part is not None))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("name", "target"), [*((name, "onnxruntime") for name in sorted(NETS)), ("residual", "tensorrt")]
)
def test_the_sweep_agrees_with_a_session_per_part(name: str, target: str) -> None:
    found, taps = dissected(NETS[name](), clean(name, target), images(3))
    single = parts_of(found, taps)
    several = [Part(found.layers, ()), Part((), found.tensors), Part(found.layers, found.tensors)]
    swept = found.qualities([*single, *several])
    assert found.fallback == ""
    for part, quality in zip([*single, *several], swept, strict=True):
        assert quality == pytest.approx(found.quality(part), abs=0.05), part


def test_a_part_that_changes_nothing_costs_nothing() -> None:
    found, _ = dissected(NETS["residual"](), clean("residual", "onnxruntime"), images(2))
    assert found.qualities([Part((), ()), Part((found.layers[0],), ())])[0] == 120.0
    assert found.qualities([]) == ()


def test_how_the_parts_are_split_changes_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    found, taps = dissected(NETS["squeeze_excite"](), clean("squeeze_excite", "onnxruntime"), images(2))
    parts = parts_of(found, taps)
    steps: list[int] = []
    together = found.qualities(parts, steps.append)
    assert steps == [len(parts)]
    monkeypatch.setattr(sweep, "MOST", 3)
    apart = found.qualities(parts, steps.append)
    assert len(steps) > 2 and sum(steps[1:]) == len(parts) and max(steps[1:]) == 3
    assert apart == pytest.approx(together, abs=1e-3)
    assert found.qualities(parts[::-1]) == pytest.approx(apart[::-1], abs=1e-3)


def mixing() -> Net:
    """Axis 0 takes part in a product: versions of a tensor cannot go through together."""
    net = Net(shape=(1, 4, 8, 8))
    y = net.op("Relu", net.conv("x", 4, 4, name="first"))
    y = net.op("Transpose", y, perm=[1, 0, 2, 3], name="there")
    y = net.op("Relu", net.op("MatMul", y, net.weight(8, 8), name="product"), name="product_relu")
    net.conv(net.op("Transpose", y, perm=[1, 0, 2, 3], name="back"), 4, 2, name="last")
    return net


def test_where_the_sweep_cannot_be_parts_are_judged_one_by_one() -> None:
    proto = mixing().model("last_out")
    data = images(4)
    int8 = calib8.quantize(proto, data, method="minmax", repair=("none",), target="tensorrt")
    found, taps = dissected(proto, ir.to_proto(int8.model), data[:2])
    steps: list[int] = []
    losses = damages(found, taps, steps.append)
    assert "a Transpose may mix what is computed together" in found.fallback
    assert sum(steps) == number_of_parts(found, taps)
    for tap, loss in zip(taps, losses, strict=True):
        part = weight_part(found, tap)
        assert loss.weights == (None if part is None else found.quality(part))


def test_a_sweep_that_is_not_the_model_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    found, taps = dissected(NETS["heads"](), clean("heads", "onnxruntime"), images(2))
    parts = parts_of(found, taps)
    right = found.qualities(parts)
    wrong = [[array + np.float32(0.1) for array in outputs] for outputs in found.bare.outputs]
    with pytest.raises(sweep.SWEEP_FAULTS, match="row 0 is not the model"):
        part_energies(found.model, found.constants, parts, found.runs, wrong, 1)
    monkeypatch.setattr(sweep, "_check_row", _refuse)
    assert found.qualities(parts) == pytest.approx(right, abs=0.2)
    assert "row 0" in found.fallback


def _refuse(plain: object, expected: object) -> None:
    raise DataError("sweep", "row 0 is wrong", "Compare it layer by layer")


def test_runs_of_different_shapes_are_judged_one_by_one() -> None:
    net = Net(shape=("N", 4, "H", "W"))
    proto = net.model(net.conv(net.op("Relu", net.conv("x", 4, 4, name="a")), 4, 2, name="b"))
    data = [*images(2), *images(2, (1, 4, 10, 8))]
    int8 = ir.to_proto(calib8.quantize(proto, data, method="minmax", repair=("none",)).model)
    found, taps = dissected(proto, int8, data)
    assert all(np.isfinite(loss.both) for loss in damages(found, taps))
    assert "inputs of different shapes" in found.fallback


def of_sizes() -> Net:
    """What an exporter computes of sizes that it does not know: half of the columns, all rows as a list."""
    net = Net(shape=("N", 4, "H", "W"))
    y = net.op("Relu", net.conv("x", 4, 4, name="first"), name="first_relu")
    sizes = net.op("Shape", y, name="sizes")
    columns = net.op("Gather", sizes, net.const([3], np.int64), name="columns")
    half = net.op("Div", columns, net.const([2], np.int64), name="half")
    y = net.op("Slice", y, net.const([0], np.int64), half, net.const([3], np.int64), name="left")
    batch = net.op("Slice", sizes, *(net.const([place], np.int64) for place in (0, 1)), name="batch")
    y = net.conv(y, 4, 2, name="second")
    rows = net.op("Concat", batch, net.const([2, -1], np.int64), axis=0, name="rows")
    net.op("Reshape", y, rows, name="listed")
    return net


def test_sizes_that_follow_from_those_of_the_run_are_no_obstacle() -> None:
    proto = of_sizes().model("listed_out")
    data = images(3)
    int8 = ir.to_proto(calib8.quantize(proto, data, method="minmax", repair=("none",)).model)
    assert any(node.op_type == "Shape" for node in int8.graph.node)
    found, taps = dissected(proto, int8, data)
    parts = parts_of(found, taps)
    swept = found.qualities(parts)
    assert found.fallback == ""
    for part, quality in zip(parts, swept, strict=True):
        assert quality == pytest.approx(found.quality(part), abs=0.05), part


def test_damage_is_the_same_for_every_number_of_threads() -> None:
    fp32, int8 = NETS["classifier"](), clean("classifier", "onnxruntime")
    found, taps = dissected(fp32, int8, images(2))
    again, _ = dissected(fp32, int8, images(2))
    again.threads = 2
    assert damages(again, taps) == damages(found, taps)
