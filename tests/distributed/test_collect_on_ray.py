"""``collect`` on a small cluster: the bytes of one process, parts that are kept, plain errors."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import onnx
import pytest
from pictured import RECIPE, drawn, network
from typer.testing import CliRunner
from until import wait_for

import calib8
from calib8.cli import app
from calib8.distributed import OnRay, collect, listing, spread
from calib8.distributed.cluster import fault_of_rows
from calib8.distributed.jobs import Joined
from calib8.distributed.run import Run, plain_errors
from calib8.distributed.watch import Told
from calib8.distributed.workers import Worker, WorkerFaultError
from calib8.errors import DataError, TableError, UsageError
from small_nets import squeeze_excite

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves its daemons to the operating system
    pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\..*"),  # of Ray's own use of itself
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return drawn(tmp_path_factory.mktemp("pictures"), 41)


@pytest.fixture(scope="module")
def whole(files: list[Path]) -> bytes:
    """Statistics of one process."""
    found = calib8.collect_statistics(network(), files[0].parent, preprocess=RECIPE)
    return found.statistics.to_bytes()


@pytest.fixture(autouse=True)
def _small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "SAMPLES_PER_UNIT", 2)


def test_workers_give_the_bytes_of_one_process(
    ray: Any, files: list[Path], whole: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    told = list[tuple[str, int, int | None]]()
    found = collect(
        network(), files[0].parent, preprocess=RECIPE, workers=2, progress=lambda *one: told.append(one)
    )
    assert found.to_bytes() == whole
    assert {(stage, total) for stage, _, total in told} == {("calibrating", 41)}
    assert [done for _, done, _ in told] == sorted({done for _, done, _ in told})
    assert "core_worker" not in capfd.readouterr().err, "Ray has nothing to warn of"


@pytest.mark.slow  # test_parts and test_store have parts without Ray
def test_parts_are_taken_from_the_checkpoint(
    ray: Any, files: list[Path], whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"preprocess": RECIPE, "workers": 1, "checkpoint": tmp_path / "parts"}
    model = network()
    assert collect(model, files[0].parent, **given).to_bytes() == whole
    parts = sorted((tmp_path / "parts").glob("*.part"))
    assert len(parts) == 21
    for part in parts[:4]:
        part.unlink()
    kept = {part: part.stat().st_mtime_ns for part in parts[4:]}
    assert collect(model, files[0].parent, **given).to_bytes() == whole
    assert {part: part.stat().st_mtime_ns for part in parts[4:]} == kept
    assert all(part.exists() for part in parts)
    with pytest.raises(TableError, match="holds parts of another model"):
        collect(squeeze_excite(), np_file(tmp_path), checkpoint=tmp_path / "parts")
    with pytest.raises(TableError, match="holds parts of other data"):
        collect(model, files[0].parent, samples=5, **given)
    content = parts[5].read_bytes()
    parts[5].write_bytes(parts[6].read_bytes())
    with pytest.raises(TableError, match=rf"{parts[5].name}: is the part of another piece"):
        collect(model, files[0].parent, **given)
    parts[5].write_bytes(content[:-9])
    with pytest.raises(TableError, match=rf"{parts[5].name}: is not a part of a run"):
        collect(model, files[0].parent, **given)
    parts[5].write_bytes(b"cut")
    with pytest.raises(TableError, match=rf"{parts[5].name}: is not a part of a run"):
        collect(model, files[0].parent, **given)


def np_file(folder: Path) -> Path:
    np.save(folder / "rows.npy", np.ones((3, 4, 8, 8), np.float32))
    return folder / "rows.npy"


@pytest.mark.slow
def test_many_rows_are_joined_by_workers(
    ray: Any, files: list[Path], whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "FEW_ROWS", 4)
    monkeypatch.setattr(spread, "ROWS_PER_TASK", 3)
    take, taken = Joined.take, list[int]()

    def noted(self: Joined[Any], keys: str, content: bytes) -> None:
        taken.append(len(keys.split()))
        take(self, keys, content)

    monkeypatch.setattr(Joined, "take", noted)
    assert collect(network(), files[0].parent, preprocess=RECIPE, workers=2).to_bytes() == whole
    assert sorted(taken) == [3, 9, 9], "of 21 units"


@pytest.mark.slow
def test_labels_choose_machines(ray: Any, files: list[Path], whole: bytes) -> None:
    given: dict[str, Any] = {"preprocess": RECIPE, "workers": 1}
    here = {"ray.io/node-id": ray.nodes()[0]["NodeID"]}
    assert collect(network(), files[0].parent, node_labels=here, **given).to_bytes() == whole
    with pytest.raises(UsageError, match=r"^node_labels: cpu=other is on no machine of the cluster"):
        collect(network(), files[0].parent, node_labels={"cpu": "other"}, **given)
    with pytest.raises(UsageError, match=r"^node_labels: are refused by Ray"):
        collect(network(), files[0].parent, node_labels={"-cpu-": "other"}, **given)


def test_a_bad_picture_ends_the_run_or_is_counted(
    ray: Any, files: list[Path], whole: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "pictures"
    shutil.copytree(files[0].parent, folder)
    (folder / "broken.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"^.*broken\.png: cannot be decoded as an image") as raised:
        collect(network(), folder, preprocess=RECIPE, workers=1)
    assert type(raised.value) is DataError
    assert "Traceback" not in capfd.readouterr().err
    assert collect(network(), folder, preprocess=RECIPE, workers=1, skip_bad=True).to_bytes() == whole


@pytest.mark.slow
def test_ray_shows_nothing_of_its_own_where_pieces_fail(
    ray: Any, files: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It would write a stack for every failure that nobody fetched."""
    folder = tmp_path / "pictures"
    shutil.copytree(files[0].parent, folder)
    for number in range(40, 60):
        (folder / f"{number:04}.png").write_bytes(b"no picture")
    logging.getLogger("ray").addHandler(caplog.handler)  # it hands nothing on to other loggers
    try:
        with pytest.raises(DataError, match="cannot be decoded as an image"):
            collect(network(), folder, preprocess=RECIPE)
    finally:
        logging.getLogger("ray").removeHandler(caplog.handler)
    shown = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert not shown, caplog.text
    assert "RAY_IGNORE_UNHANDLED_ERRORS" not in os.environ


def test_a_dataset_of_ray(ray: Any, tmp_path: Path) -> None:
    rows = np.random.default_rng(1).normal(0, 1, (20, 4, 8, 8)).astype(np.float32)
    model = squeeze_excite()
    expected = calib8.collect_statistics(model, [{"x": row[None]} for row in rows]).statistics
    dataset = ray.data.from_numpy(rows)
    found = collect(model, dataset, column="data", workers=1)
    assert found.to_bytes() == expected.to_bytes()
    with pytest.raises(DataError, match=r"has no column 'jpg', it has data"):
        collect(model, dataset, column="jpg", workers=1)


@pytest.mark.slow
def test_a_dataset_whose_own_function_fails(ray: Any) -> None:
    """What the user wrote is told as the user's, here and on the workers, and not as a bug of calib8."""

    def wrong(row: Any) -> Any:
        return row["seven"]

    rows = ray.data.from_items([{"x": np.zeros((4, 8, 8), np.float32)}] * 4).map(wrong)
    said = r"^dataset: could not make its rows \(KeyError: seven\)\. Mend the functions"
    with pytest.raises(DataError, match=said):
        collect(squeeze_excite(), rows, workers=1)
    with pytest.raises(DataError, match=said):
        calib8.quantize(squeeze_excite(), OnRay(rows, workers=1))


def test_a_fault_of_calib8_is_told_as_one(ray: Any) -> None:
    worker = object.__new__(Worker)
    worker.watch = cast(Told, SimpleNamespace(begin=lambda key, name: 1))
    with pytest.raises(WorkerFaultError, match=r"^KeyError: 'lost'$") as raised, worker.told("key", "piece"):
        raise KeyError("lost")
    kind = ray.exceptions.RayTaskError
    assert fault_of_rows(kind("f", "stack", raised.value)) is None
    assert fault_of_rows(kind("f", "stack", OSError("lost"))) is None
    assert isinstance(fault_of_rows(kind("f", "stack", KeyError("lost"))), KeyError)


@pytest.mark.slow
def test_parts_are_of_one_transform_and_one_input_map(ray: Any, files: list[Path], tmp_path: Path) -> None:
    """Blocks of a dataset are known by their rows, and units by where they lie."""
    rows = np.random.default_rng(1).normal(0, 1, (20, 2, 4, 8, 8)).astype(np.float32)
    dataset = ray.data.from_items([{"a": row[0], "b": row[1]} for row in rows], override_num_blocks=2)
    given: dict[str, Any] = {"workers": 1, "checkpoint": tmp_path / "parts"}
    collect(squeeze_excite(), dataset, input_map={"x": "a"}, **given)
    with pytest.raises(TableError, match="holds parts with another input_map"):
        collect(squeeze_excite(), dataset, input_map={"x": "b"}, **given)
    given["checkpoint"] = tmp_path / "more"
    first = collect(squeeze_excite(), dataset, transform=lambda row: {"x": row["a"]}, **given)
    again = collect(squeeze_excite(), dataset, transform=lambda row: {"x": row["a"]}, **given)
    assert again.to_bytes() == first.to_bytes()
    with pytest.raises(TableError, match="holds parts with another transform"):
        collect(squeeze_excite(), dataset, transform=lambda row: {"x": row["b"]}, **given)


@pytest.mark.slow
def test_parts_of_a_dataset_are_of_one_preprocessing(ray: Any, files: list[Path], tmp_path: Path) -> None:
    dataset = ray.data.from_items([{"jpg": file.read_bytes()} for file in files[:4]], override_num_blocks=1)
    given: dict[str, Any] = {"workers": 1, "checkpoint": tmp_path / "parts"}
    collect(network(), dataset, preprocess=RECIPE, **given)
    with pytest.raises(TableError, match=r"holds parts with another preprocessing \(mean "):
        collect(network(), dataset, preprocess=replace(RECIPE, mean=(100.0,)), **given)


def test_more_threads_than_any_machine_has(ray: Any, files: list[Path]) -> None:
    """The workers would be waited for in vain."""
    with pytest.raises(UsageError, match="has no room for a worker of 3 threads"):
        collect(network(), files[0].parent, preprocess=RECIPE, threads=3, workers=2)


@pytest.mark.slow
def test_a_run_that_is_stopped_in_a_long_piece_ends(
    ray: Any, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread does not go on calling Ray, and its piece does not go on taking a processor."""
    monkeypatch.setattr(listing, "SAMPLES_PER_UNIT", 41)

    def slow(item: Any) -> Any:
        (tmp_path / str(time.monotonic_ns())).touch()
        time.sleep(2)
        return item

    def stop(_: Run[Any]) -> None:
        if list(tmp_path.iterdir()):
            raise KeyboardInterrupt

    monkeypatch.setattr(Run, "_look", stop)
    with pytest.raises(KeyboardInterrupt):
        collect(network(), files[0].parent, preprocess=RECIPE, workers=1, transform=slow)
    assert "calib8-cluster" not in {thread.name for thread in threading.enumerate()}
    wait_for(lambda: ray.available_resources().get("CPU") == 2)
    assert len(list(tmp_path.iterdir())) < 41


def test_workers_without_the_package_are_told(ray: Any) -> None:
    def lacking() -> None:
        raise ModuleNotFoundError("No module named 'calib8.distributed'", name="calib8.distributed")

    told = r"^cluster: its workers lack the package calib8\. .*runtime_env=\{'pip"
    with pytest.raises(UsageError, match=told), plain_errors():
        ray.get(ray.remote(lacking).remote())


def test_what_the_caller_handles_meanwhile_is_left_as_it_is() -> None:
    def failing() -> None:
        held = "its variables"
        raise ValueError(held)

    def ending() -> None:
        raise UsageError("cluster", "is gone", "Start it")

    with pytest.raises(ValueError) as before:
        failing()
    frame = before.traceback[-1].frame.raw
    try:
        raise before.value
    except ValueError:
        with pytest.raises(UsageError), plain_errors():
            ending()
    assert frame.f_locals == {"held": "its variables"}


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [False, True])
def test_an_error_that_is_kept_keeps_no_worker(ray: Any, stopped: bool) -> None:
    """As in a notebook: the next run would wait for the processor of that worker for ever."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    rows = np.random.default_rng(1).normal(0, 1, (20, 4, 8, 8)).astype(np.float32)
    dataset = ray.data.from_numpy(rows)
    gc.disable()
    try:
        with pytest.raises(KeyboardInterrupt if stopped else DataError) as kept:
            collect(
                squeeze_excite(), dataset, column="data" if stopped else "jpg", workers=1,
                progress=stop if stopped else None,
            )  # fmt: skip
        wait_for(lambda: ray.available_resources().get("CPU") == 2)
    finally:
        gc.enable()
    assert kept.value.__traceback__ is not None


@pytest.mark.slow
def test_a_dataset_that_is_made_on_the_way(ray: Any) -> None:
    """What makes its rows needs a processor, of which workers would take all."""

    def made(batch: dict[str, Any]) -> dict[str, Any]:
        return {"x": batch["id"].astype(np.float32).reshape(-1, 1, 1, 1) + np.zeros((12, 12), np.float32)}

    dataset = ray.data.range(600, override_num_blocks=60).map_batches(made)
    rows = made({"id": np.arange(600)})["x"]
    expected = calib8.collect_statistics(network(), [{"x": row[None]} for row in rows]).statistics
    assert collect(network(), dataset, column="x", workers=2).to_bytes() == expected.to_bytes()
    with pytest.raises(UsageError, match="has 2 processors, all of which a worker takes"):
        collect(network(), dataset, column="x", threads=2)


@pytest.mark.slow
def test_encoded_pictures_of_a_dataset(ray: Any, files: list[Path], whole: bytes, tmp_path: Path) -> None:
    dataset = ray.data.from_items([{"image": file.read_bytes()} for file in files], override_num_blocks=3)
    given: dict[str, Any] = {"column": "image", "preprocess": RECIPE, "workers": 1}
    assert collect(network(), dataset, **given).to_bytes() == whole
    for _ in range(2):
        assert collect(network(), dataset, **given, checkpoint=tmp_path / "parts").to_bytes() == whole
    assert list((tmp_path / "parts").glob("*.part"))


def test_what_is_no_dataset(ray: Any) -> None:
    with pytest.raises(UsageError, match=r"a list is no dataset of Ray"):
        collect(network(), [1, 2], preprocess=RECIPE)
    with pytest.raises(UsageError, match=r"workers=0: must be at least 1"):
        collect(network(), "folder", preprocess=RECIPE, workers=0)


def test_the_command_writes_the_table_of_one_process(ray: Any, files: list[Path], tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "net.onnx")
    common = ["calibrate", tmp_path / "net.onnx", "--data", files[0].parent, "--mean", "120", "--scale",
              "0.02", "--color", "gray", "--method", "mse", "--quiet"]  # fmt: skip
    for name, words in (("plain", []), ("ray", ["--ray", "auto", "--workers", "1"])):
        outputs = ["-o", tmp_path / f"{name}.json", "--stats", tmp_path / f"{name}.npz"]
        result = CliRunner().invoke(app, [str(word) for word in (*common, *words, *outputs)])
        assert result.exit_code == 0, result.output
    for suffix in ("json", "npz"):
        made = [(tmp_path / f"{name}.{suffix}").read_bytes() for name in ("plain", "ray")]
        assert made[0] == made[1]
