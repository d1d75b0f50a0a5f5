"""Verdicts of ``evaluate``: of all samples where a task or classes decide, else of some, as by lot."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest

import calib8
from calib8.analysis import verdicts
from calib8.analysis.evaluation import Evaluation
from calib8.analysis.verdicts import Verdicts
from calib8.data.batches import Batch
from calib8.data.fingerprints import array_fingerprint
from calib8.tasks.branches import Branch, Meaning, Piece
from calib8.tasks.verdict import verdict_of
from detector_nets import detector, pictures

Array = npt.NDArray[np.float32]

LOGITS = Meaning((Branch("logits", "logits", (Piece("y", 0),), "sure", ""),))
SIGNAL = Meaning((Branch("y", "other", (Piece("y", 0),), "guessed", ""),))


DIGESTS = [hashlib.sha256(bytes([place % 256, place // 256])).digest() for place in range(400)]
"""Of samples, by their place."""


def gathered(meaning: Meaning | None, expected: Array, found: Array, size: int = 1) -> Verdicts:
    """What is kept of outputs [samples, …] in batches of ``size``."""
    kept = Verdicts(0, ["y"], meaning)
    for first in range(0, len(expected), size):
        rows = slice(first, first + size)
        count = len(expected[rows])
        batch = Batch({"x": np.zeros((count, 3), np.float32)}, (None,) * count, ("s",) * count)
        kept.add(batch, [[expected[rows]], [found[rows]]], DIGESTS[first : first + count])
    return kept


def lowest(samples: int, many: int) -> list[int]:
    """Places of the samples of lowest digest."""
    return sorted(range(samples), key=lambda place: DIGESTS[place])[:many]


def evaluations(samples: int, agreement: float | None = None) -> list[Evaluation]:
    plain = Evaluation("a", "onnxruntime", samples, None, None, None, None, None)
    return [plain, Evaluation("b", "onnxruntime", samples, None, None, agreement, 20.0, None)]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("size", [1, 7])
def test_samples_of_lowest_digest_are_kept(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "MOST", 10)
    outputs = normal(100, 4)
    kept = gathered(SIGNAL, outputs, outputs, size)
    assert [one.digest for one in kept.kept] == [DIGESTS[place] for place in lowest(100, 10)]
    for place, one in zip(lowest(100, 10), kept.kept, strict=True):
        assert np.array_equal(one.outputs[1][0], outputs[place : place + 1])
    _, judged = kept.beside(evaluations(100), None)
    assert judged.verdict is not None and judged.verdict.text.endswith("; on 10 of the 100 samples")


def test_no_more_than_fits_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = normal(50, 1000)
    monkeypatch.setattr(verdicts, "LARGEST_BYTES", 10 * 2 * 4 * 1000)
    kept = gathered(SIGNAL, outputs, outputs)
    assert sum(one.nbytes for one in kept.kept) <= verdicts.LARGEST_BYTES
    assert [one.digest for one in kept.kept] == [DIGESTS[place] for place in lowest(50, 10)]


@pytest.mark.parametrize("bytes_kept", [1 << 28, 400, 33])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_kept_of_parts_joins(bytes_kept: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the parts and their order; samples differ in size, and some are there several times."""
    monkeypatch.setattr(verdicts, "MOST", 10)
    monkeypatch.setattr(verdicts, "LARGEST_BYTES", bytes_kept)
    rng = np.random.default_rng(seed)
    samples = [int(place) for place in rng.integers(0, 40, 60)]

    def of(places: Sequence[int]) -> Verdicts:
        kept = Verdicts(0, ["y"], SIGNAL)
        for place in places:
            batch = Batch({"x": np.zeros((1, 3), np.float32)}, (None,), ("s",))
            outputs = normal(1, 1 + place % 7, seed=place)
            kept.add(batch, [[outputs], [outputs]], [DIGESTS[place]])
        return kept

    def told(kept: Verdicts) -> tuple[object, ...]:
        return kept.bound, [(one.digest, one.outputs[0][0].tolist()) for one in kept.kept]

    whole = told(of(samples))
    cuts = sorted(rng.integers(0, 60, 4))
    parts = [of(part) for part in np.split(np.array(samples), cuts)]
    rng.shuffle(parts)  # type: ignore[arg-type]
    assert told(reduce(Verdicts.joined, parts)) == whole
    assert told(parts[0].joined(reduce(Verdicts.joined, parts[1:]))) == whole


def test_best_classes_of_all_samples_decide() -> None:
    """The samples that lose their class lie where none is kept."""
    expected = normal(400, 5)
    found = expected.copy()
    lost = sorted(set(range(400)) - set(lowest(400, verdicts.MOST)))[:100]
    found[lost] = -found[lost]
    same = float(np.mean(expected.argmax(1) == found.argmax(1)))
    _, judged = gathered(LOGITS, expected, found).beside(evaluations(400, same), None)
    assert judged.verdict is not None
    assert judged.verdict.state == "ruined" and judged.verdict.samples == 400
    count = round(400 * same)
    assert f"({count} of 400) of the samples keep their class; on 400 samples" in judged.verdict.text


def test_what_is_not_known_is_not_judged() -> None:
    outputs = normal(30, 4)
    reference, judged = gathered(None, outputs, outputs).beside(evaluations(30, 1.0), None)
    assert reference.verdict is None
    assert judged.verdict is not None and judged.verdict.state == "unknown"
    assert judged.verdict.text == "not judged: what the outputs mean is not known"


def test_what_the_user_calls_unused_is_not_judged() -> None:
    outputs, piece = normal(30, 4), Piece("y", 0)
    unused = Meaning((Branch("unused", "unused", (piece,), "named", ""),), said=((piece, "unused"),))
    _, judged = gathered(unused, outputs, outputs).beside(evaluations(30), None)
    assert judged.verdict is not None
    assert judged.verdict.text == "not judged: all outputs are unused, as branches says"
    found = verdict_of(replace(unused, said=()), [[outputs]], [[outputs]])
    assert found.text == "not judged: all outputs are unused"


def test_outputs_that_are_not_finite_are_ruined() -> None:
    expected = normal(30, 4)
    broken = expected.copy()
    broken[3] = np.nan
    _, judged = gathered(SIGNAL, expected, broken).beside(evaluations(30), None)
    assert judged.verdict is not None and judged.verdict.state == "ruined"


def test_the_figures_of_a_task_are_those_of_its_table(tmp_path: Path) -> None:
    """Of more samples than are kept; the same without the task on those that are kept."""
    onnx.save(detector(), tmp_path / "float.onnx")
    made = calib8.quantize(tmp_path / "float.onnx", pictures(20), repair=["none"])
    made.save(tmp_path / "int8.onnx")
    files, data = [tmp_path / "float.onnx", tmp_path / "int8.onnx"], pictures(100, seed=1)
    _, judged = calib8.evaluate(files, data, task="detect")
    assert judged.task is not None and judged.verdict is not None
    [told] = judged.verdict.tasks
    assert told.task == "detect" and dict(told.figures) == dict(judged.task.against_float)
    assert judged.verdict.text.endswith("; on 100 samples")
    _, unasked = calib8.evaluate(files, data)
    assert unasked.verdict is not None and unasked.verdict.text.endswith("; on 64 of the 100 samples")
    lots = sorted(data, key=lambda one: array_fingerprint({"x": one}))[:64]
    _, of_these = calib8.evaluate(files, np.stack(lots), task="detect")
    assert of_these.task is not None
    [some] = unasked.verdict.tasks
    assert some.figures["recall"] == of_these.task.against_float["recall"] != told.figures["recall"]


def test_one_model_alone_has_no_verdict(tmp_path: Path) -> None:
    onnx.save(detector(), tmp_path / "float.onnx")
    [alone] = calib8.evaluate([tmp_path / "float.onnx"], pictures(3))
    assert alone.verdict is None
