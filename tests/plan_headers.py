"""Plan files with other headers, whole to their checksum, and headers that make no plan."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from calib8 import _core
from calib8.engine.plan_file import FORMAT_VERSION, MAGIC, PREFIX


def sealed(content: bytes, path: Path) -> Path:
    """A file with a checksum that is right."""
    words = np.frombuffer(content, np.uint8)
    path.write_bytes(content + struct.pack("<Q", _core.engine.checksum([words])))
    return path


def changed_header(change: Callable[[dict[str, Any]], object], saved: Path) -> Path:
    """The file with another header, sealed."""
    content = saved.read_bytes()[:-8]
    sizes = list(PREFIX.unpack_from(content)[3:7])
    header = json.loads(content[PREFIX.size : PREFIX.size + sizes[0]])
    change(header)
    text = json.dumps(header).encode()
    rest = content[PREFIX.size + sizes[0] + -sizes[0] % 64 :]
    body = text + bytes(-len(text) % 64) + rest
    prefix = PREFIX.pack(MAGIC, FORMAT_VERSION, 0, len(text), *sizes[1:], PREFIX.size + len(body) + 8, 0)
    return sealed(prefix + body, saved)


HEADERS: dict[str, Callable[[dict[str, Any]], object]] = {
    "nothing": dict.clear,
    "no steps": lambda header: header.pop("steps"),
    "steps that are a number": lambda header: header.update(steps=3),
    "one step too many": lambda header: header["steps"].append(["conv", 4, "x", 0]),
    "one step too few": lambda header: header["steps"].pop(),
    "a step of negative length": lambda header: header["steps"][0].__setitem__(1, -1),
    "a step of another length": lambda header: header["steps"][0].__setitem__(1, 1 << 60),
    "an unknown step": lambda header: header["steps"][0].__setitem__(0, "magic"),
    "an absurd arena": lambda header: header.update(arena_bytes=1 << 60),
    "a negative arena": lambda header: header.update(arena_bytes=-1),
    "an arena beyond all numbers": lambda header: header.update(arena_bytes=1e400),
    "a key that nobody knows": lambda header: header.update(scratch_bytes=1024),
    "absurd weights": lambda header: header.update(weight_bytes=1 << 50),
    "an unknown profile": lambda header: header.update(profile="magic"),
    "an unknown type": lambda header: header["inputs"][0].update(dtype="magic"),
    "an empty axis": lambda header: header["inputs"][0].update(shape=[1, 0]),
    "a port without a name": lambda header: header["outputs"][0].pop("name"),
    "a port whose name is null": lambda header: header["inputs"][0].update(name=None),
    "a port whose name is empty": lambda header: header["inputs"][0].update(name=""),
    "a port of objects": lambda header: header["inputs"][0].update(dtype="object"),
    "a port of text": lambda header: header["outputs"][0].update(dtype="<U4"),
    "a port whose type is null": lambda header: header["inputs"][0].update(dtype=None),
    "a port of complex numbers": lambda header: header["outputs"][0].update(dtype="complex64"),
    "a negative axis": lambda header: header["outputs"][0].update(shape=[-1, 5, 6, 6]),
    "an unknown instruction set": lambda header: header.update(isa="bogus"),
    "an instruction set that is a number": lambda header: header.update(isa=512),
    "a float call of nothing": lambda header: header.update(floats=[{"model": 3}]),
}
