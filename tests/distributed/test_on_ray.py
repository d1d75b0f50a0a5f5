"""``OnRay`` as data: tables and models are those of one process, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictured import RECIPE, drawn, network

import calib8
from calib8.distributed import OnRay, listing
from calib8.errors import UsageError
from calib8.model.save import model_bytes
from small_nets import squeeze_excite

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves its daemons to the operating system
    pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\..*"),  # of Ray's own use of itself
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return drawn(tmp_path_factory.mktemp("pictures"), 130)[0].parent


@pytest.fixture(autouse=True)
def _small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "SAMPLES_PER_UNIT", 40)


@pytest.mark.slow
def test_tables_that_need_the_samples_again(ray: Any, folder: Path) -> None:
    data = OnRay(folder, workers=2)
    for method in ("auto", "entropy-mxnet"):
        there = calib8.calibrate(network(), data, preprocess=RECIPE, method=method)
        here = calib8.calibrate(network(), folder, preprocess=RECIPE, method=method)
        assert there.table.to_json() == here.table.to_json()


def test_a_repaired_model(ray: Any, folder: Path) -> None:
    asked: dict[str, Any] = {"preprocess": RECIPE, "samples": 120, "repair": ["cle", "bias"]}
    there = calib8.quantize(network(), OnRay(folder, workers=2), **asked)
    assert model_bytes(there.model) == model_bytes(calib8.quantize(network(), folder, **asked).model)


@pytest.mark.slow  # test_collect_on_ray has the same for what collects
def test_a_dataset_of_ray_as_data(ray: Any) -> None:
    rows = np.random.default_rng(1).normal(0, 1, (60, 4, 8, 8)).astype(np.float32)
    data = OnRay(ray.data.from_numpy(rows), column="data", workers=1)
    there = calib8.calibrate(squeeze_excite(), data, method="entropy-ncnn")
    here = calib8.calibrate(squeeze_excite(), rows, method="entropy-ncnn")
    assert there.table.to_json() == here.table.to_json()


def test_what_cannot_be_there_is_refused(folder: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("".join(f"{path.name} 0\n" for path in folder.iterdir()))
    with pytest.raises(UsageError, match="labels: are not for data that other machines calibrate with"):
        calib8.calibrate(network(), OnRay(folder), preprocess=RECIPE, labels=labels)
    with pytest.raises(UsageError, match="data: are of type int: no dataset of Ray"):
        calib8.calibrate(network(), OnRay(5))
    with pytest.raises(UsageError, match="workers=0"):
        OnRay(folder, workers=0)
