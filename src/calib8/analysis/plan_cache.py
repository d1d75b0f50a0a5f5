"""The folder in which plans are kept: where it is, what is in it, and whether more can be written there."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from calib8.errors import UsageError


@dataclass(frozen=True)
class PlanCache:
    """Plans that are kept.

    Attributes:
        folder: where; None where none are kept.
        off: why none are, empty where they are.
        files: that are there.
        bytes: that they take together.
        most_bytes: that they may take; None where it cannot be told.
        problem: what keeps more from being written, empty where nothing does.
    """

    folder: str | None
    off: str
    files: int
    bytes: int
    most_bytes: int | None
    problem: str


def plan_cache() -> PlanCache:
    """What the environment of this process says."""
    from calib8.session.cache_folder import BOUND, FOLDER, cache_folder, most_bytes  # imports NumPy

    try:
        folder = cache_folder()
    except OSError as error:
        return PlanCache(None, "its folder cannot be looked at", 0, 0, None, str(error))
    if folder is None:
        off = f"switched off by {FOLDER}" if FOLDER in os.environ else "no folder belongs to this user"
        return PlanCache(None, off, 0, 0, None, "")
    problem, most = _obstacle(Path(folder)), None
    try:
        most = most_bytes()
    except UsageError:
        problem = problem or f"{BOUND}={os.environ.get(BOUND)} is not a number of megabytes"
    sizes = _sizes(folder)
    return PlanCache(folder, "", len(sizes), sum(sizes), most, problem)


def _sizes(folder: str) -> list[int]:
    """Bytes of each file that is kept."""
    from calib8.session.cache_folder import OWN_FILES

    try:
        with os.scandir(folder) as entries:
            own = [entry for entry in entries if OWN_FILES.fullmatch(entry.name)]
            return [entry.stat(follow_symlinks=False).st_size for entry in own]
    except OSError:  # it is not there yet, or a file was removed at this moment
        return []


def _obstacle(folder: Path) -> str:
    """Why nothing can be written into a folder, which need not exist; empty if something can."""
    place = folder
    try:
        while not place.exists() and place != place.parent:
            place = place.parent
        if not place.is_dir():
            return f"{place} is no folder"
        with tempfile.TemporaryFile(dir=place):
            return ""
    except OSError as error:
        return f"{place} cannot be written to ({error.strerror or error})"
