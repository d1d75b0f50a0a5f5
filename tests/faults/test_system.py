"""What the system refuses: files, memory, space, folders; odd names; sources replaced while they are read."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from attacks import Field, into_read_only, two_at_once
from faulty import CASES, Faults, emptied, leftovers, limited, make_given, one_error, run, whole
from tiny_models import cnn

from calib8.demo import MODEL_PATH
from slow_cases import slow_but

CALIB8 = [sys.executable, "-m", "calib8"]
WORDS = [pytest.param(["doctor"], marks=pytest.mark.slow), ["inspect", str(MODEL_PATH)]]
"""Commands that write to standard output."""


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Field:
    """Folders to read from and to write to, for anybody."""
    root = tmp_path_factory.mktemp("field").resolve()
    given, out = root / "given", root / "out"
    for folder in (given, out):
        folder.mkdir()
    make_given(given)
    return Field(given, out, Faults(root / "none", root / "none"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["compile", "stats merge"])
@pytest.mark.parametrize("files", [5, 6, 7, 9])
def test_few_open_files(field: Field, name: str, files: int) -> None:
    emptied(field.out)
    done = run(CASES[name].command(field.given, field.out), before=limited(resource.RLIMIT_NOFILE, files))
    assert done.returncode == 0 or "too many files are open" in done.stderr, done.stderr
    assert "unexpected" not in done.stderr and "Traceback" not in done.stderr


def test_little_memory(field: Field) -> None:
    """Below what the libraries need and above; whatever is said, it is one line and no bug."""
    emptied(field.out)
    command = CASES["compile"].command(field.given, field.out)
    done = run(command, before=limited(resource.RLIMIT_AS, 200 << 20))
    assert done.returncode != 0 and "unexpected" not in done.stderr and "Traceback" not in done.stderr
    assert list(field.out.iterdir()) == []


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CASES)
def test_files_may_not_grow(field: Field, name: str) -> None:
    emptied(field.out)
    done = run(CASES[name].command(field.given, field.out), before=limited(resource.RLIMIT_FSIZE, 64))
    assert "cannot be written (File too large)" in one_error(done)
    assert leftovers(field.out) == []


@pytest.mark.parametrize("name", CASES)
def test_a_read_only_folder(field: Field, name: str) -> None:
    emptied(field.out)
    assert "Permission denied" in into_read_only(field, CASES[name])


@pytest.mark.parametrize("name", slow_but(["compile"], ["compile", "calibrate", "quantize"]))
def test_two_processes_write_the_same_files(field: Field, name: str) -> None:
    emptied(field.out)
    assert two_at_once(field, CASES[name], whole(CASES[name], field.given, field.out)) == 2


@pytest.mark.slow  # tests/tuning/test_tune.py has it in one process
def test_two_searches_in_one_folder(field: Field) -> None:
    emptied(field.out)
    wanted = whole(CASES["tune"], field.given, field.out)
    assert two_at_once(field, CASES["tune"], wanted, "another run is searching in it") >= 1


def test_the_longest_name_that_a_file_can_have(field: Field) -> None:
    emptied(field.out)
    name = "n" * 252 + ".c8"
    done = run([*CALIB8, "compile", str(field.given / "q.onnx"), "-o", str(field.out / name)])
    assert done.returncode == 0, done.stderr
    assert [path.name for path in field.out.iterdir()] == [name]
    done = run([*CALIB8, "compile", str(field.given / "q.onnx"), "-o", str(field.out / f"n{name}")])
    assert "File name too long" in one_error(done)


@pytest.mark.parametrize("locale", slow_but(["C"], ["C", "C.UTF-8"]))
def test_names_beyond_ascii(field: Field, locale: str) -> None:
    """In a locale that does not know them too: a path is bytes, and libraries take those as UTF-8."""
    emptied(field.out)
    more = {"LC_ALL": locale, "LANG": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    folder = field.out / "café 日本"
    folder.mkdir()
    for name in ("net.onnx", "data.npz"):
        (folder / name).write_bytes((field.given / name).read_bytes())
    done = run([*CALIB8, *_quantize(folder, folder / "q.onnx")], more)
    assert done.returncode == 0, done.stderr
    assert (folder / "q.onnx").exists() and leftovers(field.out) == []


def test_names_that_are_no_text(field: Field) -> None:
    """Results and data may have any bytes for a name; a model that libraries cannot open says so."""
    emptied(field.out)
    folder = Path(os.fsdecode(os.fsencode(field.out) + b"/caf\xe9\xff"))
    folder.mkdir()
    (folder / "p.c8").write_bytes(b"old")
    done = run([*CALIB8, "compile", str(field.given / "q.onnx"), "-o", str(folder / "p.c8")])
    assert done.returncode == 0, done.stderr
    assert (folder / "p.c8").stat().st_size > 100
    (folder / "net.onnx").write_bytes((field.given / "net.onnx").read_bytes())
    done = run([*CALIB8, "inspect", str(folder / "net.onnx")])
    assert "has a name that is not UTF-8" in one_error(done)


@pytest.mark.parametrize("words", WORDS)
def test_standard_output_that_takes_nothing(words: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*CALIB8, *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        "error: standard output: cannot be written (No space left on device). "
        "Choose a place with free space.\n"
    )  # fmt: skip


@pytest.mark.parametrize("words", WORDS)
def test_a_reader_that_has_left_ends_a_command_as_a_shell_expects(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*CALIB8, *words], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


REPLACED = """
import os, sys
from pathlib import Path
model, other, *sys.argv[1:] = sys.argv[1:]
reads = 0
def watch(event, arguments):
    global reads
    if event == "open" and not isinstance(arguments[0], int) and os.fspath(arguments[0]) == model:
        reads += 1
        if reads == 1 and Path(other).exists():
            sys.stdout.flush()
            os.replace(other, model + ".new")
            os.replace(model + ".new", model)
"""


@pytest.mark.parametrize("place", slow_but(["net.onnx"], ["net.onnx", "data.npz"]))
def test_a_source_that_is_replaced_while_it_is_read(field: Field, tmp_path: Path, place: str) -> None:
    """The result is that of the old file or of the new one, or a line says what is wrong; no mixture."""
    emptied(field.out)
    results = []
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        folder.mkdir()
        for version in ("net.onnx", "data.npz"):
            changed = seed if version == place else 0
            if version == "net.onnx":
                onnx.save(cnn(seed=changed), folder / version)
            else:
                images = np.random.default_rng(changed).normal(0, 1, (40, 3, 16, 16)).astype(np.float32)
                np.savez(folder / version, image=images)
        done = run([*CALIB8, *_quantize(folder, folder / "q.onnx")])
        assert done.returncode == 0, done.stderr
        results.append((folder / "q.onnx").read_bytes())
    code = f"{REPLACED}\nsys.addaudithook(watch)\nfrom calib8.cli import main\nmain()"
    old, new = tmp_path / "0" / place, tmp_path / "1" / place
    words = [str(old), str(new), *_quantize(tmp_path / "0", field.out / "q.onnx")]
    done = run([sys.executable, "-c", code, *words])
    assert not new.exists(), "it was replaced"
    if done.returncode:
        one_error(done)
    else:
        assert (field.out / "q.onnx").read_bytes() in results


def _quantize(folder: Path, out: Path) -> list[str]:
    words = ["quantize", folder / "net.onnx", "--data", folder / "data.npz", "--effort", "fast", "-o", out]
    return [str(word) for word in words]


def test_children_of_a_killed_command_end_too(tmp_path: Path) -> None:
    """Runtimes have processes of their own, which read from a pipe until nobody is there any more."""
    code = (
        "import os, signal\n"
        "from calib8.analysis.foreign_process import ForeignProcess\n"
        "child = ForeignProcess('list', 'Python', 'python', list, ((3, 1),))\n"
        "print(child._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = run([sys.executable, "-c", code])
    assert done.returncode == -signal.SIGKILL
    number = int(done.stdout)
    for _ in range(1200):
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return
        if "\nState:\tZ" in Path(f"/proc/{number}/status").read_text(encoding="utf-8"):
            return
        os.sched_yield()
        signal.sigtimedwait([], 0.1)
    pytest.fail("it goes on")
