"""What a user writes as data → the files that it stands for: paths and addresses, braces, patterns, folders.

    s3://bucket/train-{000..099}.tar    100 shards
    data/{a,b}/*.parquet                those that match, in both folders
    gs://bucket/folder                  all shards, all Parquet files, or all pictures below it

Files come in ascending order. Local folders and patterns of pictures are read elsewhere, by their paths.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from calib8.addresses import is_address, scheme_of, with_two_slashes, without_secrets
from calib8.data.labels import LABELS_FILE
from calib8.data.remote import file_system, told
from calib8.data.stored_files import (
    Kind,
    StoredFile,
    kind_of,
    local_file,
    named_shortly,
    one_kind,
    remote_file,
)
from calib8.errors import DataError

MOST_FILES: Final = 1_000_000
"""That braces may stand for."""

_WITHOUT_FOLDERS: Final = ("http", "https")
"""Schemes whose addresses name files only, where ``?`` begins a query."""

_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_RANGE: Final = re.compile(r"(\d{1,9})\.\.(\d{1,9})")
_CURE: Final = "Give tar shards, Parquet files or pictures: an address, a pattern, or their folder"


@dataclass(frozen=True)
class Place:
    """Where data lie.

    Attributes:
        shown: what the user wrote, without secrets.
        kind: what all files hold.
        files: in ascending order.
        folder: a folder of pictures was named; they are called by their paths below it.
        labels: the list of labels in that folder, where there is one.
    """

    shown: str
    kind: Kind
    files: tuple[StoredFile, ...]
    folder: bool = False
    labels: StoredFile | None = None


def place_of(written: str) -> Place | None:
    """The files that a text stands for; None for a local folder or file that is read by its path.

    Raises:
        UsageError: a package is missing.
        DataError: nothing is there, files of several kinds, a store that refuses or cannot be reached.
    """
    if Path(written).exists():
        return _local(written)
    if is_address(written):
        written = with_two_slashes(written)
    shown = without_secrets(written)
    texts = list(expanded(written))
    if not is_address(written) and len(texts) == 1 and kind_of(written) not in ("tar", "parquet"):
        return None
    if scheme_of(written) in _WITHOUT_FOLDERS:
        one_kind([StoredFile(text, without_secrets(text)) for text in texts], shown)
    elif is_address(written) and len(texts) == 1 and (folder := _remote_folder(written)) is not None:
        return folder
    found = [file for text in texts for file in (_remote(text) if is_address(text) else _matching(text))]
    named = named_shortly(found)
    return Place(shown, one_kind(named, shown), tuple(named))


def expanded(text: str) -> Iterator[str]:
    """``a-{00..02}.tar`` → ``a-00.tar``, ``a-01.tar``, ``a-02.tar``; ``{x,y}`` → ``x``, ``y``.

    Raises:
        DataError: braces that stand for more than ``MOST_FILES``, or for nothing.
    """
    count, parts = 1, []
    for part in _BRACES.split(text)[1::2]:
        words = _words(part, text)
        parts.append(words)
        count *= len(words)
        if count > MOST_FILES:
            raise DataError(
                without_secrets(text), f"stands for more than {MOST_FILES:,} files", "Give a folder"
            )
    yield from _combined(_BRACES.split(text)[::2], parts)


def _combined(fixed: list[str], parts: list[list[str]]) -> Iterator[str]:
    if not parts:
        yield fixed[0]
        return
    for word in parts[0]:
        for rest in _combined(fixed[1:], parts[1:]):
            yield f"{fixed[0]}{word}{rest}"


def _words(part: str, text: str) -> list[str]:
    numbers = _RANGE.fullmatch(part)
    if numbers is None:
        return part.split(",") if "," in part else [f"{{{part}}}"]
    low, high = int(numbers[1]), int(numbers[2])
    if high < low or high - low >= MOST_FILES:
        problem = f"the braces {{{part}}} stand for nothing" if high < low else "stands for too many files"
        raise DataError(without_secrets(text), problem, "Write {000..099}, the smaller number first")
    width = len(numbers[1]) if numbers[1].startswith("0") or len(numbers[1]) == len(numbers[2]) else 0
    return [str(number).zfill(width) for number in range(low, high + 1)]


def _local(written: str) -> Place | None:
    """A path that exists: a shard, or a folder of them."""
    path = Path(written)
    if not path.is_dir():
        if kind_of(written) not in ("tar", "parquet"):
            return None
        return Place(written, kind_of(written), tuple(named_shortly([local_file(path)])))
    shards, picture = _listed(path)
    if not shards:
        return None
    files = [local_file(one) for one in ([*shards, picture] if picture else shards)]
    named = named_shortly(files)
    return Place(written, one_kind(named, written), tuple(named))


def _listed(folder: Path) -> tuple[list[Path], Path | None]:
    """The shards below a folder, and a picture if there is one; no names that begin with a dot."""
    shards: list[Path] = []
    picture: Path | None = None
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            kind = "" if name.startswith(".") else kind_of(name)
            if kind in ("tar", "parquet"):
                shards.append(Path(place, name))
            elif kind == "picture" and picture is None:
                picture = Path(place, name)
    return [one for one in shards if one.is_file()], picture


def _matching(text: str) -> list[StoredFile]:
    """Local files of a path or a pattern."""
    found = [Path(one) for one in glob.glob(text, recursive=True)] if glob.has_magic(text) else [Path(text)]  # noqa: PTH207
    files = [one for one in found if one.is_file()]
    if not files:
        raise DataError(text, "matches no file" if glob.has_magic(text) else "does not exist", _CURE)
    return [local_file(one) for one in files]


def _remote(address: str) -> list[StoredFile]:
    """Remote files of an address or a pattern."""
    without_folders = scheme_of(address) in _WITHOUT_FOLDERS
    if without_folders and "*" in address:
        problem = "is a pattern, and a web server lists no files"
        raise DataError(without_secrets(address), problem, "Name them in braces: train-{000..099}.tar")
    system, path = file_system(address)
    with told(address):
        if without_folders or not glob.has_magic(path):
            return [remote_file(address, system.info(path))]
        found = _files(system, system.glob(path, detail=True))
    shown = [file for file in found if not file.name.rpartition("/")[2].startswith(".")]
    if not shown:
        raise DataError(without_secrets(address), "matches no file", _CURE)
    return shown


def _remote_folder(address: str) -> Place | None:
    """What lies in a remote folder; None where an address names none."""
    system, path = file_system(address)
    shown = without_secrets(address)
    with told(address):
        system.invalidate_cache()
        if glob.has_magic(path) or system.info(path).get("type") != "directory":
            return None
        found = _files(system, system.find(path, detail=True))
    start = len(path.rstrip("/")) + 1
    below = [replace(file, name=name) for name, file in ((file.name[start:], file) for file in found)]
    files = [file for file in below if file.kind and not re.search(r"(^|/)\.", file.name)]
    if not files:
        raise DataError(shown, "holds no tar shard, Parquet file or picture", _CURE)
    if (kind := one_kind(files, shown)) != "picture":
        return Place(shown, kind, tuple(named_shortly(files)))
    labels = next(
        (replace(one, name=f"{shown}/{LABELS_FILE}") for one in below if one.name == LABELS_FILE), None
    )
    return Place(shown, kind, tuple(sorted(files, key=lambda file: file.name)), True, labels)


def _files(system: Any, listed: Mapping[str, Any]) -> list[StoredFile]:
    """Those of a listing, called by their paths in the store."""
    infos = [(str(name), info) for name, info in listed.items() if info.get("type") != "directory"]
    return [replace(remote_file(str(system.unstrip_protocol(name)), info), name=name) for name, info in infos]
