"""Runs the provider for ONNX Runtime in released versions of onnxruntime, each in an environment of its own.

    python scripts/check_provider.py WHEEL [--versions 1.23.0,1.24.4,…] [--folder FOLDER]

WHEEL is what ``pip wheel ./onnxruntime_ep`` makes. Plans and expected outputs are made here, by calib8; the
environments have onnxruntime, NumPy and the wheel alone, and run ``provider_elsewhere.py``. FOLDER keeps the
environments; pip fetches what they lack.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Final

import numpy as np

import calib8
from calib8.demo import CALIBRATION_PATH, HELDOUT_PATH, MODEL_PATH

VERSIONS: Final = "1.23.0,1.24.4,1.25.1,1.28.0,1.32.0"
DIGITS: Final = calib8.Preprocess(mean=(128.0,), scale=(1 / 128,), color="gray")


def made(folder: Path) -> None:
    """The demo network as plans in a file and beside it, and what it gives for five images."""
    made = calib8.quantize(MODEL_PATH, CALIBRATION_PATH, preprocess=DIGITS, method="minmax", effort="fast")
    made.save(folder / "int8.onnx")
    calib8.export(folder / "int8.onnx", folder / "plans.onnx", "epcontext")
    calib8.export(folder / "int8.onnx", folder / "beside.onnx", "epcontext", plan_beside=True)
    images = np.load(HELDOUT_PATH)["images"][:5]
    values = ((images.astype(np.float32) - 128.0) / 128.0).transpose(0, 3, 1, 2)
    session = calib8.InferenceSession(folder / "int8.onnx")
    [logits] = session.run(None, {session.get_inputs()[0].name: values})
    np.savez(folder / "expected.npz", values=values, logits=logits)


def environment(folder: Path, version: str, wheel: Path) -> Path:
    """Python of an environment with this onnxruntime and the wheel."""
    place = folder / version
    python = place / "bin" / "python"
    if not python.is_file():
        venv.create(place, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", f"onnxruntime=={version}", "numpy"], check=True)
    words = ["install", "-q", "--no-deps", "--force-reinstall", str(wheel)]
    subprocess.run([python, "-m", "pip", *words], check=True)
    return python


def main() -> int:
    """Prints a line per version; not 0 where one fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--versions", default=VERSIONS)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    child = Path(__file__).with_name("provider_elsewhere.py")
    failed = 0
    with tempfile.TemporaryDirectory() as given:
        folder = Path(given)
        made(folder)
        for version in arguments.versions.split(","):
            python = environment(arguments.folder or folder, version, arguments.wheel)
            result = subprocess.run([python, child, folder], capture_output=True, text=True)
            failed += result.returncode != 0
            print(version, "passed" if result.returncode == 0 else f"FAILED\n{result.stderr}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
