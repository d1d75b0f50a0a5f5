"""``scripts/modelopt_cache.py``: every scale is compared, with a stand-in for ModelOpt's reader."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from calib8.table import CalibrationTable, Range, TableEntry

SCRIPT = Path(__file__).parents[2] / "scripts" / "modelopt_cache.py"
READER = """
import struct

def import_scales_from_calib_cache(path):
    lines = open(path).read().splitlines()[1:]
    pairs = [line.split(": ") for line in lines]
    return {name + "_scale": struct.unpack("!f", bytes.fromhex(text))[0] for name, text in pairs}
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    entries = {
        name: TableEntry(Range(-high, high), "mse", 0.0, 10, 0, Range(-high, high))
        for name, high in {"a:0": 1.0, "b c": 1e-6, "d_scale": 700.0}.items()
    }
    CalibrationTable("0" * 64, entries).save(tmp_path / "table.json")
    return tmp_path / "table.json"


def run(table: Path, reader: str) -> subprocess.CompletedProcess[str]:
    """The script with a module of ModelOpt's name whose reader is the given one."""
    package = table.parent / "modelopt" / "onnx" / "quantization"
    package.mkdir(parents=True)
    (package / "calib_utils.py").write_text(reader)
    path = os.pathsep.join([str(table.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, str(SCRIPT), str(table)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})


def test_equal_scales(table: Path) -> None:
    done = run(table, READER)
    assert done.stdout.splitlines() == [
        f"{table}: 3 of 3 scales are equal",
        "3 scales, 0 differences",
    ], done.stderr
    assert done.returncode == 0


@pytest.mark.slow
def test_one_bit_and_a_missing_name_are_told(table: Path) -> None:
    reader = READER.replace("[1:]", "[1:-1]").replace("(text))[0]", "(text))[0] * (1 + 2**-23)")
    done = run(table, reader)
    told = done.stdout.splitlines()
    assert told[0] == f"{table}: 0 of 3 scales are equal"
    assert told[1].startswith("a:0: 0.00787") and told[3].endswith("None was read")
    assert told[4] == "3 scales, 3 differences"
    assert done.returncode == 1


def test_what_the_reader_refuses_ends_the_script(table: Path) -> None:
    done = run(table, "raise ValueError('no')")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("ValueError: no")
