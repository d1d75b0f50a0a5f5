"""ncnn's table: the numbers of its format's description, weights by hand, layers that stay float."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from made_up_tables import scales, symmetric_table, table_of

from calib8.errors import TableError
from calib8.formats import ncnn
from calib8.formats.bind import layers_to_tensors
from small_models import Array, graph, normal

EXAMPLE = """conv1_param_0 158.750000 254.000000 
conv2_param_0 63.500000 
conv1 48.106060 
conv2 21.166666 
"""  # noqa: W291
"""As ncnn prints float32: a space behind every number, and 127 / 6 = 21.16666603."""


def two_layers():
    """conv1 of stride 2 with largest weights 0.8 and 0.5, conv2 with 2."""
    w1 = np.full((2, 1, 3, 3), 0.1, np.float32)
    w1[0, 0, 1, 1], w1[1, 0, 0, 2] = -0.8, 0.5
    w2 = np.float32([[[[2.0]], [[-1.0]]]])
    model = graph(
        "float[1,1,8,8] data",
        "float[1,1,3,3] y",
        "c = Conv<strides=[2,2]>(data, w1) r = Relu(c) y = Conv(r, w2)",
        {"w1": w1, "w2": w2},
    )
    names = {"c": "conv1", "y": "conv2"}
    for node in model.graph:
        node.name = names.get(node.outputs[0].name, node.name)
    return model


def test_the_example_is_written_digit_by_digit() -> None:
    assert ncnn.write(table_of({"data": (-2.64, 2.64), "r": (0.0, 6.0)}), two_layers()) == EXAMPLE


def test_the_example_is_read() -> None:
    read = ncnn.read(EXAMPLE, "n.table")
    assert read.keys == "layers"
    assert read.weight_scales == {"conv1_param_0": (158.75, 254.0), "conv2_param_0": (63.5,)}
    assert read.table.entries["conv1"].range.max == pytest.approx(2.64, rel=1e-7)
    assert read.table.entries["conv2"].range.max == pytest.approx(6.0, rel=1e-7)
    tensors = layers_to_tensors(read, two_layers()).table.entries
    assert set(tensors) == {"data", "r"}


@given(scales, scales)
def test_scales_come_back_within_float32(first: float, second: float) -> None:
    model = two_layers()
    text = ncnn.write(symmetric_table({"data": first, "r": second}), model)
    read = layers_to_tensors(ncnn.read(text, "n.table"), model).table
    for name, scale in (("data", first), ("r", second)):
        assert read.entries[name].range.max == pytest.approx(127 * scale, rel=2e-7, abs=0)
    assert ncnn.write(read, model) == text


def kinds() -> tuple[object, dict[str, Array]]:
    """One layer of each kind that ncnn scales in its own way."""
    constants: dict[str, Array] = {
        "plain": normal(4, 3, 3, 3), "wide": normal(4, 4, 3, 3, seed=1),
        "dilated": normal(4, 4, 3, 3, seed=2), "deep": normal(4, 1, 3, 3, seed=3),
        "grouped": normal(4, 2, 1, 1, seed=4), "up": normal(4, 2, 2, 2),
        "dense": normal(5, 2, seed=5), "product": normal(5, 3, seed=6),
    }  # fmt: skip
    body = """a = Conv<strides=[2,2]>(x, plain) b = Conv<pads=[1,1,1,1]>(a, wide)
              c = Conv<pads=[2,2,2,2],dilations=[2,2]>(b, dilated) d = Conv<group=4>(c, deep)
              e = Conv<group=2>(d, grouped) f = ConvTranspose(e, up) g = GlobalAveragePool(f)
              h = Flatten(g) i = Gemm<transB=1>(h, dense) y = MatMul(i, product)"""
    return graph("float[1,3,9,9] x", "float[1,3] y", body, constants), constants


def test_weights_get_the_levels_and_channels_that_ncnn_gives_them() -> None:
    model, constants = kinds()
    read = ncnn.read(ncnn.write(symmetric_table(dict.fromkeys("xabcdefghi", 0.1)), model), "n.table")
    expected = {
        "a": 127 / np.abs(constants["plain"]).max((1, 2, 3)),
        "b": 31 / np.abs(constants["wide"]).max((1, 2, 3)),
        "c": 127 / np.abs(constants["dilated"]).max((1, 2, 3)),
        "d": 127 / np.abs(constants["deep"]).max((1, 2, 3)),
        "e": 127 / np.abs(constants["grouped"]).reshape(2, -1).max(1),
        "i": 127 / np.abs(constants["dense"]).max(1),
        "y": 127 / np.abs(constants["product"]).max(0),
    }
    assert set(read.weight_scales) == {f"{name}_param_0" for name in expected}
    for name, wanted in expected.items():
        np.testing.assert_allclose(read.weight_scales[f"{name}_param_0"], wanted, rtol=1e-6)
    assert set(read.table.entries) == set(expected)


def test_a_channel_of_zeros_has_scale_1() -> None:
    model = graph(
        "float[1,1,4,4] x", "float[1,2,4,4] y", "y = Conv(x, w)", {"w": np.zeros((2, 1, 1, 1), "f")}
    )
    assert ncnn.write(table_of({"x": (0.0, 0.0)}), model) == "y_param_0 1.000000 1.000000 \ny 1.000000 \n"


def test_a_layer_without_a_range_is_written_behind_a_hash_and_stays_float() -> None:
    text = ncnn.write(table_of({"r": (0.0, 6.0)}), two_layers())
    assert text.splitlines()[0].startswith("#conv1_param_0 158.75")
    assert "\nconv1 " not in text
    read = ncnn.read(text, "n.table")
    assert read.without_scale == ("conv1",) and set(read.table.entries) == {"conv2"}


@pytest.mark.parametrize(
    "text",
    ["#c_param_0 1 \nc 2 \nd_param_0 1 \nd 1 \n", "c_param_0 1 \nd_param_0 1 \nd 1 \n",
     "c 2 \nd_param_0 1 \nd 1 \n", "c_param_0 inf \nc inf \nd_param_0 1 \nd 1 \n"],
    ids=["hash", "no input line", "no weight line", "infinite"],
)  # fmt: skip
def test_layers_that_ncnn_leaves_float(text: str) -> None:
    read = ncnn.read(text, "n.table")
    assert read.without_scale == ("c",) and set(read.table.entries) == {"d"}


def test_a_hash_alone_is_a_remark() -> None:
    read = ncnn.read("# made by hand\nd_param_0 1 \nd 1 \n", "n.table")
    assert read.without_scale == () and set(read.table.entries) == {"d"}


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("", "n.table", "holds no tensor"),
        ("c_param_0 1 \nc \n", "line 2, tensor 'c'", "not followed by a scale"),
        ("c_param_0 1 \nc 1 2 \n", "line 2, tensor 'c'", "has 2 scales"),
        ("c_param_0 1 \nc x \n", "line 2, tensor 'c'", "'x' is not a number"),
        ("c_param_0 1 \nc -1 \n", "line 2, tensor 'c'", "-1 is not positive"),
        ("c_param_0 1 \nc 0.000000 \n", "line 2, tensor 'c'", "0.000000 is not positive"),
        ("c_param_0 1 nan \nc 1 \n", "line 1, tensor 'c_param_0'", "nan is not positive"),
        ("c_param_0 1 \nc 1 \nc 1 \n", "line 3, tensor 'c'", "comes twice"),
        ("c_param_0 1 \nc_param_0 1 \n", "line 2, tensor 'c_param_0'", "comes twice"),
    ],
)
def test_what_is_broken_is_named(text: str, place: str, problem: str) -> None:
    with pytest.raises(TableError) as caught:
        ncnn.read(text, "n.table")
    assert place in str(caught.value) and problem in str(caught.value)


@pytest.mark.parametrize("name", ["my conv", "#conv", "c" * 256])
def test_layer_names_that_ncnn_cannot_read_are_refused(name: str) -> None:
    model = two_layers()
    next(iter(model.graph)).name = name
    with pytest.raises(TableError, match="ncnn reads no name"):
        ncnn.write(table_of({"data": (-1.0, 1.0)}), model)


def test_a_model_without_layers_and_a_table_of_another_one_are_refused() -> None:
    with pytest.raises(TableError, match="has no layer"):
        ncnn.write(table_of({}), graph("float[2] x", "float[2] y", "y = Relu(x)"))
    with pytest.raises(TableError, match=r"'conv9'"):
        layers_to_tensors(ncnn.read("conv9_param_0 1 \nconv9 1 \n", "n.table"), two_layers())
