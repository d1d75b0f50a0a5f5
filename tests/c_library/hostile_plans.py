"""Writes plan files that nobody should trust: ``hostile_plans.py EXAMPLES FOLDER COUNT SEED``.

The whole ones go to EXAMPLES. Of them: numbers of their steps, values and text of their headers, sizes of
their parts, their constants changed, most with a checksum that is right again, so that what lies behind it is
asked too.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))

from plan_mutations import VALUES, mutated

from calib8 import _core
from calib8.engine.plan_file import PREFIX, load_plan, save_plan

Rng = np.random.Generator

ODD: Final = (
    None, True, 0, 1, -1, 3, 1.5, 1e300, "", "x", "uint8", "float32", "\x00", "é", "\ud83d", [], {}, [[]],
    [1, 2],
    {"a": 1}, *VALUES,
)  # fmt: skip
TEXTS: Final = (
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\\u", b"\\u0000", b"\\ud800", b"-", b"0", b"1e9",
    b"NaN", b"Infinity", b"null", b"\x00", b"\xff", b"9" * 30, b"[" * 200, b"//", b" ",
)  # fmt: skip


def sealed(content: bytes) -> bytes:
    """With the checksum that belongs to it."""
    return content + struct.pack("<Q", _core.engine.checksum([np.frombuffer(content, np.uint8)]))


def parts_of(content: bytes) -> tuple[int, list[bytes]]:
    """The format and the parts of a whole file."""
    _, version, _, *sizes, _, _ = PREFIX.unpack_from(content)
    parts, start = [], PREFIX.size
    for size in sizes:
        parts.append(content[start : start + size])
        start += size + -size % 64
    return version, parts


def joined(version: int, parts: list[bytes]) -> bytes:
    """A file of these parts, sealed."""
    body = b"".join(part + bytes(-len(part) % 64) for part in parts)
    total = PREFIX.size + len(body) + 8
    prefix = PREFIX.pack(b"\x89c8\x00\r\n\x1a\n", version, 0, *map(len, parts), total, 0)
    return sealed(prefix + body)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) inside a value."""
    if not isinstance(value, dict | list):
        return []
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


def with_header(content: bytes, rng: Rng) -> bytes:
    """A value of the header replaced, left out, or there twice."""
    version, parts = parts_of(content)
    header = json.loads(parts[0])
    for _ in range(rng.choice([1, 1, 2])):
        found = places(header)
        if not found:
            break
        container, key = found[rng.integers(len(found))]
        kind = rng.integers(4)
        if kind == 0:
            del container[key]
        elif kind == 1 and isinstance(container, list):
            container.insert(key, container[key])
        else:
            container[key] = ODD[rng.integers(len(ODD))]
    return joined(version, [json.dumps(header).encode("ascii"), *parts[1:]])


def with_shape(content: bytes, rng: Rng) -> bytes:
    """A size of an input or an output changed."""
    version, parts = parts_of(content)
    header = json.loads(parts[0])
    ports = [port for port in (*header["inputs"], *header["outputs"]) if port["shape"]]
    shape = ports[rng.integers(len(ports))]["shape"] if ports else [1]
    place = int(rng.integers(len(shape)))
    shape[place] = int(rng.choice([shape[place] + 1, max(shape[place] - 1, 1), 2 * shape[place], 1 << 31]))
    return joined(version, [json.dumps(header).encode("ascii"), *parts[1:]])


def with_text(content: bytes, rng: Rng) -> bytes:
    """Bytes of the header's text replaced, put in or cut off."""
    version, parts = parts_of(content)
    text = bytearray(parts[0])
    for _ in range(rng.choice([1, 1, 1, 3])):
        place = int(rng.integers(len(text) + 1))
        text[place : place + int(rng.integers(3))] = TEXTS[rng.integers(len(TEXTS))]
    if rng.random() < 0.1:
        del text[int(rng.integers(len(text))) :]
    return joined(version, [bytes(text), *parts[1:]])


def with_sizes(content: bytes, rng: Rng) -> bytes:
    """A number of the prefix changed."""
    changed = bytearray(content[:-8])
    place = int(rng.choice([8, 12, 16, 24, 32, 40, 48, 56]))
    [old] = struct.unpack_from("<Q", changed, place)
    value = int(rng.choice([0, 1, 63, 64, 65, 1 << 31, 1 << 62])) if rng.random() < 0.5 else old
    value = (value + int(rng.choice([-64, -8, -1, 0, 1, 8, 64]))) % (1 << 64)
    struct.pack_into("<Q", changed, place, value)
    return sealed(bytes(changed))


def with_parts(content: bytes, rng: Rng) -> bytes:
    """Numbers or constants cut, or with other bytes; parts exchanged; another format."""
    version, parts = parts_of(content)
    place = int(rng.integers(1, 4))
    part = bytearray(parts[place])
    kind = rng.integers(4)
    if kind == 0 and part:
        del part[int(rng.integers(len(part))) :]
    elif kind == 1:
        part += bytes(int(rng.integers(1, 100)))
    elif kind == 2:
        version = int(rng.integers(0, 7))
    for _ in range(8 if kind == 3 and part else 0):
        part[rng.integers(len(part))] = rng.integers(256)
    parts[place] = bytes(part)
    if rng.random() < 0.1:
        parts[1], parts[3] = parts[3], parts[1]
    return joined(version, parts)


def unsealed(content: bytes, rng: Rng) -> bytes:
    """Cut off, or with a bit changed, and the old checksum; often in the mark that plans begin with."""
    end = 8 if rng.random() < 0.3 else len(content)
    if rng.random() < 0.5:
        return content[: rng.integers(end)]
    changed = bytearray(content)
    changed[rng.integers(end)] ^= 1 << int(rng.integers(8))
    return bytes(changed)


CHANGES: Final[tuple[Callable[[bytes, Rng], bytes], ...]] = (
    *(with_header, with_header, with_shape, with_text, with_sizes, with_parts, unsealed),
)


def write_hostile(folder: Path, count: int, seed: int, sources: list[Path], rows: float = 0.5) -> list[Path]:
    """Changed copies of plan files; ``rows`` is the share of those whose steps have other numbers."""
    rng = np.random.default_rng(seed)
    contents = [source.read_bytes() for source in sources]
    written = []
    for number in range(count):
        path, which = folder / f"{number}.c8", number % len(sources)
        plan = load_plan(sources[which])
        if plan.rows and rng.random() < rows:
            save_plan(mutated(plan, rng), path)
        else:
            path.write_bytes(CHANGES[rng.integers(len(CHANGES))](contents[which], rng))
        written.append(path)
    return written


if __name__ == "__main__":
    examples, folder, count, seed = sys.argv[1:]
    tests = Path(__file__).parents[1]
    sys.path[:0] = [str(tests), str(tests / "program")]
    from example_plans import write_examples

    write_hostile(Path(folder), int(count), int(seed), write_examples(Path(examples)))
