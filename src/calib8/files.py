"""Writing results so that a file is either the old one or the complete new one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from calib8.errors import OutputError


@contextmanager
def atomic_output(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields a temporary path beside ``path`` and renames it onto ``path`` when the block succeeds.

    On any error the temporary file is removed and ``path`` is left as it was.

    Raises:
        OutputError: the folder is missing, not writable, or the disk is full.
    """
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent or Path())
        os.close(handle)
    except OSError as error:
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


def _cannot_write(target: Path, error: OSError) -> OutputError:
    reason = error.strerror or str(error)
    return OutputError(str(target), f"cannot be written ({reason})", "Choose a writable path with free space")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
