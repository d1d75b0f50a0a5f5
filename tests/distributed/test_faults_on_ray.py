"""Two nodes on this machine: any number of workers, and whatever may go wrong, end with the same bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pictured import RECIPE, drawn, network
from small_cluster import cluster_of, node_options
from until import wait_for

import calib8
from calib8.distributed import collect, listing
from calib8.distributed.choice import ClusterChoice
from calib8.distributed.passes import Passes
from calib8.distributed.store import Store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves its daemons to the operating system
    pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\..*"),  # of Ray's own use of itself
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with cluster_of(2, 2) as made:
        from ray import cloudpickle

        cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers have no folder of tests
        yield made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pictures")
    drawn(place, 120)
    return place


@pytest.fixture(scope="module")
def whole(folder: Path) -> bytes:
    """Statistics of one process."""
    return calib8.collect_statistics(network(), folder, preprocess=RECIPE).statistics.to_bytes()


@pytest.fixture(autouse=True)
def _small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "SAMPLES_PER_UNIT", 3)


def gathered(folder: Path, **words: Any) -> bytes:
    return collect(network(), folder, preprocess=RECIPE, **words).to_bytes()


@dataclass(frozen=True)
class Slowed:
    """A transform that takes its time, and notes how often each process called it."""

    notes: Path
    seconds: float
    others: float

    def __call__(self, item: Any) -> Any:
        first = self.notes / "first"
        try:
            with first.open("x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            pass
        with (self.notes / f"{os.getpid()}.calls").open("a") as file:
            file.write(".")
        time.sleep(self.seconds if first.read_text() == str(os.getpid()) else self.others)
        return item


def workers_of(cluster: Any) -> list[int]:
    """Processes of this cluster that hold the model."""
    raylets = {
        process.process.pid
        for node in (cluster.head_node, *cluster.worker_nodes)
        for process in node.all_processes["raylet"]
    }
    found = list[int]()
    for entry in Path("/proc").iterdir():
        try:
            title = (entry / "cmdline").read_bytes()
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if parent in raylets and b"unit_row" in title:
            found.append(int(entry.name))
    return found


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_any_number_of_workers(cluster: Any, folder: Path, whole: bytes, workers: int) -> None:
    assert gathered(folder, workers=workers) == whole


def test_workers_that_are_killed(cluster: Any, folder: Path, whole: bytes, tmp_path: Path) -> None:
    killed = list[int]()

    def progress(stage: str, done: int, total: int | None) -> None:
        if done >= 12 * (len(killed) + 1) and len(killed) < 5:
            victim = next((pid for pid in workers_of(cluster) if pid not in killed), None)
            if victim is not None:
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)

    slowed = Slowed(tmp_path, 0.05, 0.05)
    assert gathered(folder, workers=2, transform=slowed, progress=progress) == whole
    assert len(set(killed)) == 5


def test_a_node_that_is_removed(cluster: Any, folder: Path, whole: bytes, tmp_path: Path) -> None:
    extra = cluster.add_node(**node_options(2))
    removed = list[int]()

    def progress(stage: str, done: int, total: int | None) -> None:
        if done >= 30 and not removed:
            removed.append(done)
            cluster.remove_node(extra, allow_graceful=False)

    slowed = Slowed(tmp_path, 0.02, 0.02)
    assert gathered(folder, workers=6, transform=slowed, progress=progress) == whole
    assert removed


DRIVER = """
    import sys
    sys.path[:0] = sys.argv[4:]
    import ray
    from calib8.distributed import collect, listing
    from pictured import RECIPE, network
    listing.SAMPLES_PER_UNIT = 3
    ray.init(address=sys.argv[1], log_to_driver=False)
    collect(network(), sys.argv[2], preprocess=RECIPE, workers=1, checkpoint=sys.argv[3])
"""


def test_a_driver_that_is_killed(cluster: Any, folder: Path, whole: bytes, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    code = [sys.executable, "-c", textwrap.dedent(DRIVER), cluster.address, str(folder), str(parts)]
    driver = subprocess.Popen([*code, *sys.path])
    wait_for(lambda: len(list(parts.glob("*.part"))) >= 5 or driver.poll() is not None)
    driver.kill()
    driver.wait()
    kept = {part: part.stat().st_mtime_ns for part in parts.glob("*.part")}
    assert len(kept) >= 5
    assert gathered(folder, workers=2, checkpoint=parts) == whole
    assert {part: part.stat().st_mtime_ns for part in kept} == kept
    assert len(list(parts.glob("*.part"))) == 40


@dataclass(frozen=True)
class Unsteady(Store):
    """A store in which the first write of every part fails, and the first three reads."""

    def read(self, name: str) -> bytes | None:
        if name.endswith(".part"):
            for number in range(3):
                self._fail_once(f"read-{number}")
        return super().read(name)

    def write(self, name: str, content: bytes) -> None:
        if name.endswith(".part"):
            self._fail_once(f"written-{name}")
        super().write(name, content)

    def _fail_once(self, what: str) -> None:
        notes = Path(self.address).parent / "failures"
        notes.mkdir(exist_ok=True)
        try:
            (notes / what).touch(exist_ok=False)
        except FileExistsError:
            return
        raise ConnectionError(f"{what} failed this time")


def test_a_store_that_fails_now_and_then(
    cluster: Any, folder: Path, whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClusterChoice, "store", property(lambda choice: Unsteady(str(choice.checkpoint))))
    assert gathered(folder, workers=2, checkpoint=tmp_path / "parts") == whole
    failures = [file.name.partition("-")[0] for file in (tmp_path / "failures").iterdir()]
    assert (failures.count("written"), failures.count("read")) == (40, 3)


def test_a_unit_that_is_delivered_twice(
    cluster: Any, folder: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, passes = Passes.over_units, list[int]()

    def twice(self: Passes, units: Any) -> Any:
        passes.append(len(units))
        return over(self, [*units, *units[::2]] if len(passes) == 1 else units)

    monkeypatch.setattr(Passes, "over_units", twice)
    assert gathered(folder, workers=2) == whole
    assert passes[0] == 40


def test_a_slow_worker_does_less(cluster: Any, folder: Path, whole: bytes, tmp_path: Path) -> None:
    assert gathered(folder, workers=2, transform=Slowed(tmp_path, 0.3, 0.03)) == whole
    calls = {file.stem: len(file.read_text()) for file in tmp_path.glob("*.calls")}
    slow = calls[(tmp_path / "first").read_text()]
    assert sum(calls.values()) >= 120 and 0 < slow < 60
