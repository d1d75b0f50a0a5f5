"""What outputs mean is read off the graph: heads as exporters write them, and outputs that stand alone."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from heads import SCALES, head, ssd, yolo5, yolo8, yolox

from calib8.tasks.branches import Meaning
from calib8.tasks.kinds import NEEDS
from calib8.tasks.meaning import meaning_of
from small_models import graph, normal

MORE = "m1 = Conv(p, more) n1 = Reshape(m1, flat6) m2 = Conv(q, more) n2 = Reshape(m2, flat6) "
MORE += "six_of = Concat<axis=2>(n1, n2) "
MASKS = MORE + "det = Concat<axis=1>(scaled, scores) y = Concat<axis=1>(det, six_of) protos = Conv(p, more)"
POSE = MORE + "points = Mul(six_of, strides) y = Concat<axis=1>(scaled, scores, points)"
BEST = """
    best = ReduceMax<axes=[1], keepdims=0>(scores) top, place = TopK<axis=1>(best, four)
    by_place = Transpose<perm=[0,2,1]>(scaled) index = Unsqueeze(place, two) wide_index = Concat<axis=2>(
    index, index, index, index) box_rows = GatherElements<axis=1>(by_place, wide_index)
    score = Unsqueeze(top, two) class_of = Cast<to=1>(index) y = Concat<axis=2>(box_rows, score, class_of)
"""

DETECTORS = {
    "YOLOv8": (yolo8, "boxes y[:,0:4], scores y[:,4:13]"),
    "YOLOv8 turned": (
        lambda: yolo8(behind="z = Concat<axis=1>(scaled, scores) y = Transpose<perm=[0,2,1]>(z)",
                      outputs="float[N,20,13] y"),
        "boxes y[:,:,0:4], scores y[:,:,4:13]",
    ),
    "YOLOv8 with masks": (
        lambda: yolo8(behind=MASKS, outputs="float[N,19,20] y, float[N,6,4,4] protos"),
        "boxes y[:,0:4], scores y[:,4:13], mask-coefficients y[:,13:19], masks protos",
    ),
    "YOLOv8 with points": (
        lambda: yolo8(behind=POSE, outputs="float[N,19,20] y"),
        "boxes y[:,0:4], scores y[:,4:13], keypoints y[:,13:19]",
    ),
    "YOLOv5": (yolo5, "boxes y[:,:,0:4], objectness y[:,:,4:5], scores y[:,:,5:8]"),
    "YOLOX": (yolox, "boxes y[:,:,0:4], objectness y[:,:,4:5], scores y[:,:,5:13]"),
    "RT-DETR": (
        lambda: yolo8(behind="own_boxes = Sigmoid(four_of) y = Concat<axis=1>(own_boxes, scores)"),
        "boxes y[:,0:4], scores y[:,4:13]",
    ),
    "SSD by Softmax": (
        lambda: ssd(3, "Softmax<axis=2>"),
        "boxes boxes, unused scores[:,:,0:1], scores scores[:,:,1:3]",
    ),
    "SSD by Sigmoid": (lambda: ssd(3, "Sigmoid"), "boxes boxes, scores scores"),
    "SSD without either": (lambda: ssd(3, "Identity"), "boxes boxes, scores scores"),
}  # fmt: skip


def told(meaning: Meaning) -> str:
    return ", ".join(f"{branch.kind} {branch.places}" for branch in meaning.branches)


@pytest.mark.parametrize(("net", "expected"), DETECTORS.values(), ids=DETECTORS)
def test_detectors(net: object, expected: str) -> None:
    found = meaning_of(net())  # type: ignore[operator]
    assert told(found) == expected
    assert found.task == "detect" and found.several


def test_rows_that_were_chosen_are_judged_by_their_scores_alone() -> None:
    found = meaning_of(yolo8(behind=BEST, outputs="float[N,4,6] y"))
    assert told(found) == "boxes y[:,:,0:4], scores y[:,:,4:5], other y[:,:,5:6]"
    assert all(branch.chosen for branch in found.branches)
    assert [branch.kind for branch in found.judged] == ["scores"] and not found.several


TOLD = (("score", "two_of", 2, "Sigmoid"), ("box", "box", 4, "Identity"), ("points", "six", 6, "Identity"))


def test_scales_that_are_outputs_of_their_own_are_one_branch() -> None:
    body, outputs = "", []
    for scale, places in (("p", 16), ("q", 4)):
        for name, weight, channels, function in TOLD:
            body += f"""
                {name}1{scale} = Conv({scale}, {weight})
                {name}2{scale} = Transpose<perm=[0,2,3,1]>({name}1{scale})
                {name}3{scale} = Reshape({name}2{scale}, by{channels})
                {name}_{scale} = {function}({name}3{scale})
            """
            outputs.append(f"float[N,{places},{channels}] {name}_{scale}")
    shapes = {f"by{n}": np.int64([0, -1, n]) for n in (2, 4, 6)}
    net = head(SCALES, ", ".join(outputs), body, {"two_of": normal(2, 3, 1, 1), **shapes})
    assert told(meaning_of(net)) == (
        "scores score_p, score_q, boxes box_p, box_q, keypoints points_p, points_q"
    )


RAW = """
    s1 = Conv(p, two_of) s2 = Transpose<perm=[0,2,3,1]>(s1) score = Reshape(s2, by1)
    b1 = Conv(p, wide16) b2 = Transpose<perm=[0,2,3,1]>(b1) box = Reshape(b2, by8)
"""


def blaze() -> ir.Model:
    """Two anchors at every place: four numbers and two points each, and a number before its Sigmoid."""
    constants = {
        "two_of": normal(2, 3, 1, 1), "wide16": normal(16, 3, 1, 1),
        "by1": np.int64([0, -1, 1]), "by8": np.int64([0, -1, 8]),
    }  # fmt: skip
    return head("float[N,3,4,4] p", "float[N,32,8] box, float[N,32,1] score", RAW, constants)


def test_one_raw_number_a_place_is_judged_behind_its_sigmoid() -> None:
    """How far below zero it is tells nothing, and would be most of its energy."""
    found = meaning_of(blaze())
    assert told(found) == "boxes box[:,:,0:4], keypoints box[:,:,4:8], scores score"
    assert found.task == "detect" and {branch.sureness for branch in found.branches} == {"likely"}
    raw = np.float32([-5000.0, -1.0, 0.0, 3.0, 200.0]).reshape(1, 5, 1)
    values = {"box": np.zeros((1, 5, 8), np.float32), "score": raw}
    outputs = [values[name] for name in ("box", "score")]
    scores = found.cut(outputs)[-1].ravel()
    expected = [0.0, 1 / (1 + np.exp(1.0)), 0.5, 1 / (1 + np.exp(-3.0)), 1.0]
    np.testing.assert_allclose(scores, expected, atol=1e-7)
    assert all(
        not piece.sigmoid for branch in meaning_of(ssd(1, "Sigmoid")).branches for piece in branch.pieces
    )


VECTOR = "f = GlobalAveragePool(p) v = Flatten(f) "
NORM = "r = ReduceL2<axes=[1]>(e) c = Clip(r, tiny) n = Expand(c, shape) y = Div(e, n)"
BATCH_NORM = "y = BatchNormalization(e, one8, one8, one8, one8)"
SINGLE = {
    "logits": ("y = Gemm(v, w10)", "float[N,10] y", "logits", "classify"),
    "Softmax": ("e = Gemm(v, w10) y = Softmax<axis=1>(e)", "float[N,10] y", "probabilities", "classify"),
    "length 1": ("e = Gemm(v, w8) " + NORM, "float[N,8] y", "embedding", "embed"),
    "BatchNormalization": ("e = Gemm(v, w8) " + BATCH_NORM, "float[N,8] y", "embedding", "embed"),
    "usual length": ("y = Gemm(v, w512)", "float[N,512] y", "embedding", "embed"),
    "1000 classes": ("y = Gemm(v, w1000)", "float[N,1000] y", "logits", "classify"),
    "68 points": ("y = Gemm(v, w136)", "float[N,136] y", "keypoints", "keypoints"),
    "text": (
        "s = Conv(p, six) t = Reshape(s, by6) u = Transpose<perm=[0,2,1]>(t) y = Softmax<axis=2>(u)",
        "float[N,16,6] y", "ctc", "ctc",
    ),
    "map": ("s = Conv(p, six) y = Sigmoid(s)", "float[N,6,4,4] y", "map", "segment"),
    "coarse": ("y = MaxPool<kernel_shape=[4,4], strides=[4,4]>(p)", "float[N,3,1,1] y", "logits", "classify"),
    "unknown": ("s = Conv(p, six) y = Reshape(s, odd)", "float[N,2,3,4,4] y", "other", None),
}  # fmt: skip


@pytest.mark.parametrize(("body", "outputs", "kind", "task"), SINGLE.values(), ids=SINGLE)
def test_outputs_that_stand_alone(body: str, outputs: str, kind: str, task: str | None) -> None:
    constants = {
        **{f"w{n}": normal(3, n) for n in (8, 10, 136, 512, 1000)},
        "one8": np.ones(8, np.float32), "tiny": np.float32(1e-12), "shape": np.int64([1, 8]),
        "by6": np.int64([0, 6, -1]), "odd": np.int64([0, 2, 3, 4, 4]),
    }  # fmt: skip
    found = meaning_of(head("float[N,3,4,4] p", outputs, VECTOR + body, constants))
    assert told(found) == f"{kind} y" and found.task == task and not found.several


@pytest.mark.parametrize("shape", ["T,N,4", "5,N,4", "N,3,4,8,8"])
def test_no_map_without_a_picture(shape: str) -> None:
    """Four axes of a recurrent layer are steps, directions, samples and units."""
    recurrent = not shape.endswith("8")
    body = "y = GRU<hidden_size=6>(x, w, r)" if recurrent else "y = ReduceMean<axes=[2], keepdims=0>(x)"
    constants = {"w": normal(1, 18, 4), "r": normal(1, 18, 6)} if recurrent else {}
    found = meaning_of(graph(f"float[{shape}] x", "float[A,B,C,D] y", body, constants))
    assert told(found) == "other y" and found.task is None


def test_two_heads_of_classes_stay_apart_and_a_vector_of_numbers_does_not() -> None:
    both = "a = Gemm(v, w8) b = Gemm(v, w10) y = Concat<axis=1>(a, b)"
    constants = {"w8": normal(3, 8), "w10": normal(3, 10), "w1": normal(3, 1)}
    found = meaning_of(head("float[N,3,4,4] p", "float[N,18] y", VECTOR + both, constants))
    assert told(found) == "other y[:,0:8], other y[:,8:18]"
    ones = "a = Gemm(v, w1) b = Gemm(v, w1) c = Gemm(v, w1) y = Concat<axis=1>(a, b, c)"
    found = meaning_of(head("float[N,3,4,4] p", "float[N,3] y", VECTOR + ones, constants))
    assert told(found) == "logits y"


def test_several_maps_are_several_branches() -> None:
    body = "a0 = Conv(p, six) a = Sigmoid(a0) b0 = Conv(p, six) b = Sigmoid(b0)"
    found = meaning_of(head("float[N,3,4,4] p", "float[N,6,4,4] a, float[N,6,4,4] b", body))
    assert told(found) == "map a, map b" and found.task == "segment" and found.several
    assert len({branch.name for branch in found.branches}) == 2


def test_every_task_can_be_told_or_named() -> None:
    seen = {"detect", "segment", "classify", "embed", "ctc", "keypoints"}
    assert set(NEEDS) == seen | {"speech", "enhance"}


def test_pieces_cut_what_they_name() -> None:
    meaning = meaning_of(yolo5())
    values = [np.arange(2 * 40 * 8, dtype=np.float32).reshape(2, 40, 8)]
    boxes, objectness, scores = meaning.cut(values)
    np.testing.assert_array_equal(boxes, values[0][:, :, :4])
    np.testing.assert_array_equal(objectness, values[0][:, :, 4:5])
    np.testing.assert_array_equal(scores, values[0][:, :, 5:])
    energies = np.arange(6.0).reshape(1, 3, 2)
    np.testing.assert_array_equal(meaning.joined(energies), energies)


def test_a_quantized_graph_has_the_branches_of_the_float_one() -> None:
    import calib8

    net = yolo8()
    shape = {"p": (1, 3, 4, 4), "q": (1, 3, 2, 2)}
    data = [{name: normal(*sizes, seed=seed) for name, sizes in shape.items()} for seed in range(4)]
    int8 = calib8.quantize(ir.to_proto(net), data, method="minmax", repair=("none",)).model
    assert any(node.op_type == "QuantizeLinear" for node in int8.graph)
    assert told(meaning_of(int8)) == "boxes y[:,0:4], scores y[:,4:13]"
