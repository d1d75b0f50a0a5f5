"""Raw grids of anchors: found by shape, graph and weights, named, decoded as in loops, or refused."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from test_meaning import told

from calib8.errors import UsageError
from calib8.tasks.branch_outputs import with_branches
from calib8.tasks.branches import Meaning
from calib8.tasks.grid import Grid
from calib8.tasks.judges.detections import DetectionJudge
from calib8.tasks.judges.find import find_judge
from calib8.tasks.kinds import Task
from calib8.tasks.meaning import judged_meaning, meaning_of
from calib8.tasks.seen import analysable
from grid_nets import ONE, constants, made, pictures, yolo2, yolo3, yolo5
from small_models import normal, run

OF_FIVE = "float[N,25,8,8] grid"


def meaning(model: onnx.ModelProto, **named: Any) -> Meaning:
    return meaning_of(analysable(ir.from_proto(model)), **named)


def pieces(found: Meaning, kind: Any) -> list[str]:
    branch = found.kind(kind)
    return [] if branch is None else branch.places.split(", ")


def test_boxes_and_scores_of_each_anchor_are_told_apart() -> None:
    found = meaning(yolo2())
    assert pieces(found, "boxes") == [f"grid[:,{5 * n}:{5 * n + 4}]" for n in range(5)]
    assert pieces(found, "objectness") == [f"grid[:,{5 * n + 4}:{5 * n + 5}]" for n in range(5)]
    assert [one.kind for one in found.branches] == ["boxes", "objectness"]
    assert {one.sureness for one in found.branches} == {"likely"} and found.task == "detect" and found.several
    found = meaning(yolo3())
    assert pieces(found, "scores") == [
        f"{name}[:,{n}:{n + 2}]" for name in ("fine", "coarse") for n in (5, 12, 19)
    ]
    assert [len(one.places.split(", ")) for one in found.branches] == [6, 6, 6]
    found = meaning(yolo5())
    expected = "boxes fine[:,:,:,:,0:4], coarse[:,:,:,:,0:4], objectness fine[:,:,:,:,4:5], "
    expected += "coarse[:,:,:,:,4:5], scores fine[:,:,:,:,5:7], coarse[:,:,:,:,5:7]"
    assert told(found) == expected
    assert [grid.form for grid in found.grids] == ["yolov5-grid"] * 2


@pytest.mark.parametrize("net", [yolo2(2), yolo5()], ids=["channels", "apart"])
def test_figures_are_of_places_in_cells_and_of_probabilities(net: onnx.ModelProto) -> None:
    """Raw objectness is far below 0 nearly everywhere: how far tells nothing, and is most of its energy."""
    model = ir.from_proto(net)
    found = meaning_of(analysable(model))
    outputs = run(net, {"x": pictures(2)})
    exclusive = outputs[0].ndim == 4
    each = [array.reshape(2, 5, 7, -1) if exclusive else np.moveaxis(array, 4, 2) for array in outputs]
    for kind, numbers in (("boxes", range(4)), ("objectness", [4]), ("scores", range(5, 7))):
        energy = 0.0
        for number, array in itertools.product(numbers, each):
            value = array[:, :, number].astype(np.float64)
            chance = 1.0 / (1.0 + np.exp(-value))
            if exclusive and kind == "scores":
                chance = np.exp(value) / np.exp(array[:, :, 5:].astype(np.float64)).sum(axis=2)
            energy += float(np.sum((value if number in (2, 3) else chance) ** 2))
        branch = found.kind(kind)  # type: ignore[arg-type]
        assert branch is not None
        parts = [part.astype(np.float64) for part in branch.of(outputs)]
        assert sum(float(np.sum(part**2)) for part in parts) == pytest.approx(energy)
    cut = run(with_branches(model, found), {"x": pictures(2)})
    for left, right in zip(cut, found.cut(outputs), strict=True):
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-6)


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("order", ["NCHW", "NHWC", "NAKHW"])
def test_the_graph_takes_the_softmax_that_figures_take(order: str, opset: int) -> None:
    """Before operator set 13 a Softmax is over all axes from its own on."""
    ends = {
        "NCHW": ("grid = Identity(c)", "float[N,35,8,8] grid"),
        "NHWC": ("grid = Transpose<perm=[0,2,3,1]>(c)", "float[N,8,8,35] grid"),
        "NAKHW": ("grid = Reshape(c, apart)", "float[N,5,7,8,8] grid"),
    }
    text, shape = ends[order]
    net = made(f"c = Conv(g, wa, ba) {text}", shape, constants(5, 2) | {"apart": np.int64([0, 5, 7, 8, 8])})
    net.opset_import[0].version = opset
    model = ir.from_proto(net)
    found = meaning_of(analysable(model), branches={"grid": "yolov2-grid"})
    [scores] = [branch for branch in found.branches if branch.kind == "scores"]
    outputs = run(net, {"x": pictures(2)})
    for part in scores.of(outputs):
        np.testing.assert_allclose(part.sum(axis=scores.pieces[0].axis), 1.0, rtol=1e-5)
    cut = run(with_branches(model, found), {"x": pictures(2)})
    for left, right in zip(cut, found.cut(outputs), strict=True):
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-6)


def test_the_softmax_of_one_class_tells_nothing() -> None:
    found = meaning(yolo2(1))
    assert [one.kind for one in found.judged] == ["boxes", "objectness"] and found.task == "detect"
    assert [one.kind for one in found.branches] == ["boxes", "objectness", "unused"] and found.grids
    assert "scores" in [one.kind for one in meaning(yolo3(1)).judged], "a Sigmoid of one class does"


def test_of_some_classes_there_is_no_softmax() -> None:
    found = meaning(yolo2(4), branches={"grid[5:7]": "unused"})
    assert not any(piece.softmax for piece in found.pieces if piece.first in (5, 7))
    assert [piece.softmax for piece in found.pieces if piece.first == 14] == [True]


def changed(**weights: Any) -> onnx.ModelProto:
    return made(ONE, OF_FIVE, {**constants(5, 0), **weights})


def one_of_five() -> Any:
    weights = constants(5, 0)["wa"].copy()
    weights[9] *= 0.05  # the objectness of the second anchor
    return weights


OTHERS = {
    "heat maps, any weights": changed(wa=normal(25, 8, 1, 1, seed=9)),
    "an anchor without objectness": changed(wa=one_of_five()),
    "sizes as loud as places": changed(wa=constants(5, 0)["wa"][[2, 3, 0, 1, *range(4, 25)]]),
    "behind a Sigmoid": made("c = Conv(g, wa, ba) grid = Sigmoid(c)", OF_FIVE, constants(5, 0)),
    "behind a Softmax": made("c = Conv(g, wa, ba) grid = Softmax<axis=1>(c)", OF_FIVE, constants(5, 0)),
    "behind a Relu": made("c = Conv(g, wa, ba) grid = Relu(c)", OF_FIVE, constants(5, 0)),
    "24 channels": made(ONE, "float[N,24,8,8] grid", {
        **constants(5, 0), "wa": constants(5, 0)["wa"][:24], "ba": constants(5, 0)["ba"][:24]}),
    "no cells of its picture": made(ONE, "float[N,25,9,9] grid", constants(5, 0), "72,68"),
    "a classifier": made("m = GlobalAveragePool(g) grid = Conv(m, wa, ba)",
                         "float[N,25,1,1] grid", constants(5, 0)),
    "a row of scores": made("m = Conv(g, wa, ba) p = GlobalAveragePool(m) grid = Flatten(p)",
                            "float[N,25] grid", constants(5, 0)),
}  # fmt: skip


@pytest.mark.parametrize("net", OTHERS.values(), ids=OTHERS)
def test_nothing_else_is_taken_for_a_grid(net: onnx.ModelProto) -> None:
    assert not meaning(net).grids


def test_shapes_alone_count_where_the_user_says_that_it_detects() -> None:
    net = OTHERS["heat maps, any weights"]
    found = meaning(net, task="detect")
    assert found.grids == (Grid("grid", "yolov2-grid", "NCHW", 5, 5),) and found.named
    assert judged_meaning(analysable(ir.from_proto(net)), "detect").grids == found.grids
    with pytest.raises(UsageError, match=r"no output fits it; .* or the form of a raw grid .*'yolov3-grid'"):
        meaning(OTHERS["behind a Relu"], task="detect")
    other: Task
    for other in ("segment", "embed"):
        assert not meaning_of(analysable(ir.from_proto(net)), task=other, left_open=True).grids


def test_what_the_user_names_wins() -> None:
    net = OTHERS["heat maps, any weights"]
    [grid] = meaning(net, branches={"grid": "yolov5-grid:10,13,16,30,33,23,8,9,7,6"}).grids
    assert grid.sides == ((10, 13), (16, 30), (33, 23), (8, 9), (7, 6)) and grid.form == "yolov5-grid"
    [grid] = meaning(net, branches={"grid": "yolov3-grid: 8, 9"}).grids
    assert (grid.anchors, grid.numbers) == (1, 25)
    assert told(meaning(yolo2(), branches={"grid": "map"})) == "map grid"
    assert not meaning(yolo2(), branches={"grid": "map"}).grids
    [piece] = [one for one in meaning(yolo2(), branches={"grid[4]": "unused"}).pieces if one.first == 4]
    assert not piece.sigmoid
    assert not meaning(yolo2(), branches={"grid[4]": "unused"}).grids, "no grid that can be decoded is left"
    channels_last = made("c = Conv(g, wa, ba) grid = Transpose<perm=[0,2,3,1]>(c)",
                         "float[N,8,8,25] grid", constants(5, 0))  # fmt: skip
    [grid] = meaning(channels_last, branches={"grid": "yolov2-grid"}).grids
    assert grid.order == "NHWC" and meaning(channels_last).grids == (grid,)


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("yolov3-grid", r"grid \[N, 25, 8, 8\] does not divide into 3 .* Give its anchors \(1 or 5\)"),
        ("yolov2-grid:1,2", None),
        ("yolov2-grid:1,2,3,4", "does not divide into 2 anchors"),
        ("yolov2-grid:1,2,3", "'1,2,3' is not a list of widths and heights"),
        ("yolov2-grid:", "'' is not a list of widths and heights"),
        ("yolov2-grid:1,-2", "is not a list of widths and heights"),
        ("yolov2-grid:1,nan", "is not a list of widths and heights"),
        ("yolov2-grid:one,two", "is not a list of widths and heights"),
        ("yolov9-grid", r"unknown kind of output 'yolov9-grid'.*of a raw grid of anchors yolov2-grid"),
    ],
)  # fmt: skip
def test_forms_that_do_not_fit_are_refused(kind: str, problem: str | None) -> None:
    if problem is None:
        assert meaning(yolo2(), branches={"grid": kind}).grids[0].anchors == 1
        return
    with pytest.raises(UsageError, match=problem):
        meaning(yolo2(), branches={"grid": kind})


@pytest.mark.parametrize(
    ("net", "branches", "problem"),
    [
        (OTHERS["a row of scores"], {"grid": "yolov2-grid"}, r"\[N, 25\] is not a grid of cells of 8, 16"),
        (OTHERS["no cells of its picture"], {"grid": "yolov2-grid"}, r"is not a grid of cells .* of 72×68"),
        (OTHERS["behind a Sigmoid"], {"grid": "yolov2-grid"}, "behind a Sigmoid: it is not a raw grid"),
        (yolo2(), {"grid[0:5]": "yolov2-grid"}, "is a part, and a grid is an output. Name the whole"),
        (yolo2(), {"other": "yolov2-grid"}, "the model has no float output 'other'"),
        (yolo2(), {"grid": "yolov2-grid", "grid[4]": "scores"}, "overlap"),
    ],
)  # fmt: skip
def test_outputs_that_are_no_grids_are_refused(
    net: onnx.ModelProto, branches: dict[str, str], problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        meaning(net, branches=branches)


def sigmoid(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value))


def by_loops(array: Any, form: str, sides: Any, stride: int) -> list[tuple[float, ...]]:
    """Score, corners and class of every anchor of [anchors, numbers, rows, columns], as published."""
    found = []
    for number, row, column in itertools.product(*(range(array.shape[axis]) for axis in (0, 2, 3))):
        x, y, w, h, sure, *classes = array[number, :, row, column].astype(float).tolist()
        wide, high = sides[number]
        if form == "yolov5-grid":
            x, y = 2 * sigmoid(x) - 0.5, 2 * sigmoid(y) - 0.5
            w, h = (2 * sigmoid(w)) ** 2 * wide, (2 * sigmoid(h)) ** 2 * high
        else:
            x, y, w, h = sigmoid(x), sigmoid(y), math.exp(w) * wide, math.exp(h) * high
        if form == "yolov2-grid":
            w, h = w * stride, h * stride
            total = sum(math.exp(one) for one in classes)
            chances = [math.exp(one) / total for one in classes]
        else:
            chances = [sigmoid(one) for one in classes]
        x, y, score = (x + column) * stride, (y + row) * stride, sigmoid(sure) * max(chances)
        best = chances.index(max(chances))
        found.append((score, x - w / 2, y - h / 2, x + w / 2, y + h / 2, best))
    return sorted(found, key=lambda one: -one[0])


ORDERS = {
    "NCHW": (0, 1, 2, 3),
    "NHWC": (2, 3, 0, 1),
    "NAHWK": (0, 2, 3, 1),
    "NHWAK": (2, 3, 0, 1),
    "NAKHW": (0, 1, 2, 3),
}


@pytest.mark.parametrize("form", ["yolov2-grid", "yolov3-grid", "yolov5-grid"])
@pytest.mark.parametrize("order", ORDERS)
def test_boxes_as_in_loops(form: Any, order: str) -> None:
    rng = np.random.default_rng(3)
    array = rng.normal(0.0, 1.0, (2, 8, 2, 4)).astype(np.float32)  # anchors, numbers, rows, columns
    output = array.transpose(ORDERS[order])
    if order == "NCHW":
        output = output.reshape(16, 2, 4)
    if order == "NHWC":
        output = output.reshape(2, 4, 16)
    sides = ((0.4, 0.5), (0.7, 0.3)) if form == "yolov2-grid" else ((6.0, 8.0), (11.0, 5.0))
    grid = Grid("y", form, order, 2, 8, sides)
    judge = find_judge(
        "detect", ["y"], [output[None]], {"x": np.zeros((1, 3, 32, 64))}, Meaning((), grids=(grid,))
    )
    assert isinstance(judge, DetectionJudge) and not judge.head.assumed
    found = judge.read([output[None]], "a.png")
    expected = by_loops(array, form, sides, 16)
    kept = [expected[int(np.argmin([abs(one[0] - score) for one in expected]))] for score in found.scores]
    np.testing.assert_allclose(found.scores, [one[0] for one in kept], rtol=1e-6)
    np.testing.assert_allclose(found.boxes, [one[1:5] for one in kept], rtol=1e-5, atol=1e-4)
    assert found.classes.tolist() == [one[5] for one in kept] and 8 <= len(kept) <= 16
    assert found.scores[0] == pytest.approx(expected[0][0])


@pytest.mark.parametrize(
    ("form", "strides", "number", "expected"),
    [
        ("yolov3-grid", (32, 16, 8), 0, (116.0, 90.0)),
        ("yolov3-grid", (32, 16), 0, (81.0, 82.0)),
        ("yolov3-grid", (16, 8), 1, (8.0, 8.0)),
        ("yolov5-grid", (8, 16, 32), 1, (30.0, 61.0)),
        ("yolov5-grid", (8, 16, 32, 64), 3, (436.0, 615.0)),
        ("yolov2-grid", (32,), 0, (0.57273 * 32, 0.677385 * 32)),
        ("yolov2-grid", (16,), 0, (16.0, 16.0)),
    ],
)
def test_published_anchors_where_none_are_given(
    form: Any, strides: tuple[int, ...], number: int, expected: tuple[float, float]
) -> None:
    anchors = 5 if form == "yolov2-grid" else 3
    names = [f"y{stride}" for stride in strides]
    outputs = [np.zeros((1, anchors * 6, 128 // stride, 64 // stride)) for stride in strides]
    grids = tuple(Grid(name, form, "NCHW", anchors, 6) for name in names)
    judge = find_judge("detect", names, outputs, {"x": np.zeros((1, 3, 128, 64))}, Meaning((), grids=grids))
    assert isinstance(judge, DetectionJudge) and judge.head.assumed
    assert judge.head.anchors is not None
    assert judge.head.anchors[number][0] == pytest.approx(expected)
