"""The keywords of a remedy make the model that was measured, and ask for what its flags ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import calib8
from broken_nets import one_loud_channel, plain, samples
from calib8.analysis.basis import Basis
from calib8.errors import UsageError
from calib8.table import Range
from calib8.tasks.purpose import Purpose
from small_models import normal, onnx_model


def diagnosed(**asked: Any) -> tuple[onnx.ModelProto, calib8.Treatment]:
    proto = one_loud_channel()
    made = calib8.quantize(proto, samples(40), repair=("none",), threads=1, **asked)
    return proto, calib8.diagnose(proto, ir.to_proto(made.model), samples(40), threads=1)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        pytest.param({"method": "percentile", "percent": 99.9}, marks=pytest.mark.slow),
        {"target": "openvino", "weights": "per-tensor", "activations": "int8", "power_of_two": True},
    ],
    ids=str,
)
def test_the_keywords_make_the_model_that_was_measured(asked: dict[str, Any]) -> None:
    proto, found = diagnosed(**asked)
    best = found.remedies[0]
    words = found.words(best)
    assert {name: words[name] for name in asked} == asked
    made = calib8.quantize(proto, samples(40), threads=1, **words)
    shaped = onnx.shape_inference.infer_shapes(ir.to_proto(made.model))
    reached = found.diagnosis.dissection.figures(ir.from_proto(shaped)).sqnr_db
    assert reached == pytest.approx(best.sqnr_db, abs=0.01)
    assert reached > found.sqnr_db + 1.0


def test_keywords_and_flags_ask_for_the_same() -> None:
    _, found = diagnosed()
    basis = Basis(
        "tflite", "int8", "per-tensor", "percentile", 99.5, True, (("a", Range(-1.0, 2.0)),), ("n",)
    )
    said = replace(found, basis=basis, purpose=Purpose("classify", {"y": "classes"}))
    remedy = replace(found.remedies[0], spots=("s",))
    remedy = replace(remedy, wish=replace(remedy.wish, repairs=(), keep_float=("m",), method=None))
    assert said.words(remedy) == {
        "target": "tflite",
        "weights": "per-tensor",
        "method": "percentile",
        "percent": 99.5,
        "power_of_two": True,
        "ranges": {"a": Range(-1.0, 2.0)},
        "keep_float": ("n", "m"),
        "spots": ("s",),
        "repair": ("none",),
        "task": "classify",
        "branches": {"y": "classes"},
    }
    typed = {word for word in said.flags(remedy) if word.startswith("--")}
    assert typed == {
        *("--target", "--weights", "--method", "--percent", "--power-of-two", "--range", "--keep-float"),
        *("--spot", "--repair", "--task", "--branch"),
    }


def test_the_preprocessing_goes_with_the_keywords() -> None:
    pixels = {"images": np.random.default_rng(2).integers(0, 256, (12, 8, 8, 3), np.uint8)}
    preprocess = calib8.Preprocess(size=(8, 8), mean=(127.5,), scale=(1 / 64.0,))
    weights = {"w": normal(4, 3, 3, 3, seed=1), "v": normal(4, 4, 3, 3, seed=2)}
    weights["w"][0] *= 500.0
    weights["v"][:, 0] /= 500.0
    net = onnx_model(
        "float[N,3,8,8] x", "float[N,4,4,4] y", "c = Conv(x, w) r = Relu(c) y = Conv(r, v)", weights
    )
    found = calib8.diagnose(net, data=pixels, preprocess=preprocess, threads=1)
    assert found.made_here and found.layers and found.branches == () and found.remedies
    assert all(found.words(remedy)["preprocess"] == preprocess for remedy in found.remedies)
    best = found.remedies[0]
    again = calib8.quantize(net, pixels, threads=1, **found.words(best))
    assert again.verdict is not None and best.gain_db > 1.0


def test_a_diagnosis_needs_data() -> None:
    with pytest.raises(UsageError, match=r"diagnose: no data were given. Give data."):
        calib8.diagnose(plain())
