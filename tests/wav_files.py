"""Small WAV files, written byte by byte."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def tone(length: int, *, seed: int = 0, channels: int = 1) -> Array:
    """Noise between −0.9 and 0.9, float64 [length, channels]."""
    return np.random.default_rng(seed).uniform(-0.9, 0.9, (length, channels))


def coded(samples: Array, bits: int, *, is_float: bool = False) -> bytes:
    """Samples −1 … 1 as little-endian codes, one by one."""
    flat = [float(value) for value in samples.reshape(-1)]
    if is_float:
        return struct.pack(f"<{len(flat)}{'f' if bits == 32 else 'd'}", *flat)
    if bits == 8:
        return bytes(min(max(round(value * 128) + 128, 0), 255) for value in flat)
    top = 2 ** (bits - 1)
    whole = [min(max(round(value * top), -top), top - 1) for value in flat]
    return b"".join(value.to_bytes(bits // 8, "little", signed=True) for value in whole)


def header(data: bytes, bits: int, rate: int, channels: int, tag: int, *, extensible: bool = False) -> bytes:
    """A whole file around coded samples."""
    wide = channels * bits // 8
    form = struct.pack("<HHIIHH", 0xFFFE if extensible else tag, channels, rate, rate * wide, wide, bits)
    if extensible:
        guid = bytes.fromhex("000000001000800000aa00389b71")
        form += struct.pack("<HHIH", 22, bits, 0, tag) + guid
    chunks = [(b"fmt ", form), (b"LIST", b"odd"), (b"data", data)]
    body = b"".join(
        name + struct.pack("<I", len(held)) + held + b"\0" * (len(held) % 2) for name, held in chunks
    )
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WAVE" + body


def write_wav(
    path: Path, samples: Array, *, bits: int = 16, rate: int = 16000, is_float: bool = False, **words: Any
) -> Path:
    """Writes samples −1 … 1, [n] or [n, channels]."""
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    path.parent.mkdir(parents=True, exist_ok=True)
    data = coded(samples, bits, is_float=is_float)
    path.write_bytes(header(data, bits, rate, channels, 3 if is_float else 1, **words))
    return path
