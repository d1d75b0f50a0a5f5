"""One file of the data, local or remote: what it is called, how large it is, how it is opened.

Such values pass between processes: whoever lists the files need not be the one who reads them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, TypeAlias

from calib8.addresses import is_address, without_secrets
from calib8.data.images import IMAGE_SUFFIXES
from calib8.data.remote import opened, told
from calib8.errors import DataError

Kind: TypeAlias = Literal["tar", "parquet", "picture", ""]
"""What a file holds by its name; empty: nothing that is read from where it lies."""

TAR_SUFFIXES: Final = (".tar", ".tar.gz", ".tgz")
PARQUET_SUFFIXES: Final = (".parquet",)


@dataclass(frozen=True)
class StoredFile:
    """A file.

    Attributes:
        address: a path or an address; it may hold secrets.
        name: for messages and samples, without secrets; no two files of the same data share one.
        size: in bytes; -1 where the store does not tell.
        stamp: changes with the content as far as the store tells (ETag or time), else empty.
    """

    address: str
    name: str
    size: int = -1
    stamp: str = ""

    def __repr__(self) -> str:
        """Without secrets: a traceback may show it."""
        return f"StoredFile({self.name!r}, {self.size} bytes)"

    @property
    def kind(self) -> Kind:
        """What it holds, by its name."""
        return kind_of(self.address)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The file, to be read from its beginning.

        Raises:
            UsageError: a package is missing.
            DataError: it cannot be opened; also what goes wrong while it is read.
        """
        with told(self.address):
            if not is_address(self.address) or Path(self.address).exists():
                with Path(self.address).open("rb") as local:
                    yield local
                return
            with closing(opened(self.address)) as file:
                yield file

    def read(self) -> bytes:
        """All of it.

        Raises:
            UsageError, DataError: as ``open``.
        """
        with self.open() as file:
            return file.read()


def kind_of(address: str) -> Kind:
    """What a path or an address names, by its suffix; a query behind an address is no part of its name."""
    name = bare(address).lower()
    if name.endswith(TAR_SUFFIXES):
        return "tar"
    if name.endswith(PARQUET_SUFFIXES):
        return "parquet"
    return "picture" if os.path.splitext(name)[1] in IMAGE_SUFFIXES else ""  # noqa: PTH122


def bare(address: str) -> str:
    """An address without the query behind it; a path as it is."""
    return address.split("?", 1)[0] if is_address(address) else address


def local_file(path: Path) -> StoredFile:
    """A file of this machine, called by its path."""
    found = path.stat()
    return StoredFile(str(path), str(path), found.st_size, f"{found.st_mtime_ns}")


def remote_file(address: str, info: dict[str, Any]) -> StoredFile:
    """A remote file, with what its store tells of it."""
    stamps = (
        info.get(key) for key in ("ETag", "etag", "md5Hash", "mtime", "LastModified", "updated", "created")
    )
    stamp = next((str(one) for one in stamps if one), "")
    size = info.get("size")
    return StoredFile(address, without_secrets(address), size if isinstance(size, int) else -1, stamp)


def named_shortly(files: Iterable[StoredFile]) -> list[StoredFile]:
    """The same files, in ascending order and each once, called by what tells them from each other.

    That is their file name, or else the path below the folder that all of them have in common.
    """
    unique = list({file.address: file for file in files}.values())
    paths = [without_secrets(bare(file.address)) for file in unique]
    last = [path.rpartition("/")[2] for path in paths]
    if len(set(last)) < len(last):
        folder = os.path.commonpath([path.rpartition("/")[0] for path in paths])
        last = [path[len(folder) :].lstrip("/") if folder else path for path in paths]
    if len(set(last)) < len(last):  # told apart by queries alone
        last = [f"{name} ({number})" for number, name in enumerate(last, 1)]
    named = [replace(file, name=name) for file, name in zip(unique, last, strict=True)]
    return sorted(named, key=lambda file: file.address)


def one_kind(files: Sequence[StoredFile], shown: str) -> Kind:
    """What all of the files hold.

    Raises:
        DataError: some are of one kind and some of another, or of none that can be read.
    """
    kinds: dict[Kind, StoredFile] = {}
    for file in files:
        kinds.setdefault(file.kind, file)
    if "" in kinds:
        problem = f"'{kinds[''].name}' is no tar shard, Parquet file or picture by its name"
        raise DataError(
            shown, problem, "Give files of one kind; arrays (.npz, .npy) are read from local files"
        )
    if len(kinds) > 1:
        listed = " and ".join(f"{_PLURAL[kind]} ('{file.name}')" for kind, file in kinds.items())
        raise DataError(shown, f"mixes {listed}", "Give a pattern that names files of one kind")
    return next(iter(kinds))


_PLURAL: Final = {"tar": "tar shards", "parquet": "Parquet files", "picture": "pictures"}
