"""A run that is left and gone on with gives what one run gives; a checkpoint of another run is refused."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from calib8.calibration.checkpoint import Checkpoint
from calib8.calibration.gather import Checkpointing, Gathered, Gathering, gather
from calib8.calibration.origin import Origin, this_origin
from calib8.calibration.statistics import Statistics
from calib8.data.opening import open_dataset
from calib8.data.preprocess import Preprocess
from calib8.data.samples import Dataset
from calib8.data.shards import Shard
from calib8.errors import Calib8Error, DataError, TableError, UsageError
from calib8.model.graph import graph_inputs
from calib8.progress import silent
from small_models import graph, normal

PIXELS = np.random.default_rng(0).integers(0, 256, (11, 8, 8, 3), dtype=np.uint8)
TENSORS = ("x", "c", "r")


class StoppedError(Exception):
    """A run ends here."""


@pytest.fixture(scope="module")
def model() -> ir.Model:
    body = "c = Conv<pads=[1,1,1,1]>(x, w) r = Relu(c)"
    return graph("float[N,3,8,8] x", "float[N,4,8,8] r", body, {"w": normal(4, 3, 3, 3)})


def opened(model: ir.Model, mean: float = 128.0, rows: slice | list[int] = slice(None)) -> Dataset:
    return open_dataset({"images": PIXELS[rows]}, graph_inputs(model), Preprocess(mean=(mean,)))


def gone(
    model: ir.Model,
    path: Path | None,
    *,
    stop: int = 99,
    batch: int = 1,
    decay: float | None = None,
    dataset: Dataset | None = None,
    shard: Shard | None = None,
    tensors: tuple[str, ...] = TENSORS,
) -> Gathered:
    """One run, which ends with ``StoppedError`` once so many samples are done."""

    def progress(stage: str, done: int, total: int | None) -> None:
        if done >= stop:
            raise StoppedError

    saving = Checkpointing(path, None if path is None else 1)
    how = Gathering(batch, decay=decay, shard=shard, checkpoint=saving)
    return gather(model, tensors, dataset or opened(model), how, silent if stop == 99 else progress)


@pytest.fixture(scope="module")
def whole(model: ir.Model) -> Statistics:
    return gone(model, None).statistics


@pytest.mark.parametrize("batch", [1, 3])
def test_a_run_that_is_stopped_again_and_again_ends_with_the_same_bytes(
    model: ir.Model, whole: Statistics, tmp_path: Path, batch: int
) -> None:
    path = tmp_path / "c"
    for stop in (3, 4, 7, 9):
        with pytest.raises(StoppedError):
            gone(model, path, stop=stop, batch=batch)
    done = Checkpoint.load(path).mark.done
    assert 4 <= done < 9
    found = gone(model, path, batch=2)
    assert found.resumed == done
    assert found.statistics.to_bytes() == whole.to_bytes()


def test_a_complete_checkpoint_needs_no_sample_more(
    model: ir.Model, whole: Statistics, tmp_path: Path
) -> None:
    path = tmp_path / "c"
    gone(model, path)
    content = path.read_bytes()
    again = gone(model, path)
    assert again.resumed == 11
    assert again.statistics.to_bytes() == whole.to_bytes()
    assert path.read_bytes() == content


def test_moving_averages_go_on_too(model: ir.Model, tmp_path: Path) -> None:
    expected = gone(model, None, decay=0.9, batch=4).averages
    with pytest.raises(StoppedError):
        gone(model, tmp_path / "c", decay=0.9, stop=6)
    found = gone(model, tmp_path / "c", decay=0.9)
    assert 0 < found.resumed < 6
    assert found.averages == expected
    assert expected is not None and set(expected) == set(TENSORS)


def test_a_bad_sample_ends_the_run_but_what_came_before_is_saved(model: ir.Model, tmp_path: Path) -> None:
    arrays = {"x": np.zeros((1, 3, 8, 8), np.float32)}

    def items(good: int) -> Iterator[dict[str, np.ndarray]]:
        yield from [arrays] * good
        yield {"y": arrays["x"], "z": arrays["x"]}

    def data(good: int) -> Dataset:
        return open_dataset(lambda: items(good), graph_inputs(model), None)

    path = tmp_path / "c"
    saving = Checkpointing(path, 100)
    for good in (4, 6):
        with pytest.raises(DataError, match="no array for input 'x'"):
            gather(model, TENSORS, data(good), Gathering(batch=1, checkpoint=saving))
        assert Checkpoint.load(path).mark.done == good


DIFFERENT = {
    "another preprocessing": (
        lambda m: {"dataset": opened(m, mean=3.0)},
        "another preprocessing .mean 128, not 3.",
    ),
    "less data": (lambda m: {"dataset": opened(m, rows=slice(9))}, "for data of 11 samples, these have 9"),
    "other data": (
        lambda m: {"dataset": opened(m, rows=slice(None, None, -1))},
        "is of other data: arrays: its first 4 samples",
    ),
    "a shard": (lambda m: {"shard": Shard(1, 2)}, "for shard none, not 1/2"),
    "another method": (lambda m: {"decay": 0.9}, "decay none of ema, not 0.9"),
    "other tensors": (lambda m: {"tensors": ("x", "c")}, "another keep_float .tensor 'r'."),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_a_checkpoint_of_another_run_is_refused_and_stays(model: ir.Model, tmp_path: Path, what: str) -> None:
    path = tmp_path / "c"
    with pytest.raises(StoppedError):
        gone(model, path, stop=5)
    content = path.read_bytes()
    change, message = DIFFERENT[what]
    with pytest.raises(TableError, match=f"/c: .*{message}"):
        gone(model, path, **change(model))  # type: ignore[arg-type]
    assert path.read_bytes() == content


def test_a_checkpoint_of_another_cpu_type_is_refused(
    model: ir.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c"
    with pytest.raises(StoppedError):
        gone(model, path, stop=5)
    here = this_origin()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("calib8.calibration.checkpoint.this_origin", lambda: Origin("vax", here.runtime))
        with pytest.raises(TableError, match=rf"/c: was made on {here}, not on vax with ONNX Runtime"):
            gone(model, path)
    assert gone(model, path).statistics.origins == (here,)


def test_a_run_knows_its_samples_by_what_they_hold(model: ir.Model, tmp_path: Path) -> None:
    whole = gone(model, None).statistics.digests
    assert len(whole) == len(set(whole)) == len(PIXELS) and {len(digest) for digest in whole} == {16}
    backward = gone(model, None, dataset=opened(model, rows=slice(None, None, -1)), batch=4).statistics
    assert backward.digests == whole
    parts = [gone(model, None, dataset=opened(model, rows=slice(n, None, 2))).statistics for n in (0, 1)]
    assert sorted((*parts[0].digests, *parts[1].digests)) == list(whole)
    with pytest.raises(StoppedError):
        gone(model, tmp_path / "c", stop=5)
    assert set(Checkpoint.load(tmp_path / "c").statistics.digests) < set(whole)
    assert gone(model, tmp_path / "c").statistics.digests == whole
    twice = gone(model, None, dataset=opened(model, rows=[0, 0, 1])).statistics.digests
    assert len(twice) == 3 and len(set(twice)) == 2


def test_a_checkpoint_of_another_model_is_refused(model: ir.Model, tmp_path: Path) -> None:
    path = tmp_path / "c"
    gone(model, path)
    other = graph(
        "float[N,3,8,8] x", "float[N,4,8,8] r", "c = Conv(x, w) r = Relu(c)", {"w": normal(4, 3, 1, 1)}
    )
    with pytest.raises(TableError, match="/c: was made for another model"):
        gone(other, path)


def test_another_runtime_is_refused(model: ir.Model, tmp_path: Path) -> None:
    path = tmp_path / "c"
    gone(model, path)
    old = Checkpoint.load(path)
    replace(old, run=replace(old.run, runtime="0.1")).save(path)
    with pytest.raises(TableError, match=r"was made with ONNX Runtime 0\.1"):
        gone(model, path)


def test_files_that_are_no_checkpoint(model: ir.Model, whole: Statistics, tmp_path: Path) -> None:
    path = tmp_path / "c"
    gone(model, path)
    content = path.read_bytes()
    for bad in (b"", b"notes", content[:-30], content[:200], whole.to_bytes()):
        path.write_bytes(bad)
        with pytest.raises(TableError, match="/c: "):
            gone(model, path)
        assert path.read_bytes() == bad


@pytest.mark.parametrize("done", [float("inf"), float("nan"), -1, "many", None])
def test_a_checkpoint_without_a_number_of_samples(model: ir.Model, tmp_path: Path, done: object) -> None:
    path = tmp_path / "c"
    gone(model, path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(parts["checkpoint.json"])
    document["mark"]["done"] = done
    parts["checkpoint.json"] = json.dumps(document).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(TableError, match="/c: is broken"):
        gone(model, path)


def test_what_a_killed_process_left_while_it_wrote_is_removed(model: ir.Model, tmp_path: Path) -> None:
    left, other = tmp_path / ".c.abcd_123", tmp_path / ".cc.abcd_123"
    left.write_bytes(b"half")
    other.write_bytes(b"of another file")
    gone(model, tmp_path / "c")
    assert not left.exists() and other.exists()


def test_numbers_of_samples_begin_at_1() -> None:
    with pytest.raises(UsageError, match="checkpoint_every=0"):
        Checkpointing("c", 0)


def test_a_checkpoint_that_cannot_be_written_is_an_error(model: ir.Model, tmp_path: Path) -> None:
    with pytest.raises(Calib8Error, match="cannot be written"):
        gone(model, tmp_path / "missing" / "c")
