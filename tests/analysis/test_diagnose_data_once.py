"""diagnose opens its data several times: what can be read once is read once, no further than needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

import calib8
from broken_nets import one_loud_channel, samples
from calib8.remedies import Treatment
from calibration_reader import CalibrationReader
from needed import needed

ROWS = np.concatenate([feeds["x"] for feeds in samples()])
ITEMS = list(ROWS[:, None])
"""The same rows as a list, which can be read again. Which of them are looked at closely is told by what an
item looks like: rows of one array are others."""


def figures(found: Treatment) -> object:
    diagnosis = found.diagnosis
    layers = [(row.tensor, row.local, row.cumulative) for row in diagnosis.comparison.tensors]
    reasons = [(finding.node, finding.reason) for finding in diagnosis.findings]
    remedies = [(remedy.wish, remedy.sqnr_db) for remedy in found.remedies]
    return diagnosis.comparison.images, layers, diagnosis.sqnr_db, reasons, found.tried, remedies


def causes(found: Treatment) -> object:
    return [(one.node, one.reason.cause) for one in found.diagnosis.findings], [
        remedy.wish for remedy in found.remedies
    ]


def once(rows: Any, taken: list[int]) -> Iterator[Any]:
    for number, row in enumerate(rows):
        taken.append(number)
        yield row[None]


class Reader(CalibrationReader):
    def __init__(self, rows: Any, taken: list[int]) -> None:
        super().__init__(rows)
        self.taken = taken

    def get_next(self) -> dict[str, Any] | None:
        found = super().get_next()
        if found is not None:
            self.taken.append(len(self.taken))
        return found


@pytest.fixture(scope="module")
def wanted() -> object:
    found = calib8.diagnose(one_loud_channel(), None, ITEMS)
    assert found.tried and found.diagnosis.comparison.images == len(ROWS)
    of_array = calib8.diagnose(one_loud_channel(), None, ROWS)
    assert causes(found) == causes(of_array)
    assert found.diagnosis.comparison.tensors == of_array.diagnosis.comparison.tensors
    return figures(found)


@pytest.mark.parametrize("make", [once, pytest.param(Reader, marks=pytest.mark.slow)])
def test_the_findings_of_the_array(make: Callable[..., Any], wanted: object) -> None:
    taken: list[int] = []
    assert figures(calib8.diagnose(one_loud_channel(), None, make(ROWS, taken))) == wanted
    assert taken == list(range(len(ROWS)))


@pytest.mark.slow  # test_data_in_commands has such a loader
def test_a_shuffling_loader_is_drawn_once() -> None:
    torch, passes = needed("torch"), []

    class Shuffled(torch.utils.data.Sampler):  # type: ignore[name-defined, misc]
        def __len__(self) -> int:
            return len(ROWS)

        def __iter__(self) -> Iterator[int]:
            passes.append(len(passes))
            return iter(np.random.default_rng(len(passes)).permutation(len(ROWS)).tolist())

    tensors = torch.from_numpy(ROWS)
    drawn = torch.utils.data.DataLoader(tensors, sampler=Shuffled(), batch_size=5)
    found = calib8.diagnose(one_loud_channel(), None, drawn, samples=16)
    order = np.random.default_rng(1).permutation(len(ROWS))[:16]
    assert passes == [0]
    assert figures(found) == figures(calib8.diagnose(one_loud_channel(), None, [ITEMS[row] for row in order]))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("given", [False, True])
def test_no_more_is_read_than_asked_for(given: bool) -> None:
    net, taken = one_loud_channel(), list[int]()
    rows = [ROWS[number % len(ROWS)] * (1 + number / 100) for number in range(60)]
    quantized = calib8.quantize(net, rows[:16], method="mse", repair=("none",)) if given else None
    made = None if quantized is None else ir.to_proto(quantized.model)
    found = calib8.diagnose(net, made, once(rows, taken), samples=16)
    assert taken == list(range(16)) and found.diagnosis.comparison.images == 16
    assert figures(found) == figures(calib8.diagnose(net, made, rows[:16]))


def test_a_sound_model_is_compared_on_few_samples() -> None:
    """Without remedies to try nothing is calibrated, and nothing read beyond what is compared."""
    net, taken = one_loud_channel(), list[int]()
    rows = [ROWS[number % len(ROWS)] for number in range(60)]
    sound = ir.to_proto(calib8.quantize(net, rows[:24], effort="fast").model)
    found = calib8.diagnose(net, sound, once(rows, taken))
    assert found.diagnosis.comparison.images == 32
    assert len(taken) == (60 if found.tried else 32)
