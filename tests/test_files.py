"""What is no file is refused; ``atomic_output`` leaves the old file or the complete new one, nothing else."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from calib8.errors import ModelError, OutputError, UsageError
from calib8.files import (
    OTHER_FILES,
    atomic_output,
    check_model_file,
    check_written_model,
    checked_path,
    output_file,
    remove_leftovers,
)


@pytest.mark.parametrize("value", [5, None, b"bytes", ["list"]])
def test_what_is_no_path_is_told(value: object) -> None:
    with pytest.raises(UsageError, match=f"table: is of type {type(value).__name__}, not a path"):
        checked_path(value, "table")
    assert checked_path("a/b", "table") == checked_path(Path("a/b"), "table") == Path("a/b")


@pytest.mark.parametrize(
    "name", ["model_v1.0", "model.int8", "net.2026-01", "a.onnx", "B.TFLITE", ".hidden.v2"]
)
def test_names_that_a_model_may_have(name: str) -> None:
    check_written_model(name)
    check_written_model(Path("folder") / name, f"--output {name}")


@pytest.mark.parametrize("name", ["model", ".hidden", "folder.v2/model"])
def test_names_of_models_without_a_suffix(name: str) -> None:
    with pytest.raises(UsageError, match=rf"-o {name}: has no suffix; .*Add \.onnx: {Path(name).name}\.onnx"):
        check_written_model(name, f"-o {name}")


@pytest.mark.parametrize("suffix", [*sorted(OTHER_FILES), ".PT", ".Engine"])
def test_names_of_other_kinds_of_files(suffix: str) -> None:
    with pytest.raises(UsageError, match=r"-o model.*: is the name of another kind of file.*model\.onnx"):
        check_written_model(f"model{suffix}", f"-o model{suffix}")


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
        (tmp_path / "pipe", "is a pipe, no file"),
        ("/dev/null", "is a device, no file"),
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


def test_a_link_stays_and_the_file_behind_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "file").write_text("old")
    (tmp_path / "middle").symlink_to("far/file")
    (tmp_path / "link").symlink_to("middle")
    with atomic_output(tmp_path / "link") as temporary:
        assert temporary.parent == tmp_path / "far"  # beside the file, so that renaming never copies
        temporary.write_text("new")
    assert (tmp_path / "far" / "file").read_text() == "new"
    assert (tmp_path / "link").readlink() == Path("middle")
    assert (tmp_path / "middle").readlink() == Path("far/file")
    assert listing(tmp_path / "far") == ["file"]


def test_a_link_to_what_is_not_there_yet_makes_it_where_its_folder_is(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("new")
    with atomic_output(tmp_path / "link") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "new").read_text() == "new" and (tmp_path / "link").is_symlink()
    (tmp_path / "lost").symlink_to("nowhere/new")
    with pytest.raises(OutputError, match=r"is a link to '.*nowhere/new', whose folder does not exist"):
        output_file(tmp_path / "lost")
    (tmp_path / "round").symlink_to("about")
    (tmp_path / "about").symlink_to("round")
    with pytest.raises(OutputError, match="Too many levels of symbolic links"):
        output_file(tmp_path / "round")
    assert (tmp_path / "lost").is_symlink() and (tmp_path / "round").is_symlink()


@pytest.mark.parametrize("linked", [False, True])
def test_nothing_but_files_is_written_to(tmp_path: Path, linked: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "device").symlink_to("/dev/null")  # a link in any case: never the system's own
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(tmp_path / "socket"))
        for kind in ("pipe", "folder", "device", "socket"):
            path = tmp_path / kind
            if linked:
                path = tmp_path / f"to_{kind}"
                path.symlink_to(kind)
            with pytest.raises(OutputError, match=f"is a {kind}, no file"), atomic_output(path):
                pytest.fail("there is nothing to write to")
            assert path.is_symlink() == (linked or kind == "device")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert (tmp_path / "device").readlink() == Path("/dev/null")


@pytest.mark.parametrize("descriptor", [1, 2])
def test_what_a_process_prints_to_is_no_place_for_results(tmp_path: Path, descriptor: int) -> None:
    """A redirected ``-o /dev/stdout``; the link is a private one."""
    (tmp_path / "link").symlink_to(f"/proc/self/fd/{descriptor}")
    code = (
        "import sys\nfrom calib8.errors import OutputError\nfrom calib8.files import output_file\n"
        "try: output_file(sys.argv[1])\nexcept OutputError as error: print(error)\n"
        "else: print('taken')"
    )
    with (tmp_path / "redirected").open("w") as redirected:
        streams = (redirected, subprocess.PIPE) if descriptor == 1 else (subprocess.PIPE, redirected)
        command = [sys.executable, "-c", code, os.fspath(tmp_path / "link")]
        done = subprocess.run(command, stdout=streams[0], stderr=streams[1], text=True, check=True)
    told = (tmp_path / "redirected").read_text() if descriptor == 1 else done.stdout
    assert "is where the messages of this command go" in told
    assert (tmp_path / "link").is_symlink()


def test_an_open_file_without_a_name_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "gone").open("w") as file:
        (tmp_path / "gone").unlink()
        (tmp_path / "link").symlink_to(f"/proc/self/fd/{file.fileno()}")
        with pytest.raises(OutputError, match="is an open file without a name"):
            output_file(tmp_path / "link")
    assert listing(tmp_path) == ["link"]


@pytest.mark.parametrize("then", ["replaced", "removed"])
def test_a_file_may_be_replaced_or_removed_while_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """By another process that writes the same file, or has no more need of its checkpoint."""
    target, other = tmp_path / "out.bin", tmp_path / "other"
    target.write_text("old")
    if then == "replaced":
        other.write_text("of another process")
    realpath = os.path.realpath

    def meanwhile(path: str) -> str:
        if other.exists():
            other.replace(target)
        elif then == "removed":
            target.unlink(missing_ok=True)
        return realpath(path)

    monkeypatch.setattr(os.path, "realpath", meanwhile)
    assert output_file(target) == target
    assert target.exists() == (then == "replaced")


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o755])
def test_a_file_that_exists_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    target = tmp_path / "out.bin"
    target.write_text("old")
    target.chmod(mode)
    with atomic_output(target) as temporary:
        temporary.write_text("new")
    assert stat.S_IMODE(target.stat().st_mode) == mode and target.read_text() == "new"


def test_leftovers_lie_beside_the_file_that_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to("far/file")
    (tmp_path / "far" / ".file.abcdefgh").write_text("half")
    remove_leftovers(tmp_path / "link")
    assert listing(tmp_path / "far") == []
    os.mkfifo(tmp_path / "pipe")
    remove_leftovers(tmp_path / "pipe")
    assert (tmp_path / "pipe").exists()


def test_a_file_that_is_being_written_is_no_leftover(tmp_path: Path) -> None:
    (tmp_path / ".out.abcdefgh").write_bytes(b"of a run that was killed")
    with atomic_output(tmp_path / "out") as temporary:
        remove_leftovers(tmp_path / "out")
        assert {path.name for path in tmp_path.iterdir()} == {temporary.name}
        temporary.write_bytes(b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
