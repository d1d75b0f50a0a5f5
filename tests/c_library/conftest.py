"""The C library, built and installed once for all tests, and C programs compiled against it."""

from __future__ import annotations

from pathlib import Path

import pytest
from c_programs import PROGRAMS, SMALL, WARNINGS, command, compilers, flags
from example_plans import write_examples

from installed_library import installed, installed_whole


@pytest.fixture(scope="session")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library with all instruction sets; CALIB8_C_PREFIX names one that is installed already."""
    return installed_whole(tmp_path_factory)


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
