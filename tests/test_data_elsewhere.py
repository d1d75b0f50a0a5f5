"""Data that other machines go through: tables and models are those of one process, byte for byte."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import calib8
from calib8 import Gatherer, Reading, Statistics
from calib8.autorange.samples import HELD_BACK, SCORED
from calib8.calibration.lowest import MOST
from calib8.data.opening import open_dataset
from calib8.data.samples import Dataset, OpenableData, Skipped
from calib8.errors import DataError, UsageError
from calib8.progress import Progress
from calib8.repair.repairs import EFFORTS
from calib8.tensors import TensorSpec
from small_nets import classifier, conv_chain

ROWS = np.random.default_rng(6).normal(0, 1, (150, 4, 8, 8)).astype(np.float32)


@dataclass(frozen=True)
class Machines(OpenableData):
    """Three machines, to which everything goes as bytes; here there is the first sample alone.

    Attributes:
        rows: all samples.
        told: the stages that were gone through.
    """

    rows: np.ndarray
    told: list[str] = field(default_factory=list)

    def opened(self, inputs: Sequence[TensorSpec], reading: Reading) -> Dataset:
        first = open_dataset(self.rows[:1], inputs, None)
        return replace(first, count=len(self.rows), elsewhere=_Pass(self, inputs))


@dataclass(frozen=True)
class _Pass:
    machines: Machines
    inputs: Sequence[TensorSpec]
    mixed: bool = False
    keeps: bool = False

    def _parts(self) -> list[np.ndarray]:
        return np.array_split(self.machines.rows, [20, 21])[::-1]

    def counted(
        self, model: Any, tensors: Sequence[str], progress: Progress
    ) -> tuple[Statistics, list[Skipped]]:
        self.machines.told.append("counting")
        here = Gatherer.of_prepared(model, tensors, self.inputs, Reading(threads=1))
        parts = []
        for rows in self._parts():
            with pickle.loads(pickle.dumps(here)) as gatherer:
                gatherer.add(rows)
                parts.append(Statistics.from_bytes(gatherer.take().to_bytes()))
        return calib8.merge_statistics(parts), []

    def found(self, work: Any, stage: str, progress: Progress) -> Any:
        self.machines.told.append(stage)
        parts = []
        for rows in self._parts():
            copy = pickle.loads(pickle.dumps(work))
            dataset = open_dataset(rows, self.inputs, None)
            parts.append(pickle.loads(pickle.dumps(copy.over(dataset, 1, lambda samples: None))))
        return reduce(work.joined, parts)


def test_as_many_samples_come_here_as_anybody_looks_at() -> None:
    efforts = [effort.repairing + effort.held_back for effort in EFFORTS.values()]
    assert max(SCORED + HELD_BACK, *efforts) == MOST


@pytest.mark.one_in(2)
@pytest.mark.parametrize("method", ["minmax", "entropy-ncnn", "auto", "mse-behind"])
def test_tables(method: str) -> None:
    data = Machines(ROWS)
    there = calib8.calibrate(classifier(), data, method=method)
    here = calib8.calibrate(classifier(), ROWS, method=method)
    assert there.table.to_json() == here.table.to_json()
    assert there.statistics.to_bytes() == here.statistics.to_bytes()
    again = ["calibrating, second pass"] if method == "entropy-ncnn" else []
    assert data.told == ["counting", "fetching samples", *again]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("words", [{"effort": "fast"}, {"repair": ["cle", "bias"]}, {"effort": "balanced"}])
def test_models(words: dict[str, Any]) -> None:
    there = calib8.quantize(conv_chain(), Machines(ROWS), **words)
    here = calib8.quantize(conv_chain(), ROWS, **words)
    assert written(there) == written(here)


def written(found: calib8.Quantization) -> bytes:
    from calib8.model.save import model_bytes

    return model_bytes(found.model)


def test_what_needs_an_order_is_refused() -> None:
    with pytest.raises(UsageError, match="other machines keep none"):
        calib8.calibrate(classifier(), Machines(ROWS), method="ema")
    with pytest.raises(UsageError, match="shard: is not for data that lie elsewhere"):
        calib8.collect_statistics(classifier(), Machines(ROWS), shard=(1, 2))


def test_samples_that_are_gone_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Pass, "found", lambda self, work, stage, progress: [])
    with pytest.raises(DataError, match="has other samples when it is read again"):
        calib8.calibrate(classifier(), Machines(ROWS), method="auto")


def test_statistics_are_collected_there() -> None:
    proto: onnx.ModelProto = classifier()
    found = calib8.collect_statistics(proto, Machines(ROWS))
    assert found.statistics.to_bytes() == calib8.collect_statistics(proto, ROWS).statistics.to_bytes()


def test_who_looks_at_all_samples_here_refuses_them(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(classifier().SerializeToString())
    told = "are gone through by other machines, and this looks at all samples here"
    with pytest.raises(UsageError, match=told):
        calib8.preflight(path, Machines(ROWS))
    table = calib8.calibrate(path, ROWS).table
    with pytest.raises(UsageError, match=told):
        calib8.quantize(path, Machines(ROWS), table=table, repair=["bias"])
