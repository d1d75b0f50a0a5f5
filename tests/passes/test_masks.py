"""Masks of attention become finite, and what they put far below has no codes of its own."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from calib8 import InferenceSession, quantize
from calib8.model.graph import constant
from calib8.passes.finite_masks import LOWEST, finite_masks
from calib8.passes.masked_scores import MARGIN, cut_masked_scores
from calib8.program.listing import summary
from calib8.table import Range, TableEntry
from small_models import Array, graph, normal, run
from small_nets import Net

SIZE = 8
CAUSAL = np.triu(np.ones((SIZE, SIZE), bool), 1)
"""What is not seen."""

BLIND = ~CAUSAL & (np.arange(SIZE) != 3)[:, None]
"""What is seen where one row sees nothing."""

BODIES: dict[str, tuple[str, dict[str, Array]]] = {
    "added": ("m = Add (x, k) y = Softmax (m)", {"k": np.where(CAUSAL, -np.inf, 0).astype(np.float32)}),
    "added from the left": (
        "m = Add (k, x) y = Softmax (m)",
        {"k": np.where(CAUSAL, -1e30, 0.5).astype(np.float32)},
    ),
    "chosen": ("m = Where (k, x, f) y = Softmax (m)", {"k": ~CAUSAL, "f": np.float32(-np.inf)}),
    "chosen the other way": ("m = Where (k, f, x) y = Softmax (m)", {"k": CAUSAL, "f": np.float32(-1e9)}),
}


@pytest.mark.parametrize("body", BODIES)
def test_masks_become_finite_addends(body: str) -> None:
    text, constants = BODIES[body]
    model = graph(f"float[2,{SIZE},{SIZE}] x", f"float[2,{SIZE},{SIZE}] y", text, constants)
    feeds: dict[str, Array] = {"x": 5 * normal(2, SIZE, SIZE)}
    expected = run(model, feeds)[0]
    assert finite_masks(model) == 1
    [add] = [node for node in model.graph if node.op_type == "Add"]
    [mask] = [array for value in add.inputs if (array := constant(value)) is not None]
    assert mask.min() == LOWEST and mask.shape == (SIZE, SIZE)
    np.testing.assert_array_equal(run(model, feeds)[0], expected)


@pytest.mark.parametrize(
    ("text", "k"),
    [
        ("m = Add (x, k) y = Softmax (m)", np.where(CAUSAL, -100, 0).astype(np.float32)),  # finite already
        ("m = Add (x, k) y = Relu (m)", np.where(CAUSAL, -np.inf, 0).astype(np.float32)),
        ("m = Add (x, k) y = Softmax (m)", np.where(CAUSAL, np.inf, 0).astype(np.float32)),
        ("m = Where (k, x, f) y = Softmax (m)", ~CAUSAL),
        (
            "m = Where (k, x, far) y = Softmax (m)",
            ~CAUSAL & (np.arange(SIZE) != 3)[:, None],
        ),  # a row sees nothing
        ("m = Where (k, x, far) y = Softmax <axis = 1> (m)", ~CAUSAL),
        ("m = Add (x, k) y = Softmax (m)", np.where(BLIND, 0, -1e9).astype(np.float32)),
        ("m = Add (x, k) y = Softmax (m)", (1000 * normal(SIZE, SIZE) - 2e4).astype(np.float32)),
    ],
)
def test_others_stay(text: str, k: Array) -> None:
    constants: dict[str, Array] = {"k": k, "f": np.float32(-3.0), "far": np.float32(-1e9)}
    constants = {name: array for name, array in constants.items() if f"{name}" in text.replace("Softmax", "")}
    model = graph(f"float[2,{SIZE},{SIZE}] x", f"float[2,{SIZE},{SIZE}] y", text, constants)
    assert finite_masks(model) == 0


def test_ranges_end_below_the_scores() -> None:
    mask = np.where(CAUSAL, -100, 0).astype(np.float32)
    mask[:, 0] += 0.5  # what every row sees
    model = graph(f"float[2,{SIZE},{SIZE}] x", "float y", "m = Add (x, k) y = Softmax (m)", {"k": mask})
    entries = {"x": TableEntry(Range(-3.0, 4.0), "minmax", 0.0, 64, 0, Range(-3.0, 4.0))}
    for given, wanted in (((), Range(-3.0 + 0.5 - MARGIN, 4.5)), (("m",), Range(-103.0, 5.0))):
        ranges = {"m": Range(-103.0, 5.0)}
        cut_masked_scores(model, ranges, entries, given)
        assert ranges["m"] == wanted
    mask[3] = LOWEST  # a row that sees nothing
    for axis, wanted in ((2, Range(-3.0 + 0.5 - MARGIN, 4.5)), (1, Range(-103.0, 5.0))):
        text = f"m = Add (x, k) y = Softmax <axis = {axis}> (m)"
        model = graph(f"float[2,{SIZE},{SIZE}] x", f"float[2,{SIZE},{SIZE}] y", text, {"k": mask})
        ranges = {"m": Range(-103.0, 5.0)}
        cut_masked_scores(model, ranges, entries, ())
        assert ranges["m"] == wanted
    ranges = {"m": Range(-6.0, 5.0)}  # a mask that is none
    cut_masked_scores(model, ranges, entries, ())
    assert ranges["m"] == Range(-6.0, 5.0)


def attention(far: float) -> onnx.ModelProto:
    net = Net(shape=(1, 16, 8))
    query, key, value = (net.op("MatMul", "x", net.weight(8, 8), name=name) for name in "qkv")
    scores = net.op("MatMul", query, net.op("Transpose", key, perm=[0, 2, 1]), name="scores")
    mask = np.triu(np.full((16, 16), far, np.float32), 1)
    shares = net.op("Softmax", net.op("Add", scores, net.const(mask)), axis=-1)
    return net.model(
        net.op("MatMul", net.op("MatMul", shares, value, name="sum"), net.weight(8, 3), name="last")
    )


def test_attention_is_as_near_with_any_mask() -> None:
    samples = [{"x": normal(1, 16, 8, seed=seed)} for seed in range(9)]
    noise = []
    for far in (-30.0, -100.0, -1e4, -1e9, -np.inf):
        model = attention(far)
        session = InferenceSession(
            ir.to_proto(quantize(model, samples, target="calib8", effort="fast").model)
        )
        assert summary(session.program).float_nodes == ()
        given = np.stack([session.run(None, one)[0] for one in samples])
        wanted = np.stack([run(model, one)[0] for one in samples])
        noise.append(float(np.square(given - wanted).mean() / np.square(wanted).mean()))
    assert max(noise) < 5e-3 and max(noise) < 2 * min(noise)
