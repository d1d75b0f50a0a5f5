"""What ``scripts/wheels`` makes: an archive with every source, a wheel that needs no compiler.

CALIB8_WHEELS names a folder that it has filled already, for this interpreter and this machine.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from needed import needed, needed_program

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
NOT_IN_THE_ARCHIVE = (".ci/", ".github/")
MADE_FOR_IT = {"PKG-INFO"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = os.environ.get("CALIB8_WHEELS")
    if given:
        return Path(given)
    for package in ("auditwheel", "build", "ziglang"):
        needed(package)
    needed_program("g++")
    folder = tmp_path_factory.mktemp("wheels")
    words = [sys.executable, "scripts/wheels", "--machine", platform.machine(), "--output", str(folder)]
    subprocess.run(words, cwd=ROOT, check=True)
    return folder


def only(folder: Path, pattern: str) -> Path:
    [found] = folder.glob(pattern)
    return found


def test_every_file_is_in_the_source_archive(made: Path) -> None:
    git = needed_program("git")
    listed = subprocess.run([git, "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    expected = {name for name in listed.splitlines() if not name.startswith(NOT_IN_THE_ARCHIVE)}
    with tarfile.open(only(made, "calib8-*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names - MADE_FOR_IT == expected


def test_the_wheel_runs_where_there_is_no_compiler(made: Path, tmp_path: Path) -> None:
    tag = f"cp3{sys.version_info.minor}-cp3{sys.version_info.minor}"
    tag = tag if sys.version_info < (3, 12) else "cp312-abi3"
    wheel = only(made, f"calib8-*-{tag}-manylinux_2_28_{platform.machine()}.whl")
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    programs = environment / "bin"
    outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "CC", "CXX")}
    outside["PATH"] = str(programs)
    assert not any(shutil.which(name, path=str(programs)) for name in ("c++", "cc", "clang", "cmake", "gcc"))

    def run(*words: str | Path) -> str:
        done = subprocess.run(words, cwd=tmp_path, env=outside, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(programs / "python", "-m", "pip", "install", wheel)
    assert "accuracy" in run(programs / "calib8", "demo", "--output", tmp_path / "demo")
    told = run(programs / "python", ROOT / "scripts" / "check_wheel.py")
    assert str(environment) in told and "reference: the same outputs" in told
