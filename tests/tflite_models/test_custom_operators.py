"""Custom operators: TFLite_Detection_PostProcess and Convolution2DTransposeBias beside LiteRT."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from cases_custom import boxes_and_scores, detections, transpose_conv_bias
from flatbuffers import flexbuffers
from litert import litert_outputs
from single_op import CASES, Net, quantized, random_codes

import calib8
from calib8.errors import NoFormError, UnsupportedModelError
from calib8.model.from_tflite.translate import float_model
from calib8.model.runtime import open_session
from calib8.program.instructions import Float
from calib8.program.lower_tflite.lower import lower_tflite
from calib8.session import InferenceSession
from calib8.tflite import custom
from calib8.tflite.graph import Graph, Operator, Tensor
from calib8.tflite.read import parse
from calib8.tflite.write import serialize, write_tflite

Arrays = list[npt.NDArray[Any]]


def written(graph: Graph, outputs: Arrays) -> Arrays:
    """What LiteRT writes: rows behind the last detection, and classes beyond all, are what was there."""
    chosen, count = custom.detections(graph.operators[-1]), int(outputs[3][0])
    if chosen.use_regular_nms:
        return [*(array[0, :count] for array in outputs[:3]), outputs[3]]
    each = chosen.max_classes_per_detection
    kept = min(each, chosen.num_classes)
    rows = [array[0].reshape(chosen.max_detections, each, -1)[:count, :kept] for array in outputs[:3]]
    return [*rows, outputs[3]]


@pytest.mark.parametrize("ties", [False, True])
def test_detections_of_float_models(ties: bool) -> None:
    """The bits of LiteRT; among equal classes of one box it takes any where a box has several."""
    for seed in range(max(CASES, 24)):
        rng = np.random.default_rng([seed, ties])
        graph = detections(rng)
        model, fed = serialize(graph), boxes_and_scores(rng, graph, ties=ties)
        session = open_session(float_model(parse(model), "net"), threads=1)
        found = session.run(dict(zip((spec.name for spec in session.inputs), fed, strict=True)))
        got, wanted = (written(graph, arrays) for arrays in (found, litert_outputs(model, fed)))
        chosen = custom.detections(graph.operators[-1])
        several = not chosen.use_regular_nms and chosen.max_classes_per_detection > 1
        for part, (have, want) in enumerate(zip(got, wanted, strict=True)):
            if not (ties and several and part == 1):
                np.testing.assert_array_equal(have, want, err_msg=f"{seed} {part}")


def test_the_rows_behind_the_last_detection_are_zeros() -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        graph = detections(rng)
        fed = boxes_and_scores(rng, graph, ties=False)
        session = open_session(float_model(graph, "net"), threads=1)
        boxes, classes, scores, count = session.run(
            dict(zip((spec.name for spec in session.inputs), fed, strict=True))
        )
        chosen = custom.detections(graph.operators[-1])
        rows = int(count[0]) * (1 if chosen.use_regular_nms else chosen.max_classes_per_detection)
        for array in (boxes[0, rows:], classes[0, rows:], scores[0, rows:]):
            assert not array.any()


def coded(graph: Graph) -> Graph:
    """Boxes and scores from int8 codes."""
    net = Net(tensors=list(graph.tensors))
    steps, fed = [], []
    for place, kind in zip(graph.inputs, (quantized(0.06, 3), quantized(1 / 256, -128)), strict=True):
        tensor = Tensor("codes", graph.tensors[place].shape, "int8", None, kind)
        net.tensors.append(replace(tensor, name=f"codes{place}"))
        fed.append(len(net.tensors) - 1)
        steps.append(Operator("DEQUANTIZE", (fed[-1],), (place,), {}, 2))
    return replace(graph, tensors=tuple(net.tensors), operators=(*steps, *graph.operators), inputs=tuple(fed))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("runtime", ["reference", "calib8"])
def test_detections_of_quantized_models(dtype: str, runtime: str) -> None:
    for seed in range(CASES):
        rng = np.random.default_rng([seed, 1])
        graph = detections(rng, dtype) if dtype == "uint8" else coded(detections(rng))
        chosen = custom.detections(graph.operators[-1])
        if not chosen.use_regular_nms and chosen.max_classes_per_detection > 1:
            continue  # equal codes of several classes are in any order in LiteRT
        model = serialize(graph)
        fed = [random_codes(rng, graph.tensors[place].shape, dtype) for place in graph.inputs]
        program = lower_tflite(parse(model))
        assert [type(step) for step in program.instructions].count(Float) == 1
        feeds = {port.name: array for port, array in zip(program.inputs, fed, strict=True)}
        found = InferenceSession(program, runtime=runtime).run(None, feeds)
        got, wanted = (written(graph, arrays) for arrays in (found, litert_outputs(model, fed)))
        for have, want in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(have, want, err_msg=str(seed))


def test_a_detector_in_float_can_be_quantized(tmp_path: Any) -> None:
    """A convolution before the boxes gets codes, the tail stays as it is."""
    rng = np.random.default_rng(0)
    net = Net()
    x = net.plain((1, 4, 4, 3), "float32")
    image = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
    operators, parts = [], []
    for width in (4, 3):
        weight = net.constant(rng.normal(0, 0.3, (width, 3, 3, 3)).astype(np.float32))
        bias = net.constant(rng.normal(0, 0.1, width).astype(np.float32))
        y, flat = net.output((1, 4, 4, width), "float32"), net.output((1, 16, width), "float32")
        shape = net.constant(np.array([1, 16, width], np.int32))
        operators.append(Operator("CONV_2D", (x, weight, bias), (y,), image))
        operators.append(Operator("RESHAPE", (y, shape), (flat,), {"new_shape": (1, 16, width)}))
        parts.append(flat)
    scores = net.output((1, 16, 3), "float32")
    operators.append(Operator("LOGISTIC", (parts[1],), (scores,)))
    places = np.concatenate([rng.random((16, 2)), 0.1 + rng.random((16, 2))], 1).astype(np.float32)
    outputs = [net.output(size, "float32") for size in ((1, 5, 4), (1, 5), (1, 5), (1,))]
    chosen = custom.Detections(5, 1, 100, False, 0.3, 0.5, 2, 10.0, 10.0, 5.0, 5.0)
    own = custom.detections_bytes(chosen)
    inputs = (parts[0], scores, net.constant(places))
    operators.append(Operator("CUSTOM", inputs, tuple(outputs), {}, 1, custom.DETECTIONS, own))
    graph = Graph(tuple(net.tensors), tuple(operators), (x,), tuple(outputs), "net")
    write_tflite(graph, tmp_path / "ssd.tflite")
    samples = rng.normal(0, 1, (8, 4, 4, 3)).astype(np.float32)
    result = calib8.quantize(tmp_path / "ssd.tflite", samples, effort="fast")
    assert sum(node.op_type == "NonMaxSuppression" for node in result.model.graph) == 1
    assert sum(node.op_type == "Conv" for node in result.model.graph) == 2


def broken(**changed: Any) -> Graph:
    graph = detections(np.random.default_rng(3))
    last = graph.operators[-1]
    chosen = replace(custom.detections(last), **changed)
    own = bytes(flexbuffers.Dumps(vars(chosen)))
    return replace(graph, operators=(replace(last, custom_options=own),))


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"max_detections": 0}, "its option max_detections is 0, not 1 to 65535"),
        ({"max_classes_per_detection": 70000}, "max_classes_per_detection is 70000"),
        ({"max_detections": 60000, "max_classes_per_detection": 2}, "it makes 120000 rows"),
        ({"num_classes": 50}, "it has 50 classes, and scores of"),
        ({"nms_iou_threshold": 0.0}, "nms_iou_threshold is 0.0, not above 0 and up to 1"),
        ({"nms_score_threshold": float("nan")}, "nms_score_threshold is nan"),
        ({"y_scale": 0.0}, "its option y_scale is 0.0"),
        ({"use_regular_nms": True, "detections_per_class": 0}, "detections_per_class is 0"),
        ({"max_detections": 30}, "its outputs are"),
    ],
)
def test_options_that_make_no_sense(changed: dict[str, Any], what: str) -> None:
    with pytest.raises(UnsupportedModelError, match=what):
        float_model(broken(**changed), "net")


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff" * 40, struct.pack("<3i", 1, 2, 2)])
def test_options_that_are_no_map(data: bytes) -> None:
    operator = Operator("CUSTOM", (0, 1, 2), (3, 4, 5, 6), {}, 1, custom.DETECTIONS, data)
    with pytest.raises(NoFormError, match=r"its option"):
        custom.detections(operator)


def test_anchors_of_a_negative_size() -> None:
    graph = detections(np.random.default_rng(3))
    place = graph.operators[-1].inputs[2]
    tensors = list(graph.tensors)
    data = tensors[place].data
    assert data is not None
    tensors[place] = replace(tensors[place], data=-data)
    with pytest.raises(UnsupportedModelError, match="an anchor has a negative size"):
        float_model(replace(graph, tensors=tuple(tensors)), "net")


def test_options_come_back() -> None:
    graph = parse(serialize(detections(np.random.default_rng(5))))
    [operator] = graph.operators
    chosen = custom.detections(operator)
    assert custom.detections_bytes(chosen) == operator.custom_options
    assert serialize(graph) == serialize(parse(serialize(graph)))
    assert operator.title == custom.DETECTIONS


def test_transposed_convolution_with_bias() -> None:
    """LiteRT has it in XNNPACK."""
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        graph = transpose_conv_bias(rng)
        x = rng.normal(0, 1, graph.tensors[graph.inputs[0]].shape).astype(np.float32)
        model = serialize(graph)
        session = open_session(float_model(parse(model), "net"), threads=1)
        [got] = session.run({session.inputs[0].name: x})
        [wanted] = litert_outputs(model, [x], "xnnpack")
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5 * max(np.abs(wanted).max(), 1.0))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\x01\x00", "its options have 2 bytes, not 12 or more"),
        (struct.pack("<3i", 0, 2, 2), "the padding 0 and the strides 2×2"),
        (struct.pack("<3i", 1, 0, 2), "the padding 1 and the strides 2×0"),
    ],
)
def test_options_of_a_transposed_convolution(data: bytes, what: str) -> None:
    graph = transpose_conv_bias(np.random.default_rng(0))
    graph = replace(graph, operators=(replace(graph.operators[0], custom_options=data),))
    with pytest.raises(UnsupportedModelError, match=what):
        float_model(graph, "net")


def test_a_name_of_the_schema_is_no_custom_operator() -> None:
    graph = transpose_conv_bias(np.random.default_rng(0))
    graph = replace(graph, operators=(replace(graph.operators[0], custom_code="CONV_2D"),))
    with pytest.raises(UnsupportedModelError, match="CONV_2D: no ONNX node is known for it"):
        float_model(graph, "net")
