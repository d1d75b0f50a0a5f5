"""Runs every kept model in ONNX Runtime and keeps its outputs beside it.

``images.npz`` holds the inputs, one sample per row of the first axis: ``nchw`` and ``nhwc`` (float32) and
``codes`` (uint8, NCHW, zero point 128, scale 1/127). ``<model>.npz`` holds, a row per sample,
``exact/<output>`` (no graph optimization: float32 between Q and DQ) and ``fused/<output>`` (all
optimizations: integer kernels). A model that ONNX Runtime's own fusion breaks has no ``fused``: scales of
shape [1] in front of an Add, for one.

Run last: pip install onnx onnxruntime; python scripts/foreign_models/expected.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from graph import Array, images
from keep import FOLDER
from onnxruntime import GraphOptimizationLevel as Level
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

SAMPLES = 12


def session(path: Path, level: Level) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def samples() -> dict[str, Array]:
    """The inputs by layout, each [sample, 1, ...]."""
    drawn = images(SAMPLES, seed=200)[:, None]
    codes = np.rint(127 * drawn + 128).astype(np.uint8)
    return {"nchw": drawn, "nhwc": np.ascontiguousarray(drawn.transpose(0, 1, 3, 4, 2)), "codes": codes}


def layout(source: onnxruntime.NodeArg) -> str:
    """Which of the samples a model reads."""
    if source.type == "tensor(uint8)":
        return "codes"
    return "nhwc" if source.shape[-1] == 3 else "nchw"


def expected(path: Path, inputs: dict[str, Array]) -> dict[str, Array]:
    runners = {"exact": session(path, Level.ORT_DISABLE_ALL)}
    try:
        runners["fused"] = session(path, Level.ORT_ENABLE_ALL)
    except Fail as refusal:
        print(f"{path.stem} has no fused outputs: {refusal}")
    kept: dict[str, Array] = {}
    for kind, runner in runners.items():
        (source,) = runner.get_inputs()
        results = [runner.run(None, {source.name: row}) for row in inputs[layout(source)]]
        for index, output in enumerate(runner.get_outputs()):
            kept[f"{kind}/{output.name}"] = np.stack([result[index] for result in results])
    return kept


if __name__ == "__main__":
    inputs = samples()
    np.savez_compressed(FOLDER / "images.npz", **inputs)
    for path in sorted(FOLDER.glob("*.onnx")):
        np.savez_compressed(path.with_suffix(".npz"), **expected(path, inputs))
