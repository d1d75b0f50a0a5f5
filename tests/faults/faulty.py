"""Commands that are disturbed while they write: what they are given, how, and what must be true.

``failing.c`` counts the calls by which a command changes files of its folder, and kills it at one of them,
sends it a signal, or lets the disk be full from there on.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import onnx

sys.path[:0] = [str(Path(__file__).parents[1] / "cli"), str(Path(__file__).parents[1])]

from tiny_models import cnn  # noqa: E402 - what tests share lies in a folder of theirs

HERE: Final = Path(__file__).parent
OLD: Final = b"what was there before"
LEFTOVER: Final = re.compile(r"\..*\.[a-z0-9_]{8}")
LIMIT: Final = 300
"""Seconds after which a command hangs; it takes some."""


@dataclass(frozen=True)
class Case:
    """A command.

    Attributes:
        words: of it; ``{given}`` and ``{out}`` are folders.
        outputs: files in ``{out}``, and whether two runs give the same bytes of them.
        replaces: an old file may be there under their names.
    """

    words: str
    outputs: Mapping[str, bool]
    replaces: bool = True

    def command(self, given: Path, out: Path) -> list[str]:
        """As the system runs it."""
        words = self.words.format(given=given, out=out).split()
        return [sys.executable, "-m", "calib8", *words]


CASES: Final = {
    "quantize": Case(
        "quantize {given}/net.onnx --data {given}/data.npz --effort fast -o {out}/q.onnx "
        "--json {out}/r.json --report {out}/r.html",
        {"q.onnx": True, "r.json": False, "r.html": False},
    ),
    "calibrate": Case(
        "calibrate {given}/net.onnx --data {given}/data.npz -o {out}/t.json --stats {out}/s.stats "
        "--checkpoint {out}/c --checkpoint-every 4",
        {"t.json": True, "s.stats": True},
    ),
    "tune": Case(
        "tune {given}/net.onnx --data {given}/data.npz --min-sqnr 20 --effort fast --threads 1 "
        "-o {out}/q.onnx",
        {"q.onnx": True},
        replaces=False,
    ),
    "compile": Case("compile {given}/q.onnx -o {out}/p.c8", {"p.c8": True}),
    "stats merge": Case("stats merge {given}/a.stats {given}/b.stats -o {out}/s.stats", {"s.stats": True}),
    "export": Case("export {given}/q.onnx --to tflite -o {out}/m.tflite", {"m.tflite": True}),
}  # fmt: skip
"""What writes files that take long to make, or that others read at once."""

GIVEN: Final = (
    "quantize net.onnx --data data.npz --effort fast -o q.onnx",
    "calibrate net.onnx --data data.npz --shard 1/2 --stats a.stats",
    "calibrate net.onnx --data data.npz --shard 2/2 --stats b.stats",
)


def make_given(folder: Path, samples: int = 40) -> None:
    """What the commands are given."""
    onnx.save(cnn(), folder / "net.onnx")
    images = np.random.default_rng(3).normal(0, 1, (samples, 3, 16, 16)).astype(np.float32)
    np.savez(folder / "data.npz", image=images)
    for words in GIVEN:
        done = run([sys.executable, "-m", "calib8", *words.split()], cwd=folder)
        assert done.returncode == 0, done.stderr


def preloaded(folder: Path) -> Path:
    """``failing.c`` as a library."""
    library = folder / "failing.so"
    compiler = shutil.which("cc") or shutil.which("gcc") or "cc"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", library, HERE / "failing.c", "-ldl"]
    subprocess.run(list(map(str, command)), check=True)
    return library


@dataclass(frozen=True)
class Faults:
    """The library and a place for what it counts."""

    library: Path
    log: Path

    def disturbed(self, command: Sequence[str], out: Path, kind: str, at: int) -> Done:
        """A command that is disturbed at a call."""
        self.log.write_bytes(b"")
        more = {"FAULT_UNDER": str(out.resolve()), "FAULT_KIND": kind, "FAULT_AT": str(at)}
        return run(command, {**more, "LD_PRELOAD": str(self.library), "FAULT_LOG": str(self.log)})

    def calls(self, command: Sequence[str], out: Path) -> int:
        """How often a command changes files of its folder."""
        done = self.disturbed(command, out, "count", 0)
        assert done.returncode == 0, done.stderr
        return len(self.log.read_bytes())


Done = subprocess.CompletedProcess[str]


def run(
    command: Sequence[str],
    more: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    before: Callable[[], None] | None = None,
) -> Done:
    """Runs a command as a shell does."""
    environment = {**os.environ, "CALIB8_CACHE": "off", **(more or {})}

    def begin() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        if before is not None:
            before()

    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, errors="surrogateescape", env=environment,
        cwd=cwd, timeout=LIMIT, preexec_fn=begin,
    )  # fmt: skip


def limited(what: int, most: int) -> Callable[[], None]:
    """Sets a limit of the system, such as ``ulimit -n``, for a child."""
    return lambda: resource.setrlimit(what, (most, most))


def whole(case: Case, given: Path, out: Path) -> dict[str, bytes]:
    """What an undisturbed run writes; afterwards the folder is empty."""
    done = run(case.command(given, out))
    assert done.returncode == 0, done.stderr
    found = {name: (out / name).read_bytes() for name in case.outputs}
    emptied(out)
    return found


def emptied(out: Path) -> None:
    """Removes all that is in a folder."""
    shutil.rmtree(out)
    out.mkdir()


def old_files(case: Case, out: Path) -> None:
    """Files that are there before a command begins."""
    for name in case.outputs if case.replaces else ():
        (out / name).write_bytes(OLD)


def check_whole_or_old(case: Case, out: Path, wanted: Mapping[str, bytes], before: bool) -> None:
    """Every output is the old one or the complete new one."""
    for name, same in case.outputs.items():
        path = out / name
        if not path.exists():
            assert not before, f"{name} is lost"
            continue
        content = path.read_bytes()
        if content != OLD or not before:
            assert content == wanted[name] if same else _ends_well(content, name), f"{name} is half-written"


def _ends_well(content: bytes, name: str) -> bool:
    """A file whose bytes are others every time is complete."""
    if name.endswith(".json"):
        return isinstance(json.loads(content), dict)
    return content.rstrip().endswith(b"</html>")


def leftovers(out: Path) -> list[str]:
    """Temporary files."""
    return sorted(str(path.relative_to(out)) for path in out.rglob("*") if LEFTOVER.fullmatch(path.name))


def check_goes_on(case: Case, given: Path, out: Path, wanted: Mapping[str, bytes]) -> None:
    """The same command, undisturbed, ends with what one run gives and leaves nothing behind."""
    done = run(case.command(given, out))
    assert done.returncode == 0, done.stderr
    for name, same in case.outputs.items():
        content = (out / name).read_bytes()
        assert content == wanted[name] if same else _ends_well(content, name), f"{name} is another one"
    assert leftovers(out) == []


def one_error(done: Done) -> str:
    """The line of error of a command that was refused something, and nothing else on standard error."""
    assert done.returncode in (1, 2), (done.returncode, done.stderr)
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), done.stderr
    assert "unexpected" not in lines[0], lines[0]
    return lines[0]
