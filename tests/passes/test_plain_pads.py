"""Pads that name axes, and CenterCropPad, become Pads of all axes: same function, and integers run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import calib8
from calib8.passes.plain_pads import plain_pads
from small_models import graph, normal, onnx_model, ops, relative_difference, run

IMAGE = "float[N,3,8,8] x", "float[A,B,C,D] y"


@pytest.mark.parametrize("mode", ["", '<mode="reflect">'])
@pytest.mark.parametrize("value", ["", ", v"])
def test_a_pad_of_named_axes_states_all_of_them(mode: str, value: str) -> None:
    constants = {"p": np.int64([1, 2, 0, 3]), "a": np.int64([-1, 2]), "v": np.float32(0.5)}
    body = f"r = Relu(x) y = Pad{mode}(r, p{value or ','}, a)"
    model = graph(*IMAGE, body, constants, opset=18)
    x = normal(2, 3, 8, 8)
    expected = run(model, {"x": x})
    assert plain_pads(model) == 1 and plain_pads(model) == 0
    assert relative_difference(expected, run(model, {"x": x})) == 0
    (pad,) = (node for node in model.graph if node.op_type == "Pad")
    assert len(pad.inputs) == (3 if value else 2)


@pytest.mark.parametrize("axes", ["", "<axes=[3,-2]>"])
@pytest.mark.parametrize("sizes", [(3, 11), (12, 12), (5, 3), (8, 7), (8, 8)])
def test_sizes_are_cropped_and_padded_to(sizes: tuple[int, int], axes: str) -> None:
    wanted = sizes if axes else (2, 3, *sizes)
    model = graph(
        "float[2,3,8,8] x",
        IMAGE[1],
        f"r = Relu(x) y = CenterCropPad{axes}(r, s)",
        {"s": np.int64(wanted)},
        opset=18,
    )
    x = normal(2, 3, 8, 8)
    expected = run(model, {"x": x})
    assert plain_pads(model) == 1
    assert relative_difference(expected, run(model, {"x": x})) == 0
    assert ops(model) == {"Relu": 1, "Pad": 1} | ({"Slice": 1} if min(sizes) < 8 else {})


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("float[N,3,8,8]", "y = CenterCropPad(x, s)"),
        ("float[2,3,H,8]", "y = CenterCropPad<axes=[3,2,1,0]>(x, s)"),
        ("float[2,3,8,8]", "d = Identity(s) y = CenterCropPad(x, d)"),
        ("float[2,3,8,8]", "y = Pad(x, p)"),
        ("float[2,3,8,8]", "a = Identity(s) y = Pad(x, p, , a)"),
    ],
)
def test_what_is_not_known_stays(kind: str, body: str) -> None:
    constants = {"s": np.int64([3, 2, 1, 0]), "p": np.zeros(8, np.int64)}
    assert plain_pads(graph(f"{kind} x", IMAGE[1], body, constants, opset=18)) == 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("op", ["Pad(r, p, v, a)", "CenterCropPad<axes=[2,3]>(r, s)"])
@pytest.mark.parametrize("target", ["onnxruntime", "calib8"])
def test_between_integer_convolutions_they_run(op: str, target: str, tmp_path: Path) -> None:
    """ONNX Runtime 1.32 refuses the former graph with an index out of range."""
    constants = {
        "w": normal(4, 3, 3, 3),
        "k": normal(4, 4, 3, 3, seed=1),
        "p": np.int64([1, 2, 1, 0]),
        "a": np.int64([2, 3]),
        "s": np.int64([10, 6]),
        "v": np.float32(0.5),
    }
    body = f"c = Conv<pads=[1,1,1,1]>(x, w) r = Relu(c) m = {op} y = Conv(m, k)"
    file = tmp_path / "net.onnx"
    onnx.save(onnx_model("float[N,3,8,8] x", IMAGE[1], body, constants, opset=18), file)
    data = normal(16, 3, 8, 8)
    made = calib8.quantize(file, {"x": data}, target=target, repair=["none"])
    made.save(tmp_path / "int8.onnx")
    _, found = calib8.evaluate([file, tmp_path / "int8.onnx"], {"x": data})
    assert found.sqnr_db is not None and found.sqnr_db > 30


@pytest.mark.parametrize("amounts", [[1, 2, 3], [1, 1]])
def test_pads_that_do_not_fit_their_axes_are_left_to_who_refuses_them(amounts: list[int]) -> None:
    constants = {"p": np.int64(amounts), "a": np.int64([2, 3])}
    model = onnx_model("float[2,3,8,8] x", IMAGE[1], "y = Pad(x, p, , a)", constants, opset=18)
    assert plain_pads(ir.from_proto(model)) == 0
