"""Float Tengine models as ONNX graphs: outputs of Tengine's runtime, and what has no ONNX nodes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calib8.errors import UnsupportedModelError
from calib8.model.from_tmfile.translate import float_model
from calib8.model.load import load_model
from calib8.tmfile.graph import NCHW, NHWC, Graph, Tensor
from calib8.tmfile.nchw import as_nchw
from calib8.tmfile.write import write_tmfile
from tmfile_cases import IMAGE, RNG, convolved, one_node, run
from tmfile_nets import CLASSES, CONV, Net, classifier, coded, images_nhwc


@pytest.mark.parametrize("name", ["mnist", "net_a", "net_b", "net_c"])
def test_outputs_are_those_of_tengines_runtime_and_of_the_onnx_twin(shared_data: Path, name: str) -> None:
    folder = shared_data / "tengine"
    paths = {
        "model": "mnist_fp32.tmfile",
        "twin": "mnist.onnx",
        "in": "mnist_in_fp32.bin",
        "out": "mnist_out_fp32.bin",
    }
    if name != "mnist":
        paths = {"model": f"nets/{name}.tmfile", "twin": f"nets/{name}.onnx"}
        paths |= {"in": f"nets/{name}_fin.bin", "out": f"nets/{name}_fout.bin"}
    model, twin = load_model(folder / paths["model"]), load_model(folder / paths["twin"])
    shape = model.graph.inputs[0].shape.numpy()
    image = np.fromfile(folder / paths["in"], np.float32).reshape(shape)
    found = run(model, image)
    np.testing.assert_array_equal(found, run(twin, image))
    expected = np.fromfile(folder / paths["out"], np.float32).reshape(found.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-6)


def test_nhwc_models_become_nchw() -> None:
    """Weights of a convolution and of a depthwise one, as converters from TFLite store them."""
    net = Net()
    plain = RNG.normal(size=(4, 3, 3, 4)).astype(np.float32)
    deep = RNG.normal(size=(3, 3, 4)).astype(np.float32)
    w = net.const("w", plain)
    d = net.const("d", deep.reshape(4, 3, 3, 1))
    x = net.input("x", (1, 5, 6, 4))
    options = {**CONV, "input_channel": 4, "activation": -1}
    y = net.add(Tensor("y", (1, 5, 6, 4)), "Convolution", (x, w), **options)
    net.add(Tensor("z", (1, 5, 6, 4)), "Convolution", (y, d), **{**options, "group": 4})
    graph = net.graph(model_layout=NHWC, graph_layout=NHWC)
    inner = convolved(IMAGE, plain.transpose(0, 3, 1, 2), (1, 1))
    expected = np.concatenate(
        [convolved(inner[:, c : c + 1], deep[None, None, :, :, c], (1, 1)) for c in range(4)], 1
    )
    np.testing.assert_allclose(run(float_model(graph, "net"), IMAGE), expected, rtol=1e-4, atol=1e-5)


NHWC_IMAGE = IMAGE.transpose(0, 2, 3, 1)
CUT = {f"{kind}_{axis}": 0 for kind in ("begin", "end", "stride") for axis in "nchw"}


def in_nhwc(
    op: str, out: tuple[int, ...], *, parts: int = 1, graph_layout: int = NHWC, **options: Any
) -> Graph:
    """An operator on an image in the order NHWC, as converters from TFLite write it."""
    net = Net()
    places = [net.input(f"x{number}", NHWC_IMAGE.shape) for number in range(parts)]
    net.add(Tensor("y", out), op, tuple(places), **options)
    return net.graph(model_layout=NHWC, graph_layout=graph_layout)


@pytest.mark.parametrize("graph_layout", [NCHW, NHWC])
@pytest.mark.parametrize("axis", [1, 2, 3])
def test_concat_in_nhwc_has_its_axis_there(axis: int, graph_layout: int) -> None:
    expected = np.concatenate([NHWC_IMAGE, NHWC_IMAGE], axis)
    graph = in_nhwc("Concat", expected.shape, parts=2, graph_layout=graph_layout, axis=axis)
    found = run(float_model(graph, "net"), IMAGE, IMAGE)
    np.testing.assert_array_equal(found, expected.transpose(0, 3, 1, 2))


@pytest.mark.parametrize("graph_layout", [NCHW, NHWC])
@pytest.mark.parametrize("shape", [(1, 120), (1, 10, 3, 4), (1, 1, 1, 120), (2, 60)])
def test_reshape_in_nhwc_takes_values_in_that_order(shape: tuple[int, ...], graph_layout: int) -> None:
    options = {"is_mxnet": 0, "reverse": 0, "shape": shape, "is_onnx": 0}
    graph = in_nhwc("Reshape", shape, graph_layout=graph_layout, **options)
    expected = NHWC_IMAGE.reshape(shape)
    found = run(float_model(graph, "net"), IMAGE)
    np.testing.assert_array_equal(found, expected if len(shape) == 2 else expected.transpose(0, 3, 1, 2))


def test_reshape_of_a_pixel_in_nhwc_stays_one_node() -> None:
    net = Net()
    place = net.input("x", (1, 1, 1, 7))
    options = {"is_mxnet": 0, "reverse": 0, "shape": (1, 7), "is_onnx": 0}
    net.add(Tensor("y", (1, 7)), "Reshape", (place,), **options)
    graph = as_nchw(net.graph(model_layout=NHWC, graph_layout=NHWC))
    assert [node.op for node in graph.nodes] == ["InputOp", "Reshape"]
    assert graph.tensors[0].shape == (1, 7, 1, 1)


def test_padding_and_slices_in_nhwc_count_so() -> None:
    pads = {"n_0": 0, "n_1": 0, "c_0": 1, "c_1": 2, "h_0": 3, "h_1": 0, "w_0": 0, "w_1": 0}
    graph = in_nhwc("Pad", (1, 8, 9, 4), **pads, mode=0, value=0.0)
    expected = np.pad(IMAGE, [(0, 0), (0, 0), (1, 2), (3, 0)])
    np.testing.assert_array_equal(run(float_model(graph, "net"), IMAGE), expected)
    cut = {**CUT, "begin_c": 1, "end_c": 4, "stride_c": 2, "begin_w": 2, "end_w": 3}
    node = as_nchw(in_nhwc("StridedSlice", (1, 3, 6, 1), **cut)).nodes[-1]
    wanted = {**CUT, "begin_h": 1, "end_h": 4, "stride_h": 2, "begin_c": 2, "end_c": 3}
    assert dict(node.options) == wanted


def test_a_network_in_nhwc_runs() -> None:
    graph = images_nhwc()
    found = run(float_model(graph, "net"), IMAGE.transpose(0, 1, 3, 2))
    assert found.shape == (1, 384)
    sums = found.reshape(4, 12, 8).sum(2)  # softmax over the channels, which lie last
    np.testing.assert_allclose(sums, 1, rtol=1e-5)


def test_axes_in_nhwc() -> None:
    softmax = as_nchw(in_nhwc("Softmax", NHWC_IMAGE.shape, axis=3)).nodes[-1]
    assert softmax.options["axis"] == 1
    mean = {"dim_0": 1, "dim_1": 2, "dim_2": -2, "dim_3": -2, "type": 1, "keepdim": 0}
    graph = in_nhwc("Reduction", (1, 4), **mean)
    np.testing.assert_allclose(
        run(float_model(graph, "net"), IMAGE), IMAGE.mean((2, 3)), rtol=1e-6, atol=1e-7
    )
    shape = {"is_mxnet": 0, "reverse": 0, "shape": (1, 30, 4), "is_onnx": 0}
    for graph, match in (
        (in_nhwc("Softmax", NHWC_IMAGE.shape, axis=1), "along axis 1 in the order NHWC"),
        (in_nhwc("Concat", NHWC_IMAGE.shape, axis=-1), "joins axis -1 of 4 in the order NHWC"),
        (in_nhwc("Reshape", (1, 30, 4), **shape), "makes 3 axes of an image in the order NHWC"),
        (in_nhwc("Reduction", (1, 5), **{**mean, "dim_0": 3}), "counts its axes in the order NHWC"),
    ):
        with pytest.raises(UnsupportedModelError, match=match):
            float_model(graph, "net")


def test_all_operators_without_nodes_are_listed() -> None:
    net = Net()
    x = net.input("x", IMAGE.shape)
    first = net.add(Tensor("a", IMAGE.shape), "Reorg", (x,), stride=2)
    net.add(Tensor("never read", IMAGE.shape), "ReLU6", (first,))
    net.add(Tensor("b", IMAGE.shape), "Reverse", (x,))
    with pytest.raises(UnsupportedModelError) as caught:
        float_model(net.graph(), "net.tmfile")
    assert "2 operators cannot be translated: 'a' (Reorg): no ONNX node" in str(caught.value)
    assert "'b' (Reverse)" in str(caught.value)
    assert "ReLU6" not in str(caught.value)


@pytest.mark.parametrize(
    ("graph", "match"),
    [
        (coded(classifier()), "it is a quantized Tengine model, its tensors hold codes"),
        (
            one_node("Eltwise", IMAGE, IMAGE.shape, type=3, caffe_flavor=0),
            "type 3 needs numbers that the file",
        ),
        (one_node("Reshape", IMAGE, (7,), is_mxnet=0, reverse=0, shape=(7,), is_onnx=1), "does not become"),
    ],
)
def test_what_cannot_be_translated_is_said(graph: Graph, match: str) -> None:
    with pytest.raises(UnsupportedModelError, match=match):
        float_model(graph, "net.tmfile")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"stride_h": 0}, "'y' (Convolution): its option stride_h is 0"),
        ({"dilation_w": -1}, "its option dilation_w is -1"),
        ({"group": 0}, "its option group is 0"),
        ({"group": 3}, "in 3 groups do not fit"),
        ({"output_channel": 9}, "do not fit"),
    ],
)
def test_options_of_layers_that_fit_nothing(options: dict[str, int], match: str) -> None:
    """ONNX Runtime would refuse the model when the first image comes."""
    channels = IMAGE.shape[1]
    weight = np.ones((4, channels, 3, 3), np.float32)
    asked = {**CONV, "input_channel": channels, "activation": -1, **options}
    graph = one_node("Convolution", IMAGE, (1, 4, *IMAGE.shape[2:]), weight, **asked)
    with pytest.raises(UnsupportedModelError, match=re.escape(match)):
        float_model(graph, "net.tmfile")


def test_a_file_without_weights_is_refused() -> None:
    net = classifier()
    bare = tuple(replace(tensor, data=None) for tensor in net.tensors)
    with pytest.raises(UnsupportedModelError, match="the file holds no values of 'w'"):
        float_model(replace(net, tensors=bare), "net.tmfile")


def test_a_file_is_loaded_like_an_onnx_file(tmp_path: Path) -> None:
    path = tmp_path / "net"
    write_tmfile(classifier(), path)
    model = load_model(path)
    assert [value.name for value in model.graph.outputs] == ["scores"]
    assert run(model, np.zeros((1, 3, 8, 8), np.float32)).shape == (1, CLASSES)
