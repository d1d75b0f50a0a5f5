"""The place that is shown: pages below one folder, and nothing that lies elsewhere.

    root/a/b.html     opened one part at a time, each from the folder before it, and none of them a link
    root/a/../../x    refused, like every part that begins with a dot

So no name leads out of the folder, also where somebody exchanges a folder for a link in between.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from calib8.run_report.page_path import SUFFIXES

MOST_FOLDERS: Final = 20_000
MOST_PAGES: Final = 20_000
"""So many are looked at: who names the root of a disk gets an answer."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Found:
    """Pages below a folder.

    Attributes:
        paths: relative to it, with ``/`` between the parts, in order.
        links: how many links were left alone.
        closed: how many folders cannot be read.
        more: there are more folders or pages than are looked at.
    """

    paths: tuple[str, ...]
    links: int = 0
    closed: int = 0
    more: bool = False


@dataclass(frozen=True)
class Place:
    """A folder, or one page of it.

    Attributes:
        root: the folder, without links on the way to it.
        only: name of the page; empty: all pages below the folder.
    """

    root: Path
    only: str = ""

    def pages(self) -> Found:
        """What may be shown, by the names alone."""
        return Found((self.only,)) if self.only else _below(self.root)

    def opened(self, path: str) -> BinaryIO | None:
        """A page, to be read; None where there is none that may be shown.

        Args:
            path: as ``pages`` gives it, or whatever somebody asks for.
        """
        parts = path.split("/")
        if not all(map(_allowed, parts)) or not path.lower().endswith(SUFFIXES):
            return None
        if self.only and path != self.only:
            return None
        try:
            return _opened(self.root, parts)
        except (OSError, ValueError):
            return None


def _allowed(part: str) -> bool:
    return bool(part) and not part.startswith(".") and "\0" not in part


def _opened(root: Path, parts: list[str]) -> BinaryIO | None:
    folder = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
    try:
        for part in parts[:-1]:
            inner = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        file = os.open(parts[-1], _FILE, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        return None
    return os.fdopen(file, "rb")


def _below(root: Path) -> Found:
    waiting, paths = [""], list[str]()
    links = closed = folders = 0
    while waiting and folders < MOST_FOLDERS and len(paths) < MOST_PAGES:
        folder = waiting.pop()
        folders += 1
        try:
            entries = list(os.scandir(root / folder))
        except OSError:
            closed += 1
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path = f"{folder}{entry.name}"
            page = entry.name.lower().endswith(SUFFIXES)
            with suppress(OSError):  # gone in between
                if entry.is_symlink():
                    links += page or entry.is_dir()
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{path}/")
                elif page and entry.is_file(follow_symlinks=False):
                    paths.append(path)
    more = bool(waiting) or len(paths) > MOST_PAGES
    return Found(tuple(sorted(paths[:MOST_PAGES])), links, closed, more)
