"""Remedies are measured with ranges by the method that the user named, or as ``quantize`` chooses them."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir
import pytest

import calib8
from broken_nets import one_loud_channel, plain, samples
from calib8.analysis.basis import METHOD
from calib8.remedies import Clinic, Remedy, Treatment, Wish, diagnose
from calib8.table import Range


def treated(proto: onnx.ModelProto, data: Any, **asked: Any) -> Treatment:
    made = calib8.quantize(proto, data, repair=("none",), threads=1, **asked)
    return diagnose(proto, ir.to_proto(made.model), data, threads=1)


def reached(found: Treatment, proto: onnx.ModelProto, data: Any, wish: Wish, **asked: Any) -> float:
    """What the command leaves, on the samples of the diagnosis."""
    again = calib8.quantize(
        proto, data, repair=wish.repairs or ("none",), keep_float=wish.keep_float, threads=1, **asked
    )
    shaped = onnx.shape_inference.infer_shapes(ir.to_proto(again.model))
    return found.diagnosis.dissection.figures(ir.from_proto(shaped)).sqnr_db


@pytest.mark.one_in(2)
@pytest.mark.parametrize("asked", [{"method": "percentile", "percent": 99.9}, {"method": "minmax"}])
def test_remedies_have_the_ranges_of_the_method_that_the_user_named(asked: dict[str, Any]) -> None:
    proto, data = one_loud_channel(), samples(40)
    found = treated(proto, data, **asked)
    assert (found.basis.method, found.basis.percent) == (asked["method"], asked.get("percent"))
    best = next(one for one in found.remedies if one.wish.method is None and one.wish.repairs)
    words = found.flags(best)
    assert words[words.index("--method") + 1] == asked["method"]
    assert ("--percent" in words) is ("percent" in asked)
    assert best.sqnr_db == pytest.approx(reached(found, proto, data, best.wish, **asked), abs=0.01)
    figures = [reached(found, proto, data, best.wish, **other) for other in ({"method": "mse"}, {})]
    assert all(abs(best.sqnr_db - figure) > 0.05 for figure in figures), "other ranges would be told apart"


def wishes(monkeypatch: pytest.MonkeyPatch, **asked: Any) -> list[Wish]:
    """All that are tried."""
    tried, carried_out = list[Wish](), Clinic.remedy

    def remedy(clinic: Clinic, wish: Wish) -> Remedy:
        tried.append(wish)
        return carried_out(clinic, wish)

    monkeypatch.setattr(Clinic, "remedy", remedy)
    treated(one_loud_channel(), samples(40), **asked)
    return tried


@pytest.mark.slow
def test_no_method_is_tried_where_the_user_named_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {wish.method for wish in wishes(monkeypatch)} == {None}


def test_one_is_where_the_user_named_another(monkeypatch: pytest.MonkeyPatch) -> None:
    assert METHOD in {wish.method for wish in wishes(monkeypatch, method="minmax")}


def test_without_a_range_that_was_given_the_method_is_told() -> None:
    """The ranges of the others are chosen anew from statistics, which the default method does not do."""
    proto, data = plain(), samples(40)
    found = treated(proto, data, ranges={"first_relu_out": Range(0.0, 0.05)})
    best = found.remedies[0]
    assert found.basis.method == "auto" and best.wish.without_ranges == ("first_relu_out",)
    words = found.flags(best)
    assert words[words.index("--method") + 1] == METHOD and "--range" not in words
    expected = reached(found, proto, data, best.wish, method=METHOD)
    assert best.sqnr_db == pytest.approx(expected, abs=0.01)
