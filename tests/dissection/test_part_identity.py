"""Figures of parts that did not change are taken from another int8 graph; what changed is judged anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import calib8
from calib8.dissection import dissect
from calib8.dissection.dissect import Dissection
from calib8.dissection.float_constants import layer_constants
from calib8.dissection.part_identity import Known
from calib8.dissection.sweep_graph import Part
from calib8.model.load import load_model
from calib8.passes.prepare import prepare
from calib8.quantization.qdq import readable_copy
from small_nets import IMAGE, NETS

IMAGES = np.random.default_rng(3).normal(0, 1, (3, 1, *IMAGE[1:])).astype(np.float32)
RUNS = tuple({"x": array} for array in IMAGES)


def prepared() -> ir.Model:
    return prepare(load_model(NETS["residual"]()), RUNS[0]).model


def int8_of(model: ir.Model, *floats: str) -> ir.Model:
    made = calib8.quantize(
        ir.to_proto(model), {"x": IMAGES[:, 0]}, method="minmax",
        repair=("none",), keep_float=floats,
    )  # fmt: skip
    return readable_copy(made.model)


def taken_apart(int8: ir.Model, reference: ir.Model, known: Known | None = None) -> Dissection:
    return Dissection(int8, layer_constants(reference), reference, RUNS, 1, known=known)


def single(found: Dissection) -> list[Part]:
    return [Part((name,), ()) for name in found.layers] + [Part((), (name,)) for name in found.tensors]


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[Part]:
    """The parts that a sweep looked at."""
    seen: list[Part] = []
    sweep = dissect.part_energies

    def counted(model: ir.Model, constants: Any, parts: Sequence[Part], *more: Any) -> Any:
        seen.extend(parts)
        return sweep(model, constants, parts, *more)

    monkeypatch.setattr(dissect, "part_energies", counted)
    return seen


def test_what_did_not_change_is_judged_once(judged: list[Part]) -> None:
    reference, known = prepared(), Known()
    first = taken_apart(int8_of(reference), reference, known)
    parts = single(first)
    steps: list[int] = []
    whole = first.checks(parts, steps.append)
    assert judged == parts and steps == [len(parts)]
    assert first.checks(parts, steps.append) == whole
    assert judged == parts and steps == [len(parts)] * 2

    second = taken_apart(int8_of(reference, first.layers[-1]), reference, known)
    del judged[:]
    found = dict(zip(single(second), second.checks(single(second)), strict=True))
    assert len(judged) < len(found) < len(parts)
    alone = taken_apart(second.model, reference)
    for part, check in found.items():
        assert check.sqnr_db == pytest.approx(alone.quality(part), abs=0.05), part
        if part not in judged:
            assert check == whole[parts.index(part)]


def changed(model: ir.Model, name: str, factor: float) -> ir.Model:
    """With another constant."""
    proto = ir.to_proto(model)
    (array,) = (one for one in proto.graph.initializer if one.name == name)
    values = onnx.numpy_helper.to_array(array)
    array.CopyFrom(onnx.numpy_helper.from_array((values * factor).astype(values.dtype), name))
    return readable_copy(ir.from_proto(proto))


def test_other_scales_runs_and_models_are_judged_anew(judged: list[Part]) -> None:
    reference, known = prepared(), Known()
    model = int8_of(reference)
    first = taken_apart(model, reference, known)
    parts = single(first)
    first.checks(parts)
    of_weight = next(
        node.inputs[1].producer().inputs[1].name for node in model.graph if node.op_type == "Conv"
    )
    [scale] = {
        node.inputs[1].name for node in model.graph
        if node.op_type == "QuantizeLinear" and node.inputs[0].name == first.tensors[0]
    }  # fmt: skip
    for name, wanted in ((of_weight, Part((first.layers[0],), ())), (scale, Part((), (first.tensors[0],)))):
        del judged[:]
        other = taken_apart(changed(model, name, 1.5), reference, known)
        other.checks(parts)
        assert wanted in judged and len(judged) < len(parts)
    del judged[:]
    taken_apart(model, prepared(), known).checks(parts)
    assert judged == parts
    del judged[:]
    Dissection(model, layer_constants(reference), reference, RUNS[:2], 1, known=known).checks(parts)
    assert judged == parts
