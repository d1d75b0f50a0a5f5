"""What is no file is refused; ``atomic_output`` leaves the old file or the complete new one, nothing else."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from calib8.errors import ModelError, OutputError, UsageError
from calib8.files import atomic_output, check_model_file, checked_path


@pytest.mark.parametrize("value", [5, None, b"bytes", ["list"]])
def test_what_is_no_path_is_told(value: object) -> None:
    with pytest.raises(UsageError, match=f"table: is of type {type(value).__name__}, no path"):
        checked_path(value, "table")
    assert checked_path("a/b", "table") == checked_path(Path("a/b"), "table") == Path("a/b")


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_appears_under_its_name_only(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    with atomic_output(target) as temporary:
        temporary.write_bytes(b"new")
        assert not target.exists()
        assert temporary.parent == tmp_path
    assert target.read_bytes() == b"new"
    assert listing(tmp_path) == ["out.bin"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_an_error_inside_the_block_keeps_the_old_file(tmp_path: Path, error: BaseException) -> None:
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")
    with pytest.raises(type(error)), atomic_output(target) as temporary:
        temporary.write_bytes(b"half of the n")
        raise error
    assert target.read_bytes() == b"old"
    assert listing(tmp_path) == ["out.bin"]


def test_a_full_disk_is_an_output_error_and_keeps_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")
    with pytest.raises(OutputError, match="No space left"), atomic_output(target):
        raise OSError(28, "No space left on device")
    assert target.read_bytes() == b"old"
    assert listing(tmp_path) == ["out.bin"]


def test_a_missing_folder_is_an_output_error(tmp_path: Path) -> None:
    target = tmp_path / "missing" / "out.bin"
    with pytest.raises(OutputError) as caught, atomic_output(target):
        pass
    assert caught.value.subject == str(target)
    assert not target.parent.exists()


def test_a_folder_in_the_way_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(OutputError), atomic_output(tmp_path / "out") as temporary:
        temporary.write_bytes(b"new")
    assert listing(tmp_path) == ["out"]


def test_a_relative_name_goes_to_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with atomic_output("out.bin") as temporary:
        temporary.write_bytes(b"new")
    assert listing(tmp_path) == ["out.bin"]


def test_the_file_has_the_usual_permissions(tmp_path: Path) -> None:
    previous = os.umask(0o027)
    try:
        with atomic_output(tmp_path / "out.bin"):
            pass
    finally:
        assert os.umask(previous) == 0o027
    assert stat.S_IMODE((tmp_path / "out.bin").stat().st_mode) == 0o640


@pytest.mark.parametrize("target", [None, 3, b"bytes", "zero\0byte"])
def test_what_is_no_path_is_an_output_error(target: object) -> None:
    with pytest.raises(OutputError), atomic_output(target):  # type: ignore[arg-type]
        pytest.fail("there is nothing to write to")


def test_only_a_regular_file_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for name in ("file", "link"):
        check_model_file(tmp_path / name, "Give a file")
    for path, problem in (
        (tmp_path, "is a folder"),
        (tmp_path / "pipe", "is a device or pipe, no file"),
        ("/dev/null", "is a device or pipe, no file"),
        (tmp_path / "none", "no such file"),
        ("zero\0byte", "no such file"),
    ):
        with pytest.raises(ModelError, match=problem + r"\. Give a file\."):
            check_model_file(path, "Give a file")


def test_who_reads_the_old_file_sees_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("the old content")
    with path.open() as reader:
        with atomic_output(path) as temporary:
            temporary.write_text("new")
        assert reader.read() == "the old content" and path.read_text() == "new"
