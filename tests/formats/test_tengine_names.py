"""Tables with the names of Tengine's converter: what it fuses keeps the name of its first node."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

import calib8
from calib8.formats.convert import convert_table
from calib8.formats.tengine_names import with_converter_names, with_own_names
from calib8.model.load import load_model
from calib8.passes.converter_names import converter_names
from calib8.table import CalibrationTable, Range, TableEntry


def entry(limit: float) -> TableEntry:
    return TableEntry(Range(-limit, limit), "minmax", 0.0, 10, 0, Range(-limit, limit))


def table(**limits: float) -> CalibrationTable:
    return CalibrationTable("", {name: entry(limit) for name, limit in limits.items()})


def scales_of(path: Path) -> dict[str, float]:
    return {line.split()[0]: float(line.split()[1]) for line in path.read_text().splitlines()}


def names_of(body: str) -> dict[str, str]:
    weights = "float[2,2,1,1] w = {1, 0, 0, 1}, float[2] v = {1, 1}"
    limits = "float z = {0}, float six = {6}, float four = {4}"
    ports = "(float[1,2,4,4] x) => (float[1,2,4,4] y)"
    text = f'<ir_version: 8, opset_import: ["": 17]> g {ports} <{weights}, {limits}> {{ {body} }}'
    model = parser.parse_model(text)
    onnx.checker.check_model(model)
    return converter_names(load_model(model))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a = Conv(x, w) y = Relu(a)", {"y": "a"}),
        ("a = Conv(x, w) b = BatchNormalization(a, v, v, v, v) y = Relu(b)", {"y": "a"}),
        ("a = Conv(x, w) y = BatchNormalization(a, v, v, v, v)", {"y": "a"}),
        ("a = Conv(x, w) y = Clip(a, z, six)", {"y": "a"}),
        ("a = Conv(x, w) y = Clip(a, z, four)", {"y": "a"}),
        ("a = Conv(x, w) y = Clip(a, four, six)", {"y": "a"}),
        ("a = Conv(x, w) y = Sigmoid(a)", {}),
        ("a = Conv(x, w) y = LeakyRelu(a)", {}),
        ("a = Conv(x, w) b = Relu(a) y = Add(a, b)", {}),
        ("a = ConvTranspose(x, w) y = Relu(a)", {}),
        ("y = Relu(x)", {}),
    ],
)
def test_what_the_converter_fuses(body: str, expected: dict[str, str]) -> None:
    assert names_of(body) == expected


def test_tables_pass_into_the_names_of_the_converter_and_back() -> None:
    own = table(x=1.0, y=2.0, z=3.0)
    theirs = with_converter_names(own, {"y": "a"})
    assert set(theirs.entries) == {"x", "a", "z"}
    assert theirs.entries["a"] == own.entries["y"]
    assert with_own_names(theirs, {"y": "a"}).entries == own.entries


def test_what_the_converter_computes_no_more_is_left_out() -> None:
    """The sums before a Relu have no tensor in the tmfile: their name is that of the result."""
    assert with_converter_names(table(a=5.0, y=2.0), {"y": "a"}).entries == table(a=2.0).entries


def test_a_table_with_the_names_of_the_onnx_model_stays(shared_data: Path) -> None:
    names = converter_names(load_model(shared_data / "tengine" / "mnist.onnx"))
    own = table(**dict.fromkeys(names, 1.0))
    assert with_own_names(own, names).entries == own.entries


def test_names_of_a_tmfile_are_those_of_the_converter(shared_data: Path) -> None:
    assert converter_names(load_model(shared_data / "tengine" / "mnist_fp32.tmfile")) == {}


@pytest.mark.parametrize(
    ("model", "scales"), [("mnist.onnx", "table_minmax"), ("nets/net_a.onnx", "nets/net_a_0_table_minmax")]
)
def test_the_tools_own_table_quantizes_the_onnx_model(shared_data: Path, model: str, scales: str) -> None:
    folder = shared_data / "tengine"
    read = calib8.read_table(folder / f"{scales}.scale")
    made = calib8.quantize(folder / model, table=read, target="tengine")
    names = converter_names(load_model(folder / model))
    assert names
    for own, theirs in names.items():
        assert made.table.entries[own].range.max == pytest.approx(read.table.entries[theirs].range.max)


def test_a_table_written_for_tengine_has_the_names_of_its_own_table(
    shared_data: Path, tmp_path: Path
) -> None:
    folder = shared_data / "tengine"
    tool = scales_of(folder / "table_minmax.scale")
    model = load_model(folder / "mnist.onnx")
    names = converter_names(model)
    inverse = {theirs: own for own, theirs in names.items()}
    own = table(**{inverse.get(name, name): scale * 127 for name, scale in tool.items() if name != "20"})
    output = tmp_path / "t.scale"
    convert_table(own, output, "tengine", model=folder / "mnist.onnx", lossy=True)
    written = scales_of(output)
    assert set(written) <= set(tool)
    assert {"11", "13", "15"} <= set(written)
    for name, scale in written.items():
        np.testing.assert_allclose(scale, tool[name], rtol=1e-6)
