"""What a branch depends on is what changes it: every tensor of a head is disturbed in turn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest
from heads import head, ssd, yolo5, yolo8, yolox

from calib8.model.graph import Names, is_activation
from calib8.tasks.branches import Branch, Piece
from calib8.tasks.meaning import meaning_of
from calib8.tasks.reach import reached
from small_models import normal, run

HEADS: dict[str, Callable[[], ir.Model]] = {
    "YOLOv8": yolo8,
    "YOLOv5": yolo5,
    "YOLOX": yolox,
    "SSD": lambda: ssd(3, "Softmax<axis=2>"),
}


def feeds_of(model: ir.Model) -> dict[str, np.ndarray]:
    shapes = {value.name or "": value.shape for value in model.graph.inputs if value.const_value is None}
    return {
        name: normal(*(size if isinstance(size, int) else 1 for size in shape or ()), seed=len(name))
        for name, shape in shapes.items()
    }


def disturbed(model: ir.Model, name: str) -> ir.Model:
    """A copy in which all that reads a tensor reads it with noise."""
    copy = model.clone()
    value = next(v for n in copy.graph for v in (*n.inputs, *n.outputs) if v is not None and v.name == name)
    uses, names = list(value.uses()), Names(copy.graph)
    noise = ir.node("Mul", [value, names.constant("noise", np.float32(1.01))], name="disturbed")
    noise.outputs[0].name = "with_noise"
    first = copy.graph[0] if value.producer() is None else None
    if first is not None:
        copy.graph.insert_before(first, noise)
    else:
        copy.graph.insert_after(value.producer() or copy.graph[0], noise)
    for use in uses:
        use.node.replace_input_with(use.idx, noise.outputs[0])
    for index, output in enumerate(copy.graph.outputs):
        if output is value:
            noise.outputs[0].type, noise.outputs[0].shape = value.type, value.shape
            copy.graph.outputs[index] = noise.outputs[0]
    return copy


@pytest.mark.parametrize("name", HEADS)
def test_what_is_reached_changes_the_branch_and_nothing_else_does(name: str) -> None:
    model = HEADS[name]()
    feeds, meaning = feeds_of(model), meaning_of(model)
    plain = run(model, feeds)
    computed = [value for node in model.graph for value in node.outputs if value.name]
    for value in filter(is_activation, [*model.graph.inputs, *computed]):
        changed = run(disturbed(model, value.name or ""), feeds)
        for branch in meaning.branches:
            pairs = zip(branch.of(plain), branch.of(changed), strict=True)
            differs = any(not np.array_equal(old, new) for old, new in pairs)
            assert not differs or value.name in reached(model, [branch]), (value.name, branch.kind)
    heads = {branch.kind: reached(model, [branch]) for branch in meaning.judged}
    assert heads["scores"] - heads["boxes"] and heads["boxes"] - heads["scores"]


def test_classes_and_boxes_of_yolov8_have_layers_of_their_own() -> None:
    model = yolo8()
    boxes, scores = (reached(model, [branch]) for branch in meaning_of(model).judged)
    assert {"c1", "c2", "classes", "scores"} <= scores - boxes
    assert {"b1", "b2", "distances", "shares"} <= boxes - scores
    assert {"p", "q", "j1", "r1", "all_of", "y"} <= boxes & scores


def test_within_the_tail_layers_are_the_end() -> None:
    model = yolo8()
    scores = next(branch for branch in meaning_of(model).judged if branch.kind == "scores")
    tail = reached(model, [scores], within_tail=True)
    assert {"c1", "c2", "classes", "scores", "y"} <= tail
    assert not tail & {"p", "q", "b1", "b2"}


BODIES = {
    "Slice": "t = Relu(p) y = Slice(t, one, two, one)",
    "turned": "a = Relu(p) b = Neg(p) c = Concat<axis=1>(a, b) y = Transpose<perm=[0,2,3,1]>(c)",
    "a wider operand": "a = Relu(p) m = GlobalAveragePool(p) y = Mul(a, m)",
    "Softmax": "a = Relu(p) b = Neg(p) c = Concat<axis=1>(a, b) y = Softmax<axis=1>(c)",
    "Softmax along another axis": "a = Relu(p) b = Neg(p) c = Concat<axis=1>(a, b) y = Softmax<axis=2>(c)",
    "twice the same": "a = Relu(p) y = Concat<axis=1>(a, a)",
    "an op that mixes": "a = Relu(p) b = Neg(p) c = Concat<axis=1>(a, b) y = Conv(c, six_in)",
}
PARTS = {
    "Slice": (1, (0, 1), {"t", "p", "y"}),
    "turned": (3, (0, 3), {"a", "p", "c", "y"}),
    "a wider operand": (1, (0, 1), {"a", "m", "p", "y"}),
    "Softmax": (1, (0, 3), {"a", "b", "c", "p", "y"}),
    "Softmax along another axis": (1, (0, 3), {"a", "c", "p", "y"}),
    "twice the same": (1, (0, 3), {"a", "p", "y"}),
    "an op that mixes": (1, (0, 1), {"a", "b", "c", "p", "y"}),
}


@pytest.mark.parametrize("name", BODIES)
def test_entries_are_followed(name: str) -> None:
    shapes = {
        "turned": "float[1,4,4,6] y",
        "an op that mixes": "float[1,2,4,4] y",
        "Slice": "float[1,1,4,4] y",
    }
    output = shapes.get(name, "float[1,3,4,4] y")
    model = head("float[1,3,4,4] p", output, BODIES[name], {"six_in": normal(2, 6, 1, 1)})
    axis, (first, last), expected = PARTS[name]
    branch = Branch("part", "scores", (Piece("y", 0, axis, first, last),), "sure", "")
    assert reached(model, [branch]) == expected
