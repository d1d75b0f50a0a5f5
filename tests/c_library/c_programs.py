"""Compilers of C, commands, and what pkg-config says of the installed library."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SMALL: Final = "CALIB8_LEAVE_OUT=avx512vnni;avxvnni"
"""What leaves the kernels of AVX2 and the plain loops."""
WARNINGS: Final = (
    *("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wno-sign-conversion"),
    "-Werror",
)
PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = {
    "calib8-run": ("libcalib8/calib8_run.c", "libcalib8/npy.c"),
    "library_check": ("tests/native/library_check.c", "-pthread"),
}


def command(*words: str | os.PathLike[str], **variables: str) -> str:
    """What a command prints; a failure shows what it said."""
    environment = {**os.environ, **variables}
    result = subprocess.run([*map(str, words)], cwd=ROOT, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, f"{words}\n{result.stdout[-2000:]}\n{result.stderr[-4000:]}"
    return result.stdout


def compilers() -> list[str]:
    """C compilers of this machine: gcc, and a clang of whatever version."""
    versions = [f"clang-{number}" for number in range(30, 10, -1)]
    clang = next((name for name in ("clang", *versions) if shutil.which(name)), None)
    return [name for name in ("gcc", clang) if name is not None and shutil.which(name)]


def flags(prefix: Path, *more: str) -> list[str]:
    """What pkg-config says."""
    place = str(prefix / "lib" / "pkgconfig")
    return command("pkg-config", *more, "--cflags", "--libs", "calib8", PKG_CONFIG_PATH=place).split()
