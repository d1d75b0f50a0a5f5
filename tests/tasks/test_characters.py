"""Scores of characters are told from the graph: recognisers as exporters write them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from heads import head

from calib8.tasks.meaning import meaning_of
from small_models import Array, normal

PICTURE = "float[1,3,1,8] p"
STEPS = """
    c = Conv(p, wide) q = Squeeze(c, two) x = Transpose<perm=[2,0,1]>(q)
    every, h, state = LSTM<direction="bidirectional", hidden_size=5>(x, win, wrec)
    turned = Transpose<perm=[0,2,1,3]>(every) steps = Reshape(turned, joined)
"""
COMPUTED = """
    shape = Shape(steps) t = Slice(shape, zero, one) n = Slice(shape, one, two) count = Mul(t, n)
    both = Concat<axis=0>(count, ten) back = Concat<axis=0>(t, n, rest)
    r = Reshape(steps, both) g = Gemm<transB=1>(r, letters, bias) y = Reshape(g, back)
"""
"""Steps times samples as rows, and back again, with sizes that are computed, as PyTorch writes them."""

CONSTANTS: Mapping[str, Array] = {
    "wide": normal(6, 3, 1, 1), "win": normal(2, 20, 6), "wrec": normal(2, 20, 5),
    "joined": np.int64([0, 0, -1]), "letters": normal(13, 10), "bias": normal(13), "ten": np.int64([10]),
    "rest": np.int64([-1]), "by_letter": normal(10, 13), "by_512": normal(10, 512), "by_3": normal(10, 3),
    "again": normal(10, 6), "wgru": normal(1, 15, 6), "rgru": normal(1, 15, 5), "five": normal(5, 13),
    "few": normal(6, 13), "norm10": normal(10), "last": np.int64(-1),
}  # fmt: skip
SOFTMAX = "m = MatMul(steps, by_letter) b = Add(m, bias) y = LogSoftmax<axis=2>(b)"
TWICE = """
    s = MatMul(steps, again) one_way, h2, state2 = GRU<hidden_size=5>(s, wgru, rgru)
    only = Squeeze(one_way, one) m = MatMul(only, five) y = Add(m, bias)
"""
FEATURES = "c = Conv(p, wide) q = Squeeze(c, two) x = Transpose<perm=[0,2,1]>(q) "
BY_CONVOLUTION = "c = Conv(p, wide) d = Conv(c, points) q = Squeeze(d, two) y = Transpose<perm=[0,2,1]>(q)"
LAST_STEP = "g = Gather<axis=0>(steps, last) y = Gemm<transB=1>(g, letters, bias)"
LAST_STATE = "f = Transpose<perm=[1,0,2]>(h) v = Flatten(f) y = Gemm<transB=1>(v, letters, bias)"

TOLD = {
    "recurrent": (PICTURE, STEPS + COMPUTED, "float[T,1,13] y", "ctc", "likely"),
    "declared otherwise": (PICTURE, STEPS + COMPUTED, "float[1,T] y", "ctc", "likely"),
    "by LogSoftmax": (PICTURE, STEPS + SOFTMAX, "float[8,1,13] y", "ctc", "likely"),
    "two recurrent layers": (PICTURE, STEPS + TWICE, "float[8,1,13] y", "ctc", "likely"),
    "no recurrence": (PICTURE, FEATURES + "y = MatMul(x, few)", "float[1,8,13] y", "ctc", "guessed"),
    "the last step": (PICTURE, STEPS + LAST_STEP, "float[1,13] y", "logits", "likely"),
    "the last state": (PICTURE, STEPS + LAST_STATE, "float[1,13] y", "logits", "likely"),
    "the last state, three axes": (
        PICTURE, STEPS + "y = MatMul(h, five)", "float[2,1,13] y", "ctc", "guessed"
    ),
    "one step, three axes": (
        PICTURE, STEPS + "g = Gather<axis=0>(steps, zero) y = MatMul(g, by_letter)", "float[1,1,13] y", "ctc",
        "guessed",
    ),
    "three numbers": (PICTURE, STEPS + "y = MatMul(steps, by_3)", "float[8,1,3] y", "other", "guessed"),
    "a vector per step": (
        PICTURE, FEATURES + "y = MatMul(x, wide_512)", "float[1,8,512] y", "other", "guessed"
    ),
    "no picture": (
        "float[1,3,8] s", "p = Unsqueeze(s, two) " + STEPS + COMPUTED, "float[T,1,13] y", "other", "guessed"
    ),
    "characters along the middle": (
        PICTURE, FEATURES + "m = MatMul(x, few) y = Transpose<perm=[0,2,1]>(m)", "float[1,13,8] y", "other",
        "guessed",
    ),
    "by a convolution": (PICTURE, BY_CONVOLUTION, "float[1,8,13] y", "ctc", "guessed"),
}  # fmt: skip


@pytest.mark.parametrize(("inputs", "body", "outputs", "kind", "sureness"), TOLD.values(), ids=TOLD)
def test_what_shows_characters(inputs: str, body: str, outputs: str, kind: str, sureness: str) -> None:
    more = {"wide_512": normal(6, 512), "points": normal(13, 6, 1, 1)}
    found = meaning_of(head(inputs, outputs, body, {**CONSTANTS, **more}))
    assert [(one.kind, one.sureness) for one in found.branches] == [(kind, sureness)]
    assert found.task == {"ctc": "ctc", "logits": "classify"}.get(kind)


def test_a_task_is_taken_where_the_file_states_fewer_axes_than_the_graph_has() -> None:
    model = head(PICTURE, "float[1,T] y", STEPS + COMPUTED, CONSTANTS)
    assert meaning_of(model, task="ctc").named
