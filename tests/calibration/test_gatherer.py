"""``Gatherer``: records in calls, statistics taken in between, copies that carry the prepared model."""

from __future__ import annotations

import gc
import pickle
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

import calib8
from calib8 import Gatherer, Preprocess, Statistics
from calib8.calibration import gatherer as module
from calib8.errors import DataError, UnsupportedModelError, UsageError
from small_nets import Net, squeeze_excite

RECIPE = Preprocess(mean=(120.0,), scale=(0.02,), color="gray")


def pictured() -> onnx.ModelProto:
    """A network for gray pictures with a BatchNormalization to fold."""
    net = Net(shape=("N", 1, 12, 12))
    y = net.op("Relu", net.batch_norm(net.conv("x", 1, 8, bias=False, name="first"), 8))
    return net.model(net.conv(y, 8, 3, 1, name="last"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Pictures of several sizes."""
    place = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(8)
    for index in range(11):
        pixels = rng.integers(0, 256, (20 + index, 30), dtype=np.uint8)
        Image.fromarray(pixels).save(place / f"{index:02}.png")
    return sorted(place.iterdir())


@pytest.fixture(scope="module")
def whole(files: list[Path]) -> bytes:
    """Statistics of one run through the folder."""
    found = calib8.collect_statistics(pictured(), files[0].parent, preprocess=RECIPE)
    return found.statistics.to_bytes()


def test_parts_of_any_size_from_any_gatherer_are_one_run(files: list[Path], whole: bytes) -> None:
    first = Gatherer(pictured(), preprocess=RECIPE)
    second = pickle.loads(pickle.dumps(first))
    with first, second:
        parts: list[Statistics] = []
        assert first.add(files[:2]) == 2 and first.add(files[2:5]) == 3 and first.samples == 5
        parts.append(first.take())
        assert first.samples == 0
        second.add(files[9:])
        parts.append(second.take())
        first.add(files[5:9])
        parts.append(first.take())
    assert [part.samples for part in parts] == [5, 2, 4]
    assert calib8.merge_statistics(parts[::-1]).to_bytes() == whole


def test_a_copy_prepares_nothing(files: list[Path], whole: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    content = pickle.dumps(Gatherer(pictured(), preprocess=RECIPE, threads=2))
    monkeypatch.delattr(module, "prepare_for_table")
    with pickle.loads(content) as copy:
        copy.add(files)
        assert copy.take().to_bytes() == whole


def test_a_copy_begins_with_nothing(files: list[Path]) -> None:
    with Gatherer(pictured(), preprocess=RECIPE) as gatherer:
        gatherer.add(files[:3])
        assert pickle.loads(pickle.dumps(gatherer)).samples == 0
        assert gatherer.samples == 3


def test_arrays_and_layers_in_float() -> None:
    rng = np.random.default_rng(1)
    rows = [rng.normal(0, 1, (1, 4, 8, 8)).astype(np.float32) for _ in range(5)]
    expected = calib8.collect_statistics(squeeze_excite(), rows, keep_float=["first"]).statistics
    with Gatherer(squeeze_excite(), keep_float=["first"], batch=3) as gatherer:
        gatherer.add(rows[:1])
        gatherer.add([{"x": row} for row in rows[1:]])
        assert gatherer.take().to_bytes() == expected.to_bytes()


def test_a_bad_record_undoes_what_was_not_taken(files: list[Path], tmp_path: Path, whole: bytes) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(files[0].read_bytes()[:40])
    with Gatherer(pictured(), preprocess=RECIPE) as gatherer:
        gatherer.add(files[:2])
        with pytest.raises(DataError, match=r"broken\.png"):
            gatherer.add([files[3], broken])
        assert gatherer.samples == 0
        gatherer.add(files)
        assert gatherer.take().to_bytes() == whole


def test_bad_pictures_are_passed_over_and_told(files: list[Path], tmp_path: Path, whole: bytes) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    with Gatherer(pictured(), preprocess=RECIPE, skip_bad=True) as gatherer:
        assert gatherer.add([broken]) == 0
        gatherer.add([files[0], broken, *files[1:]])
        assert [Path(bad.name.split(" (")[0]).name for bad in gatherer.skipped] == ["broken.png"] * 2
        assert gatherer.take().to_bytes() == whole
        assert not gatherer.skipped


def test_samples_are_let_go_without_a_search_for_circles() -> None:
    """What waits for the collector is freed late, and elsewhere: a worker's memory grew with its samples."""
    rows = [np.full((1, 12, 12), value, np.float32) for value in range(5)]
    left = [weakref.ref(row) for row in rows]
    with Gatherer(pictured()) as one:
        gc.disable()
        try:
            one.add(rows)
            del rows
            assert [row() for row in left] == [None] * 5
        finally:
            gc.enable()
        assert one.take().samples == 5


def test_what_is_interrupted_is_forgotten() -> None:
    """Its samples would count without their digests."""
    rows = [np.full((1, 12, 12), value, np.float32) for value in range(40)]

    def stopped() -> Iterator[np.ndarray]:
        yield from rows[:30]
        raise KeyboardInterrupt

    with Gatherer(pictured(), batch=4) as one:
        one.add(rows[:5])
        with pytest.raises(KeyboardInterrupt):
            one.add(stopped())
        assert one.samples == 0
        one.add(rows[30:])
        found = one.take()
        assert found.samples == len(found.digests) == 10
        one.add(rows)
        with pytest.raises(UsageError, match="were not given"):
            one.add(None)
        assert one.samples == 0


def test_nothing_added_is_nothing_to_take(files: list[Path]) -> None:
    with Gatherer(pictured(), preprocess=RECIPE) as gatherer:
        with pytest.raises(UsageError, match=r"Gatherer: has nothing to give\. Add records before"):
            gatherer.take()
        gatherer.add(files[:1])
        gatherer.take()
        with pytest.raises(UsageError, match="nothing to give"):
            gatherer.take()


def test_sizes_that_nothing_says_are_asked_for() -> None:
    net = Net(shape=("N", 4, "H", "W"))
    proto = net.model(net.conv("x", 4, 8, name="first"))
    with pytest.raises(UnsupportedModelError, match="shapes"):
        Gatherer(proto)
    row = np.ones((1, 4, 6, 6), np.float32)
    with Gatherer(proto, shapes={"x": (1, 4, 6, 6)}) as gatherer:
        gatherer.add([row])
        assert gatherer.take().samples == 1
