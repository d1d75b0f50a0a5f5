"""Statistics of parts of the data as those of all of it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from calib8.calibration.statistics import Statistics
from calib8.errors import TableError, UsageError

_CURE = "Gather all parts with the same model and the same --keep-float"


def merge_statistics(parts: Sequence[Statistics | str | os.PathLike[str]]) -> Statistics:
    """The statistics of all samples of the parts; in any order of the parts the same, bit for bit.

    Args:
        parts: statistics, or files that ``Statistics.save`` wrote. No sample may be in two of them.

    Raises:
        UsageError: there is no part, one path in place of a list, or one file is given twice.
        TableError: a file cannot be read, or was made for another model or other tensors than the first,
            or with another preprocessing.
    """
    if isinstance(parts, str | os.PathLike):
        raise UsageError("merge", f"'{os.fspath(parts)}' is one path, not a list of parts", "Give a list")
    _refuse_twice([str(part) for part in parts if not isinstance(part, Statistics)])
    merged: Statistics | None = None
    first = ""
    for number, part in enumerate(parts, 1):
        name = f"statistics {number}" if isinstance(part, Statistics) else str(part)
        found = part if isinstance(part, Statistics) else Statistics.load(part)
        if merged is None:
            merged, first = found, name
        else:
            _check_alike(merged, found, first, name)
            merged = merged.merge(found)
    if merged is None:
        raise UsageError("merge", "no statistics were given", "Give the files of all parts")
    return merged


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
        problem = f"was preprocessed otherwise than {first} ({found.preprocess}, {merged.preprocess})"
        raise TableError(name, problem, "Gather all parts with the same preprocessing")
    odd = sorted(found.tensors.keys() ^ merged.tensors.keys())
    if odd:
        lacking = name if odd[0] not in found.tensors else first
        problem = f"holds other tensors than {first}: '{odd[0]}' is not in {lacking}"
        raise TableError(name, problem, _CURE)
