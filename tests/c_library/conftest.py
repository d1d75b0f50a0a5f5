"""The C library, built and installed once for all tests, and C programs compiled against it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from c_programs import PROGRAMS, ROOT, SMALL, WARNINGS, command, compilers, flags
from example_plans import write_examples

from needed import needed_program


def installed(variable: str, name: str, factory: pytest.TempPathFactory, *options: str) -> Path:
    """Where the library lies: what the environment variable names, or a folder of all workers of this run."""
    given = os.environ.get(variable)
    if given:
        return Path(given)
    needed_program("cmake")
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "prefix" / "bin" / "calib8-run").exists():
            every = ("-DCALIB8_C_LIBRARY=ON", "-DCALIB8_WERROR=ON", "-DCMAKE_INSTALL_LIBDIR=lib")
            command("cmake", "-S", ROOT, "-B", folder / "build", *every, *options)
            command("cmake", "--build", folder / "build", "-j", str(os.cpu_count() or 1))
            command("cmake", "--install", folder / "build", "--prefix", folder / "prefix")
    return folder / "prefix"


@pytest.fixture(scope="session")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library with all instruction sets; CALIB8_C_PREFIX names one that is installed already."""
    return installed("CALIB8_C_PREFIX", "c_library", tmp_path_factory)


@pytest.fixture(scope="session")
def small_prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without AVX-512 and AVX-VNNI; CALIB8_C_SMALL_PREFIX names one that is installed already."""
    return installed("CALIB8_C_SMALL_PREFIX", "small_c_library", tmp_path_factory, f"-D{SMALL}")


@pytest.fixture(scope="session", params=compilers())
def programs(
    request: pytest.FixtureRequest, prefix: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
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
