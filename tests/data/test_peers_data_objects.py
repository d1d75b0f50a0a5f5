"""What WebDataset, Hugging Face ``datasets`` and torch's ``DataLoader`` themselves give, taken as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calib8
from calib8.data.opening import open_dataset
from needed import needed
from stored_data import CLASSES, INPUT, PIXELS, RECIPE, folder, model, parquet, shards

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of these packages' own use of others
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # webdataset leaves shards open
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Set before the packages are imported."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))


def webdataset(place: Path) -> Any:
    return needed("webdataset").WebDataset(
        [str(path) for path in sorted(shards(place).iterdir())], shardshuffle=False
    )


def of_hub(place: Path) -> Any:
    """Rows of image, label and caption, with pictures as Hugging Face has them."""
    datasets = needed("datasets")
    files = [str(path) for path in sorted(parquet(place, struct=True).iterdir())]
    found = datasets.Dataset.from_parquet(files, cache_dir=str(place / "cache"))
    return found.cast_column("image", datasets.Image())


def streamed(place: Path) -> Any:
    datasets = needed("datasets")
    files = [str(path) for path in sorted(parquet(place, struct=True).iterdir())]
    return datasets.load_dataset("parquet", data_files=files, split="train", streaming=True)


def loader(source: Any, **options: Any) -> Any:
    needed("torch")
    from torch.utils.data import DataLoader

    return DataLoader(source, **options)


KINDS: dict[str, Callable[[Path], Any]] = {
    "WebDataset, encoded": webdataset,
    "WebDataset, decoded": lambda place: webdataset(place).decode("pil"),
    "WebDataset, tuples": lambda place: webdataset(place).decode("pil").to_tuple("png", "cls"),
    "WebLoader": lambda place: needed("webdataset").WebLoader(webdataset(place), batch_size=None),
    "datasets, pictures": of_hub,
    "datasets, encoded": lambda place: of_hub(place).cast_column("image", datasets_image()),
    "datasets, streamed": streamed,
    "datasets, NumPy": lambda place: of_hub(place).with_format("numpy"),
    "DataLoader of datasets": lambda place: loader(
        of_hub(place), batch_size=4, collate_fn=lambda rows: rows_as_columns(rows)
    ),
}


def datasets_image() -> Any:
    return needed("datasets").Image(decode=False)


def rows_as_columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "image": np.stack([np.asarray(row["image"]) for row in rows]),
        "label": np.array([row["label"] for row in rows]),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_they_give_the_samples_of_a_folder(kind: str, tmp_path: Path) -> None:
    data = KINDS[kind](tmp_path / "data")
    found = list(open_dataset(data, INPUT, RECIPE))
    assert [sample.label for sample in found] == CLASSES
    pixels = np.concatenate([sample.inputs["x"] for sample in found])
    np.testing.assert_array_equal(pixels, PIXELS.transpose(0, 3, 1, 2).astype(np.float32))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", KINDS)
def test_they_calibrate_as_a_folder_does(kind: str, tmp_path: Path) -> None:
    plain = calib8.collect_statistics(model(), folder(tmp_path / "plain"), preprocess=RECIPE).statistics
    found = calib8.collect_statistics(model(), KINDS[kind](tmp_path / "data"), preprocess=RECIPE).statistics
    assert found.samples == plain.samples
    assert {name: (one.minimum, one.maximum) for name, one in found.tensors.items()} == {
        name: (one.minimum, one.maximum) for name, one in plain.tensors.items()
    }
