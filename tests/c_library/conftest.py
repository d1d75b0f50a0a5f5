"""The C library, built and installed once for all tests, and C programs compiled against it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from example_plans import write_examples

ROOT: Final = Path(__file__).parents[2]
WARNINGS: Final = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wno-sign-conversion", "-Werror")
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
    """C compilers of this machine: gcc, and the newest clang."""
    found = sorted(
        name
        for folder in os.environ["PATH"].split(os.pathsep)
        for name in (os.listdir(folder) if os.path.isdir(folder) else ())  # noqa: PTH208, PTH112 - many folders
        if name == "clang" or (name.startswith("clang-") and name[6:].isdigit())
    )
    return [name for name in ("gcc", *found[-1:]) if shutil.which(name)]


@pytest.fixture(scope="session")
def prefix(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Where the library is installed: what CALIB8_C_PREFIX names, or a folder of this run of all workers."""
    given = os.environ.get("CALIB8_C_PREFIX")
    if given:
        return Path(given)
    if not shutil.which("cmake"):
        pytest.skip("there is no cmake")
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "c_library"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "prefix" / "bin" / "calib8-run").exists():
            options = ("-DCALIB8_C_LIBRARY=ON", "-DCALIB8_WERROR=ON")
            command("cmake", "-S", ROOT, "-B", folder / "build", *options)
            command("cmake", "--build", folder / "build", "-j", str(os.cpu_count() or 1))
            command("cmake", "--install", folder / "build", "--prefix", folder / "prefix")
    return folder / "prefix"


def flags(prefix: Path, *more: str) -> list[str]:
    """What pkg-config says."""
    return command("pkg-config", *more, "--cflags", "--libs", "calib8", PKG_CONFIG_PATH=str(prefix / "lib" / "pkgconfig")).split()


@pytest.fixture(scope="session", params=compilers())
def programs(request: pytest.FixtureRequest, prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The C programs, compiled with the shared library by one compiler."""
    folder = tmp_path_factory.mktemp(request.param)
    for name, sources in PROGRAMS.items():
        found = (*flags(prefix), f"-Wl,-rpath,{prefix / 'lib'}")
        command(request.param, *WARNINGS, "-O2", *sources, "-o", folder / name, *found)
    return {name: folder / name for name in PROGRAMS}


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A plan of every instruction in every profile."""
    return write_examples(tmp_path_factory.mktemp("plans"))
