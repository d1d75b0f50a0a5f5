"""The folder of kept plans: whose it is, what it may hold, and what happens where it cannot be used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from kept_models import folder as folder
from kept_models import names, result
from kept_models import path as path
from session_models import float_between

from calib8 import InferenceSession, UsageError
from calib8.session.cache_folder import cache_folder, make_room, most_bytes


def test_processes_may_open_a_new_model_at_once(folder: Path, path: Path) -> None:
    code = (
        "import sys, numpy, calib8\n"
        "feeds = {'x': numpy.ones((1, 3, 6, 6), numpy.float32)}\n"
        "print(calib8.InferenceSession(sys.argv[1]).run(None, feeds)[0].tobytes().hex())\n"
    )
    command = [sys.executable, "-c", code, str(path)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    results = {process.communicate()[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(results) == 1
    assert len(names(folder, "*.c8")) == 1
    assert len(names(folder, ".*")) == 0, "nothing half done is left"


def test_the_oldest_files_make_room_and_others_stay(tmp_path: Path) -> None:
    key = "0123456789abcdef" * 4
    own = [f"{key}.json", f"{key}-{key[:16]}.c8", f".{key}.json.ab_12xyz", f"{key[::-1]}.json"]
    others = ["photo.raw", f"{key}.txt", f"{key[:-1]}.json", f"{key}-{key[:15]}.c8"]
    for age, name in enumerate((*others, *own[::-1])):
        (tmp_path / name).write_bytes(bytes(100))
        os.utime(tmp_path / name, (2000 - age, 2000 - age))
    make_room(str(tmp_path), 250)
    assert names(tmp_path) == sorted((*others, *own[2:]))
    make_room(str(tmp_path), 0)
    assert names(tmp_path) == sorted(others)


def test_the_bound_holds_and_what_is_used_stays(
    folder: Path, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result(InferenceSession(path))
    used = set(names(folder))
    [plan] = folder.glob("*.c8")
    onnx.save(float_between(), tmp_path / "float.onnx")
    result(InferenceSession(tmp_path / "float.onnx"))
    for file in folder.iterdir():
        os.utime(file, (1000, 1000))
    result(InferenceSession(path))
    bound = sum(file.stat().st_size for file in folder.iterdir()) + plan.stat().st_size - 1000
    monkeypatch.setattr("calib8.session.kept_plans.most_bytes", lambda: bound)
    before = names(folder)
    result(InferenceSession(path), 2)
    left = set(names(folder))
    assert used <= left
    assert len(left - used) == 2, f"one of {before} and the plan for two images"
    assert sum(file.stat().st_size for file in folder.iterdir()) <= bound


def test_a_plan_beyond_the_bound_is_not_written(
    folder: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calib8.session.kept_plans.most_bytes", lambda: 100)
    result(InferenceSession(path))
    assert names(folder) == []


def test_a_bound_that_was_lowered_holds_as_soon_as_something_is_opened(
    folder: Path, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result(InferenceSession(path))
    used = sorted(names(folder))
    onnx.save(float_between(), tmp_path / "float.onnx")
    result(InferenceSession(tmp_path / "float.onnx"))
    for file in folder.iterdir():
        os.utime(file, (1000, 1000))
    bound = sum((folder / name).stat().st_size for name in used)
    monkeypatch.setattr("calib8.session.kept_plans.most_bytes", lambda: bound)
    InferenceSession(path).get_inputs()
    assert sum(file.stat().st_size for file in folder.iterdir()) <= bound
    assert {name for name in used if name.endswith(".json")} <= set(names(folder))


def test_with_a_bound_of_nothing_no_plan_is_used(
    folder: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result(InferenceSession(path))
    [plan] = folder.glob("*.c8")
    plan.write_bytes(b"no plan")
    monkeypatch.setenv("CALIB8_CACHE_MB", "0")
    result(InferenceSession(path))
    assert plan.read_bytes() == b"no plan"


@pytest.mark.parametrize("text", ["", "many", "-1", "1.5", "²"])
def test_a_bound_that_is_no_number_is_refused(
    folder: Path, path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALIB8_CACHE_MB", text)
    with pytest.raises(UsageError, match="is not a number of megabytes"):
        InferenceSession(path)


@pytest.mark.parametrize("text", ["off", "OFF", " off", "no", "False", "none", "0", ""])
def test_it_can_be_switched_off(
    path: Path, text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CALIB8_CACHE", text)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result(InferenceSession(path))
    assert names(tmp_path) == ["net.onnx"]


def test_a_folder_that_cannot_be_made_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("CALIB8_CACHE", str(tmp_path / "file" / "kept"))
    wanted = result(InferenceSession(path))
    np.testing.assert_array_equal(result(InferenceSession(path)), wanted)


def test_a_folder_that_cannot_be_written_changes_nothing(
    folder: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir()

    def refused(*arguments: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("calib8.files._held_temporary", refused)
    result(InferenceSession(path))
    assert names(folder) == []


def test_a_disk_that_is_full_changes_nothing(folder: Path, path: Path) -> None:
    code = (
        "import resource, sys, numpy, calib8\n"
        "calib8.InferenceSession(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n"  # a write beyond fails half-way
        "feeds = {'x': numpy.ones((1, 3, 6, 6), numpy.float32)}\n"
        "print(calib8.InferenceSession(sys.argv[1]).run(None, feeds)[0].tobytes().hex())\n"
    )
    command = [sys.executable, "-c", code, str(path)]
    done = [subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True) for _ in range(2)]
    assert names(folder, "*.c8") == names(folder, ".*") == []
    [expected] = InferenceSession(path).run(None, {"x": np.ones((1, 3, 6, 6), np.float32)})
    assert [process.stdout for process in done] == [f"{np.asarray(expected).tobytes().hex()}\n"] * 2
    assert len(names(folder, "*.c8")) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="where caches lie is a rule of the system")
def test_the_folder_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == str(tmp_path / "calib8")
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path / "new")}) == str(tmp_path / "new" / "calib8")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder({}) == cache_folder({"XDG_CACHE_HOME": "not/absolute"})
    assert cache_folder({}) == str(tmp_path / ".cache" / "calib8")
    assert cache_folder({"CALIB8_CACHE": str(tmp_path)}) == str(tmp_path)
    assert cache_folder({"CALIB8_CACHE": "~/plans"}) == str(tmp_path / "plans")
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    assert cache_folder({}) is None
    assert cache_folder({"CALIB8_CACHE": str(tmp_path)}) == str(tmp_path), "who names it means it"


def test_the_bound_is_in_megabytes() -> None:
    assert most_bytes({}) == 1_000_000_000
    assert most_bytes({"CALIB8_CACHE_MB": "7"}) == 7_000_000
