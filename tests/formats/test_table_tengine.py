"""Tengine's scale files, int8 and uint8, and the scales of its weights and biases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_tables import bounds, ranges_of, scales, symmetric_table, table_of, word_names

from calib8.errors import TableError
from calib8.formats import tengine
from calib8.qparams import UINT8, activation_qparams
from small_models import graph, normal


@given(st.dictionaries(word_names, scales, min_size=1))
def test_int8_scales_come_back_to_the_bit(scale_of: dict[str, float]) -> None:
    table = symmetric_table(scale_of)
    assert ranges_of(tengine.read(tengine.write(table), "t.scale", "tengine").table) == ranges_of(table)


@given(st.dictionaries(word_names, bounds, min_size=1))
def test_uint8_scales_and_zero_points_come_back(ranges: dict[str, tuple[float, float]]) -> None:
    text = tengine.write(table_of(ranges), "tengine-uint8")
    read = tengine.read(text, "t.scale", "tengine-uint8").table
    for name, (low, high) in ranges.items():
        before = activation_qparams(low, high, UINT8)
        after = activation_qparams(read.entries[name].range.min, read.entries[name].range.max, UINT8)
        assert after == before


def test_small_scales_survive() -> None:
    scale = float(np.float32(0.0000003))
    text = tengine.write(symmetric_table({"a": scale}))
    assert text == "a 3.00000011e-07 0\n"
    assert tengine.read(text, "t.scale").table.entries["a"].range.max == 127 * scale


def test_tengines_own_six_decimals_are_read() -> None:
    read = tengine.read("data 0.020794 0\nconv1 0.047244 0\nprob 0.000000 0\n", "t.scale")
    assert read.format == "tengine"
    assert read.without_scale == ("prob",)
    assert read.table.entries["conv1"].range.max == 127 * float(np.float32(0.047244))
    assert read.table.entries["conv1"].method == "Tengine int8 scale"


def test_a_zero_point_tells_the_uint8_file() -> None:
    read = tengine.read("data 0.5 128\nrelu 0.5 0\n", "t.scale")
    assert read.format == "tengine-uint8"
    assert ranges_of(read.table) == {"data": (-64.0, 63.5), "relu": (0.0, 127.5)}
    assert ranges_of(tengine.read("relu 0.5 0\n", "t.scale").table) == {"relu": (-63.5, 63.5)}
    assert ranges_of(tengine.read("relu 0.5 0\n", "t", "tengine-uint8").table) == {"relu": (0.0, 127.5)}


@pytest.mark.parametrize(
    ("text", "form", "place", "problem"),
    [
        ("", None, "t.scale", "holds no tensor"),
        ("a 0.1", None, "line 1", "is not a name, a scale"),
        ("a 0.1 0\nb 0.1", None, "line 2", "is not a name, a scale"),
        ("my data 0.1 0", None, "line 1", "is not a name, a scale"),
        ("a x 0", None, "line 1", "is not a name, a scale"),
        ("a 0.1 0.5", None, "line 1", "is not a name, a scale"),
        ("a 0.1 0\na 0.2 0", None, "line 2, tensor 'a'", "comes twice"),
        ("a -0.1 0", None, "tensor 'a'", "scale -0.1"),
        ("a nan 0", None, "tensor 'a'", "scale nan"),
        ("a inf 0", None, "tensor 'a'", "scale inf"),
        ("a 1e-50 0", None, "tensor 'a'", "scale 1e-50"),
        ("a 0.1 256", None, "tensor 'a'", "zero point 256"),
        ("a 0.1 -1", None, "tensor 'a'", "zero point -1"),
        ("a 0.1 3", "tengine", "tensor 'a'", "zero point is 3, not 0"),
    ],
)
def test_what_is_broken_is_named(text: str, form: str | None, place: str, problem: str) -> None:
    with pytest.raises(TableError) as caught:
        tengine.read(text, "t.scale", form)
    assert place in str(caught.value) and problem in str(caught.value)


@pytest.mark.parametrize("name", ["my data", "a\tb", "a\nb", " a", ""])
def test_names_that_tengine_cannot_read_are_refused(name: str) -> None:
    with pytest.raises(TableError, match="name with spaces"):
        tengine.write(table_of({name: (-1.0, 1.0)}))


def weighted() -> tuple[object, dict[str, np.ndarray]]:
    constants = {
        "w": normal(4, 3, 3, 3), "b": normal(4, seed=1), "t": normal(4, 5, 2, 2, seed=2),
        "g": normal(6, 5, seed=3), "gb": normal(6, seed=4),
    }  # fmt: skip
    body = """c = Conv(x, w, b) r = Relu(c) d = ConvTranspose(r, t) p = GlobalAveragePool(d)
              f = Flatten(p) y = Gemm<transB=1>(f, g, gb)"""
    return graph("float[1,3,6,6] x", "float[1,6] y", body, constants), constants


def channel_scales(text: str) -> dict[str, list[float]]:
    """A line per layer: a name, a scale per channel."""
    lines = (line.split() for line in text.splitlines())
    return {name: [float(word) for word in words] for name, *words in lines}


def test_scales_of_weights_and_biases() -> None:
    model, constants = weighted()
    table = table_of({"x": (-1.27, 1.27), "f": (-2.54, 1.0)})
    weights = channel_scales(tengine.write_weight_scales(model, table))
    biases = channel_scales(tengine.write_bias_scales(model, table))
    assert list(weights) == ["w", "t", "g"] and list(biases) == ["b", "gb"]
    for name, axis in (("w", 0), ("t", 1), ("g", 0)):
        others = tuple(i for i in range(constants[name].ndim) if i != axis)
        np.testing.assert_allclose(weights[name], np.abs(constants[name]).max(others) / 127, rtol=1e-6)
    np.testing.assert_allclose(biases["b"], np.multiply(weights["w"], 0.01), rtol=1e-6)
    np.testing.assert_allclose(biases["gb"], np.multiply(weights["g"], 0.02), rtol=1e-6)


def test_a_layer_without_a_range_has_weight_scales_alone() -> None:
    model, _ = weighted()
    assert tengine.write_weight_scales(model, table_of({})).count("\n") == 3
    assert tengine.write_bias_scales(model, table_of({})) == ""
