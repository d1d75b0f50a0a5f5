"""``evaluate`` on a cluster of Ray: the evaluations of one process; what workers find wrong is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calib8
from calib8.distributed import OnRay, listing
from calib8.errors import DataError
from judged_pictures import LABELS, NAMES, PIXELS, RECIPE, folder, models, timeless

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves its daemons to the operating system
    pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\..*"),  # of Ray's own use of itself
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return models(tmp_path_factory.mktemp("models"))


@pytest.fixture(autouse=True)
def _small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "SAMPLES_PER_UNIT", 30)


@pytest.mark.slow  # tests/test_evaluate_elsewhere.py has the same without Ray
def test_a_folder_of_classes(ray: Any, pair: list[Path], tmp_path: Path) -> None:
    data = folder(tmp_path / "pictures")
    there = calib8.evaluate(pair, OnRay(data, workers=2), preprocess=RECIPE)
    assert list(there) == timeless(calib8.evaluate(pair, data, preprocess=RECIPE))
    assert there[0].labelled == len(LABELS) and there[1].verdict is not None and there[1].classes
    (data / NAMES[60]).write_bytes(b"no picture")
    with pytest.raises(DataError, match=NAMES[60]):
        calib8.evaluate(pair, OnRay(data, workers=2), preprocess=RECIPE)


@pytest.mark.slow  # test_collect_on_ray has the same for what collects
def test_a_dataset_of_ray(ray: Any, pair: list[Path]) -> None:
    rows = [{"image": pixels, "label": label} for pixels, label in zip(PIXELS, LABELS, strict=True)]
    there = calib8.evaluate(pair, OnRay(ray.data.from_items(rows), workers=1), preprocess=RECIPE)
    here = calib8.evaluate(pair, {"images": PIXELS, "labels": np.array(LABELS)}, preprocess=RECIPE)
    for one, other in zip(there, here, strict=True):
        assert (one.images, one.top1, one.top5) == (other.images, other.top1, other.top5)
        assert (one.agreement, one.sqnr_db, one.branches) == (other.agreement, other.sqnr_db, other.branches)
        assert one.classes == other.classes and one.warnings == other.warnings
