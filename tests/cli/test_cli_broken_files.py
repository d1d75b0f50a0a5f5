"""Broken files of all kinds, seeded: every one is read or refused in one line, none is called a bug."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from tiny_models import cnn

CASES = 40
"""Files per kind."""

Random = np.random.Generator


def bytes_changed(data: bytes, rng: Random) -> bytes:
    """Some of the bytes others, cut away, or put in between."""
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        place, kind = int(rng.integers(len(changed) + 1)), int(rng.integers(5))
        if kind == 0:
            changed[place : place + 1] = rng.bytes(1)
        elif kind == 1:
            del changed[place:]
        elif kind == 2:
            del changed[place : place + int(rng.integers(1, 40))]
        elif kind == 3:
            changed[place:place] = rng.bytes(int(rng.integers(1, 20)))
        else:
            changed[place : place + 8] = bytes([255 * int(rng.integers(2))]) * 8
    return bytes(changed)


WORDS = ["-1", "0", "1e999", "NaN", "null", "[]", "{}", '"x"', "18446744073709551616", "true", '"\\u001b"']


def words_changed(data: bytes, rng: Random) -> bytes:
    """A number, text or word of JSON is another one."""
    text = data.decode()
    found = list(re.finditer(r'-?\d[\d.e+-]*|"[^"]*"|true|null', text))
    place = found[int(rng.integers(len(found)))]
    return f"{text[: place.start()]}{WORDS[rng.integers(len(WORDS))]}{text[place.end() :]}".encode()


def members_changed(data: bytes, rng: Random) -> bytes:
    """A member of an archive is changed, so that the checksums fit."""
    found = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(found, "w") as changed:
        members = {member.filename: archive.read(member) for member in archive.infolist()}
        chosen = list(members)[int(rng.integers(len(members)))]
        for name, content in members.items():
            if name == chosen and name.startswith("header") and rng.random() < 0.8:
                start = content.index(b"\n") + 1
                content = npy(words_changed(content[start:], rng))
            elif name == chosen:
                # A header is a tenth of a member at most, and says the most.
                part = 128 if rng.random() < 0.6 else len(content)
                content = bytes_changed(content[:part], rng) + content[part:]
            changed.writestr(name, content)
    return found.getvalue()


def npy(content: bytes) -> bytes:
    """Bytes as an array in a file."""
    file = io.BytesIO()
    np.save(file, np.frombuffer(content, np.uint8))
    return file.getvalue()


def graph_changed(data: bytes, rng: Random) -> bytes:
    """A constant, a size or a node of a model is another one."""
    proto = onnx.load_from_string(data)
    graph, kind = proto.graph, int(rng.integers(6))
    tensor = graph.initializer[int(rng.integers(len(graph.initializer)))]
    node = graph.node[int(rng.integers(len(graph.node)))]
    if kind == 0:
        tensor.raw_data = bytes_changed(tensor.raw_data, rng)
    elif kind == 1 and tensor.dims:
        tensor.dims[int(rng.integers(len(tensor.dims)))] = int(rng.choice([-1, 0, 1, 2, 7, 1 << 40, 1 << 62]))
    elif kind == 2:
        tensor.data_type = int(rng.integers(0, 25))
    elif kind == 3 and node.attribute:
        attribute = node.attribute[int(rng.integers(len(node.attribute)))]
        attribute.ints[:] = [int(value) for value in rng.integers(-3, 9, int(rng.integers(0, 6)))]
    elif kind == 4:
        node.input[int(rng.integers(len(node.input)))] = str(rng.choice(["", "image", "none", tensor.name]))
    else:
        node.op_type = str(rng.choice(["Relu", "Conv", "Gemm", "Concat", "Reshape", "Nothing"]))
    return proto.SerializeToString()


Change = Callable[[bytes, Random], bytes]
RUN = ("run {m.onnx} --data {}",)
KINDS: dict[str, tuple[str, tuple[Change, ...], tuple[str, ...]]] = {
    "model": (
        "m.onnx", (bytes_changed, graph_changed), ("inspect {}", "quantize {} --table {t.json} -o {o.onnx}"),
    ),
    "quantized": ("q.onnx", (bytes_changed, graph_changed), ("inspect {} --program",)),
    "stored": ("a.npz", (bytes_changed, members_changed), RUN),
    "deflated": ("b.npz", (bytes_changed, members_changed), RUN),
    "array": ("c.npy", (bytes_changed,), RUN),
    "statistics": (
        "s.stats", (bytes_changed, members_changed),
        ("stats show {}", "calibrate {m.onnx} --from-stats {} -o {o.json}"),
    ),
    "table": ("t.json", (bytes_changed, words_changed), ("table show {}",)),
    "plan": ("p.c8", (bytes_changed,), ("inspect {}", "compile {} -o {o.c8}")),
    "program": ("p.c8p", (bytes_changed,), ("inspect {}",)),
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of every kind."""
    folder = tmp_path_factory.mktemp("whole")
    onnx.save(cnn(), folder / "m.onnx")
    images = np.random.default_rng(0).normal(0, 1, (4, 3, 16, 16)).astype(np.float32)
    np.savez(folder / "a.npz", image=images, labels=np.arange(4))
    np.savez_compressed(folder / "b.npz", image=images, labels=np.arange(4))
    np.save(folder / "c.npy", images)
    return folder


def words(command: str, folder: Path, own: Path) -> list[str]:
    """``{}`` is the file ``own``, ``{o.NAME}`` lies beside it, other names in the folder."""

    def path(found: re.Match[str]) -> str:
        name = found[1]
        return str(own if not name else (own.parent if name.startswith("o.") else folder) / name)

    return re.sub(r"\{(.*?)\}", path, command).split()


MAKE = (
    "quantize {m.onnx} --data {a.npz} --effort fast -o {q.onnx}",
    "calibrate {m.onnx} --data {a.npz} --stats {s.stats} -o {t.json}",
    "compile {q.onnx} -o {p.c8}",
    "export {q.onnx} --to program -o {p.c8p}",
)


@pytest.mark.parametrize("kind", KINDS)
def test_broken_files_are_read_or_refused(
    cli, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    name, changes, commands = KINDS[kind]
    for command in () if (whole / "p.c8p").exists() else MAKE:
        made = cli(*words(command, whole, whole / "m.onnx"))
        assert made.exit_code == 0, made.output
    monkeypatch.setenv("CALIB8_TRACEBACK", "1")
    data, path = (whole / name).read_bytes(), tmp_path / name
    refused = 0
    for number in range(CASES):
        path.write_bytes(changes[number % len(changes)](data, np.random.default_rng([number, 18])))
        for command in commands:
            result = cli(*words(command, whole, path))
            assert isinstance(result.exception, SystemExit | None), f"{kind} {number}: {command}"
            refused += bool(result.exit_code)
            lines = result.stderr.splitlines()
            one = len(lines) == 1 and lines[0].startswith("error: ")
            assert one if result.exit_code else not lines, f"{kind} {number}: {result.stderr}"
    assert refused >= CASES // 4, "most of what is changed at random is broken"
