"""Classes one by one: counted as plain loops count them, and named by folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from calib8.analysis.by_class import ClassCounts, ClassFigures
from calib8.data.batches import Batch
from calib8.data.opening import open_dataset
from calib8.data.preprocess import Preprocess
from calib8.tensors import TensorSpec

CLASSES = 5


def batches(labels: list[int | None], size: int) -> list[Batch]:
    pieces = [labels[at : at + size] for at in range(0, len(labels), size)]
    return [Batch({}, tuple(piece), ("",) * len(piece)) for piece in pieces]


def scores(best: list[int]) -> np.ndarray:
    found = np.zeros((len(best), CLASSES), np.float32)
    found[np.arange(len(best)), best] = 1.0
    return found


def counted(counts: ClassCounts, labels: list[int | None], models: list[list[int]]) -> ClassCounts:
    at = 0
    for batch in batches(labels, 7):
        end = at + len(batch.labels)
        counts.add(batch, [[scores(best[at:end])] for best in models])
        at = end
    return counts


@pytest.mark.parametrize("labelled", [True, False])
def test_as_plain_loops_count(labelled: bool) -> None:
    rng = np.random.default_rng(3)
    labels = [None if rng.random() < 0.1 else int(rng.integers(CLASSES)) for _ in range(200)]
    labels = labels if labelled else [None] * 200
    fp32, int8 = ([int(x) for x in rng.integers(0, CLASSES, 200)] for _ in range(2))
    for sample in range(0, 200, 2):
        int8[sample] = fp32[sample]
    found = {one.name: one for one in counted(ClassCounts(0), labels, [fp32, int8]).told(1)}
    for number in range(CLASSES):
        truths = labels if labelled else fp32
        its = [sample for sample in range(200) if truths[sample] == number]
        wrong: dict[int, int] = {}
        for sample in its:
            if int8[sample] != number:
                wrong[int8[sample]] = wrong.get(int8[sample], 0) + 1
        told = found[str(number)]
        assert told.samples == len(its)
        assert told.right == sum(int8[sample] == number for sample in its)
        assert told.lost == sum(fp32[s] == number and int8[s] != number for s in its)
        assert told.won == sum(fp32[s] != number and int8[s] == number for s in its)
        assert [count for _, count in told.taken_for] == sorted(wrong.values(), reverse=True)[:3]
        assert all(wrong[int(name)] == count for name, count in told.taken_for)


def test_those_that_lose_most_come_first() -> None:
    labels, fp32 = [0] * 10 + [1] * 10 + [2] * 10, [0] * 10 + [1] * 5 + [0] * 5 + [2] * 10
    int8 = [0] * 9 + [4] + [1] * 5 + [0] * 5 + [3] * 4 + [2] * 6
    found = counted(ClassCounts(0), labels, [fp32, int8]).told(1)
    assert [(one.name, one.lost) for one in found] == [("2", 4), ("0", 1), ("1", 0)]
    assert found[0] == ClassFigures("2", 10, 6, 4, 0, (("3", 4),))


def test_labels_with_an_offset_have_the_names_of_their_folders() -> None:
    counts = counted(ClassCounts(None, 1, ("cat", "dog")), [0, 0, 1], [[1, 2, 0]])
    assert [(one.name, one.taken_for) for one in counts.told(0)] == [
        ("dog", (("0", 1),)), ("cat", (("dog", 1),))
    ]  # fmt: skip


def test_what_is_no_classes_has_none() -> None:
    counts = ClassCounts(None)
    counts.add(Batch({}, (0,), ("",)), [[np.zeros((1, 3, 4, 4), np.float32)]])
    assert counts.told(0) == ()
    gone = counted(ClassCounts(0), [0, 1], [[0, 1]])
    gone.add(Batch({}, (0,), ("",)), [None])
    assert gone.told(0) == (), "a model that has ended its runtime"
    assert counted(ClassCounts(None), [None, None], [[0, 1]]).told(0) == (), "nothing is known of the truth"


def test_folders_are_the_names_of_labels(tmp_path: Path) -> None:
    for name in ("cat", "dog", "empty"):
        (tmp_path / name).mkdir()
    for name in ("cat", "dog"):
        Image.new("RGB", (4, 4)).save(tmp_path / name / "a.png")
    inputs, p = [TensorSpec("x", np.dtype(np.float32), (1, 3, 4, 4))], Preprocess()
    assert open_dataset(tmp_path, inputs, preprocess=p).class_names == ("cat", "dog", "empty")
    (tmp_path / "labels.txt").write_text("cat/a.png 7\ndog/a.png 3\n")
    assert open_dataset(tmp_path, inputs, preprocess=p).class_names == (), "numbers of another list"
