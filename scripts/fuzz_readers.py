"""Broken files for every reader in Python, seeded, under limits; a table of readers, inputs, outcomes.

    python scripts/fuzz_readers.py --count 2000 --seed 7             files per reader
    python scripts/fuzz_readers.py --seconds 600 --readers onnx,stats

A worker is a forked process with 3 GB of address space. It reads one file after the other: that is refused
with an error of calib8 in one line that names the file, or read. Another error is ``unexpected``; a worker
that ends is ``crashed``, one that takes longer than 20 s for a file ``hung``, one whose memory passes 1 GB
``large``. Each of them is a fault: the file is kept, and the last lines say how to make it once more.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib
import io
import os
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

ROOT: Final = Path(__file__).parents[1]
sys.path[:0] = [
    str(ROOT / "tests" / name) for name in ("cli", "formats", "tflite_models", "program", "c_library", "")
]

from calib8.errors import Calib8Error  # noqa: E402 - what tests share lies in folders of theirs

MEMORY: Final = 3 << 30
"""Bytes of address space of a worker."""

LARGE: Final = 1 << 20
"""KiB that a worker may need at its peak."""

SECONDS: Final = 20
"""That a file may take; it takes milliseconds."""

PER_WORKER: Final = 100
"""Files that one worker reads."""

FAULTS: Final = ("unexpected", "crashed", "hung", "large")

Rng = np.random.Generator
Change = Callable[[bytes, Rng], bytes]


@dataclass(frozen=True)
class Reader:
    """What reads files of a kind.

    Attributes:
        suffix: of the files.
        whole: files that are right.
        changes: how they are broken.
        read: what is done with a path.
    """

    suffix: str
    whole: Sequence[bytes]
    changes: Sequence[Change]
    read: Callable[[Path], object]


def readers(folder: Path) -> dict[str, Reader]:
    """All of them, with files made in a folder."""
    broken = importlib.import_module("test_cli_broken_files")
    plain, archive, graph, words = (
        broken.bytes_changed, broken.members_changed, broken.graph_changed, broken.words_changed,
    )  # fmt: skip
    made = _made(folder)

    def several(*changes: Change) -> list[Change]:
        return [*changes, _twice(changes)]

    found = {
        "onnx": Reader(".onnx", made["onnx"], several(plain, graph), _model),
        "onnx program": Reader(".onnx", made["int8"], several(plain, graph), _program),
        "statistics": Reader(".stats", made["stats"], several(plain, archive), _statistics),
        "checkpoint": Reader(".ckpt", made["checkpoint"], several(plain, _members), _checkpoint),
        "npz": Reader(".npz", made["npz"], several(plain, archive), _samples),
        "npy": Reader(".npy", made["npy"], several(plain), _samples),
        "images": Reader(".png", made["images"], several(plain, _spots), _image),
        "wav": Reader(".wav", made["wav"], several(plain, _spots), _sound),
        "labels": Reader(".txt", made["labels"], several(plain, _lines), _labels),
        "plan": Reader(".c8", made["plan"], several(plain, _sealed), _plan),
        "program": Reader(".c8p", made["program"], several(plain, _spots), _saved_program),
        "tflite": Reader(".tflite", made["tflite"], several(plain, _spots), _tflite),
        "tmfile": Reader(".tmfile", made["tmfile"], several(plain, _spots), _tmfile),
    }
    for name, text in _tables().items():
        changes = several(plain, words if text.lstrip().startswith(b"{") else _lines, _lines)
        found[f"table {name}"] = Reader(".table", [text], changes, _table(name))
    return found


def _made(folder: Path) -> dict[str, list[bytes]]:
    """Kind → whole files."""
    import onnx
    from PIL import Image
    from tiny_models import cnn
    from typer.testing import CliRunner

    from calib8.cli import app

    rng = np.random.default_rng(1)
    onnx.save(cnn(), folder / "m.onnx")
    np.savez(
        folder / "a.npz", image=rng.normal(0, 1, (12, 3, 16, 16)).astype(np.float32), labels=np.arange(12) % 5
    )
    np.savez_compressed(folder / "b.npz", image=np.ones((4, 3, 16, 16), np.float32))
    np.save(folder / "c.npy", rng.normal(0, 1, (4, 3, 16, 16)).astype(np.float32))
    base = f"{folder}/m.onnx --data {folder}/a.npz"
    for command in (
        f"quantize {base} --effort fast -o {folder}/q.onnx",
        f"calibrate {base} --stats {folder}/s.stats -o {folder}/t.json --method ema",
        f"calibrate {base} --checkpoint {folder}/c.ckpt --checkpoint-every 4 -o {folder}/gone/t.json",
        f"compile {folder}/q.onnx -o {folder}/p.c8",
        f"export {folder}/q.onnx --to program -o {folder}/p.c8p",
        f"export {folder}/q.onnx --to tflite -o {folder}/m.tflite",
    ):
        CliRunner().invoke(app, command.split())
    images = []
    for form in ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF"):
        content = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (20, 16, 3), dtype=np.uint8)).save(content, form)
        images.append(content.getvalue())
    files = {
        "onnx": "m.onnx", "int8": "q.onnx", "stats": "s.stats", "npy": "c.npy", "plan": "p.c8",
        "program": "p.c8p", "tflite": "m.tflite",
    }  # fmt: skip
    made = {kind: [(folder / name).read_bytes()] for kind, name in files.items()}
    made["npz"] = [(folder / name).read_bytes() for name in ("a.npz", "b.npz")]
    made["images"], made["labels"] = images, [b"a.png 1\nb.png 2\nsub/c d.png 0\n"]
    made["checkpoint"] = [_checkpoint_bytes(folder)]
    made["wav"] = [_wav()]
    made["tmfile"] = importlib.import_module("fuzz_tmfile").corpus(7)[:12]
    return made


def _checkpoint_bytes(folder: Path) -> bytes:
    from calib8.calibration.checkpoint import Checkpoint, Run
    from calib8.calibration.statistics import Statistics
    from calib8.data.trail import START

    statistics = Statistics.load(folder / "s.stats")
    Checkpoint(Run(None, 12, None, 0.1, "1"), START, statistics, {"x": (0.0, 1.0)}).save(folder / "c.ckpt")
    return (folder / "c.ckpt").read_bytes()


def _wav() -> bytes:
    import wave

    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(np.arange(-2000, 2000, dtype="<i2").tobytes())
    return content.getvalue()


def _tables() -> dict[str, bytes]:
    """Name of a format → a table."""
    module = importlib.import_module("test_tables")
    return {name: module.content(name).encode() for name in module.FORMATS}


def _twice(changes: Sequence[Change]) -> Change:
    """Two of the changes, one after the other; what the second cannot take stays as the first made it."""

    def change(data: bytes, rng: Rng) -> bytes:
        first, second = (changes[int(rng.integers(len(changes)))] for _ in range(2))
        changed = first(data, rng)
        with contextlib.suppress(Exception):
            return second(changed, rng)
        return changed

    return change


NUMBERS: Final = (0, 1, 2, 127, 128, 255, 256, 65535, 65536, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)


def _spots(data: bytes, rng: Rng) -> bytes:
    """Words of one to eight bytes are other numbers."""
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        size = int(rng.choice([1, 2, 4, 8]))
        place = int(rng.integers(max(1, len(changed) - size)))
        number = int(rng.choice(NUMBERS)) % (1 << (8 * size))
        changed[place : place + size] = number.to_bytes(size, "little" if rng.random() < 0.7 else "big")
    return bytes(changed)


PIECES: Final = (
    b"", b" ", b"\t", b":", b"-", b"nan", b"inf", b"1e999", b"-1", b"0x7fc00000", b"\xff", b"\x00", b"#",
    b"[", "é".encode(), b"9" * 400, b"1 " * 3000,
)  # fmt: skip


def _lines(data: bytes, rng: Rng) -> bytes:
    """Lines and words of a text are left out, there twice, or others."""
    lines = [line.split(b" ") for line in data.split(b"\n")]
    for _ in range(int(rng.integers(1, 3))):
        place, kind = int(rng.integers(len(lines))), int(rng.integers(5))
        line = lines[place]
        if kind == 0 and len(lines) > 1:
            del lines[place]
        elif kind == 1:
            lines.insert(place, list(line))
        else:
            line[int(rng.integers(len(line)))] = PIECES[int(rng.integers(len(PIECES)))]
    return b"\n".join(b" ".join(line) for line in lines)


def _members(data: bytes, rng: Rng) -> bytes:
    """A member of a checkpoint is changed: its document word by word."""
    import zipfile

    broken = importlib.import_module("test_cli_broken_files")
    content = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(content, "w") as changed:
        for name in archive.namelist():
            member = archive.read(name)
            if name.endswith(".json"):
                member = broken.words_changed(member, rng)
            elif rng.random() < 0.3:
                member = broken.members_changed(member, rng)
            changed.writestr(name, member)
    return content.getvalue()


def _sealed(data: bytes, rng: Rng) -> bytes:
    """A plan with other numbers or another header, and the checksum that belongs to it."""
    hostile = importlib.import_module("hostile_plans")
    changes = (hostile.with_header, hostile.with_text, hostile.with_sizes, hostile.with_parts)
    changed: bytes = changes[int(rng.integers(len(changes)))](data, rng)
    return changed


def _model(path: Path) -> object:
    from calib8.analysis.inspection import inspect

    return inspect(path)


def _program(path: Path) -> object:
    from calib8.session import InferenceSession

    return InferenceSession(path, threads=1)


def _statistics(path: Path) -> object:
    from calib8.calibration.choose import choose_table
    from calib8.calibration.statistics import Statistics
    from calib8.scheme import ACTIVATION_TYPES

    return choose_table(Statistics.load(path), ACTIVATION_TYPES["uint8"], "mse", threads=1)


def _checkpoint(path: Path) -> object:
    from calib8.calibration.checkpoint import Checkpoint

    return Checkpoint.load(path)


def _specs() -> list[Any]:
    from calib8.tensors import TensorSpec

    return [TensorSpec("image", np.dtype(np.float32), (None, 3, 16, 16))]


def _samples(path: Path) -> object:
    from calib8.data.opening import open_dataset

    return [sample.inputs for sample in open_dataset(path, _specs(), None)]


def _image(path: Path) -> object:
    from calib8.data.images import eight_bit, read_image

    return eight_bit(read_image(path, path.name), False, path.name).resize((4, 4))


def _sound(path: Path) -> object:
    from calib8.data.wav import read_header

    return read_header(path, path.name).samples(0, 1000)


def _labels(path: Path) -> object:
    from calib8.data.labels import read_label_list

    return read_label_list(path)


def _plan(path: Path) -> object:
    from calib8.session import InferenceSession

    session = InferenceSession(path, threads=1)
    feeds = {
        one.name: np.zeros([1 if size is None else size for size in one.shape], one.dtype)
        for one in session.inputs
    }
    return session.run(None, feeds)


def _saved_program(path: Path) -> object:
    from calib8.program.file import load_program

    return load_program(path)


def _tflite(path: Path) -> object:
    from calib8.program.lower_tflite.lower import lower_tflite
    from calib8.tflite.read import parse

    return lower_tflite(parse(path.read_bytes(), path.name), path.name)


def _tmfile(path: Path) -> object:
    from calib8.model.from_tmfile.translate import float_model
    from calib8.program.lower_tmfile.lower import lower_tmfile
    from calib8.tmfile.read import parse

    graph = parse(path.read_bytes(), path.name)
    for make in (float_model, lower_tmfile):
        with contextlib.suppress(Calib8Error):  # it is of the other kind, or has no such form
            make(graph, path.name)
    return graph


def _table(name: str) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        from calib8.formats.tables import read_table, table_text

        found = read_table(path, name)
        with contextlib.suppress(Calib8Error):  # what it writes may need a model
            table_text(found.table, "calib8")
        return found

    return read


def broken_file(reader: Reader, seed: int, number: int) -> bytes:
    """File ``number`` of a seed."""
    rng = np.random.default_rng([seed, number])
    whole = reader.whole[int(rng.integers(len(reader.whole)))]
    return reader.changes[int(rng.integers(len(reader.changes)))](whole, rng)


def outcome(reader: Reader, path: Path) -> str:
    """``read``, ``refused`` or ``unexpected``, with the error printed."""
    try:
        reader.read(path)
    except Calib8Error as error:
        text = str(error)
        if "\n" in text:
            print(f"an error of several lines: {text!r}")
            return "unexpected"
        return "refused"
    except MemoryError:
        return "large"
    except Exception:
        traceback.print_exc(file=sys.stdout)
        return "unexpected"
    return "read"


def work(reader: Reader, seed: int, numbers: range, path: Path, told: int) -> None:
    """What a worker does: a byte for each outcome, after the file was read."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for number in numbers:
        path.write_bytes(broken_file(reader, seed, number))
        os.write(told, b"?")
        faulthandler.dump_traceback_later(SECONDS, exit=False)
        _end_later()
        found = outcome(reader, path)
        faulthandler.cancel_dump_traceback_later()
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > LARGE:
            found = "large"
        os.write(told, ("f" if found == "refused" else found[:1]).encode())
        if found in FAULTS:
            os.write(2, f"{path} of seed {seed}, file {number}: {found}\n".encode())
            return


def _end_later() -> None:
    """A signal of the system ends what hangs, in native code too."""
    import signal

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(SECONDS + 1)


LETTERS: Final = {"r": "read", "u": "unexpected", "l": "large"}


@dataclass
class Tried:
    """What became of the files of a reader."""

    found: Counter[str]
    faults: list[tuple[int, str]]


def tried(reader: Reader, seed: int, numbers: range, folder: Path, log: Path) -> Tried:
    """Has workers read files; one that ends early is replaced by another, behind the file that ended it."""
    result, number = Tried(Counter(), []), numbers.start
    while number < numbers.stop:
        last = min(numbers.stop, number + PER_WORKER)
        told, tells = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(told)
            path = folder / f"broken{reader.suffix}"
            _as_worker(partial(work, reader, seed, range(number, last), path, tells), log)
        os.close(tells)
        with os.fdopen(told, "rb") as pipe:
            letters = pipe.read().decode()
        status = os.waitpid(child, 0)[1]
        outcomes = [name for name in letters.split("?") if name]
        begun = letters.count("?")
        for letter in outcomes:
            result.found["refused" if letter == "f" else LETTERS[letter]] += 1
        number += begun
        if begun > len(outcomes):
            kind = "hung" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == 14 else "crashed"
            result.found[kind] += 1
            result.faults.append((number - 1, kind))
        elif outcomes and LETTERS.get(outcomes[-1]) in FAULTS:
            result.faults.append((number - 1, LETTERS[outcomes[-1]]))
        elif not begun:
            raise SystemExit(f"a worker ended before it began: {status}, see {log}")
    return result


def _as_worker(job: Callable[[], None], log: Path) -> None:
    """Runs a job in a child and ends it."""
    code = 1
    try:
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        job()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def table(rows: dict[str, Counter[str]], seconds: dict[str, float]) -> str:
    """Readers, inputs, outcomes."""
    kinds = ("read", "refused", *FAULTS)
    lines = [f"| reader | inputs | {' | '.join(kinds)} | s |", "|---" * (len(kinds) + 3) + "|"]
    for name, found in rows.items():
        cells = " | ".join(f"{found[kind]:,}" for kind in kinds)
        lines.append(f"| {name} | {sum(found.values()):,} | {cells} | {seconds[name]:.0f} |")
    return "\n".join(lines)


def main() -> int:
    """Tries files; 1 if one of them is a fault."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=300, help="files per reader")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="most of all readers together")
    parser.add_argument("--seed", type=int, default=7, help="of the changes")
    parser.add_argument("--readers", help="names with commas between them; default: all")
    parser.add_argument("--only", type=int, help="make this file alone of one reader, and read it here")
    parser.add_argument(
        "--keep", type=Path, default=Path("fuzz_faults"), help="folder for files that are faults"
    )
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        known = readers(folder)
        names = settings.readers.split(",") if settings.readers else list(known)
        if settings.only is not None:
            path = Path(f"broken{known[names[0]].suffix}")
            path.write_bytes(broken_file(known[names[0]], settings.seed, settings.only))
            print(outcome(known[names[0]], path))
            return 0
        for name in names:
            for whole in known[name].whole:
                path = folder / f"whole{known[name].suffix}"
                path.write_bytes(whole)
                if outcome(known[name], path) != "read":
                    raise SystemExit(f"the reader '{name}' refuses a file that is right")
        return attack({name: known[name] for name in names}, settings, folder)


def attack(chosen: dict[str, Reader], settings: argparse.Namespace, folder: Path) -> int:
    """All readers in turns, until count or time are used up."""
    rows: dict[str, Counter[str]] = {name: Counter() for name in chosen}
    seconds = dict.fromkeys(chosen, 0.0)
    faults = 0
    begun, log = time.monotonic(), folder / "log"
    for first in range(0, settings.count, PER_WORKER):
        for name, reader in chosen.items():
            if time.monotonic() - begun > settings.seconds:
                continue
            start = time.monotonic()
            numbers = range(first, min(settings.count, first + PER_WORKER))
            result = tried(reader, settings.seed, numbers, folder, log)
            rows[name] += result.found
            seconds[name] += time.monotonic() - start
            for number, kind in result.faults:
                faults += 1
                settings.keep.mkdir(exist_ok=True)
                kept = settings.keep / f"{name.replace(' ', '_')}-{settings.seed}-{number}{reader.suffix}"
                kept.write_bytes(broken_file(reader, settings.seed, number))
                again = f"--readers '{name}' --seed {settings.seed} --only {number}"
                print(f"{kind}: {kept}; python scripts/fuzz_readers.py {again}", flush=True)
    print(f"seed {settings.seed}\n\n{table(rows, seconds)}")
    if faults:
        print(log.read_text("utf-8", "replace")[-6000:])
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
