"""WAV files: what their header says, and their samples as float32.

    RIFF ─ WAVE ─┬─ fmt    type, channels, rate, bits
                 └─ data   interleaved samples, little-endian

    8 bits        (x − 128) / 128
    16, 24, 32    x / 2^15, x / 2^23, x / 2^31
    float32, 64   as they are

The header of WAVE_FORMAT_EXTENSIBLE names one of these types. Other chunks are passed over.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt

from calib8.errors import DataError
from calib8.number_texts import count

WAV_SUFFIXES: Final = frozenset({".wav", ".wave"})
"""Lower-case suffixes of the files that count as sound."""

PCM: Final = 1
FLOAT: Final = 3
EXTENSIBLE: Final = 0xFFFE

_UNTIL_THE_END: Final = 0xFFFFFFFF
"""Size of the data where a writer could not go back to fill it in."""

_BITS: Final = {PCM: (8, 16, 24, 32), FLOAT: (32, 64)}
_CODINGS: Final = {2: "ADPCM", 6: "A-law", 7: "mu-law", 17: "ADPCM", 49: "GSM", 85: "MP3"}
_CURE: Final = "Write it anew as WAV with PCM of 16 bits"

F32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Wav:
    """What the header of a file says.

    Attributes:
        path: the file.
        name: what to call it.
        rate: samples per second, of each channel.
        channels: how many, ≥ 1.
        bits: of a sample.
        is_float: samples are numbers with a point.
        start: byte of the first sample.
        length: samples of each channel, ≥ 1.
    """

    path: Path
    name: str
    rate: int
    channels: int
    bits: int
    is_float: bool
    start: int
    length: int

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return self.length / self.rate

    def samples(self, first: int, last: int) -> F32:
        """Samples first … last − 1 of every channel, float32 [last − first, channels].

        Raises:
            DataError: the file was changed or cannot be read.
        """
        wide = self.bits // 8 * self.channels
        try:
            with self.path.open("rb") as file:
                file.seek(self.start + first * wide)
                held = file.read((last - first) * wide)
        except OSError as error:
            raise _unreadable(self.name, error) from error
        if len(held) < (last - first) * wide:
            raise DataError(self.name, "became shorter while it was read", "Leave it as it is")
        return _decoded(held, self.bits, self.is_float).reshape(-1, self.channels)


def read_header(path: Path, name: str) -> Wav:
    """What the header of a WAV file says; its samples are not read.

    Raises:
        DataError: it is no WAV file, cut off, empty, or coded in another way; ``name`` is its subject.
    """
    try:
        with path.open("rb") as file:
            return _header(file, path, name)
    except OSError as error:
        raise _unreadable(name, error) from error


def _header(file: BinaryIO, path: Path, name: str) -> Wav:
    size = os.fstat(file.fileno()).st_size
    head = file.read(12)
    if len(head) < 12 or head[:4] != b"RIFF" or head[8:] != b"WAVE":
        found = "is empty" if not head else "is no WAV file: it does not begin with RIFF and WAVE"
        raise DataError(name, found, "Give WAV files")
    form: bytes | None = None
    for tag, start, length in _chunks(file, size):
        if tag == b"fmt ":
            form = file.read(min(length, 40))
        elif tag == b"data":
            return _wav(path, name, form, start, length, size)
    problem = "is cut off: its header ends before the samples" if form is None else "holds no samples"
    raise DataError(name, problem, "Write it anew, or leave it out")


def _chunks(file: BinaryIO, size: int) -> Iterator[tuple[bytes, int, int]]:
    """Tag, first byte and size of each chunk; the file stands at its first byte."""
    place = 12
    while place + 8 <= size:
        file.seek(place)
        tag, length = struct.unpack("<4sI", file.read(8))
        yield tag, place + 8, length
        place += 8 + length + length % 2


def _wav(path: Path, name: str, form: bytes | None, start: int, length: int, size: int) -> Wav:
    """The header as a value.

    Raises:
        DataError: what it says cannot be, or is not read here.
    """
    if form is None or len(form) < 16:
        raise DataError(name, "is broken: no chunk 'fmt ' says what its samples are", _CURE)
    tag, channels, rate, _, wide, bits = struct.unpack("<HHIIHH", form[:16])
    if tag == EXTENSIBLE and len(form) >= 26:
        tag = struct.unpack("<H", form[24:26])[0]
    if bits not in _BITS.get(tag, ()):
        known = {PCM: f"PCM of {bits} bits", FLOAT: f"float of {bits} bits"}
        coding = known.get(tag, _CODINGS.get(tag, f"type {tag}"))
        raise DataError(name, f"holds {coding}, and PCM of 8 to 32 bits or float is read", _CURE)
    if not rate or not channels or wide != channels * bits // 8:
        problem = f"is broken: its header tells {rate} Hz, {channels} channels and {wide} bytes for all"
        raise DataError(name, problem, _CURE)
    held = size - start
    if length > held and length != _UNTIL_THE_END:
        problem = f"is cut off: its header tells {count(length, 'byte')} of samples, and {held} are there"
        raise DataError(name, problem, "Write it anew, or leave it out")
    samples = min(length, held) // wide
    if not samples:
        raise DataError(name, "holds no samples", "Leave it out")
    return Wav(path, name, rate, channels, bits, tag == FLOAT, start, samples)


def _decoded(held: bytes, bits: int, is_float: bool) -> F32:
    """See the top of the file."""
    if is_float:
        return np.frombuffer(held, f"<f{bits // 8}").astype(np.float32)
    if bits == 8:
        return (np.frombuffer(held, np.uint8).astype(np.float32) - 128.0) / np.float32(128.0)
    if bits == 24:
        whole = np.zeros((len(held) // 3, 4), np.uint8)
        whole[:, 1:] = np.frombuffer(held, np.uint8).reshape(-1, 3)
        wide = whole.view("<i4").reshape(-1)
        return (wide / np.float64(2.0**31)).astype(np.float32)
    return (np.frombuffer(held, f"<i{bits // 8}") / np.float64(2.0 ** (bits - 1))).astype(np.float32)


def _unreadable(name: str, error: OSError) -> DataError:
    if isinstance(error, FileNotFoundError):
        return DataError(name, "does not exist", "Check its path")
    return DataError(name, f"cannot be read ({error.strerror or error})", "Check its permissions")
