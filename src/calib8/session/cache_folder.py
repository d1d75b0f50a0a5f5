"""The user's cache folder: where it is, which user it must belong to, and how it stays below its bound.

``CALIB8_CACHE`` names another folder, or is ``off`` (or another word of ``OFF``); ``CALIB8_CACHE_MB`` is the
bound in megabytes.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from calib8.errors import UsageError

FOLDER: Final = "CALIB8_CACHE"
OFF: Final = ("off", "no", "none", "false", "0", "")
BOUND: Final = "CALIB8_CACHE_MB"
DEFAULT_BOUND: Final = "1000"

OWN_FILES: Final = re.compile(r"\.?[0-9a-f]{64}(-[0-9a-f]{16}\.c8|\.json)(\.\w{8})?")
"""What is kept there, and what a process that was killed left of it. Other files are somebody else's."""

# pathlib takes longer to import than a plan takes to open: os.path throughout.


def cache_folder(environment: Mapping[str, str] = os.environ) -> str | None:
    """The folder, which need not exist; None where it is switched off, or belongs to another user."""
    given = environment.get(FOLDER)
    if given is not None:
        given = "" if given.strip().lower() in OFF else given
        return os.path.abspath(os.path.expanduser(given)) if given else None  # noqa: PTH100, PTH111
    base = _user_cache(environment)
    folder = os.path.join(base, "calib8") if base else ""  # noqa: PTH118
    return folder if folder and _is_own(folder) else None


def most_bytes(environment: Mapping[str, str] = os.environ) -> int:
    """The most bytes that all files in the folder may have together.

    Raises:
        UsageError: the environment states what is no number of megabytes.
    """
    given = environment.get(BOUND, DEFAULT_BOUND)
    if not (given.isascii() and given.isdigit()):
        raise UsageError(f"{BOUND}={given}", "is not a number of megabytes", f"Set {BOUND}={DEFAULT_BOUND}")
    return int(given) * 1_000_000


def make_room(folder: str, most: int) -> None:
    """Removes those of ``OWN_FILES`` that were used longest ago until the others fit."""
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if OWN_FILES.fullmatch(entry.name):
                with suppress(OSError):  # another process removed it
                    found = entry.stat(follow_symlinks=False)
                    files.append((found.st_mtime_ns, entry.path, found.st_size))
    total = sum(size for _, _, size in files)
    for _, path, size in sorted(files):
        if total <= most:
            return
        with suppress(OSError):
            os.remove(path)  # noqa: PTH107
            total -= size


def touch(path: str) -> None:
    """Notes that a file was used now."""
    with suppress(OSError):
        os.utime(path)


def _user_cache(environment: Mapping[str, str]) -> str | None:
    """The folder for caches by the rules of the system; None if there is no home."""
    given = environment.get("XDG_CACHE_HOME", "")
    if os.path.isabs(given):  # noqa: PTH117
        return given
    home = os.path.expanduser("~")  # noqa: PTH111
    below = ("Library", "Caches") if sys.platform == "darwin" else (".cache",)
    return os.path.join(home, *below) if os.path.isabs(home) else None  # noqa: PTH117, PTH118


def _is_own(folder: str) -> bool:
    """It is this user's, or the folder is where it would be made (as with sudo, home may be another's)."""
    while not os.path.exists(folder):  # noqa: PTH110
        folder = os.path.dirname(folder)  # noqa: PTH120
    return os.stat(folder).st_uid == os.getuid()  # noqa: PTH116
