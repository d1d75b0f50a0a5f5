"""The samples of a report are those that judged, where some were held back."""

from __future__ import annotations

import numpy as np
import pytest

import calib8
from calib8.autorange.samples import HELD_BACK, SCORED, choose_samples
from calib8.data.batches import batches
from calib8.data.samples import Dataset
from calib8.repair.repairs import EFFORTS
from calib8.run_report.chosen_samples import MOST, chosen_reading
from small_nets import classifier


def data(count: int) -> np.ndarray:
    proto = classifier()
    size = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim[1:]]
    return np.random.default_rng(count).normal(size=(count, *size)).astype(np.float32)


def inputs(dataset: Dataset) -> list[bytes]:
    return [next(iter(piece.inputs.values())).tobytes() for piece in batches(dataset, 1, 1)]


def held_back(dataset: Dataset, scored: int, held: int) -> list[bytes]:
    chosen = choose_samples(dataset, 1, scored=scored, held_back=held)
    assert not chosen.shared
    return [next(iter(run.values())).tobytes() for run in chosen.held_back]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("count", [16, 17, 30, 41, 110])
@pytest.mark.parametrize("choice", [{"effort": "fast"}, {"repair": ("bias",)}])
def test_they_are_some_of_those_held_back(count: int, choice: dict[str, object]) -> None:
    made = calib8.quantize(classifier(), data(count), **choice)
    assert made.calibration is not None and made.calibration.dataset is not None
    dataset = made.calibration.dataset
    plan = EFFORTS["fast"]
    sizes = (plan.repairing, plan.held_back) if "effort" in choice else (SCORED, HELD_BACK)
    judged = held_back(dataset, *sizes)
    reading = chosen_reading(dataset, 1, made)
    found = inputs(reading.opened(()))
    assert set(found) <= set(judged) and len(found) >= min(MOST, len(judged) - 1)
    some = (
        f"the {len(judged)} samples"
        if len(found) == len(judged)
        else f"{len(found)} of the {len(judged)} samples"
    )
    assert reading.where == f"{some} held back"
    assert inputs(reading.opened(())) == found  # as often as is asked


@pytest.mark.parametrize(("choice", "count"), [({"repair": ("none",)}, 70), ({"effort": "fast"}, 3)])
def test_where_none_was_held_back_they_are_spaced_over_the_data(
    choice: dict[str, object], count: int
) -> None:
    given = data(count)
    made = calib8.quantize(classifier(), given, **choice)
    assert made.calibration is not None and made.calibration.dataset is not None
    reading = chosen_reading(made.calibration.dataset, 1, made)
    every = range(count) if count <= MOST else [n * count // MOST for n in range(MOST)]
    assert inputs(reading.opened(())) == [given[n : n + 1].tobytes() for n in every]
    some = "the 3 samples" if count == 3 else f"{MOST} of the {count} samples"
    assert reading.where == f"{some} of the calibration data"
