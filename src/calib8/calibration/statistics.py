"""The statistics of all tensors of a model: merged exactly, saved to a file whose bytes tell them apart."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from calib8 import _core
from calib8.calibration import exact_sum
from calib8.calibration.origin import Origin, origins_text, united
from calib8.calibration.tensor_statistics import BINS as BINS
from calib8.calibration.tensor_statistics import Bins as Bins
from calib8.calibration.tensor_statistics import TensorStatistics as TensorStatistics
from calib8.data.differing import preprocess_difference
from calib8.data.digests import DIGEST_BYTES, lowest_digests
from calib8.errors import CalibrationError, TableError, UsageError
from calib8.files import atomic_output, check_file, checked_path
from calib8.parameters import either

STATISTICS_FORMAT: Final = "calib8-statistics"
STATISTICS_VERSION: Final = 2

_DIGESTS: Final = "digests"
"""Column of the digests, one row per sample; files of older versions lack it."""

_COLUMNS: Final[dict[str, type[np.generic]]] = {
    "count": np.int64,
    "zeros": np.int64,
    "nans": np.int64,
    "positive_infs": np.int64,
    "negative_infs": np.int64,
    "minimum": np.float32,
    "maximum": np.float32,
    "exponent": np.int32,
    "positive": np.int64,
    "negative": np.int64,
    "samples": np.int64,
    "minima": np.uint8,
    "maxima": np.uint8,
    "binned": np.bool_,
}
"""Fields of ``TensorStatistics`` and their types in the file, one row per tensor."""


@dataclass(frozen=True)
class Statistics:
    """Statistics of the tensors of one prepared model.

    Attributes:
        model_hash: hash of the prepared float graph.
        tensors: tensor name → statistics.
        preprocess: how images became inputs (``Preprocess.to_json``), None where arrays went in as they were,
            which goes with any.
        origins: the kinds of machines that ran the float model, each once, in ascending order; empty where
            that is not known, which goes with any.
        digests: one of 16 bytes for each sample, from its file or arrays, in ascending order: the lowest
            65,536 (``calib8.data.digests``); some or all may be missing where they are not known.
    """

    model_hash: str
    tensors: Mapping[str, TensorStatistics]
    preprocess: str | None = None
    origins: tuple[Origin, ...] = ()
    digests: tuple[bytes, ...] = ()

    def __repr__(self) -> str:
        """One line: how many tensors, of how many samples."""
        return f"<Statistics: {len(self.tensors)} tensors, {self.samples} samples>"

    @property
    def samples(self) -> int:
        """How many samples had a finite value, in the tensor that had the most of them."""
        return max((tensor.samples for tensor in self.tensors.values()), default=0)

    def merge(self, other: Statistics, *, mixed: bool = False) -> Statistics:
        """Statistics of the images of both runs; exact, associative and commutative.

        Args:
            other: of other images.
            mixed: the two may come from machines that compute other bits.

        Raises:
            CalibrationError: the two were made for different models or tensors, or preprocessed differently;
                or they are mixed and need not be.
        """
        if self.model_hash != other.model_hash:
            raise CalibrationError(
                "statistics",
                f"made for two models ({self.model_hash}, {other.model_hash})",
                "Calibrate one model",
            )
        odd = sorted(self.tensors.keys() ^ other.tensors.keys())
        if odd:
            raise CalibrationError(odd[0], "is in only one of two statistics", "Collect both in the same way")
        if not self.preprocessed_like(other):
            problem = f"preprocessed in two ways ({preprocess_difference(self.preprocess, other.preprocess)})"
            raise CalibrationError("statistics", problem, "Collect both in the same way")
        origins = united(self.origins, other.origins)
        if len(origins) > 1 and not mixed:
            problem = f"gathered on {origins_text(origins)}, which compute other last bits"
            raise CalibrationError("statistics", problem, "Collect both on one kind, or merge them as mixed")
        merged = {name: self.tensors[name].merge(other.tensors[name]) for name in sorted(self.tensors)}
        digests = lowest_digests(self.digests, other.digests)
        return Statistics(self.model_hash, merged, self.preprocess or other.preprocess, origins, digests)

    def preprocessed_like(self, other: Statistics) -> bool:
        """The images of both runs became inputs in the same way, as far as is known."""
        return self.preprocess == other.preprocess or None in (self.preprocess, other.preprocess)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one .npz archive; equal statistics give equal bytes.

        Raises:
            OutputError: the file cannot be written; an old file stays intact.
        """
        with atomic_output(path) as temporary:
            temporary.write_bytes(self.to_bytes())

    def to_bytes(self) -> bytes:
        """What ``save`` writes."""
        header = {
            "format": STATISTICS_FORMAT,
            "version": STATISTICS_VERSION,
            "model_hash": self.model_hash,
            "names": sorted(self.tensors),
            "preprocess": self.preprocess,
            "origins": [[origin.cpu, origin.runtime] for origin in self.origins],
        }
        ordered = [self.tensors[name] for name in sorted(self.tensors)]
        columns = {
            name: np.array([_stored(t, name) for t in ordered], dtype) for name, dtype in _COLUMNS.items()
        }
        columns[_DIGESTS] = np.frombuffer(b"".join(self.digests), np.uint8).reshape(-1, DIGEST_BYTES)
        columns["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name, column in columns.items():
                entry = zipfile.ZipInfo(f"{name}.npy")  # dated 1980, always
                entry.compress_type = zipfile.ZIP_DEFLATED
                with archive.open(entry, "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, column, allow_pickle=False)
        return file.getvalue()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Statistics:
        """Reads a file written by ``save``.

        Raises:
            UsageError: no path.
            TableError: the file cannot be read, is no such file, of another version, or broken.
        """
        file = checked_path(path, "statistics")
        check_file(file, f"Give statistics that {either('Statistics.save', '--stats')} wrote", TableError)
        try:
            content = file.read_bytes()
        except OSError as error:
            raise _unreadable(str(path), error) from error
        return cls.from_bytes(content, str(path))

    @classmethod
    def from_bytes(cls, content: bytes, source: str = "statistics") -> Statistics:
        """Reads what ``to_bytes`` gave; ``source`` names it in messages.

        Raises:
            TableError: as for ``load``.
        """
        try:
            if not zipfile.is_zipfile(io.BytesIO(content)):  # NumPy would speak of pickles
                raise ValueError("it is no .npz archive")
            with np.load(io.BytesIO(content), allow_pickle=False) as archive:
                columns = {name: archive[name] for name in archive.files}
            for name, column in columns.items():
                if not isinstance(column, np.ndarray):  # NumPy gives the bytes of what begins otherwise
                    raise ValueError(f"its member '{name}' is not an array")
            header = json.loads(columns["header"].tobytes())
        except Exception as error:  # a damaged archive: NumPy and zipfile raise a dozen unrelated types
            raise _unreadable(source, error) from error
        _check_header(header, source)
        try:
            names = _names(header["names"], columns)
            tensors = {name: _row(columns, row) for row, name in enumerate(names)}
            preprocess = _preprocess(header.get("preprocess"))
            origins = united(Origin(str(cpu), str(runtime)) for cpu, runtime in header.get("origins", ()))
            return cls(str(header["model_hash"]), tensors, preprocess, origins, _digests(columns))
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise TableError(source, f"is broken ({error})", "Calibrate again") from error


def _unreadable(source: str, error: Exception) -> TableError:
    return TableError(source, f"cannot be read ({error})", "Give statistics that calib8 wrote")


def available_counting_isas() -> list[str]:
    """Instruction sets that can count on this machine, fastest first; the last is always ``reference``."""
    return list(_core.available_isas())


def counting_isa() -> str:
    """Name of the instruction set that counts on this machine.

    Raises:
        UsageError: the environment variable CALIB8_ISA names one that is unknown or not available here.
    """
    try:
        return _core.isa()
    except ValueError as error:
        choice = f"CALIB8_ISA={os.environ.get('CALIB8_ISA', '')}"
        known = ", ".join(_core.available_isas())
        raise UsageError(choice, str(error), f"Unset it or use one of {known}") from error


def _check_header(header: Any, source: str) -> None:
    if not isinstance(header, dict) or header.get("format") != STATISTICS_FORMAT:
        raise TableError(source, f"is not a {STATISTICS_FORMAT} file", "Give statistics that calib8 wrote")
    if header.get("version") != STATISTICS_VERSION:
        raise TableError(
            source,
            f"has version {header.get('version')}, not {STATISTICS_VERSION}",
            "Gather the statistics anew with this version of calib8",
        )


def _preprocess(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"the preprocessing is {value!r}")
    return value


def _names(found: object, columns: Mapping[str, Any]) -> list[str]:
    """Names of tensors, all different, one for each row."""
    if not isinstance(found, list) or len(set(map(str, found))) != len(found):
        raise ValueError("the names of tensors are no list, or one of them stands twice")
    for name in found:
        if not isinstance(name, str):
            raise ValueError(f"the name of a tensor is {name!r}")
    rows = {len(columns[column]) for column in _COLUMNS}
    if rows != {len(found)}:
        raise ValueError(f"it has {len(found)} names and {' or '.join(map(str, sorted(rows)))} rows")
    return found


def _digests(columns: Mapping[str, Any]) -> tuple[bytes, ...]:
    found = columns.get(_DIGESTS, np.zeros((0, DIGEST_BYTES), np.uint8))
    if found.dtype != np.uint8 or found.ndim != 2 or found.shape[1] != DIGEST_BYTES:
        raise ValueError(f"'{_DIGESTS}' is {found.dtype} {list(found.shape)}")
    return lowest_digests([row.tobytes() for row in found])


def _stored(tensor: TensorStatistics, name: str) -> Any:
    value = getattr(tensor, name)
    return exact_sum.to_bytes(value) if name in ("minima", "maxima") else value


def _row(columns: Mapping[str, Any], row: int) -> TensorStatistics:
    values: dict[str, Any] = {}
    for name, dtype in _COLUMNS.items():
        if columns[name].dtype != dtype:
            raise ValueError(f"'{name}' is {columns[name].dtype}, not {np.dtype(dtype)}")
        value = columns[name][row]
        values[name] = value.copy() if value.ndim else value.item()
    for name in ("minima", "maxima"):
        values[name] = exact_sum.from_bytes(values[name])
    return TensorStatistics(**values)
