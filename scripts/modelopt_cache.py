"""Shows that NVIDIA ModelOpt reads every scale of a TensorRT cache that calib8 writes.

    python scripts/modelopt_cache.py TABLE... [--python PATH]

Each TABLE, of any format that calib8 reads, is written as a TensorRT cache; ModelOpt's own
``import_scales_from_calib_cache`` reads it, and every scale must be the float32 that calib8 would quantize
with, under the same name. PATH is a Python that has ``nvidia-modelopt`` (default: this one). Exit code 1 when
a scale differs, is missing or is too many, and when there is none.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from calib8.errors import Calib8Error
from calib8.formats.table_file import symmetric_scale
from calib8.formats.tables import read_table, write_table
from calib8.table import CalibrationTable

READ = """\
import json, sys
from modelopt.onnx.quantization.calib_utils import import_scales_from_calib_cache
found = import_scales_from_calib_cache(sys.argv[1])
print(json.dumps({name: scale.hex() for name, scale in found.items()}))
"""
SUFFIX = "_scale"
"""ModelOpt's name of a scale is that of its tensor with this behind it."""


def read_by_modelopt(python: str, cache: Path) -> dict[str, float]:
    """Tensor → scale, as ModelOpt reads them.

    Raises:
        SystemExit: that Python lacks ModelOpt, or ModelOpt refuses the file.
    """
    done = subprocess.run([python, "-c", READ, str(cache)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{python}: {done.stderr.strip().splitlines()[-1]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return {name.removesuffix(SUFFIX): float.fromhex(text) for name, text in found.items()}


def differences(table: CalibrationTable, found: Mapping[str, float]) -> dict[str, str]:
    """Tensors whose scales differ in one bit, or that one of the two does not have, and how."""
    expected = {name: symmetric_scale(entry.range) for name, entry in table.entries.items()}
    return {
        name: f"{expected.get(name)} was written, {found.get(name)} was read"
        for name in sorted(expected.keys() | found.keys())
        if expected.get(name) != found.get(name)
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="+", type=Path, metavar="TABLE")
    parser.add_argument("--python", default=sys.executable)
    chosen = parser.parse_args()
    scales, wrong = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for file in chosen.tables:
            cache = Path(folder) / "calibration.cache"
            try:
                table = read_table(file).table
                write_table(cache, table, "tensorrt")
            except Calib8Error as error:
                raise SystemExit(str(error)) from None
            found = differences(table, read_by_modelopt(chosen.python, cache))
            equal = len(table.entries.keys() - found.keys())
            print(f"{file}: {equal} of {len(table.entries)} scales are equal")
            print("".join(f"{name}: {text}\n" for name, text in found.items()), end="", flush=True)
            scales += len(table.entries)
            wrong += len(found)
    print(f"{scales} scales, {wrong} differences")
    sys.exit(1 if wrong or not scales else 0)


if __name__ == "__main__":
    main()
