"""A diagnosis offers 16-bit codes for the tensor that needs them, where the target has such codes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import calib8
from broken_nets import heavy_tail
from calib8.remedies import Treatment, diagnose, spot_wishes
from calib8.remedies.clinic import Clinic
from calib8.remedies.treatment import Remedy, Wish
from calib8.repair.spots import SpotClass
from small_models import Array, normal, run

RUNS: list[dict[str, Array]] = [{"x": normal(1, 4, 8, 8, seed=seed)} for seed in range(24)]


@functools.cache
def treated(target: str) -> Treatment:
    made = calib8.quantize(heavy_tail(), RUNS, target=target, method="minmax", repair=["none"], threads=1)
    return diagnose(heavy_tail(), ir.to_proto(made.model), RUNS, threads=1)


@pytest.fixture(autouse=True)
def a_layer_is_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four layers, each is much of the work."""
    monkeypatch.setattr(spot_wishes, "BUDGET", 0.6)


def offered(found: Treatment) -> list[Remedy]:
    return [one for one in found.remedies if one.wish.spots]


def test_the_tensor_is_named_with_the_option_that_does_it() -> None:
    treated.cache_clear()
    found = treated("calib8")
    [remedy] = offered(found)
    assert remedy is found.remedies[0] and remedy.gain_db >= 3.0 and not remedy.macs
    assert all(f"'{name}'" in remedy.text for name in remedy.wish.spots)
    assert remedy.text.endswith("16-bit codes") and 0.0 < remedy.wide <= 0.6
    flags = found.flags(remedy)
    places = [place for place, word in enumerate(flags) if word == "--spot"]
    assert tuple(flags[place + 1] for place in places) == remedy.wish.spots
    assert flags[:2] == ("--target", "calib8")


def test_the_gain_is_that_of_the_model_that_the_keywords_make() -> None:
    found = treated("calib8")
    [remedy] = offered(found)
    made = calib8.quantize(heavy_tail(), RUNS, threads=1, **found.words(remedy))
    shaped = onnx.shape_inference.infer_shapes(ir.to_proto(made.model))
    reached = found.diagnosis.dissection.figures(ir.from_proto(shaped)).sqnr_db
    assert reached == pytest.approx(remedy.sqnr_db, abs=1e-6)
    plain = calib8.quantize(heavy_tail(), RUNS, target="calib8", method="minmax", repair=["none"], threads=1)

    def noise(model: ir.Model) -> float:
        proto, fresh = ir.to_proto(model), {"x": normal(1, 4, 8, 8, seed=99)}
        return float(np.sum((run(proto, fresh)[0] - run(heavy_tail(), fresh)[0]).astype(np.float64) ** 2))

    assert noise(made.model) < noise(plain.model) / 2.0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", ["onnxruntime", "tflite"])
def test_other_targets_hear_nothing_of_it(target: str) -> None:
    found = treated(target)
    assert found.tried and not offered(found)
    assert not any("16-bit" in one.text for one in found.remedies)


def measured(gains: list[float], monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[Remedy]]:
    """How many spots were tried, and the remedies that are told, where 1, 3 and 8 spots gain so much."""
    found, tried = treated("calib8"), list[int]()
    clinic = Clinic.__new__(Clinic)

    def remedy(wish: Wish) -> Remedy:
        tried.append(len(wish.spots))
        return Remedy(wish, found.diagnosis.figures, gains[len(tried) - 1], 0.0, wish.spots, 0.1)

    monkeypatch.setattr(clinic, "remedy", remedy, raising=False)
    wishes = [Wish(spots=tuple(f"t{index}" for index in range(number))) for number in (1, 3, 8)]
    return tried, list(clinic.tried(wishes, lambda done: None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gains", "tried", "told"),
    [
        ([3.5, 9.0, 9.0], [1], [1]),
        ([2.0, 2.5, 2.9], [1, 3, 8], [1]),
        ([0.5, 1.5, 2.8], [1, 3, 8], [8]),
        ([0.5, 4.0, 9.0], [1, 3], [3]),
        ([0.1, 0.2, 0.9], [1, 3, 8], []),
    ],
)
def test_more_spots_must_gain_more(
    gains: list[float], tried: list[int], told: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, remedies = measured(gains, monkeypatch)
    assert asked == tried and [len(one.wish.spots) for one in remedies] == told


def test_what_fits_the_budget_is_wished_for_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spot_wishes, "BUDGET", 0.3)
    prices = {"a": 0.2, "b": 0.2, "c": 0.05, "d": 0.0, "e": 0.0}

    class Known:
        basis = treated("calib8").basis

        def ranked(self, repairs: object) -> tuple[SpotClass, ...]:
            return tuple(SpotClass(frozenset({name}), {}, price) for name, price in prices.items())

    known: Any = Known()
    wishes = spot_wishes.spot_wishes(known, (Wish(without_ranges=("z",)),))
    assert [one.spots for one in wishes] == [("a",), ("a", "c", "d"), ("a", "c", "d", "e")]
    assert {one.without_ranges for one in wishes} == {("z",)}
