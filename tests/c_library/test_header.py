"""What the header, the page, the build and both readers of plans say alike."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from c_programs import ROOT, SMALL, WARNINGS, compilers

from calib8.engine.plan_check import DTYPES
from calib8.engine.plan_file import FORMAT_VERSION
from needed import needed_program

HEADER = ROOT / "include" / "calib8.h"
TEXT = HEADER.read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "c_library.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("compiler", [*compilers(), "g++"])
def test_the_header_stands_alone(compiler: str, tmp_path: Path) -> None:
    needed_program(compiler)
    source = tmp_path / ("user.cc" if compiler == "g++" else "user.c")
    source.write_text("#include <calib8.h>\ncalib8_options options = CALIB8_OPTIONS;\n", encoding="utf-8")
    flags = ["-std=c++11", "-pedantic", "-Wall", "-Wextra", "-Werror"] if compiler == "g++" else WARNINGS
    subprocess.run([compiler, *flags, "-fsyntax-only", f"-I{HEADER.parent}", str(source)], check=True)


def codes() -> list[str]:
    """Names of the codes in the order of their numbers."""
    enumeration = TEXT[: TEXT.index("typedef struct calib8_error")]
    found = re.findall(r"^  (CALIB8_\w+) = (\d+)", enumeration, re.MULTILINE)
    assert [int(number) for _, number in found] == list(range(len(found))) and len(found) > 10
    return [name for name, _ in found]


def test_the_page_tells_every_code() -> None:
    assert ["CALIB8_OK", *re.findall(r"^\| `(CALIB8_\w+)` \|", PAGE, re.MULTILINE)] == codes()


def test_names_of_codes_are_in_their_order() -> None:
    source = (ROOT / "csrc" / "c_library" / "calib8.cc").read_text(encoding="utf-8")
    table = source[source.index("kCodeNames[]") :]
    assert re.findall(r'"(\w+)"', table[: table.index("};")]) == codes()


def test_the_shared_library_is_named_after_the_abi() -> None:
    [version] = re.findall(r"#define CALIB8_ABI_VERSION (\d+)", TEXT)
    build = (ROOT / "csrc" / "c_library.cmake").read_text(encoding="utf-8")
    assert re.findall(r"SOVERSION (\d+)", build) == [version]
    assert f"CALIB8_{version} {{" in (ROOT / "libcalib8" / "calib8.map").read_text(encoding="utf-8")


def test_both_readers_know_the_same_format() -> None:
    header = (ROOT / "csrc" / "plan" / "plan.h").read_text(encoding="utf-8")
    types = (ROOT / "csrc" / "plan" / "ports.cc").read_text(encoding="utf-8")
    table = types[types.index("kTypes[]") : types.index("};")]
    assert re.findall(r"kNewestFormat = (\d+)", header) == [str(FORMAT_VERSION)]
    found = {name: int(size) for name, size in re.findall(r'\{"(\w+)", (\d)\}', table)}
    assert found == {name: np.dtype(name).itemsize for name in DTYPES}


def test_the_page_tells_how_to_build_the_small_library() -> None:
    name, sets = SMALL.split("=")
    assert f'`-D{name}="{sets}"`' in PAGE
