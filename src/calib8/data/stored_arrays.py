"""Arrays of .npy and .npz files, of which only the rows that are asked for are read.

An .npz is a zip archive of .npy files: ``x.npy`` is the array 'x'. The members that nobody asks for are not
looked at. Memory holds a row at a time, and of a deflated member some 50 MB at most, however large it is. An
array in Fortran order, whose rows lie all over the file, is read whole, and so is a member that is compressed
by bzip2 or LZMA, whose decompressors cannot be copied.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.data.stored_bytes import DeflatedBytes, FileView, OpenFile, PlainBytes, StoredBytes, unreadable
from calib8.data.unpacked_bytes import UnpackedBytes
from calib8.errors import DataError
from calib8.files import check_file
from calib8.forks import ForkLock

_HEADER: Final = 1 << 14
"""Bytes within which the header of an .npy ends; NumPy itself refuses more than 10,000."""

_LOCAL_HEADER: Final = 30
"""Bytes before the name of a member, in front of its data."""

_MORE_ATTEMPTS: Final = 8
"""How often a header is read again where Python fails by chance."""

_ENCRYPTED: Final = 1
"""Bit 0 of the flags of a member."""


class StoredArray:
    """An array in a file: its rows come as NumPy's would.

    Attributes:
        dtype: of numbers.
        shape: axis 0 are the rows.
    """

    def __init__(self, stored: StoredBytes) -> None:
        """Reads the header.

        Raises:
            DataError: it is none, promises more than there is, or the array holds no numbers.
        """
        self._stored = stored
        self._start, self.shape, self._columns, self.dtype = _header(stored)
        self._row = math.prod(self.shape[1:]) * self.dtype.itemsize
        self._whole: npt.NDArray[np.generic] | None = None
        self._lock = ForkLock()

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        """Number of rows."""
        return self.shape[0]

    def __getitem__(self, index: int) -> npt.NDArray[np.generic]:
        """A row, read only; any thread may.

        Raises:
            DataError: its bytes are damaged, or not there any more.
        """
        if not 0 <= index < len(self):
            raise IndexError(index)
        if self._columns:
            return np.asarray(self._transposed()[index])
        return self._values(self._start + index * self._row, self.shape[1:])

    def _transposed(self) -> npt.NDArray[np.generic]:
        with self._lock:
            if self._whole is None:
                self._whole = self._values(self._start, self.shape[::-1]).T
            return self._whole

    def _values(self, position: int, shape: tuple[int, ...]) -> npt.NDArray[np.generic]:
        data = self._stored.read(position, math.prod(shape) * self.dtype.itemsize)
        return np.frombuffer(data, self.dtype).reshape(shape)


class Archive(Mapping[str, StoredArray]):
    """The arrays of an .npz by name, opened one by one."""

    def __init__(self, file: OpenFile) -> None:
        """Reads the list of members.

        Raises:
            DataError: there is none.
        """
        self._file = file
        if file.read(0, min(file.size, 6), str(file.path)) == np.lib.format.MAGIC_PREFIX:
            raise unreadable(str(file.path), "it holds a single array, as an .npy does")
        try:
            with zipfile.ZipFile(FileView(file)) as archive:
                members = archive.infolist()
        except Exception as error:  # a damaged archive: zipfile raises a dozen unrelated types
            raise unreadable(str(file.path), error) from error
        self._members = {member.filename.removesuffix(".npy"): member for member in members}

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self._members)

    def __len__(self) -> int:
        """Their number."""
        return len(self._members)

    def __contains__(self, name: object) -> bool:
        """Whether there is such a member, which may yet be no array."""
        return name in self._members

    def __getitem__(self, name: str) -> StoredArray:
        """The array of a name.

        Raises:
            DataError: the member is no array of numbers, cut, encrypted, compressed by a method that is
                unknown, or by bzip2 or LZMA and larger than ``unpacked_bytes.MOST``.
        """
        member = self._members[name]
        subject = f"{self._file.path}, array '{name}'"
        if member.flag_bits & _ENCRYPTED:
            raise unreadable(subject, "it is encrypted")
        start = member.header_offset + self._local_header(member.header_offset, subject)
        end = start + member.compress_size
        if end > self._file.size:
            raise unreadable(subject, f"it ends at byte {end} of a file of {self._file.size}")
        if member.compress_type == zipfile.ZIP_STORED:
            size = member.compress_size
            return StoredArray(PlainBytes(self._file, start, size, subject, member.CRC))
        if member.compress_type == zipfile.ZIP_DEFLATED:
            return StoredArray(DeflatedBytes(self._file, start, end, member.file_size, subject, member.CRC))
        if member.compress_type in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
            return StoredArray(UnpackedBytes(self._file, member, subject))
        raise unreadable(subject, f"it is compressed by method {member.compress_type}, which is unknown")

    def _local_header(self, place: int, subject: str) -> int:
        """Bytes from there to the data of a member: names may be longer there than in the list."""
        header = self._file.read(place, _LOCAL_HEADER, subject)
        if header[:4] != b"PK\x03\x04":
            raise unreadable(subject, f"no member begins at byte {place}")
        name, extra = header[26:28], header[28:30]
        return _LOCAL_HEADER + int.from_bytes(name, "little") + int.from_bytes(extra, "little")


def open_arrays(path: Path) -> Mapping[str, StoredArray]:
    """The arrays of an .npz by name; that of an .npy under the name ``images``.

    Raises:
        DataError: the file is missing, no regular one, corrupt, or holds Python objects.
    """
    subject = str(path)
    check_file(path, "Give an .npz or .npy that was saved with numpy.savez or numpy.save", DataError)
    try:
        file = OpenFile(path)
    except (OSError, ValueError) as error:
        raise unreadable(subject, error) from error
    if path.suffix.lower() == ".npy":
        return {"images": StoredArray(PlainBytes(file, 0, file.size, subject, None))}
    return Archive(file)


def _header(stored: StoredBytes) -> tuple[int, tuple[int, ...], bool, np.dtype[Any]]:
    """Where the values begin, their shape, whether columns follow each other, their type."""
    head = stored.head(_HEADER)
    try:
        begin, shape, columns, dtype = _parsed_header(head)
    except Exception as error:  # NumPy evaluates the header as Python, and anything may be in it
        raise unreadable(stored.subject, error) from error
    if any(isinstance(length, bool) for length in shape):  # NumPy takes them for integers, and then does not
        raise unreadable(stored.subject, f"no array has the shape {shape}")
    if dtype.kind in "OV" or not dtype.itemsize:
        raise unreadable(stored.subject, f"it holds values of type {dtype}")
    room = math.prod(max(length, 1) for length in shape) * dtype.itemsize
    if min(shape, default=0) < 0 or room > np.iinfo(np.intp).max:
        raise unreadable(stored.subject, f"no array has the shape {shape}")
    end = begin + math.prod(shape) * dtype.itemsize
    if end > stored.size:
        raise unreadable(stored.subject, f"its header promises {end} bytes, there are {stored.size}")
    return begin, shape, columns and len(shape) > 1, dtype


def _parsed_header(head: bytes) -> tuple[int, tuple[int, ...], bool, np.dtype[Any]]:
    """``_evaluated_header``, again where Python fails by chance.

    Python before 3.11.8 does where other threads evaluate something at the same time: a SystemError, "AST
    constructor recursion depth mismatch" (python/cpython#106905).
    """
    for _ in range(_MORE_ATTEMPTS):
        with suppress(SystemError):
            return _evaluated_header(head)
    return _evaluated_header(head)


def _evaluated_header(head: bytes) -> tuple[int, tuple[int, ...], bool, np.dtype[Any]]:
    """What NumPy reads in the header; ValueError and whatever Python raises when it is none."""
    file = io.BytesIO(head)
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, columns, dtype = np.lib.format.read_array_header_1_0(file)
    elif version in ((2, 0), (3, 0)):  # 3.0 differs in the names of fields alone, of which none is taken
        shape, columns, dtype = np.lib.format.read_array_header_2_0(file)
    else:
        raise ValueError(f"it has version {version[0]}.{version[1]} of the format")
    return file.tell(), shape, columns, dtype
