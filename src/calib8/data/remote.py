"""Files behind addresses (``s3://``, ``gs://``, ``https://`` …), through fsspec; and what can go wrong.

Packages are imported where they are needed. Listings are asked for anew each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, Final, cast

from calib8.addresses import cleaned, scheme_of, without_secrets
from calib8.errors import Calib8Error, DataError, UsageError

EXTRAS: Final[Mapping[str, tuple[str, str]]] = {
    "abfs": ("adlfs", "adlfs"),
    "abfss": ("adlfs", "adlfs"),
    "az": ("adlfs", "adlfs"),
    "gcs": ("gcsfs", "gcsfs"),
    "gs": ("gcsfs", "gcsfs"),
    "hf": ("huggingface_hub", "huggingface_hub"),
    "http": ("aiohttp", "aiohttp"),
    "https": ("aiohttp", "aiohttp"),
    "s3": ("s3fs", "calib8[s3]"),
    "s3a": ("s3fs", "calib8[s3]"),
}
"""Scheme → the package that fsspec needs for it, what pip installs."""

BLOCK: Final = 4 << 20
"""Bytes that are asked for at once."""

_REFUSED: Final = ("Credential", "Permission", "Forbidden", "Unauthorized", "AccessDenied")
_REFUSED_CODES: Final = (401, 403)
_GONE_CODES: Final = (404, 410)

MOST_SAID: Final = 300
"""Characters of what a store says."""


class StoreError(DataError):
    """A store refuses, or cannot be reached: no fault of a sample, and not passed over as a bad one."""


def file_system(address: str) -> tuple[Any, str]:
    """What reads an address, and what the address is called there.

    Raises:
        UsageError: a package is missing.
        DataError: no such scheme; the store refuses, or cannot be reached.
    """
    shown, scheme = without_secrets(address), scheme_of(address)
    try:
        from fsspec.core import url_to_fs
        from fsspec.registry import known_implementations, registry
    except ImportError as missing:
        problem = "needs the package fsspec"
        raise UsageError(shown, problem, "Install it: pip install 'calib8[remote]'") from missing
    if scheme not in known_implementations and scheme not in registry:
        cure = "Give an address such as s3://bucket/folder, or the path of a file"
        raise DataError(shown, f"no store of the kind '{scheme}' is known", cure)
    try:
        with told(address):
            system, path = url_to_fs(address)
            return system, str(path)
    except ImportError as missing:
        package, install = EXTRAS.get(scheme, ("", ""))
        problem = f"needs the package {package}" if package else f"needs a package ({missing})"
        cure = f"Install it: pip install '{install}'" if install else "Install what fsspec asks for"
        raise UsageError(shown, problem, cure) from missing


def opened(address: str) -> BinaryIO:
    """A remote file, to be read from its beginning.

    Raises:
        UsageError, DataError: as ``file_system``.
    """
    system, path = file_system(address)
    with told(address):
        return cast(BinaryIO, system.open(path, "rb", block_size=BLOCK, cache_type="readahead"))


@contextmanager
def told(address: str) -> Iterator[None]:
    """Tells what a store says as an error of ours.

    Raises:
        DataError: anything but a missing package was raised.
    """
    try:
        yield
    except (ImportError, Calib8Error, MemoryError):
        raise
    except Exception as error:  # every store raises what it likes
        raise _worded(address, error) from error


def _worded(address: str, error: BaseException) -> StoreError:
    if _hides_another(error):
        error = error.__cause__ or error
    shown, reason = without_secrets(address), _shortened(cleaned(str(error) or type(error).__name__, address))
    status = getattr(error, "status", None) or getattr(error, "code", None)
    if isinstance(error, FileNotFoundError) or status in _GONE_CODES:
        said = "" if reason in shown or shown in reason else f" ({reason})"
        return StoreError(shown, f"does not exist{said}", "Check the bucket or host, and the path")
    refused = isinstance(error, PermissionError) or status in _REFUSED_CODES
    if refused or any(word in type(error).__name__ or word in str(error) for word in _REFUSED):
        cure = "Check the credentials that the environment or the store's own file gives"
        return StoreError(shown, f"access was refused ({reason})", cure)
    return StoreError(shown, f"cannot be read ({reason})", "Check the address and the connection")


def _hides_another(error: BaseException) -> bool:
    """fsspec says that a web page is not there whatever is the matter, and why behind it."""
    return isinstance(error, FileNotFoundError) and not isinstance(error.__cause__, FileNotFoundError | None)


def _shortened(reason: str) -> str:
    """Some libraries list every place that they have looked at."""
    return reason if len(reason) <= MOST_SAID else f"{reason[:MOST_SAID]} …"
