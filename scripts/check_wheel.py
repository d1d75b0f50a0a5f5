"""What an installed calib8 computes: the same bits by every instruction set, and those of another machine.

    python scripts/check_wheel.py [FOLDER]

Quantizes the network that comes with the package and runs it on its held-back images, in plain loops and by
every instruction set of this processor. The first run writes model and outputs to FOLDER; a run that finds
them there, on another machine, must give the same outputs from the same model.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

import numpy as np

import calib8
from calib8 import _core, demo


def outputs(model: Path, values: np.ndarray, isa: str) -> np.ndarray:
    session = calib8.InferenceSession(model, isa=isa)
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: values[i : i + 1]})[0] for i in range(len(values))])


def main(folder: Path) -> None:
    model, kept = folder / "digits.int8.onnx", folder / "outputs.npy"
    pixels = np.load(demo.HELDOUT_PATH)["images"]
    values = ((pixels.astype(np.float32) - 128.0) / 128.0).transpose(0, 3, 1, 2)
    if not kept.exists():
        digits = calib8.Preprocess(mean=(128.0,), scale=(1 / 128,), color="gray")
        calib8.quantize(demo.MODEL_PATH, demo.CALIBRATION_PATH, preprocess=digits, effort="fast").save(model)
        np.save(kept, outputs(model, values, "reference"))
    expected = np.load(kept)
    isas = _core.engine.available_isas()
    for isa in isas:
        if outputs(model, values, isa).tobytes() != expected.tobytes():
            sys.exit(f"{isa} gives other bits than the plain loops: scripts/check_wheel.py FAILED")
    digest = hashlib.sha256(expected.tobytes()).hexdigest()[:16]
    print(f"calib8 {calib8.__version__} from {Path(calib8.__file__).parent}")
    print(f"{len(values)} images, {', '.join(isas)}: the same outputs, {digest}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(Path(made))
