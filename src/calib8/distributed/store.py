"""Where the parts of a run are kept: a folder, or an address such as ``s3://bucket/run`` (fsspec).

    run.json     what the run is of (``calib8.distributed.run_record``)
    KEY.part     one unit or block, done

A part appears whole or not at all: under a temporary name that is renamed on file systems, by one put on
object stores. Whoever writes a key again writes the same bytes, so it does not matter who comes last.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from calib8.errors import Calib8Error, OutputError, UsageError
from calib8.files import atomic_output
from calib8.parameters import either

SUFFIX: Final = ".part"

OBJECT_STORES: Final = frozenset(
    {"abfs", "abfss", "az", "gcs", "gs", "memory", "oci", "oss", "r2", "s3", "s3a", "tos"}
)
"""Protocols of fsspec that put a file whole or not at all, and have no rename."""

PARTS: Final = either("checkpoint", "--parts")
"""What the store is called where a user names it."""

_ADDRESS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_SECRET: Final = re.compile(r"(?<=://)[^/@]*@|\?.*")
_EXTRAS: Final = {"s3": "s3", "s3a": "s3"}
_REFUSALS: Final = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError",
                    "DefaultCredentialsError", "ParamValidationError")  # fmt: skip
_FINAL: Final = (PermissionError, FileNotFoundError, NotADirectoryError, FileExistsError)
_KEY: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Store:
    """Parts by key; a plain value that workers get.

    Attributes:
        address: the folder, or an address that fsspec knows.
    """

    address: str

    @classmethod
    def at(cls, place: object) -> Store:
        """The store that a user names.

        Raises:
            UsageError: it is no path, or names no place.
        """
        if not isinstance(place, str | os.PathLike) or isinstance(found := os.fspath(place), bytes):
            problem = f"is of type {type(place).__name__}, not a path"
            raise UsageError(PARTS, problem, "Give a folder, or an address such as s3://bucket/run")
        if not found.strip():
            raise UsageError(PARTS, "is empty", "Give a folder, or an address such as s3://bucket/run")
        local = found.removeprefix("file://")
        if _ADDRESS.match(local) and not _ADDRESS.sub("", local, count=1).strip("/"):
            cure = "Give an address such as s3://bucket/run"
            raise UsageError(PARTS, f"'{found}' names no place in the store", cure)
        return cls(local.rstrip("/") if _ADDRESS.match(local) else str(Path(local).absolute()))

    @property
    def name(self) -> str:
        """For messages, without what may be secret."""
        return _SECRET.sub("", self.address)

    def keys(self) -> set[str]:
        """Of all parts that are there.

        Raises:
            OutputError, OSError: see ``write``.
        """
        with self._told("listed"):
            if not self._remote:
                place = Path(self.address)
                names = [file.name for file in place.iterdir()] if place.is_dir() else []
            else:
                files, root = self._files()
                names = []
                if files.exists(root):
                    files.invalidate_cache(root)
                    names = [str(path).rpartition("/")[2] for path in files.ls(root, detail=False)]
        found = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
        return {key for key in found if _KEY.fullmatch(key)}

    def read(self, name: str) -> bytes | None:
        """A file of the store; None where it is not there.

        Raises:
            OutputError, OSError: see ``write``.
        """
        with self._told("read"):
            try:
                if not self._remote:
                    return (Path(self.address) / name).read_bytes()
                files, root = self._files()
                content: bytes = files.cat_file(f"{root}/{name}")
            except FileNotFoundError:
                return None
            return content

    def write(self, name: str, content: bytes) -> None:
        """A file of the store: the old one or the new one is there, and nothing else.

        Raises:
            OutputError: nothing can be written there, or a package for it is missing.
            OSError: it failed this time, and may do another time.
        """
        with self._told("written"):
            if not self._remote:
                place = Path(self.address)
                place.mkdir(parents=True, exist_ok=True)
                with atomic_output(place / name) as temporary:
                    temporary.write_bytes(content)
                return
            files, root = self._files()
            if self._remote in OBJECT_STORES:
                files.pipe_file(f"{root}/{name}", content)
                return
            files.makedirs(root, exist_ok=True)
            temporary_name = f"{root}/.{name}.{uuid.uuid4().hex}"
            files.pipe_file(temporary_name, content)
            files.mv(temporary_name, f"{root}/{name}")

    @property
    def _remote(self) -> str:
        """Protocol of an address; empty for a folder."""
        found = _ADDRESS.match(self.address)
        return found[1].lower() if found else ""

    def _files(self) -> tuple[Any, str]:
        """The file system of fsspec, and the place in it."""
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            cure = "Run: pip install 'calib8[ray]'"
            raise UsageError(self.name, "needs the package fsspec", cure) from error
        try:
            files, root = url_to_fs(self.address)
        except ImportError as error:
            extra = _EXTRAS.get(self._remote)
            cure = f"Run: pip install 'calib8[{extra}]'" if extra else "Install what fsspec asks for"
            raise UsageError(self.name, f"needs another package ({error})", cure) from error
        except ValueError as error:
            problem = f"is no place that fsspec knows ({error})"
            raise UsageError(self.name, problem, "Give a folder") from error
        return files, str(root).rstrip("/")

    @contextmanager
    def _told(self, done: str) -> Iterator[None]:
        """Tells what will not get better by trying again from what may."""
        try:
            yield
        except (Calib8Error, ConnectionError, TimeoutError):
            raise
        except Exception as error:  # every file system raises types of its own
            reason = _reason(error)
            if isinstance(error, _FINAL) or type(error).__name__ in _REFUSALS:
                cure = f"Check the address and your rights there, or give another {PARTS}"
                raise OutputError(self.name, f"cannot be {done} ({reason})", cure) from error
            raise ConnectionError(f"{self.name} cannot be {done} ({reason})") from error


def _reason(error: Exception) -> str:
    said = (isinstance(error, OSError) and error.strerror) or str(error)
    return _SECRET.sub("", said) or type(error).__name__
