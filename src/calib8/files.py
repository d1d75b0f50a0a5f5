"""Files: looked at before they are read, written so that each is either the old or the complete new one."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from calib8.errors import Calib8Error, ModelError, OutputError, UsageError


def checked_path(value: object, what: str) -> Path:
    """A path that was given from Python.

    Args:
        value: a str or an os.PathLike.
        what: it is the path of, for the message, such as ``statistics``.

    Raises:
        UsageError: it is neither.
    """
    if not isinstance(value, str | os.PathLike) or isinstance(path := os.fspath(value), bytes):
        raise UsageError(what, f"is of type {type(value).__name__}, no path", "Give the path of a file")
    return Path(path)


def check_file(path: str | os.PathLike[str], cure: str, error: type[Calib8Error]) -> None:
    """Refuses what is no regular file: opening a pipe would wait for ever.

    Args:
        path: of anything that is about to be read.
        cure: what to give in its place.
        error: what it belongs to.

    Raises:
        Calib8Error: of the class ``error``: a folder, something else that is no file, or nothing at all.
    """
    if os.path.isfile(path):  # noqa: PTH113 - a path that no file can have is no file, and no error
        return
    name = os.fspath(path)
    if os.path.isdir(path):  # noqa: PTH112
        raise error(name, "is a folder", cure)
    if os.path.exists(path):  # noqa: PTH110
        raise error(name, "is a device or pipe, no file", cure)
    raise error(name, "no such file", cure)


def check_model_file(path: str | os.PathLike[str], cure: str) -> None:
    """``check_file`` for a model, program or plan.

    Raises:
        ModelError: what it refuses.
    """
    check_file(path, cure, ModelError)


@contextmanager
def atomic_output(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields a temporary path beside ``path`` and renames it onto ``path`` when the block succeeds.

    On any error the temporary file is removed and ``path`` is left as it was.

    Raises:
        OutputError: no path, the folder is missing, not writable, or the disk is full.
    """
    if not _is_path(path):
        raise OutputError("path", f"is a {type(path).__name__}", "Give the path of a file")
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent or Path())
        os.close(handle)
    except (OSError, ValueError) as error:  # no path can hold a zero byte
        raise _cannot_write(target, error) from error
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    except OSError as error:
        raise _cannot_write(target, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Removes the temporary files that killed processes left beside ``path`` while they wrote it.

    Nothing else may be writing ``path`` at the time.
    """
    target = Path(path)
    pattern = re.compile(rf"\.{re.escape(target.name)}\.[a-z0-9_]{{8}}")
    with suppress(OSError):
        for file in target.parent.iterdir():
            if pattern.fullmatch(file.name):
                file.unlink(missing_ok=True)


def _is_path(value: object) -> bool:
    return isinstance(value, str | os.PathLike)


def _cannot_write(target: Path, error: OSError | ValueError) -> OutputError:
    reason = getattr(error, "strerror", None) or str(error)
    return OutputError(str(target), f"cannot be written ({reason})", "Choose a writable path with free space")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
