"""Work on all samples: done in parts by copies, joined in any order, it is that of one run."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from calib8.calibration.collect import CountingWork
from calib8.calibration.collect_layouts import LayoutWork, collect_layouts, count_again
from calib8.calibration.layouts import NCNN
from calib8.calibration.statistics import Statistics
from calib8.data.opening import open_dataset
from calib8.data.samples import Dataset
from calib8.data.whole import Work, found_of_all
from calib8.errors import CalibrationError
from calib8.model.carried import Carried
from calib8.model.graph import model_hash
from calib8.model.load import load_model
from calib8.passes.place import calibration_tensors
from calib8.passes.prepare import prepare
from calib8.progress import Progress, silent
from calib8.repair.candidate import RepairData
from calib8.repair.channel_extremes import channel_extremes
from calib8.tensors import TensorSpec
from small_nets import classifier

ROWS = np.random.default_rng(4).normal(0, 1, (13, 4, 8, 8)).astype(np.float32)
SPEC = TensorSpec("x", np.dtype(np.float32), ("N", 4, 8, 8))
PARTS = (slice(0, 1), slice(1, 6), slice(6, 13))


@pytest.fixture(scope="module")
def model() -> ir.Model:
    return prepare(load_model(classifier()), {"x": ROWS[:1]}).model


@pytest.fixture(scope="module")
def statistics(model: ir.Model) -> Statistics:
    work = CountingWork(Carried(model), tuple(sorted(calibration_tensors(model))))
    return work.over(opened(ROWS), 1, ignored)


def single(rows: np.ndarray) -> Iterator[dict[str, np.ndarray]]:
    return iter([{"x": row[None]} for row in rows])


def ignored(samples: int) -> None:
    """No progress."""


def opened(rows: np.ndarray) -> Dataset:
    return open_dataset(rows, [SPEC], None)


def in_parts(work: Work[Any], order: Sequence[int]) -> Any:
    """As other processes do it: each has a copy of the work, and findings come back as bytes."""
    found = []
    for part in order:
        copy = pickle.loads(pickle.dumps(work))
        found.append(pickle.loads(pickle.dumps(copy.over(opened(ROWS[PARTS[part]]), 1, ignored))))
    return reduce(pickle.loads(pickle.dumps(work)).joined, found)


class Cluster:
    """Stands for other machines; the samples of the dataset here are only some of all."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    def found(self, work: Any, stage: str, progress: Progress) -> Any:
        self.stages.append(stage)
        return in_parts(work, (2, 0, 1))


def some(cluster: Cluster | None) -> Dataset:
    return replace(opened(ROWS if cluster is None else ROWS[:2]), elsewhere=cluster)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_statistics(model: ir.Model, statistics: Statistics, order: Sequence[int]) -> None:
    work = CountingWork(Carried(model), tuple(sorted(statistics.tensors)))
    assert in_parts(work, order).to_bytes() == statistics.to_bytes()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_bins_of_another_tool(model: ir.Model, statistics: Statistics, order: Sequence[int]) -> None:
    whole = collect_layouts(model, statistics, NCNN, single(ROWS))
    work = LayoutWork(Carried(model), statistics, NCNN, frozenset())
    assert work.counts(in_parts(work, order)) == whole
    with pytest.raises(CalibrationError, match="had other values when the data was read again"):
        work.counts(work.over(opened(ROWS[:12]), 1, ignored))


def test_extremes_of_channels(model: ir.Model) -> None:
    tensors = {name: 4 for name in sorted(calibration_tensors(model)) if name.startswith("relu")}
    runs = tuple({"x": row[None]} for row in ROWS)
    whole = channel_extremes(model, tensors, RepairData(runs, threads=1))
    cluster = Cluster()
    data = RepairData(runs[:2], threads=1, dataset=some(cluster))
    parts = channel_extremes(model, tensors, data, every_sample=True)
    assert tensors and cluster.stages == ["looking at channels"]
    for name in tensors:
        np.testing.assert_array_equal(parts[name].maximum, whole[name].maximum)
        np.testing.assert_array_equal(parts[name].minimum, whole[name].minimum)


def test_a_dataset_of_other_machines_is_gone_through_there(model: ir.Model, statistics: Statistics) -> None:
    cluster = Cluster()
    work = CountingWork(Carried(model), tuple(sorted(statistics.tensors)))
    there = found_of_all(work, some(cluster), 1, "counting", silent)
    assert there.to_bytes() == found_of_all(work, some(None), 1, "counting", silent).to_bytes()
    asked = {"batch": None, "threads": 1, "progress": silent}
    here = count_again("entropy-ncnn", model, statistics, some(None), **asked)
    assert count_again("entropy-ncnn", model, statistics, some(cluster), **asked) == here
    assert cluster.stages == ["counting", "calibrating, second pass"]


def test_a_model_on_its_way_is_the_same(model: ir.Model) -> None:
    copy = pickle.loads(pickle.dumps(Carried(model))).model
    assert model_hash(copy) == model_hash(model)
