"""Float Tengine models as ONNX graphs: outputs of Tengine's runtime, and what has no ONNX nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calib8.errors import UnsupportedModelError
from calib8.model.from_tmfile.translate import float_model
from calib8.model.load import load_model
from calib8.tmfile.graph import NHWC, Graph, Tensor
from calib8.tmfile.write import write_tmfile
from tmfile_cases import IMAGE, RNG, convolved, one_node, run
from tmfile_nets import CLASSES, CONV, Net, classifier, coded


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
