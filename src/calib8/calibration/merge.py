"""Statistics of parts of the data as those of all of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence

from calib8.calibration.origin import origins_text, united
from calib8.calibration.statistics import Statistics
from calib8.data.differing import preprocess_difference
from calib8.data.digests import MOST_DIGESTS
from calib8.errors import TableError, UsageError
from calib8.parameters import parameter
from calib8.requests import checks_types
from calib8.type_texts import a_type

_CURE = f"Gather all parts with the same model and the same {parameter('keep_float')}"


@checks_types
def merge_statistics(
    parts: Sequence[Statistics | str | os.PathLike[str]], *, mixed: bool = False, repeated: bool = False
) -> Statistics:
    """The statistics of all samples of the parts; in any order of the parts the same, bit for bit.

    Args:
        parts: statistics, or files that ``Statistics.save`` wrote.
        mixed: take parts from machines that compute other bits: of several CPU types, or with several
            versions of ONNX Runtime. The result says so in its ``origins``.
        repeated: take parts that hold the same samples; each counts as often as it comes.

    Raises:
        UsageError: there is no part, one path in place of a list, or one file is given twice.
        TableError: a file cannot be read, or was made for another model or other tensors than the first,
            or with another preprocessing, or, unless ``mixed``, elsewhere; or it holds, unless ``repeated``,
            samples of an earlier one. Where no part knows its samples, equal parts are told.
    """
    if isinstance(parts, str | os.PathLike):
        raise UsageError("merge", f"'{os.fspath(parts)}' is one path, not a list of parts", "Give a list")
    if not isinstance(parts, Iterable):
        raise UsageError("merge", f"{a_type(parts)} is not a list of parts", "Give a list")
    _refuse_twice([str(part) for part in parts if not isinstance(part, Statistics)])
    merged: Statistics | None = None
    first = ""
    seen = _Seen()
    for number, part in enumerate(parts, 1):
        name = f"statistics {number}" if isinstance(part, Statistics) else str(part)
        found = part if isinstance(part, Statistics) else Statistics.load(part)
        if merged is None:
            merged, first = found, name
        else:
            _check_alike(merged, found, first, name)
            if not mixed:
                _check_origin(merged, found, name)
            merged = merged.merge(found, mixed=mixed)
        if not repeated:
            seen.add(name, found)
    if merged is None:
        raise UsageError("merge", "no statistics were given", "Give the files of all parts")
    return merged


class _Seen:
    """The samples of the parts so far, and where they were."""

    def __init__(self) -> None:
        self._places: dict[bytes, str] = {}

    def add(self, name: str, found: Statistics) -> None:
        """Takes in a part.

        Raises:
            TableError: it shares samples with an earlier one.
        """
        digests = set(found.digests or ([_content(found)] if found.samples else []))
        twice = sorted(digests & self._places.keys())
        if twice:
            other = self._places[twice[0]]
            shared = sum(self._places[digest] == other for digest in twice)
            samples = "1 sample" if shared == 1 else f"{shared} samples"
            same = f"holds {samples} that {other} holds too" if found.digests else f"equals {other}"
            other = f"{parameter('repeated', True)} counts what the data themselves hold several times"
            raise TableError(name, f"{same}, which would count twice", f"Give each part once; {other}")
        self._places.update(dict.fromkeys(digests, name))
        if len(self._places) > 2 * MOST_DIGESTS:
            self._places = {digest: self._places[digest] for digest in sorted(self._places)[:MOST_DIGESTS]}


def _content(found: Statistics) -> bytes:
    """Stands for the counts of statistics that do not know their samples."""
    digest = hashlib.sha256()
    for name in sorted(found.tensors):
        t = found.tensors[name]
        digest.update(repr((name, t.count, t.zeros, t.minimum, t.maximum, t.minima, t.maxima)).encode())
        digest.update(t.positive.tobytes() + t.negative.tobytes())
    return digest.digest()


def _check_origin(merged: Statistics, found: Statistics, name: str) -> None:
    if len(united(merged.origins, found.origins)) > 1:
        here, there = origins_text(found.origins), origins_text(merged.origins)
        others = f", the parts before it on {there}" if there else ""
        raise TableError(
            name,
            f"was gathered on {here}{others}: the last bits of such statistics differ",
            "Gather all parts on one CPU type with one version of ONNX Runtime; "
            f"{parameter('mixed', True)} takes them",
        )


def _refuse_twice(files: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for file in files:
        real = os.path.realpath(file)
        if real in seen:
            raise UsageError(file, "is given twice: its samples would count twice", "Give each part once")
        seen[real] = file


def _check_alike(merged: Statistics, found: Statistics, first: str, name: str) -> None:
    if found.model_hash != merged.model_hash:
        problem = (
            f"was made for another model than {first} ({found.model_hash[:12]}, {merged.model_hash[:12]})"
        )
        raise TableError(name, problem, _CURE)
    if not found.preprocessed_like(merged):
        difference = preprocess_difference(found.preprocess, merged.preprocess)
        problem = f"was preprocessed otherwise than {first} ({difference})"
        raise TableError(name, problem, "Gather all parts with the same preprocessing")
    odd = sorted(found.tensors.keys() ^ merged.tensors.keys())
    if odd:
        lacking = name if odd[0] not in found.tensors else first
        problem = f"holds other tensors than {first}: '{odd[0]}' is not in {lacking}"
        raise TableError(name, problem, _CURE)
